package dialer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/flow"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/voiceagents"
	"github.com/ringmaster/ringmaster/media/twilio"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
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
	sum := sha256.Sum256(web.asked[0].Body)
	require.Equal(t, url+"?bodySHA256="+hex.EncodeToString(sum[:]), web.asked[0].URL, "what is signed is this question, and no other")
	require.Equal(t, twilio.Signature(web.asked[0].URL, "12345"), web.asked[0].Header[twilio.SignatureHeader])

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

	leg = run(`<Response><Connect><Stream url="`+other+`?lang=hi"/></Connect></Response>`, nil)
	require.Equal(t, other+"?lang=hi", leg.connects[0].Agent.WsUrl, "Twilio takes no query, and who gives one relies on it")

	leg = run(` <Response><Dial>9876543210</Dial></Response>`, nil)
	require.Empty(t, leg.connects)
	require.Equal(t, []string{"e164 9876543210"}, leg.dialed)
	require.Equal(t, []string{"NORMAL_CLEARING"}, leg.hangups)

	for why, note := range map[error]string{
		&switchctl.UnreachedError{Cause: "USER_BUSY"}: "connect_url: <Dial> failed: USER_BUSY", errors.New("10.0.0.1"): "connect_url: <Dial> failed",
	} {
		leg = &fakeLeg{call: call, dialErr: why, outcomes: []switchctl.Outcome{switchctl.OutcomeFailed}}
		web.body = `<Response><Dial>9876543210</Dial></Response>`
		require.NoError(t, b.svc.Answers.Answered(t.Context(), leg))
		require.Empty(t, leg.connects)
		require.Equal(t, []string{note}, leg.notes)
		require.Equal(t, []string{"SERVICE_UNAVAILABLE"}, leg.hangups)
	}

	leg = run("\ufeff"+`<?xml version="1.0" encoding="UTF-8"?><Response><Hangup/></Response>`, nil)
	require.Equal(t, []string{"NORMAL_CLEARING"}, leg.hangups)

	for body, note := range map[string]string{
		`<Response><Say>Hello</Say></Response>`:                          "connect_url: TwiML: <Say> is not supported",
		`{"ws_url":"wss://a","twiml":"<a/>"}`:                            "both",
		`{"ws_url":"wss://u:p@127.0.0.2"}`:                               "without credentials",
		`{"ws_url":"wss://127.0.0.2/` + strings.Repeat("a", 2000) + `"}`: "at most 2000 bytes",
		`{"ws_url":"https://a"}`:                                         "no ws or wss URL",
		`{"ws_url":"wss://a/\u0000"}`:                                    "no ws or wss URL",
		`{"parameters":{"a":"\u0000"}}`:                                  "has a NUL",
		`{"parameters":{"\u0000":"a"}}`:                                  "has a NUL",
		`hello`:                                                          "neither a JSON object",
		`null`:                                                           "neither a JSON object",
		`{"url":"wss://a"}`:                                              "neither ws_url nor twiml nor parameters",
		`{"ws_url":"wss://10.0.0.1/x"}`:                                  "the answered WebSocket URL: target address is not allowed",
		`<Response><Connect><Stream url="wss://10.0.0.1/x"/></Connect></Response>`: "target address is not allowed",
		`<?xml version="1.0" encoding="ISO-8859-1"?><Response/>`:                   "the encoding \"ISO-8859-1\" is not supported; UTF-8 is",
		"<" + strings.Repeat("A", 60<<10) + "></B>":                                "TwiML: XML syntax error on line 1: element <AAA",
		``:                     "the answer is empty; {} has ws_url called",
		`{"ws_url":5}`:         "the answer's ws_url must be a string, and is a JSON number",
		`{"parameters":["a"]}`: "the answer's parameters must be an object, and is a JSON array",
		`{"ws_url":"wss://a"`:  "neither a JSON object",
		`<!-- nothing -->`:     "TwiML",
	} {
		leg := run(body, nil)
		require.Len(t, leg.connects, 1, body)
		require.Equal(t, own, leg.connects[0].Agent.WsUrl)
		require.Contains(t, leg.connects[0].Note, note, body)
		require.Less(t, len(leg.connects[0].Note), 300)
		require.NotContains(t, leg.connects[0].Note, "10.0.0.1")
	}
	leg = run("", errors.New("the server answered 500"))
	require.Equal(t, "connect_url: the server answered 500", leg.connects[0].Note)
	require.Equal(t, own, leg.connects[0].Agent.WsUrl)
}

// TestConnectURLHidesItsCredentials: they are shown as a mask, kept by a PATCH that shows the same, and go to no other host.
func TestConnectURLHidesItsCredentials(t *testing.T) {
	t.Parallel()
	b := setup(t)
	made, err := b.svc.VoiceAgents.CreateVoiceAgent(t.Context(), b.tenant, decode[voiceagents.Input](t,
		`{"name":"a","ws_url":"wss://127.0.0.1/own","connect_url":"https://127.0.0.1/connect?lang=hi&api_key=0123456789abcdef"}`))
	require.NoError(t, err)
	const shown = "https://127.0.0.1/connect?lang=hi&api_key=••••cdef"
	require.Equal(t, shown, *made.ConnectURL)
	kept := func() string {
		return storetest.Query[string](t, b.st, b.tenant, "SELECT connect_url FROM voice_agents WHERE id = $1", made.ID)[0]
	}
	patch := func(address string) (voiceagents.VoiceAgent, error) {
		return b.svc.VoiceAgents.PatchVoiceAgent(t.Context(), b.tenant, made.ID, decode[voiceagents.Input](t, `{"connect_url":"`+address+`"}`))
	}
	_, err = patch("https://127.0.0.1:443/connect?api_key=••••cdef")
	require.NoError(t, err, "the same port")
	require.Equal(t, "https://127.0.0.1:443/connect?api_key=0123456789abcdef", kept())
	got, err := patch("https://127.0.0.1/connect?lang=en&api_key=••••cdef")
	require.NoError(t, err)
	require.Equal(t, "https://127.0.0.1/connect?lang=en&api_key=••••cdef", *got.ConnectURL)
	require.Equal(t, "https://127.0.0.1/connect?lang=en&api_key=0123456789abcdef", kept())
	for _, bad := range []string{"https://127.0.0.2/connect?api_key=••••cdef", "http://127.0.0.1/connect?api_key=••••cdef", "https://127.0.0.1/connect?api_key=••••abcd"} {
		_, err = patch(bad)
		require.Equal(t, []string{"connect_url"}, fields(t, err), bad)
	}
	_, err = b.svc.VoiceAgents.CreateVoiceAgent(t.Context(), b.tenant, decode[voiceagents.Input](t, `{"name":"b","ws_url":"wss://127.0.0.1/own","connect_url":"`+shown+`"}`))
	require.Equal(t, []string{"connect_url"}, fields(t, err))
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

// TestTwiMLServesTheCallee: a campaign's callee who heard a file was served; one whom the answer hangs up on at once, or whose file can't be had, met
// nobody, which is an abandoned call and another attempt. Machine detection listens until a session does.
func TestTwiMLServesTheCallee(t *testing.T) {
	t.Parallel()
	web := &connectServer{}
	b := setup(t, func(c *Config) { c.Web = web }).trunkAndNumber(t)
	campaign := b.running(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET max_attempts = 3, amd = true")
	storetest.Exec(t, b.st, b.tenant, "UPDATE voice_agents SET connect_url = 'https://127.0.0.1/connect'")
	const play = `<Play>https://a.example/x.wav</Play>`
	for i, c := range []struct {
		name, body string
		playErr    error
		listens    int
		abandoned  bool
		lead       leads.Status
	}{
		{"hears a file", play + `<Hangup/>`, nil, 1, false, leads.StatusCompleted},
		{"hung up on", `<Hangup/>`, nil, 1, true, leads.StatusRetry},
		{"the file can't be had", play, switchctl.ErrAudio, 1, true, leads.StatusRetry},
		{"connected at once", `<Connect><Stream url="wss://127.0.0.1/a"/></Connect>`, nil, 0, false, leads.StatusRetry},
	} {
		lead := b.push(t, campaign.ID, fmt.Sprintf("98765431%02d", i))
		call := b.dial(t, campaign, lead)
		answered := b.clock.Now()
		storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET status = 'answered', answer_time = $2, amd = true WHERE id = $1", call.ID, answered)
		call.AnswerTime, call.Amd = &answered, true
		web.body = "<Response>" + c.body + "</Response>"
		leg := &fakeLeg{call: call, playErr: c.playErr}
		require.NoError(t, b.svc.Answers.Answered(t.Context(), leg), c.name)
		require.Equal(t, c.listens, leg.detects, c.name)
		cause := ledger.CauseNormalClearing
		if len(leg.hangups) > 0 {
			cause = leg.hangups[0]
		}
		require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
			closed, err := tx.Q.CallClose(t.Context(), db.CallCloseParams{
				TenantID: b.tenant, ID: call.ID, Status: ledger.StatusCompleted, EndTime: answered.Add(time.Second), HangupCause: cause, AnswerTime: &answered,
			})
			require.NoError(t, err)
			return b.svc.Answers.Ended(t.Context(), tx, closed)
		}))
		require.Equal(t, string(c.lead), b.lead(t, lead.ID).Status, c.name)
		require.Equal(t, c.abandoned, storetest.Count(t, b.st, "SELECT count(*) FROM calls WHERE abandoned AND id = $1", call.ID) == 1, c.name)
	}
}
