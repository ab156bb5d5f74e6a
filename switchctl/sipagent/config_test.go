package sipagent

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/fs"
)

func TestParseConfig(t *testing.T) {
	t.Parallel()
	c, err := ParseConfig(json.RawMessage(`{"sip_uri":"sip:a@b.example:5070;transport=TCP","ring_timeout_s":5,"headers":{"X-Account":"a b;c=d"},"callback_token":true}`))
	require.NoError(t, err)
	bare, transport, err := SplitTransport(c.SIPURI)
	require.NoError(t, err)
	require.Equal(t, "sip:a@b.example:5070 tcp", bare+" "+transport)
	for raw, field := range map[string]string{
		``: "", `null`: "", `[]`: "", `{}`: "sip_uri", `{"sip_uri":null}`: "sip_uri", `{"SIP_URI":"sip:a@b"}`: "", `{"sip_uri":"sip:a@b","proxy":"x"}`: "",
		`{"sip_uri":"sips:a@b"}`: "sip_uri", `{"sip_uri":"sip:a@b;transport=tls"}`: "sip_uri", `{"sip_uri":"sip:a@b;lr"}`: "sip_uri",
		`{"sip_uri":"sip:a@b;transport=tcp;x=y"}`: "sip_uri", `{"sip_uri":"sip:a@b?X-H=1"}`: "sip_uri", `{"sip_uri":"sip:a@b,sofia/external/c@d"}`: "sip_uri",
		`{"sip_uri":"sip:a@b|c@d"}`: "sip_uri", `{"sip_uri":"sip:${x}@b"}`: "sip_uri", `{"sip_uri":"sip:a@b\r\nX: y"}`: "sip_uri", `{"sip_uri":"sip:a b@c"}`: "sip_uri",
		`{"sip_uri":"sip:` + strings.Repeat("a", 256) + `@b"}`:                                            "sip_uri",
		`{"sip_uri":"sip:a@b","ring_timeout_s":61}`:                                                       "ring_timeout_s",
		`{"sip_uri":"sip:a@b","ring_timeout_s":-1}`:                                                       "ring_timeout_s",
		`{"sip_uri":"sip:a@b","refer":"yes"}`:                                                             "refer",
		`{"sip_uri":"sip:a@b","refer":null}`:                                                              "refer",
		`{"sip_uri":"sip:a@b","transfer_destinations":["1001"]}`:                                          "transfer_destinations",
		`{"sip_uri":"sip:a@b","refer":"deny","transfer_destinations":["1001"]}`:                           "transfer_destinations",
		`{"sip_uri":"sip:a@b","refer":"transfer","transfer_destinations":[""]}`:                           "transfer_destinations",
		`{"sip_uri":"sip:a@b","refer":"transfer","transfer_destinations":"1001"}`:                         "",
		`{"sip_uri":"sip:a@b","headers":{"Route":"x"}}`:                                                   "headers",
		`{"sip_uri":"sip:a@b","headers":{"X-Ringmaster-Call-Id":"x"}}`:                                    "headers",
		`{"sip_uri":"sip:a@b","headers":{"x-ringmaster-y":"x"}}`:                                          "headers",
		`{"sip_uri":"sip:a@b","headers":{"X-FS-Support":"x"}}`:                                            "headers",
		`{"sip_uri":"sip:a@b","headers":{"X-A":"1","x-a":"2"}}`:                                           "headers",
		`{"sip_uri":"sip:a@b","headers":{"X-A: b\r\nX-B":"1"}}`:                                           "headers",
		`{"sip_uri":"sip:a@b","headers":{"X-A":""}}`:                                                      "headers.X-A",
		`{"sip_uri":"sip:a@b","headers":{"X-A":"b\r\nX-B: c"}}`:                                           "headers.X-A",
		`{"sip_uri":"sip:a@b","headers":{"X-A":"b,c"}}`:                                                   "headers.X-A",
		`{"sip_uri":"sip:a@b","headers":{"X-A":"b}c"}}`:                                                   "headers.X-A",
		`{"sip_uri":"sip:a@b","headers":{"X-A":"x:_:sofia/external/c@d"}}`:                                "headers.X-A",
		`{"sip_uri":"sip:a@b","headers":{"X-A":"b'c"}}`:                                                   "headers.X-A",
		`{"sip_uri":"sip:a@b","headers":{"X-A":"${caller_id_number}"}}`:                                   "headers.X-A",
		`{"sip_uri":"sip:a@b","headers":{"X-A":"` + strings.Repeat("a", 257) + `"}}`:                      "headers.X-A",
		`{"sip_uri":"sip:a@b","headers":{` + strings.Repeat(`"X-A":"b",`, 2) + `"X-A":"c"},"extra":true}`: "",
	} {
		_, err := ParseConfig(json.RawMessage(raw))
		var bad *ConfigError
		require.ErrorAs(t, err, &bad, raw)
		require.Equal(t, field, bad.Field, raw)
	}
}

// FuzzSafe: whatever a customer or a caller says stays one value of one header, and can be read back.
func FuzzSafe(f *testing.F) {
	for _, s := range []string{"a", "a\r\nX-Evil: 1", "'\"{}[]<>\\^|$,`%", "${caller}", "नमस्ते", "a%0d%0ab", "\x00\x7f", "a:_:_:b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		safe := Safe(s)
		require.NoError(t, fs.CheckVariable("x", safe))
		for _, c := range []byte(safe) {
			require.True(t, c >= ' ' && c <= '~' && !strings.ContainsRune("'\"{}[]<>\\^|$,`", rune(c)), "%q", safe)
		}
		back, err := url.PathUnescape(safe)
		require.NoError(t, err)
		require.Equal(t, s, back)
		v := fs.Variables{}
		Config{}.AddTo(v, Headers{"External-Agent-Id": s, "Empty": ""})
		dial, err := fs.DialString(v, "sofia/external/a@10.0.0.1:5060;transport=udp")
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(dial, "{"))
		require.Equal(t, 1, strings.Count(dial, "}"))
		require.LessOrEqual(t, strings.Count(dial, ","), 1)
		require.NotContains(t, dial, "X-Ringmaster-Empty")
	})
}
