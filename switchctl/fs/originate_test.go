package fs

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestVariablesAreWrittenSoThatTheSwitchReadsThemBack(t *testing.T) {
	t.Parallel()
	block, err := Variables{"b": "PCMU,PCMA", "a": "two words", "c": "x:y@1.2.3.4;p=q"}.block()
	require.NoError(t, err)
	require.Equal(t, `{a='two words',b=PCMU\,PCMA,c=x:y@1.2.3.4;p=q}`, block)
}

func TestValuesThatCouldEndTheBlockAreRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"a}b", "a{b", "it's", "a\nb", "a\rb", `a\b`, "[x]", "${x}", "a|b", "a\x00b", "^^:a", "<b>", `"`, "x:_:sofia/a/1"} {
		_, err := Variables{"x": bad}.block()
		var refused *VariableError
		require.ErrorAs(t, err, &refused, "%q", bad)
		require.Equal(t, "x", refused.Name)
		require.NotContains(t, err.Error(), bad)
	}
	for _, bad := range []string{"", "a b", "a=b", "a,b"} {
		_, err := Variables{bad: "v"}.block()
		require.Error(t, err)
	}
}

func TestEndpointIsOneEndpoint(t *testing.T) {
	t.Parallel()
	require.NoError(t, CheckEndpoint("sofia/external/+919876543210@10.0.0.1:5060;transport=tcp"))
	for _, bad := range []string{"", "sofia/a/1,sofia/a/2", "sofia/a/1|sofia/b/1", "sofia/a/1 &park()", "sofia/a/1&x", "{a=b}sofia/a/1", "sofia/a/1:_:sofia/a/2", "sofia/a/x:_:y@1.2.3.4"} {
		_, err := Originate(Variables{}, bad, "rm_call XML ringmaster")
		require.Error(t, err, "%q", bad)
	}
}

func TestRingTimeIsNotCutShort(t *testing.T) {
	t.Parallel()
	require.Equal(t, "26", RingSeconds(25*time.Second))
	require.Equal(t, "2", RingSeconds(0))
	require.Equal(t, "3", RingSeconds(1500*time.Millisecond))
}

func FuzzQuoteVariable(f *testing.F) {
	f.Add("PCMU,PCMA")
	f.Add("two words")
	f.Fuzz(func(t *testing.T, value string) {
		quoted, err := quote("x", value)
		if err != nil {
			return
		}
		require.NotContains(t, quoted, "}")
		require.NotContains(t, quoted, "\n")
		inner := strings.TrimSuffix(strings.TrimPrefix(quoted, "'"), "'")
		require.Equal(t, strings.ToValidUTF8(value, "\uFFFD"), strings.ToValidUTF8(strings.ReplaceAll(inner, `\,`, ","), "\uFFFD"))
	})
}
