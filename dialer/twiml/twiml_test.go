package twiml_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/twiml"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string][]twiml.Step{
		// The register-call answer of voice AIs, and Twilio's own examples.
		`<?xml version="1.0" encoding="UTF-8"?><Response><Connect><Stream url="wss://api.example/twilio?x=1&amp;y=2"><Parameter name="conversation_id" value="c&quot;1"/><Parameter name="empty" value=""/></Stream></Connect></Response>`: {
			twiml.Stream{URL: "wss://api.example/twilio?x=1&y=2", Parameters: map[string]string{"conversation_id": `c"1`, "empty": ""}},
		},
		"<Response>\n<!-- hello --><Play>\n https://a.example/hello.wav </Play><Pause/><Pause length=\"3\"/>\n<Connect><Stream url='ws://a/b'/></Connect>\n<Hangup/></Response>": {
			twiml.Play{URL: "https://a.example/hello.wav"}, twiml.Pause{For: time.Second}, twiml.Pause{For: 3 * time.Second}, twiml.Stream{URL: "ws://a/b", Parameters: map[string]string{}},
		},
		`<Response><Dial>+919876543210</Dial></Response>`:                           {twiml.Dial{Destination: "+919876543210"}},
		`<Response><Dial timeout="9"><Number>9876543210</Number></Dial></Response>`: {twiml.Dial{Destination: "9876543210"}},
		`<Response><Dial><Sip>sip:desk@pbx.example</Sip></Dial></Response>`:         {twiml.Dial{SIP: true, Destination: "sip:desk@pbx.example"}},
		`<Response><Connect><Stream url="WSS://A.example/b" track="inbound_track"/></Connect></Response>`: {
			twiml.Stream{URL: "wss://A.example/b", Parameters: map[string]string{}},
		},
		`<Response/>`: {twiml.Hangup{}},
		`<Response><Hangup/><Say>never</Say></Response>`: {twiml.Hangup{}},
	} {
		got, err := twiml.Parse([]byte(doc))
		require.NoError(t, err, doc)
		require.Equal(t, want, got, doc)
	}
	for doc, want := range map[string]string{
		``:                     "empty",
		`{"ws_url":"wss://a"}`: "empty",
		`<Response><Play>`:     "unexpected EOF",
		`<html/>`:              "<html>",
		`<!DOCTYPE a [<!ENTITY b "c">]><Response/>`:                                                                 "document type",
		`<Response><Say>Hello</Say></Response>`:                                                                     "<Say> is not supported",
		`<Response><Gather/></Response>`:                                                                            "<Gather> is not supported",
		`<Response><Start><Stream url="wss://a"/></Start></Response>`:                                               "<Start> is not supported",
		`<Response><Play>file:///etc/passwd</Play></Response>`:                                                      "http or https",
		`<Response><Play>https://a/` + strings.Repeat("a", 2000) + `</Play></Response>`:                             "longer than 2000 bytes",
		`<Response><Play loop="0">https://a/</Play></Response>`:                                                     "loop",
		`<Response><Pause length="61"/></Response>`:                                                                 "0 to 60",
		`<Response><Pause length="18446744074"/></Response>`:                                                        "0 to 60",
		`<Response><Connect><Room/></Connect></Response>`:                                                           "one <Stream>",
		`<Response><Connect><Stream url="https://a"/></Connect></Response>`:                                         "ws or wss",
		`<Response><Connect><Stream url="wss://a"/></Connect><Play>https://a</Play></Response>`:                     "behind <Connect>",
		`<Response><Connect><Stream url="wss://a"><Parameter value="x"/></Stream></Connect></Response>`:             "no name",
		`<Response><Connect action="https://a"><Stream url="wss://a"/></Connect></Response>`:                        "attribute action of <Connect>",
		`<Response><Connect><Stream url="wss://a" track="both_tracks"/></Connect></Response>`:                       "must be inbound_track",
		`<Response><Connect><Stream url="wss://"/></Connect></Response>`:                                            "ws or wss",
		`<Response><Dial callerId="+919876543210">9876543210</Dial></Response>`:                                     "attribute callerId of <Dial>",
		`<Response><Dial action="https://a">9876543210</Dial></Response>`:                                           "attribute action of <Dial>",
		`<Response><Dial><Number sendDigits="1">9876543210</Number></Dial></Response>`:                              "attribute sendDigits of <Number>",
		`<Response><Connect><Stream url="wss://a"><Parameter name="a" value="&#0;"/></Stream></Connect></Response>`: "illegal character",
		`<Response><Dial/></Response>`:                                                                              "no destination",
		`<Response><Dial><Client>joe</Client></Dial></Response>`:                                                    "<Client>",
		`<Response>` + strings.Repeat("<Pause/>", 17) + `</Response>`:                                               "more than 16",
		strings.Repeat("<a>", 100):                                                                                  "too deep",
	} {
		_, err := twiml.Parse([]byte(doc))
		require.ErrorContains(t, err, want, doc)
	}
	long := strings.Repeat("a", 60_000)
	for _, doc := range []string{"<" + long + "/>", "<Response><" + long + "/></Response>", "<Response><Dial><" + long + "/></Dial></Response>"} {
		_, err := twiml.Parse([]byte(doc))
		require.ErrorContains(t, err, strings.Repeat("a", 64))
		require.Less(t, len(err.Error()), 300, "names are clipped")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`<Response><Connect><Stream url="wss://a"><Parameter name="a" value="b"/></Stream></Connect></Response>`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		steps, err := twiml.Parse(doc)
		require.Equal(t, err == nil, len(steps) > 0)
	})
}
