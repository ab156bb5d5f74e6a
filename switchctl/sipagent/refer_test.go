package sipagent

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func local() []string { return []string{"10.0.0.5:5064", "switch.example"} }

func TestParseReferTo(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"<sip:+919876543210@10.0.0.5>":                            "e164 +919876543210",
		"sip:+919876543210@10.0.0.5:5064;transport=udp":           "e164 +919876543210",
		"\"Desk\" <sip:%2B91-98765-43210@SWITCH.example>;x=y":     "e164 +91-98765-43210",
		"<sip:09876543210@10.0.0.5>":                              "e164 09876543210",
		"<tel:+91-98765-43210;phone-context=x>":                   "e164 +91-98765-43210",
		"<sip:+919876543210@pbx.example;user=phone>":              "e164 +919876543210",
		"<sip:+919876543210@pbx.example>":                         "sip_uri sip:+919876543210@pbx.example",
		"<sip:desk@pbx.example:5070;transport=tcp?X-A=b&Subject>": "sip_uri sip:desk@pbx.example:5070",
		"<sip:1001@10.0.0.5:5070>":                                "sip_uri sip:1001@10.0.0.5:5070",
		"<sip:1001@10.0.0.5>":                                     "agent 1001",
		"<sip:asha@switch.example;method=invite>":                 "agent asha",
		"<sip:agent_queue@10.0.0.5>":                              "agent_queue ",
	} {
		kind, destination, err := ParseReferTo(header, local())
		require.NoError(t, err, header)
		require.Equal(t, want, kind+" "+destination, header)
	}
	for header, want := range map[string]error{
		"":                      ErrReferTo,
		"<sip:10.0.0.5>":        ErrReferTo,
		"<sip:@10.0.0.5>":       ErrReferTo,
		"<sip:a@>":              ErrReferTo,
		"<sip:a@b":              ErrReferTo,
		"<sips:a@b>":            ErrReferTo,
		"<http://a@b>":          ErrReferTo,
		"<tel:>":                ErrReferTo,
		"<sip:%0d%0a@10.0.0.5>": ErrReferTo,
		"<sip:%ff@10.0.0.5>":    ErrReferTo,
		"<sip:%zz@b>":           ErrReferTo,
		"<sip:a@b>\r\nX: y":     ErrReferTo,
		"<sip:" + strings.Repeat("a", 1024) + "@b>":                ErrReferTo,
		"<sip:a@b;method=BYE>":                                     ErrMethod,
		"<sip:a@b?Replaces=x%3Bto-tag%3Da%3Bfrom-tag%3Db>":         ErrAttended,
		"<sip:a@b?X=y&%52eplaces=x%3Bto-tag%3Da%3Bfrom-tag%3Db>":   ErrAttended,
		"<sip:+919876543210@10.0.0.5?Require=replaces&replaces=x>": ErrAttended,
	} {
		_, _, err := ParseReferTo(header, local())
		require.ErrorIs(t, err, want, header)
	}
}

func TestReferDestinations(t *testing.T) {
	t.Parallel()
	c, err := ParseConfig(json.RawMessage(`{"sip_uri":"sip:a@b","refer":"transfer","transfer_destinations":["+91 98765-43210","sip:Desk@pbx.example","sip:tcp@pbx.example:5070;transport=tcp","agent_queue"]}`))
	require.NoError(t, err)
	require.True(t, c.Refers())
	for _, may := range [][2]string{{"e164", "+919876543210"}, {"e164", "9876543210"}, {"e164", "098765-43210"}, {"sip_uri", "sip:desk@pbx.example"}, {"sip_uri", "sip:tcp@pbx.example:5070"}, {"agent_queue", ""}} {
		require.True(t, c.MayRefer(may[0], may[1]), may)
	}
	for _, not := range [][2]string{{"e164", "+919876543211"}, {"e164", "x"}, {"sip_uri", "sip:desk@pbx.example:5070"}, {"agent", "1001"}, {"agent", "919876543210"}} {
		require.False(t, c.MayRefer(not[0], not[1]), not)
	}
	for raw, may := range map[string]bool{``: true, `,"transfer_destinations":null`: true, `,"transfer_destinations":[]`: false} {
		c, err := ParseConfig(json.RawMessage(`{"sip_uri":"sip:a@b","refer":"transfer"` + raw + `}`))
		require.NoError(t, err)
		require.Equal(t, may, c.MayRefer("agent", "1001"), raw)
		require.Equal(t, may, c.MayRefer("agent_queue", ""), raw)
	}
	require.False(t, Config{}.Refers())
}

func TestStatus(t *testing.T) {
	t.Parallel()
	for cause, want := range map[string]int{"USER_BUSY": 486, "OUTGOING_CALL_BARRED": 403, "NO_ANSWER": 480, "RATE_LIMITED": 503, "INVALID_STATE": 491, "CALL_REJECTED": 603, "": 603} {
		require.Equal(t, want, Status(cause), cause)
	}
}

// FuzzParseReferTo: what is read is one word of a command, or refused.
func FuzzParseReferTo(f *testing.F) {
	for _, s := range []string{"<sip:a@b>", "<tel:+1>", "<sip:a@b;x=y?Replaces=z>", "sip:%0d%0a@10.0.0.5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		kind, destination, err := ParseReferTo(s, local())
		if err != nil {
			return
		}
		require.Contains(t, []string{"e164", "sip_uri", "agent_queue", "agent"}, kind)
		require.Equal(t, kind == "agent_queue", destination == "")
		require.True(t, utf8.ValidString(destination))
		require.NotContains(t, destination, "\n")
	})
}
