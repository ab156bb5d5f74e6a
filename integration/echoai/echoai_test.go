package echoai_test

import (
	"context"
	"encoding/base64"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ringmaster/ringmaster/integration/echoai"
	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/wav"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, cfg echoai.Config) *echoai.Server {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	s := echoai.New(cfg)
	require.NoError(t, s.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(t, s.Close(ctx))
	})
	return s
}

// client is Ringmaster's end of a socket.
type client struct {
	*websocket.Conn
	format string
	rate   int
}

func dial(t *testing.T, s *echoai.Server, path string, header http.Header, protocols ...string) (*websocket.Conn, int, error) {
	t.Helper()
	if len(protocols) == 0 {
		protocols = []string{"audio.alpha.org"}
	}
	d := websocket.Dialer{Subprotocols: protocols, HandshakeTimeout: 20 * time.Second}
	conn, res, err := d.DialContext(t.Context(), "ws://"+s.Addr()+path, header)
	status := 0
	if res != nil {
		status = res.StatusCode
		require.NoError(t, res.Body.Close())
	}
	if err == nil {
		t.Cleanup(func() { _ = conn.Close() }) // a second close is no fault
	}
	return conn, status, err
}

// open dials and sends the metadata of call c1.
func open(t *testing.T, s *echoai.Server, path string, more map[string]any) client {
	t.Helper()
	conn, _, err := dial(t, s, path, http.Header{"Authorization": {"Bearer secret"}})
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	meta := map[string]any{"call_id": "c1", "audio_format": map[string]any{"encoding": "pcm_s16le", "sample_rate_hz": 8000, "frame_ms": 20}}
	maps.Copy(meta, more)
	require.NoError(t, conn.WriteJSON(meta))
	return client{conn, "pcm_s16le", 8000}
}

func (c client) samples(b []byte) []int16 {
	out := make([]int16, len(b)/2)
	for i := range out {
		out[i] = int16(b[2*i]) | int16(b[2*i+1])<<8
	}
	return out
}

// hear reads binary frames until n samples came.
func (c client) hear(t *testing.T, n int) []int16 {
	t.Helper()
	var out []int16
	for len(out) < n {
		kind, b, err := c.ReadMessage()
		require.NoError(t, err)
		if kind == websocket.BinaryMessage {
			out = append(out, c.samples(b)...)
		}
	}
	return out
}

func pcm(samples []int16) []byte {
	b := make([]byte, 0, 2*len(samples))
	for _, s := range samples {
		b = append(b, byte(s), byte(uint16(s)>>8))
	}
	return b
}

// session waits for the one record of call c1 that until accepts.
func session(t *testing.T, s *echoai.Server, until func(echoai.Session) bool) echoai.Session {
	t.Helper()
	var r echoai.Session
	require.Eventually(t, func() bool {
		all := s.Sessions("c1")
		if len(all) == 0 {
			return false
		}
		r = all[len(all)-1]
		return until(r)
	}, 20*time.Second, 5*time.Millisecond)
	return r
}

func isOver(r echoai.Session) bool { return !r.Live }

func TestEchoGreetsThenEchoes(t *testing.T) {
	t.Parallel()
	s := start(t, echoai.Config{})
	c := open(t, s, "/echo", map[string]any{"reconnect": true})
	greeting := c.hear(t, 4000)
	require.Len(t, greeting, 4000)
	require.InDelta(t, 1000, tone.Dominant(greeting, 8000), 2)
	require.InDelta(t, -12, tone.LevelAt(greeting, 8000, 1000), 0.2)
	// The greeting's end is known to the server alone: frames sent before are not echoed.
	sent := tone.Sine(160, 8000, 400, -12)
	stop := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				done <- nil
				return
			case <-tick.C:
				if err := c.WriteMessage(websocket.BinaryMessage, pcm(sent)); err != nil {
					done <- err
					return
				}
			}
		}
	}()
	echo := c.hear(t, 1600)
	close(stop)
	require.NoError(t, <-done)
	require.Equal(t, sent, echo[:160], "the echo is the audio itself")
	require.NoError(t, c.WriteMessage(websocket.TextMessage, []byte(`{"type":"dtmf","data":{"digit":"5","duration_ms":100}}`)))
	require.NoError(t, c.WriteMessage(websocket.TextMessage, []byte(`no JSON`)))
	require.NoError(t, c.WriteControl(websocket.PingMessage, nil, time.Now().Add(20*time.Second)))
	require.NoError(t, c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(1000, ""), time.Now().Add(20*time.Second)))
	r := session(t, s, isOver)
	require.Equal(t, "Bearer secret", r.Authorization)
	require.Equal(t, "audio.alpha.org", r.Subprotocol)
	require.True(t, r.Reconnect)
	require.Equal(t, echoai.Them, r.EndedBy)
	require.Equal(t, 1000, r.CloseCode)
	require.InDelta(t, 400, r.DominantHz, 2)
	require.EqualValues(t, 1, r.PingsIn)
	require.Equal(t, "dtmf", r.Texts[0].Type)
	require.JSONEq(t, `"no JSON"`, string(r.Texts[1].Raw))
	require.Len(t, r.SentOnsets, 1)
	require.GreaterOrEqual(t, r.FramesIn, int64(10))
	require.Equal(t, r.FramesIn*320, r.BytesIn)
	require.Empty(t, r.Error)
	require.EqualValues(t, 1, s.Stats().Reconnects)
	require.Zero(t, s.Stats().Live)
}

func TestToneInEveryFormat(t *testing.T) {
	t.Parallel()
	s := start(t, echoai.Config{})
	for _, tc := range []struct {
		name     string
		protocol string
		meta     string
		rate     int
		bytes    int // of 20 ms
		decode   func([]byte) []int16
	}{
		{"linear 16 kHz", "audio.alpha.org", `{"audio_format":{"encoding":"pcm_s16le","sample_rate_hz":16000}}`, 16000, 640, nil},
		{"A-law by its alias", "audio.alpha.org", `{"audio_format":{"encoding":"pcma","sample_rate":8000}}`, 8000, 160, func(b []byte) []int16 {
			out := make([]int16, len(b))
			dsp.DecodeALaw(out, b)
			return out
		}},
		{"μ-law", "audio.alpha.org", `{"audio_format":{"encoding":"pcmu","sample_rate_hz":8000}}`, 8000, 160, func(b []byte) []int16 {
			out := make([]int16, len(b))
			dsp.DecodeULaw(out, b)
			return out
		}},
		{"L16 whatever the format says", "audio.beta.org", `{"audio_format":{"encoding":"pcma","sample_rate_hz":24000}}`, 24000, 960, nil},
		{"sampleRate alone", "audio.beta.org", `{"sampleRate":48000}`, 48000, 1920, nil},
		{"nothing at all", "audio.alpha.org", `{}`, 16000, 640, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			conn, _, err := dial(t, s, "/tone?hz=700&duration=200ms", nil, tc.protocol)
			require.NoError(t, err)
			require.Equal(t, tc.protocol, conn.Subprotocol())
			require.NoError(t, conn.WriteMessage(websocket.TextMessage, []byte(tc.meta)))
			c := client{Conn: conn}
			decode := tc.decode
			if decode == nil {
				decode = c.samples
			}
			var heard []int16
			for range 10 {
				_, b, err := conn.ReadMessage()
				require.NoError(t, err)
				require.Len(t, b, tc.bytes)
				heard = append(heard, decode(b)...)
			}
			require.InDelta(t, 700, tone.Dominant(heard, tc.rate), 4)
		})
	}
}

// TestToneKeepsItsSchedule takes the best of a few connections: the others may have waited for this machine.
func TestToneKeepsItsSchedule(t *testing.T) {
	t.Parallel()
	worst := math.Inf(1)
	for n := 0; n < 20 && worst > 0.1; n++ {
		worst = min(worst, offSchedule(t))
	}
	require.LessOrEqual(t, worst, 0.1)
}

// offSchedule tells by how many seconds at most three tones were off their times.
func offSchedule(t *testing.T) (worst float64) {
	t.Helper()
	s := start(t, echoai.Config{})
	c := open(t, s, "/tone?hz=1000&delay=200ms&duration=100ms&every=400ms&mark=said", nil)
	ear := tone.NewListener(8000, []float64{1000})
	marks := 0
	for marks < 3 {
		kind, b, err := c.ReadMessage()
		require.NoError(t, err)
		if kind == websocket.TextMessage {
			require.JSONEq(t, `{"type":"mark","data":{"name":"said-`+string(rune('0'+marks))+`"}}`, string(b))
			marks++
			continue
		}
		ear.Hear(time.Now(), c.samples(b), nil)
	}
	r := session(t, s, func(echoai.Session) bool { return true })
	onsets := ear.Heard()[0].Onsets
	if len(onsets) != 3 {
		return math.Inf(1) // the ear waited, which it takes for a pause
	}
	off := func(want float64, from, to time.Time) { worst = max(worst, math.Abs(to.Sub(from).Seconds()-want)) }
	off(0.2, r.ConnectedAt, onsets[0])
	for i := range onsets {
		off(0, r.SentOnsets[i], onsets[i])
		off(0.4*float64(i), r.SentOnsets[0], r.SentOnsets[i])
	}
	return worst
}

func TestFasterThanRealTime(t *testing.T) {
	t.Parallel()
	s := start(t, echoai.Config{})
	c := open(t, s, "/tone?duration=60s&faster=1", nil)
	began := time.Now()
	c.hear(t, 480_000)
	require.Less(t, time.Since(began), 50*time.Second)
}

func TestPlayAudio(t *testing.T) {
	t.Parallel()
	s := start(t, echoai.Config{})
	for _, kind := range []string{"raw", "wav"} {
		c := open(t, s, "/tone?hz=600&duration=250ms&play_rate=24000&play="+kind, nil)
		var frame struct {
			Type string `json:"type"`
			Data struct {
				AudioContentType string `json:"audioContentType"`
				SampleRate       int    `json:"sampleRate"`
				AudioContent     string `json:"audioContent"`
			} `json:"data"`
		}
		require.NoError(t, c.ReadJSON(&frame))
		require.Equal(t, "playAudio", frame.Type)
		require.Equal(t, kind, frame.Data.AudioContentType)
		require.Equal(t, 24000, frame.Data.SampleRate)
		audio, err := base64.StdEncoding.DecodeString(frame.Data.AudioContent)
		require.NoError(t, err)
		if kind == "wav" {
			parsed, err := wav.Parse(audio)
			require.NoError(t, err)
			require.Equal(t, 24000, parsed.Rate)
			audio = audio[44:]
		}
		require.Len(t, audio, 12000)
		require.InDelta(t, 600, tone.Dominant(c.samples(audio), 24000), 3)
	}
}

func TestWaysToEnd(t *testing.T) {
	t.Parallel()
	s := start(t, echoai.Config{})
	t.Run("disconnect frame", func(t *testing.T) {
		t.Parallel()
		c := open(t, s, "/silent?end_after=50ms", map[string]any{"call_id": "d"})
		_, b, err := c.ReadMessage()
		require.NoError(t, err)
		require.JSONEq(t, `{"type":"disconnect"}`, string(b))
	})
	for path, code := range map[string]int{"/silent?end_after=50ms&end_by=close": 1000, "/close?after=50ms&code=1011": 1011} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			c := open(t, s, path, map[string]any{"call_id": path})
			_, _, err := c.ReadMessage()
			for err == nil { // /close greets before it closes
				_, _, err = c.ReadMessage()
			}
			require.True(t, websocket.IsCloseError(err, code), "%v", err)
			require.Eventually(t, func() bool {
				r := s.Sessions(path)[0]
				return !r.Live && r.EndedBy == echoai.Us && r.CloseCode == code
			}, 20*time.Second, 5*time.Millisecond)
		})
	}
	t.Run("drop", func(t *testing.T) {
		t.Parallel()
		c := open(t, s, "/close?after=50ms&code=0", map[string]any{"call_id": "drop"})
		var err error
		for err == nil {
			_, _, err = c.ReadMessage()
		}
		require.False(t, websocket.IsCloseError(err, 1000, 1001, 1011), "%v", err)
		require.Eventually(t, func() bool { return !s.Sessions("drop")[0].Live }, 20*time.Second, 5*time.Millisecond)
		require.Zero(t, s.Sessions("drop")[0].CloseCode)
	})
	t.Run("hang-up by the control endpoint", func(t *testing.T) {
		t.Parallel()
		got := make(chan *http.Request, 1)
		body := make(chan string, 1)
		control := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			got <- r
			body <- string(b)
		}))
		defer control.Close()
		c := open(t, s, "/silent?end_after=2s&end_by=hangup", map[string]any{
			"call_id": "h", "control_url": control.URL + "/c", "service_callback_token": "svc_cb_old",
		})
		require.NoError(t, c.WriteMessage(websocket.TextMessage, []byte(`{"type":"token_refresh","data":{"service_callback_token":"svc_cb_new"}}`)))
		r := <-got
		require.Equal(t, "Bearer svc_cb_new", r.Header.Get("Authorization"))
		require.JSONEq(t, `{"event":"hangup"}`, <-body)
		require.Eventually(t, func() bool { return len(s.Sessions("h")[0].ControlStatus) == 1 }, 20*time.Second, 5*time.Millisecond)
		require.Equal(t, 200, s.Sessions("h")[0].ControlStatus[0])
	})
}

func TestEndsOnlyTheFirstConnections(t *testing.T) {
	t.Parallel()
	s := start(t, echoai.Config{})
	c := open(t, s, "/close?code=0&times=1&greet=0", nil)
	_, _, err := c.ReadMessage()
	require.Error(t, err)
	session(t, s, isOver)
	again := open(t, s, "/close?code=0&times=1&greet=0", map[string]any{"reconnect": true})
	require.NoError(t, again.WriteMessage(websocket.BinaryMessage, make([]byte, 320)))
	require.Len(t, again.hear(t, 160), 160)
	require.Len(t, s.Sessions("c1"), 2)
}

func TestScriptAndSend(t *testing.T) {
	t.Parallel()
	s := start(t, echoai.Config{})
	script := `[{"after":"10ms","send":{"type":"killAudio"}},{"after":"20ms","send":{"type":"transfer","data":{"destination":"1001"}}}]`
	c := open(t, s, "/silent?script="+url.QueryEscape(script), nil)
	for _, want := range []string{`{"type":"killAudio"}`, `{"type":"transfer","data":{"destination":"1001"}}`} {
		_, b, err := c.ReadMessage()
		require.NoError(t, err)
		require.JSONEq(t, want, string(b))
	}
	res := do(t, http.MethodPost, s, "/sessions/c1/send", `{"type":"clearMarks"}`)
	require.Equal(t, 200, res.status)
	_, b, err := c.ReadMessage()
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"clearMarks"}`, string(b))
	require.Equal(t, 404, do(t, http.MethodPost, s, "/sessions/other/send", `{}`).status)
	require.Equal(t, 400, do(t, http.MethodPost, s, "/sessions/c1/send", `{`).status)
	r := session(t, s, func(r echoai.Session) bool { return len(r.TextsSent) == 3 })
	require.Equal(t, "transfer", r.TextsSent[1].Type)
}
