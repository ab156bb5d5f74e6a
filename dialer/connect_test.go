package dialer

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/flow"
	"github.com/ringmaster/ringmaster/dialer/voiceagents"
	"github.com/ringmaster/ringmaster/media/twilio"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// connectServer is a voice agent's connect_url: it answers by body, or fails with err.
type connectServer struct {
	body  string
	err   error
	asked []flow.Request
}

func (s *connectServer) Do(ctx context.Context, r flow.Request) ([]byte, error) {
	s.asked = append(s.asked, r)
	if at, ok := ctx.Deadline(); !ok || time.Until(at) > time.Second {
		return nil, errors.New("asked without a limit")
	}
	return []byte(s.body), s.err
}

// TestConnectURL: what the answer says is done, and without a good one the socket is the voice agent's own, with a note that says why.
func TestConnectURL(t *testing.T) {
	t.Parallel()
	web := &connectServer{}
	b := setup(t, func(c *Config) { c.Web = web })
	const own, other, url = "wss://127.0.0.1/own", "wss://127.0.0.2/other", "https://127.0.0.1/connect"
	made, err := b.svc.VoiceAgents.CreateVoiceAgent(t.Context(), b.tenant, decode[voiceagents.Input](t,
		`{"name":"a","ws_url":"`+own+`","auth_token":"12345","connect_url":"HTTPS`+url[len("https"):]+`"}`))
	require.NoError(t, err)
	require.Equal(t, url, *made.ConnectURL)
	storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET default_voice_agent_id = $1 WHERE id = $2", made.ID, b.tenant)
	storetest.InboundNumber(t, b.st, b.tenant, "+918000000001")
	call, err := b.svc.Answers.Route(t.Context(), inbound("8000000001"))
	require.NoError(t, err)
	run := func(body string, err error) *fakeLeg {
		t.Helper()
		web.body, web.err = body, err
		leg := &fakeLeg{call: call}
		require.NoError(t, b.svc.Answers.Answered(t.Context(), leg))
		return leg
	}

	leg := run(`{"ws_url":"`+other+`","parameters":{"lang":"hi","n":7}}`, nil)
	require.Equal(t, other, leg.connects[0].Agent.WsUrl)
	require.Equal(t, map[string]string{"lang": "hi", "n": "7"}, leg.connects[0].Parameters)
	require.Empty(t, leg.connects[0].Agent.AuthTokenSealed, "the token is for the host of ws_url")
	require.Empty(t, leg.connects[0].Note)
	var question map[string]any
	require.NoError(t, json.Unmarshal(web.asked[0].Body, &question))
	require.Equal(t, call.ID.String(), question["call_id"])
	require.Equal(t, "inbound", question["direction"])
	for _, member := range []string{"from", "to", "campaign_id", "voice_agent_id", "lead"} {
		require.Contains(t, question, member)
	}
	require.Equal(t, twilio.Signature(url, "12345"), web.asked[0].Header[twilio.SignatureHeader])

	leg = run(`{"ws_url":"`+own+`?lang=hi"}`, nil)
	require.Equal(t, own+"?lang=hi", leg.connects[0].Agent.WsUrl)
	require.NotEmpty(t, leg.connects[0].Agent.AuthTokenSealed)

	leg = run(`{"ws_url":"WSS`+other[len("wss"):]+`"}`, nil)
	require.Equal(t, other, leg.connects[0].Agent.WsUrl)

	leg = run(`{"parameters":{"a":"b"}}`, nil)
	require.Equal(t, own, leg.connects[0].Agent.WsUrl)
	require.Equal(t, map[string]string{"a": "b"}, leg.connects[0].Parameters)

	leg = run(`{"twiml":"<Response><Play>https://a.example/x.wav</Play><Connect><Stream url='`+other+`'><Parameter name='a' value='1'/></Stream></Connect></Response>","parameters":{"b":"2"}}`, nil)
	require.Equal(t, []string{"https://a.example/x.wav"}, leg.played)
	require.Equal(t, other, leg.connects[0].Agent.WsUrl)
	require.Equal(t, map[string]string{"a": "1", "b": "2"}, leg.connects[0].Parameters)

	leg = run(` <Response><Dial>9876543210</Dial></Response>`, nil)
	require.Empty(t, leg.connects)
	require.Equal(t, []string{"e164 9876543210"}, leg.dialed)
	require.Equal(t, []string{"NORMAL_CLEARING"}, leg.hangups)

	leg = run(`<Response><Hangup/></Response>`, nil)
	require.Equal(t, []string{"NORMAL_CLEARING"}, leg.hangups)

	for body, note := range map[string]string{
		`<Response><Say>Hello</Say></Response>`: "connect_url: TwiML: <Say> is not supported",
		`{"ws_url":"wss://a","twiml":"<a/>"}`:   "both",
		`{"ws_url":"https://a"}`:                "no ws or wss URL",
		`{"ws_url":"wss://a/\u0000"}`:           "no ws or wss URL",
		`{"parameters":{"a":"\u0000"}}`:         "has a NUL",
		`{"parameters":{"\u0000":"a"}}`:         "has a NUL",
		`hello`:                                 "neither JSON",
		``:                                      "neither JSON",
	} {
		leg := run(body, nil)
		require.Len(t, leg.connects, 1, body)
		require.Equal(t, own, leg.connects[0].Agent.WsUrl)
		require.Contains(t, leg.connects[0].Note, note, body)
	}
	leg = run("", errors.New("the server answered 500"))
	require.Equal(t, "connect_url: the server answered 500", leg.connects[0].Note)
	require.Equal(t, own, leg.connects[0].Agent.WsUrl)
}

// TestConnectURLKeepsTheToken: a voice agent's auth token is sent to the host of its ws_url only; for OpenAI it is the key that is billed. Twilio's is
// never sent: it signs.
func TestConnectURLKeepsTheToken(t *testing.T) {
	t.Parallel()
	web := &connectServer{}
	b := setup(t, func(c *Config) { c.Web = web })
	storetest.InboundNumber(t, b.st, b.tenant, "+918000000001")
	for transport, kept := range map[string]bool{"websocket": false, "openai_realtime": false, "twilio": true} {
		made, err := b.svc.VoiceAgents.CreateVoiceAgent(t.Context(), b.tenant, decode[voiceagents.Input](t,
			`{"name":"`+transport+`","ws_url":"wss://127.0.0.1/own","auth_token":"sk-12345","transport":"`+transport+`","connect_url":"https://127.0.0.1/connect"}`))
		require.NoError(t, err)
		storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET default_voice_agent_id = $1 WHERE id = $2", made.ID, b.tenant)
		call, err := b.svc.Answers.Route(t.Context(), inbound("8000000001"))
		require.NoError(t, err)
		for body, sent := range map[string]bool{
			`{"ws_url":"wss://127.0.0.2/own"}`: kept, `{"ws_url":"wss://127.0.0.1:8443/own"}`: kept,
			`<Response><Connect><Stream url="wss://127.0.0.2/own"/></Connect></Response>`: kept,
			`{"ws_url":"wss://127.0.0.1/other"}`:                                          true,
		} {
			web.body = body
			leg := &fakeLeg{call: call}
			require.NoError(t, b.svc.Answers.Answered(t.Context(), leg))
			require.Equal(t, sent, len(leg.connects[0].Agent.AuthTokenSealed) > 0, "%s %s", transport, body)
		}
	}
}
