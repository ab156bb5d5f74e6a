package e2e

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/twilio"
	"github.com/ringmaster/ringmaster/store"
)

// twilioFrame is a frame that a voice agent of Twilio Media Streams gets.
type twilioFrame struct {
	Event, SequenceNumber, StreamSid, Protocol string
	Start                                      struct {
		AccountSid, StreamSid, CallSid string
		CustomParameters               map[string]string
	}
	Media struct{ Chunk, Timestamp, Payload string }
	Mark  struct{ Name string }
	DTMF  struct{ Digit string }
	at    time.Time
}

// twilioBot is a voice agent that speaks Twilio Media Streams and does what a test says.
type twilioBot struct {
	url   string
	conns chan *twilioConn
	first []byte // μ-law; what it says as soon as a stream starts
}

// twilioConn is one of its streams.
type twilioConn struct {
	ws    *websocket.Conn
	first []byte
	head  http.Header
	over  chan struct{} // closed when the stream has ended

	mu     sync.Mutex
	frames []twilioFrame
	ear    *tone.Listener
	code   int // the close frame's
}

func newTwilioBot(t *testing.T) *twilioBot {
	t.Helper()
	b := &twilioBot{conns: make(chan *twilioConn, 8)}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := new(websocket.Upgrader).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		c := &twilioConn{ws: ws, first: b.first, head: r.Header, over: make(chan struct{}), ear: tone.NewListener(dsp.SampleRate, nil)}
		b.conns <- c
		c.read()
	}))
	t.Cleanup(srv.Close)
	b.url = "ws" + strings.TrimPrefix(srv.URL, "http") + "/media"
	return b
}

func (c *twilioConn) read() {
	defer close(c.over)
	defer func() { _ = c.ws.Close() }()
	for {
		_, b, err := c.ws.ReadMessage()
		c.mu.Lock()
		if err != nil {
			if closed, ok := errors.AsType[*websocket.CloseError](err); ok {
				c.code = closed.Code
			}
			c.mu.Unlock()
			return
		}
		f := twilioFrame{at: time.Now()}
		if json.Unmarshal(b, &f) != nil {
			f.Event = "not JSON: " + string(b)
		}
		if f.Event == twilio.EventMedia {
			audio, _ := base64.StdEncoding.DecodeString(f.Media.Payload)
			pcm := make([]int16, len(audio))
			dsp.DecodeULaw(pcm, audio)
			c.ear.Hear(f.at, pcm, nil)
		}
		c.frames = append(c.frames, f)
		c.mu.Unlock()
		if f.Event == "start" && c.first != nil {
			payload := map[string]string{"payload": base64.StdEncoding.EncodeToString(c.first)}
			_ = c.ws.WriteJSON(map[string]any{"event": twilio.EventMedia, "streamSid": f.StreamSid, "media": payload}) // a closed socket's end is read
		}
	}
}

// next waits for the next stream, until its start has come.
func (b *twilioBot) next(t *testing.T) *twilioConn {
	t.Helper()
	select {
	case c := <-b.conns:
		eventually(t, 20*time.Second, "the stream starts", func() bool { return len(c.all()) >= 2 })
		return c
	case <-time.After(30 * time.Second):
		require.FailNow(t, "the voice agent was not dialed")
		return nil
	}
}

func (c *twilioConn) all() []twilioFrame {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.frames)
}

func (c *twilioConn) of(event string) (found []twilioFrame) {
	for _, f := range c.all() {
		if f.Event == event {
			found = append(found, f)
		}
	}
	return found
}

func (c *twilioConn) send(t *testing.T, event string, member string, v any) {
	t.Helper()
	f := map[string]any{"event": event, "streamSid": c.all()[1].StreamSid}
	if member != "" {
		f[member] = v
	}
	require.NoError(t, c.ws.WriteJSON(f))
}

// say sends a tone in messages of 100 ms, all at once.
func (c *twilioConn) say(t *testing.T, hz float64, d time.Duration) {
	t.Helper()
	pcm := tone.Sine(int(d.Seconds()*dsp.SampleRate), dsp.SampleRate, hz, -12)
	audio := make([]byte, len(pcm))
	dsp.EncodeULaw(audio, pcm)
	for part := range slices.Chunk(audio, dsp.SampleRate/10) {
		c.send(t, twilio.EventMedia, "media", map[string]string{"payload": base64.StdEncoding.EncodeToString(part)})
	}
}

func (c *twilioConn) mark(t *testing.T, name string) {
	t.Helper()
	c.send(t, twilio.EventMark, "mark", map[string]string{"name": name})
}

// marked waits for so many marks and returns them.
func (c *twilioConn) marked(t *testing.T, n int) []twilioFrame {
	t.Helper()
	eventually(t, 20*time.Second, "marks come back", func() bool { return len(c.of(twilio.EventMark)) >= n })
	return c.of(twilio.EventMark)
}

// twilioCampaign starts a campaign of one lead, whom a voice agent of Twilio Media Streams takes.
func (c *customer) twilioCampaign(t *testing.T, bot *twilioBot, number string, more map[string]any) (campaign, lead string) {
	t.Helper()
	agent := map[string]any{"ws_url": bot.url, "transport": "twilio", "auth_token": "12345"}
	maps.Copy(agent, more)
	campaign = c.campaign(t, c.voiceAgent(t, "", agent), nil)
	lead = c.push(t, campaign, number)
	c.start(t, campaign)
	return campaign, lead
}

// A voice agent of Twilio Media Streams holds a conversation: it is told of the call, hears the caller and their digits, is heard, gets its marks when
// the caller has heard what was before them, silences itself by clear, and ends the call by closing its socket.
func TestTwilioConversation(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		bot := newTwilioBot(t)
		const number = "9876190073" // presses 1 2 3
		campaign, lead := c.twilioCampaign(t, bot, number, nil)
		s := bot.next(t)
		call := c.calls(t, campaign)[0]
		frames := s.all()
		require.Equal(t, "connected", frames[0].Event)
		require.Equal(t, "Call", frames[0].Protocol)
		require.Equal(t, "start", frames[1].Event)
		require.Equal(t, "1", frames[1].SequenceNumber)
		require.Equal(t, twilio.Signature(bot.url, "12345"), s.head.Get(twilio.SignatureHeader))
		start := frames[1].Start
		require.Regexp(t, "^AC[0-9a-f]{32}$", start.AccountSid)
		require.Regexp(t, "^MZ[0-9a-f]{32}$", start.StreamSid)
		require.Equal(t, "CA"+strings.ReplaceAll(call.ID, "-", ""), start.CallSid)
		for name, want := range map[string]string{
			"to_number": "+91" + number, "call_id": call.ID, "campaign_id": campaign, "lead_id": lead, "direction": "outbound",
		} {
			require.Equal(t, want, start.CustomParameters[name], name)
		}
		require.Regexp(t, `^\+91\d{10}$`, start.CustomParameters["from_number"])

		caller := c.callee(t, number)
		s.say(t, agentHz, time.Second)
		s.mark(t, "said")
		said := s.marked(t, 1)
		require.Equal(t, "said", said[0].Mark.Name)
		eventually(t, 10*time.Second, "the caller hears all of it", func() bool { return caller(agentHz) >= 900 })
		eventually(t, 20*time.Second, "digits come", func() bool { return len(s.of("dtmf")) == 3 })
		for i, f := range s.of("dtmf") {
			require.Equal(t, "123"[i:i+1], f.DTMF.Digit)
		}
		eventually(t, 20*time.Second, "the caller is heard", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			heard := s.ear.Heard()
			return len(heard) > 0 && heard[0].TotalMS > 1000
		})

		s.say(t, agentHz, 20*time.Second)
		for _, name := range []string{"a", "b", "c"} {
			s.mark(t, name)
		}
		caller.hears(t, agentHz, "the caller hears what is to be cut")
		s.send(t, twilio.EventClear, "", nil)
		cleared := s.marked(t, 4)
		for i, f := range cleared[1:] {
			require.Equal(t, "abc"[i:i+1], f.Mark.Name)
		}
		caller.quiet(t, agentHz, "a clear silences it")
		require.Less(t, caller(agentHz), int64(15000))

		// What is wrong costs nothing.
		require.NoError(t, s.ws.WriteMessage(websocket.TextMessage, []byte(`{"event":"media","streamSid":"MZ1","media":{"payload":"AAAA"}}`)))
		require.NoError(t, s.ws.WriteMessage(websocket.BinaryMessage, []byte("audio")))
		s.say(t, agentHz, time.Second)
		caller.hears(t, agentHz, "the call goes on")

		require.NoError(t, s.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(1000, ""), time.Now().Add(time.Second)))
		ended := c.ended(t, campaign, 1, 20*time.Second)
		require.Equal(t, "completed", ended[0].Status)
		require.Equal(t, "send_bye", *ended[0].HangupDisposition)
	})
}

// connectServer answers a voice agent's connect_url by a text; an empty one comes too late.
func connectServer(t *testing.T, answer string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer == "" { // too late
			select {
			case <-r.Context().Done():
			case <-time.After(5 * time.Second):
			}
			return
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(srv.Close)
	return srv.URL + "/connect"
}

// A voice agent's connect_url says for each call where its socket is and what it is told, by JSON or by TwiML, which plays a file first, dials somebody
// else, or hangs up. One that says nothing in time, or nothing that can be done, leaves the voice agent's own socket.
func TestConnectURL(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		own, other := newTwilioBot(t), newTwilioBot(t)
		start := func(number, answer string) (campaign string) {
			campaign, _ = c.twilioCampaign(t, own, number, map[string]any{"connect_url": connectServer(t, answer)})
			return campaign
		}
		hangUp := func(s *twilioConn, campaign string) {
			t.Helper()
			require.NoError(t, s.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(1000, ""), time.Now().Add(time.Second)))
			c.ended(t, campaign, 1, 20*time.Second)
		}
		said := func(s *twilioConn, name string) string { return s.all()[1].Start.CustomParameters[name] }

		campaign := start("9876190001", `{"ws_url":"`+other.url+`","parameters":{"lang":"hi"}}`)
		s := other.next(t)
		require.Equal(t, "hi", said(s, "lang"))
		require.Equal(t, "+919876190001", said(s, "to_number"))
		hangUp(s, campaign)

		file := audioServer(t, playedHz, time.Second)
		campaign = start("9876190002", `<Response><Play>`+file+`</Play><Pause length="1"/><Connect><Stream url="`+other.url+`"><Parameter name="id" value="7"/></Stream></Connect></Response>`)
		s = other.next(t)
		require.Equal(t, "7", said(s, "id"))
		require.GreaterOrEqual(t, c.callee(t, "9876190002")(playedHz), int64(700), "the file is heard before")
		hangUp(s, campaign)

		campaign = start("9876190003", `<Response><Say>Hello</Say></Response>`)
		hangUp(own.next(t), campaign)
		campaign = start("9876190004", ``)
		hangUp(own.next(t), campaign)

		campaign = start("9876190005", `<Response><Hangup/></Response>`)
		c.ended(t, campaign, 1, 30*time.Second)
		campaign = start("9876190006", `<Response><Dial>9876190007</Dial></Response>`)
		eventually(t, 30*time.Second, "the other is bridged", func() bool {
			r, ok := c.report(t, "+919876190007")
			return ok && r.AnsweredAt != nil && r.HearsNow
		})
		c.hangUp(t, "9876190007")
		c.ended(t, campaign, 1, 30*time.Second)
		var lead string
		require.NoError(t, c.open(t).InSystem(t.Context(), func(tx *store.Tx) error {
			return tx.Pgx().QueryRow(t.Context(), "SELECT status FROM leads WHERE campaign_id = $1", campaign).Scan(&lead)
		}))
		require.Equal(t, "completed", lead, "who was bridged was served, and isn't dialed again")

		// Why nobody was reached is in the session's log, where the customer looks.
		campaign = start("9876190008", `<Response><Dial>9876190060</Dial></Response>`)
		c.ended(t, campaign, 1, 30*time.Second)
		require.Equal(t, `connect_url {"error": "connect_url: <Dial> failed: USER_BUSY"}`, c.sessionLog(t, campaign))
		campaign, _ = c.twilioCampaign(t, own, "9876190009", map[string]any{"ws_url": "ws" + strings.TrimPrefix(connectServer(t, `{}`), "http")})
		c.ended(t, campaign, 1, 30*time.Second)
		require.Equal(t, `socket {"error": "the handshake was refused with HTTP 200", "event": "refused", "status": 200}`, c.sessionLog(t, campaign))
		require.Empty(t, own.conns)
		require.Empty(t, other.conns)
	})
}

// sessionLog is the one entry of the logs of a campaign's sessions.
func (c *customer) sessionLog(t *testing.T, campaign string) (entry string) {
	t.Helper()
	require.NoError(t, c.open(t).InSystem(t.Context(), func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(t.Context(), `SELECT string_agg(l.type || ' ' || l.metadata, '; ' ORDER BY l.id) FROM ai_session_logs l
			JOIN ai_sessions s ON s.id = l.session_id JOIN calls c ON c.id = s.call_id WHERE c.campaign_id = $1`, campaign).Scan(&entry)
	}))
	return entry
}

// The caller's hang-up is told by stop, behind all that was said, and then the socket is closed.
func TestTwilioStop(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		bot := newTwilioBot(t)
		const number = "9876190000"
		campaign, _ := c.twilioCampaign(t, bot, number, map[string]any{"ws_disconnect_action": "transfer_to_queue"})
		s := bot.next(t)
		eventually(t, 20*time.Second, "audio comes", func() bool { return len(s.of(twilio.EventMedia)) > 10 })
		c.hangUp(t, number)
		select {
		case <-s.over:
		case <-time.After(20 * time.Second):
			require.FailNow(t, "the socket stays open")
		}
		frames := s.all()
		require.Equal(t, "stop", frames[len(frames)-1].Event)
		require.Equal(t, 1000, s.code)
		c.ended(t, campaign, 1, 20*time.Second)
	})
}
