package aikit

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emiago/sipgo/sip"
	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ringmaster/ringmaster/integration/echoai"
	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/frames"
	"github.com/ringmaster/ringmaster/media/wav"
)

func TestMain(m *testing.M) {
	sip.SetDefaultLogger(slog.New(slog.DiscardHandler)) // it warns of what is ordinary when a transport closes
	// sipgo's reader ends by itself some time after its socket is closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/emiago/sipgo/sip.(*TransportUDP).readUDPConnection"))
}

// server is a voice agent of a transport that is right, but for what a test changes.
type server struct {
	transport media.Transport
	// reply is asked for each text of the endpoint, before what is right is done; false leaves that out.
	reply func(c *conn, kind string) bool
	// subprotocol is chosen in place of the one offered; status refuses the handshake.
	subprotocol string
	status      atomic.Int32
	// ping is how pings are answered; nil is by a pong.
	ping  func(string) error
	taken atomic.Int32
}

// conn is one of its sockets.
type conn struct {
	*websocket.Conn

	s      *server
	n      int // which of the server's sockets
	stream string
	heard  int // frames of the caller
	loud   int // those of them that were, since the caller was last silent
}

func (s *server) serve(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status := int(s.status.Load()); status != 0 {
			w.WriteHeader(status)
			return
		}
		up := websocket.Upgrader{Subprotocols: []string{media.SubprotocolAlpha}}
		var head http.Header
		if s.subprotocol != "" {
			up.Subprotocols, head = nil, http.Header{"Sec-Websocket-Protocol": {s.subprotocol}}
		}
		ws, err := up.Upgrade(w, r, head)
		if err != nil {
			return
		}
		c := &conn{Conn: ws, s: s, n: int(s.taken.Add(1))}
		defer func() { _ = ws.Close() }()
		if s.ping != nil {
			ws.SetPingHandler(s.ping)
		}
		if s.transport == media.TransportOpenAI && s.reply(c, "open") {
			c.tell(`{"type":"session.created","session":{"type":"realtime"}}`)
		}
		c.read()
	}))
	t.Cleanup(srv.Close)
	return "ws" + strings.TrimPrefix(srv.URL, "http") + "/agent"
}

func (c *conn) tell(text string) { _ = c.WriteMessage(websocket.TextMessage, []byte(text)) }

// read answers what the endpoint sends.
func (c *conn) read() {
	for {
		op, b, err := c.ReadMessage()
		if err != nil {
			return
		}
		kind := "audio"
		if op == websocket.TextMessage {
			var f struct {
				Event, Type, StreamSid, Audio string
				Media                         struct{ Payload string }
			}
			_ = json.Unmarshal(b, &f)
			if kind = f.Event + f.Type; kind == "" {
				kind = "metadata"
			}
			if f.StreamSid != "" {
				c.stream = f.StreamSid
			}
			b, _ = base64.StdEncoding.DecodeString(f.Media.Payload + f.Audio)
		}
		if kind == "audio" || kind == "media" || kind == "input_audio_buffer.append" {
			pcm := make([]int16, len(b))
			dsp.DecodeULaw(pcm, b)
			c.heard++
			if c.loud++; tone.Level(pcm) < audible {
				c.loud = 0
			}
			kind = "audio"
		}
		if c.s.reply(c, kind) {
			c.right(kind)
		}
	}
}

// right is what a server does that is right: it greets for 4 s at once, and answers a caller who speaks, cutting what it says.
func (c *conn) right(kind string) {
	switch kind {
	case "metadata", "start":
		c.say(4*time.Second, 700)
	case "session.update":
		format := `{"format":{"type":"audio/pcmu"}}`
		c.tell(`{"type":"session.updated","session":{"type":"realtime","audio":{"input":` + format + `,"output":` + format + `}}}`)
		c.say(4*time.Second, 700)
	case "audio":
		if c.loud == 10 {
			c.cut()
			c.say(time.Second, 900)
		}
	}
}

// cut has playout emptied.
func (c *conn) cut() {
	switch c.s.transport {
	case media.TransportTwilio:
		c.tell(`{"event":"clear","streamSid":"` + c.stream + `"}`)
	case media.TransportOpenAI:
		c.tell(`{"type":"input_audio_buffer.speech_started","item_id":"item_2","audio_start_ms":0}`)
	case media.TransportWebSocket:
		c.tell(`{"type":"killAudio"}`)
	}
}

// say speaks, at once.
func (c *conn) say(d time.Duration, hz float64) {
	c.send(tone.Sine(int(d.Seconds()*dsp.SampleRate), dsp.SampleRate, hz, -12))
}

func (c *conn) send(pcm []int16) {
	for part := range slices.Chunk(pcm, 800) {
		b := make([]byte, len(part))
		dsp.EncodeULaw(b, part)
		c.audio(b)
	}
}

// audio sends a piece of μ-law.
func (c *conn) audio(b []byte) {
	text := base64.StdEncoding.EncodeToString(b)
	switch c.s.transport {
	case media.TransportTwilio:
		c.tell(`{"event":"media","streamSid":"` + c.stream + `","media":{"payload":"` + text + `"}}`)
	case media.TransportOpenAI:
		c.tell(`{"type":"response.output_audio.delta","response_id":"resp_1","item_id":"item_1","output_index":0,"content_index":0,"delta":"` + text + `"}`)
	case media.TransportWebSocket:
		_ = c.WriteMessage(websocket.BinaryMessage, b)
	}
}

// kitFor is a kit for a server, with μ-law on our own transport.
func kitFor(t *testing.T, url string, transport media.Transport) *Kit {
	t.Helper()
	o := Options{URL: url, Transport: transport, AnswerWithin: 3 * time.Second}
	if transport == media.TransportWebSocket {
		o.Subprotocol, o.Audio = media.SubprotocolAlpha, media.AudioFormat{Encoding: media.EncodingPCMU}
	}
	k, err := New(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Close(context.Background())) })
	return k
}

func serveServer(t *testing.T, s *server) string {
	t.Helper()
	if s.reply == nil {
		s.reply = func(*conn, string) bool { return true }
	}
	return s.serve(t)
}

// together runs calls beside each other: they last long, and cost little.
func together(n int, call func(i int)) {
	room := make(chan struct{}, 8)
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			call(i)
		})
	}
	calls.Wait()
}

// rules are those that a run has found broken.
func rules(r Report) (names []string) {
	for _, o := range r.Scenarios {
		for _, f := range o.Findings {
			if !slices.Contains(names, f.Rule) {
				names = append(names, f.Rule)
			}
		}
	}
	return names
}

// TestARightServer: nothing is found wrong with a server that is right, on any transport, in any scenario.
func TestARightServer(t *testing.T) {
	t.Parallel()
	type job struct {
		transport, scenario string
		kit                 *Kit
		report              Report
		err                 error
	}
	var jobs []job
	for _, transport := range frames.Transports() {
		for _, sc := range Scenarios() {
			kit := kitFor(t, serveServer(t, &server{transport: media.Transport(transport)}), media.Transport(transport))
			jobs = append(jobs, job{transport: transport, scenario: sc.Name, kit: kit})
		}
	}
	together(len(jobs), func(i int) {
		jobs[i].report, jobs[i].err = jobs[i].kit.Run(t.Context(), []string{jobs[i].scenario}, nil)
	})
	for _, j := range jobs {
		require.NoError(t, j.err)
		require.Empty(t, rules(j.report), "%s: %+v", j.transport, j.report)
		o := j.report.Scenarios[0]
		require.True(t, o.Ran)
		require.Positive(t, o.FramesSent)
		require.Positive(t, o.FramesReceived)
	}
}

// TestTheEchoingVoiceAgent: nothing is found wrong with our own sample.
func TestTheEchoingVoiceAgent(t *testing.T) {
	t.Parallel()
	ai := echoai.New(echoai.Config{})
	require.NoError(t, ai.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, ai.Close(context.Background())) })
	r, err := kitFor(t, "ws://"+ai.Addr()+"/echo", media.TransportWebSocket).Run(t.Context(), []string{"speech", "dtmf", "hangup"}, nil)
	require.NoError(t, err)
	require.Empty(t, rules(r), "%+v", r)
}

// paced speaks for 5 s, a frame for each of the caller's, and never stops for them.
func paced(s *server) {
	s.reply = func(c *conn, kind string) bool {
		if kind == "audio" && c.heard < 250 {
			c.send(tone.Sine(160, dsp.SampleRate, 700, -12))
		}
		return false
	}
}

// faultyServer is a server with one fault, the scenario that finds it, and the rule that names it.
type faultyServer struct {
	name, scenario, rule string
	on                   media.Transport
	server               func(s *server)
}

// at has something else done than what is right, at a frame of the endpoint.
func at(kind string, do func(c *conn)) func(s *server) {
	return func(s *server) {
		s.reply = func(c *conn, k string) bool {
			if k != kind {
				return true
			}
			do(c)
			return false
		}
	}
}

func faults() []faultyServer {
	const own, tw, oa = media.TransportWebSocket, media.TransportTwilio, media.TransportOpenAI
	nothing := func(*conn) {}
	return []faultyServer{
		{"asks for credentials", "connect", "http_status", own, func(s *server) { s.status.Store(401) }},
		{"serves another path", "connect", "http_status", tw, func(s *server) { s.status.Store(404) }},
		{"chooses another subprotocol", "connect", "subprotocol", own, func(s *server) { s.subprotocol = "audio.gamma.org" }},
		{"chooses one where none is offered", "connect", "subprotocol", tw, func(s *server) { s.subprotocol = "media" }},
		{"answers no ping", "silence", "no_pong", own, func(s *server) { s.ping = func(string) error { return nil } }},
		{"sends what is no JSON", "connect", "not_json", own, at("metadata", func(c *conn) { c.tell("hello") })},
		{"sends an unknown type", "connect", "unknown_frame", own, at("metadata", func(c *conn) { c.tell(`{"type":"stopAudio"}`) })},
		{"sends a mark without a name", "connect", "schema", own, at("metadata", func(c *conn) { c.tell(`{"type":"mark","data":{}}`) })},
		{"sends a verb without its members", "connect", "command", own, at("metadata", func(c *conn) { c.tell(`{"type":"command","id":"1","data":{"event":"send_dtmf"}}`) })},
		{"sends a WAV file that is none", "connect", "wav", own, at("metadata", func(c *conn) {
			c.tell(`{"type":"playAudio","data":{"audioContentType":"wav","audioContent":"AAAA"}}`)
		})},
		{"has another stream's name", "connect", "stream_sid", tw, at("start", func(c *conn) {
			c.stream = "MZ00000000000000000000000000000009"
			c.say(time.Second, 700)
		})},
		{"leaves streamSid out", "connect", "schema", tw, at("start", func(c *conn) { c.tell(`{"event":"clear"}`) })},
		{"speaks our own transport to Twilio's", "connect", "unknown_frame", tw, at("start", func(c *conn) { c.tell(`{"type":"killAudio"}`) })},
		{"sends binary audio to Twilio's", "connect", "binary_frame", tw, at("start", func(c *conn) { _ = c.WriteMessage(websocket.BinaryMessage, make([]byte, 160)) })},
		{"sends a file's header", "connect", "audio_header", tw, at("start", func(c *conn) { c.audio(append([]byte("RIFF"), make([]byte, 156)...)) })},
		{"says nothing", "speech", "no_audio", own, func(s *server) { s.reply = func(*conn, string) bool { return false } }},
		{"sends silence", "speech", "silent_audio", tw, func(s *server) {
			s.reply = func(c *conn, kind string) bool {
				if kind == "start" {
					c.send(make([]int16, 8000))
				}
				return false
			}
		}},
		{"doesn't answer", "speech", "no_answer", own, at("audio", nothing)},
		{"sends too little audio in time", "speech", "slow_audio", tw, func(s *server) {
			s.reply = func(c *conn, kind string) bool {
				if kind == "audio" && c.heard%2 == 0 {
					c.send(tone.Sine(160, dsp.SampleRate, 700, -12))
				}
				return false
			}
		}},
		{"sends another encoding", "speech", "noise", tw, at("start", func(c *conn) {
			pcm := tone.Babble(2*dsp.SampleRate, dsp.SampleRate, -6, 1)
			b := make([]byte, 0, 2*len(pcm))
			for _, s := range pcm {
				b = append(b, byte(s), byte(s>>8))
			}
			for part := range slices.Chunk(b, 800) {
				c.audio(part)
			}
		})},
		{"talks on", "barge-in", "no_barge_in", tw, at("audio", nothing)},
		{"talks on at the pace of speech", "barge-in", "no_barge_in", tw, paced},
		{"greets on in place of an answer", "speech", "no_answer", tw, paced},
		{"sends half a sample", "connect", "odd_audio", own, at("metadata", func(c *conn) {
			c.tell(`{"type":"playAudio","data":{"audioContentType":"raw","sampleRate":8000,"audioContent":"AAAA"}}`)
		})},
		{"hangs up on a key", "dtmf", "closed", tw, at("dtmf", func(c *conn) {
			_ = c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(1011, ""), time.Now().Add(time.Second))
		})},
		{"breaks on a key", "dtmf", "broken", own, at("dtmf", func(c *conn) { _ = c.NetConn().Close() })},
		{"ends the call", "connect", "left", own, at("metadata", func(c *conn) { c.tell(`{"type":"disconnect"}`) })},
		{"floods", "connect", "limit", own, at("metadata", func(c *conn) {
			for range 8000 {
				c.tell(`{"type":"clearMarks"}`)
			}
		})},
		{"breaks WebSocket", "connect", "websocket", own, at("metadata", func(c *conn) { _, _ = c.NetConn().Write([]byte{0xff, 0x00}) })},
		{"doesn't close", "hangup", "no_close", own, func(s *server) {
			s.reply = func(c *conn, kind string) bool {
				c.SetCloseHandler(func(int, string) error { return nil })
				return true
			}
		}},
		{"takes one socket only", "reconnect", "no_reconnect", tw, func(s *server) {
			s.reply = func(c *conn, _ string) bool {
				s.status.Store(409)
				return true
			}
		}},
		{"breaks again and again", "reconnect", "broken", own, func(s *server) {
			s.reply = func(c *conn, kind string) bool {
				if c.n > 1 && c.n < 4 && kind == "audio" {
					_ = c.NetConn().Close()
				}
				return true
			}
		}},
		{"begins no session", "connect", "no_session", oa, at("open", nothing)},
		{"confirms no session", "connect", "session_updated", oa, at("session.update", nothing)},
		{"speaks another format", "connect", "audio_format", oa, at("session.update", func(c *conn) {
			c.tell(`{"type":"session.updated","session":{"audio":{"output":{"format":{"type":"audio/pcm","rate":24000}}}}}`)
		})},
		{"refuses the session", "connect", "session_refused", oa, at("session.update", func(c *conn) {
			c.tell(`{"type":"error","error":{"type":"invalid_request_error","code":"invalid_value","message":"no","event_id":"ringmaster_session"}}`)
		})},
		{"complains", "connect", "error_event", oa, at("session.update", func(c *conn) {
			c.tell(`{"type":"error","error":{"type":"server_error","code":"x","message":"no"}}`)
			c.right("session.update")
		})},
		{"is no server", "connect", "unreachable", own, nil},
	}
}

// TestEveryFaultIsNamed runs servers with one fault each: the fault is found, by its own name, with all that a finding says.
func TestEveryFaultIsNamed(t *testing.T) {
	t.Parallel()
	all := faults()
	reports, errs := make([]Report, len(all)), make([]error, len(all))
	run := func(f faultyServer) func() (Report, error) {
		url := "ws://127.0.0.1:1/"
		if f.server != nil {
			s := &server{transport: f.on}
			f.server(s)
			url = serveServer(t, s)
		}
		kit := kitFor(t, url, f.on)
		return func() (Report, error) { return kit.Run(t.Context(), []string{f.scenario}, nil) }
	}
	runs := make([]func() (Report, error), len(all))
	for i, f := range all {
		runs[i] = run(f)
	}
	together(len(all), func(i int) { reports[i], errs[i] = runs[i]() })
	for i, f := range all {
		// A busy machine holds a call up, and what a server does too late or too long isn't seen then.
		for range 4 {
			if errs[i] != nil || slices.Contains(rules(reports[i]), f.rule) {
				break
			}
			reports[i], errs[i] = run(f)()
		}
		require.NoError(t, errs[i])
		r := reports[i]
		require.Contains(t, rules(r), f.rule, "%s: %+v", f.name, r)
		for _, found := range r.Scenarios[0].Findings {
			require.NotEmpty(t, found.Expected)
			require.NotEmpty(t, found.Seen)
			require.NotEmpty(t, found.See)
			require.Positive(t, found.Times)
			require.Contains(t, []string{LevelError, LevelWarning}, found.Level)
		}
		var out bytes.Buffer
		require.NoError(t, r.Scenarios[0].Print(&out))
		require.Contains(t, out.String(), f.rule)
	}
}

// TestShortGreeting: a server that says little, all of it at once, and sends nothing when the caller speaks may or may not know of barge-in.
func TestShortGreeting(t *testing.T) {
	t.Parallel()
	s := &server{transport: media.TransportTwilio, reply: func(c *conn, kind string) bool {
		if kind == "start" {
			c.say(900*time.Millisecond, 700)
		}
		return false
	}}
	r, err := kitFor(t, serveServer(t, s), s.transport).Run(t.Context(), []string{"barge-in"}, nil)
	require.NoError(t, err)
	require.Empty(t, rules(r))
	require.Equal(t, "what the server said was at its end before it could have been cut short", r.Scenarios[0].NotJudged)
}

// TestAServerThatIsNotThere: what can't be reached is said once, and the rest isn't tried.
func TestAServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	r, err := kitFor(t, "ws://127.0.0.1:1/", media.TransportTwilio).Run(t.Context(), nil, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"unreachable"}, rules(r))
	require.True(t, r.Scenarios[0].Ran)
	require.False(t, r.Scenarios[1].Ran)
	require.Equal(t, 1, r.Errors)
}

// TestListen: what a server sends is shown, and both sides are recorded.
func TestListen(t *testing.T) {
	t.Parallel()
	s := &server{transport: media.TransportTwilio, reply: func(c *conn, kind string) bool {
		if kind == "start" {
			c.tell(`{"event":"mark","streamSid":"` + c.stream + `","mark":{"name":"first"}}`)
			c.tell(`{"event":"stop"}`)
		}
		return true
	}}
	var out bytes.Buffer
	lines := NewLines(&out, false)
	file := filepath.Join(t.TempDir(), "call.wav")
	outcome, err := kitFor(t, s.serve(t), s.transport).Listen(t.Context(), Listening{For: 2 * time.Second, WAV: file, Press: "1", Show: lines.Add})
	require.NoError(t, err)
	lines.End()
	for _, want := range []string{"<- media", "ms of audio", "first", "VIOLATION", "-> dtmf", "-> start"} {
		require.Contains(t, out.String(), want)
	}
	require.Equal(t, []string{"unknown_frame"}, rules(Report{Scenarios: []Outcome{outcome}}))
	info, err := wav.Check(file)
	require.NoError(t, err)
	require.Greater(t, info.Duration(), 1500*time.Millisecond)
}
