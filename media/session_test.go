package media

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	pion "github.com/pion/rtp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/media/record"
	"github.com/ringmaster/ringmaster/media/wav/wavtest"
	"github.com/ringmaster/ringmaster/media/ws"
)

// TestToneBothWays carries 425 Hz from the caller to the AI and 1000 Hz back, and finds each on its own side of the WAV.
func TestToneBothWays(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		proto string
		audio AudioFormat
	}{
		{"alpha 16 kHz", SubprotocolAlpha, AudioFormat{}},
		{"beta 8 kHz", SubprotocolBeta, AudioFormat{SampleRateHz: 8000}},
		{"beta 24 kHz", SubprotocolBeta, AudioFormat{SampleRateHz: 24000, FrameMS: 40}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			spec := r.spec("tone")
			spec.Subprotocol, spec.Audio = tc.proto, tc.audio
			path := filepath.Join(t.TempDir(), "call.wav")
			start := time.Now()
			spec.Recording = &record.Spec{Path: path, Start: start}
			sess, ai := r.open(spec)
			require.Equal(t, tc.proto, ai.proto)
			p := newPhone(t)
			p.call(sess)
			rate := sess.spec.Audio.SampleRateHz
			ai.say(dsptest.Tone(1000, rate, 2*rate)) // two seconds at once: faster than real time
			p.speak(dsptest.Tone(425, 8000, 16000))

			require.Eventually(t, func() bool { return len(ai.heard()) > rate && len(p.heard()) > 8000 }, soon, tick)
			mid := clearest(ai.heard(), 425, rate)
			require.Greater(t, dsptest.Power(mid, 425, rate), dsptest.Power(mid, 1000, rate)+40)
			require.Greater(t, dsptest.Power(mid, 425, rate), -20.0)
			frame := rate * sess.spec.Audio.FrameMS / 1000 * 2
			require.Equal(t, frame, ai.frameSizes()[0])

			back := p.heard()
			require.GreaterOrEqual(t, dsptest.Onset(back), 0)
			back = clearest(back, 1000, 8000)
			require.Greater(t, dsptest.Power(back, 1000, 8000), dsptest.Power(back, 425, 8000)+40)

			sess.Close(CloseHangup)
			ended := time.Now()
			info, err := sess.FinishRecording(start, ended)
			require.NoError(t, err)
			require.True(t, info.Stereo)
			require.InDelta(t, ended.Sub(start).Seconds(), info.Duration.Seconds(), 0.001)
			left, right := wavtest.ReadStereo(t, path)
			l, ro := dsptest.Onset(left), dsptest.Onset(right)
			require.GreaterOrEqual(t, l, 0)
			require.Positive(t, ro)
			left, right = clearest(left, 425, 8000), clearest(right, 1000, 8000)
			require.Greater(t, dsptest.Power(left, 425, 8000), dsptest.Power(left, 1000, 8000)+40)
			require.Greater(t, dsptest.Power(right, 1000, 8000), dsptest.Power(right, 425, 8000)+40)
		})
	}
}

// TestOnsets compares the distance of two onsets in the WAV with what the caller sent and heard, by the clock of the test.
func TestOnsets(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, eightKHz())
	w := record.NewWriter(record.NewMetrics())
	start := time.Unix(1_700_000_000, 0)
	path := filepath.Join(t.TempDir(), "call.wav")
	file := r.record(w, &record.Spec{Path: path, Start: start})
	began := r.now
	r.connect()
	r.callLaw(eventPT)
	h := r.talk(pion.Header{Version: 2, SSRC: 7}, make([]int16, dsp.SampleRate/2))
	spoken := r.now - dsp.FrameNS // a packet is sent when all of it was spoken
	r.send(aiAudio(dsptest.Tone(1000, dsp.SampleRate, dsp.SampleRate)))
	r.heard()
	heard := int64(0)
	for pcm := dsptest.Tone(425, dsp.SampleRate, dsp.SampleRate/2); len(pcm) > 0; pcm = pcm[dsp.FrameSamples:] {
		h = r.talk(h, pcm[:dsp.FrameSamples])
		if on := dsptest.Onset(r.heard()); on >= 0 && heard == 0 {
			heard = r.now + int64(on)*dsp.SampleNS
		}
	}
	require.NotZero(t, heard)
	r.p.ai.shutdown(ws.CloseNormal, CloseHangup, r.now)
	_, err := file.Finish(t.Context(), start, start.Add(time.Duration(r.now-began)))
	require.NoError(t, err)
	require.NoError(t, w.Close(t.Context()))
	left, right := wavtest.ReadStereo(t, path)
	inWAV := int64(dsptest.Onset(right)-dsptest.Onset(left)) * dsp.SampleNS
	require.InDelta(t, heard-spoken, inWAV, float64(3*dsp.Millisecond))
}

// TestPacing proves that a packet leaves in each 20 ms with continuous numbers, silence included, and none with a marker.
func TestPacing(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, eightKHz())
	r.connect()
	r.callLaw(eventPT)
	var last heardPacket
	for n := range 60 {
		if n == 20 {
			r.send(aiAudio(dsptest.Tone(1000, dsp.SampleRate, dsp.SampleRate/5)))
		}
		r.turn()
		packets := r.packets()
		require.Len(t, packets, 1)
		pk := packets[0]
		require.Len(t, pk.p, dsp.FrameSamples)
		if n > 0 {
			require.Equal(t, last.h.SequenceNumber+1, pk.h.SequenceNumber)
			require.EqualValues(t, dsp.FrameSamples, pk.h.Timestamp-last.h.Timestamp)
			require.Equal(t, last.h.SSRC, pk.h.SSRC)
		}
		require.False(t, pk.h.Marker)
		last = pk
	}
}

func TestHandshake(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, ai := r.open(r.spec("hs"))
	require.JSONEq(t, `{"call_id":"hs","sampleRate":16000}`, ai.waitText(t, "call_id"))
	r.ai.mu.Lock()
	require.Equal(t, "Bearer secret", r.ai.heads[0].Get("Authorization"))
	r.ai.mu.Unlock()

	_, err := r.srv.Open(t.Context(), r.spec("hs"))
	require.ErrorIs(t, err, ErrSessionExists)

	r.ai.refuse(http.StatusUnauthorized)
	_, err = r.srv.Open(t.Context(), r.spec("refused"))
	var he *ws.HandshakeError
	require.ErrorAs(t, err, &he)
	require.Equal(t, 401, he.Status)

	r.ai.refuse(0)
	r.ai.protocols(SubprotocolBeta)
	_, err = r.srv.Open(t.Context(), r.spec("proto"))
	require.ErrorIs(t, err, ws.ErrSubprotocol)

	spec := r.spec("unserved")
	spec.Subprotocol = "audio.gamma.org"
	_, err = r.srv.Open(t.Context(), spec)
	require.ErrorIs(t, err, ws.ErrSubprotocol)

	spec = r.spec("closed port")
	spec.URL = "ws://127.0.0.1:1/"
	_, err = r.srv.Open(t.Context(), spec)
	require.ErrorAs(t, err, &he)

	require.Equal(t, 1, r.sessions())
}

func (r *rig) sessions() int {
	r.srv.mu.Lock()
	defer r.srv.mu.Unlock()
	return len(r.srv.sessions)
}

func TestGuardRefusesLoopback(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.srv.cfg.DialGuard = netguard.Policy{}
	_, err := r.srv.Open(t.Context(), r.spec("guard"))
	require.ErrorIs(t, err, netguard.ErrForbidden)
}

// TestSilentAI dials a server that accepts connections and says nothing.
func TestSilentAI(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	spec := r.spec("silent")
	spec.URL = "ws://" + l.Addr().String()
	spec.DialTimeout = 100 * time.Millisecond
	_, err = r.srv.Open(t.Context(), spec)
	require.ErrorIs(t, err, ws.ErrDialTimeout)
}

func TestSpecErrors(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for field, change := range map[string]func(*SessionSpec){
		"id":                   func(s *SessionSpec) { s.ID = "" },
		"audio.encoding":       func(s *SessionSpec) { s.Audio.Encoding = "opus" },
		"audio.sample_rate_hz": func(s *SessionSpec) { s.Audio.SampleRateHz = 7000 },
		"audio.channels":       func(s *SessionSpec) { s.Audio.Channels = 3 },
		"audio.frame_ms":       func(s *SessionSpec) { s.Audio.FrameMS = 15 },
	} {
		spec := r.spec("x")
		change(&spec)
		_, err := r.srv.Open(t.Context(), spec)
		var se *SpecError
		require.ErrorAs(t, err, &se)
		require.Equal(t, field, se.Field)
	}
}

// TestRedialAfterTheThread: a socket that is up again when the session's thread has ended is closed, though it was handed over before.
func TestRedialAfterTheThread(t *testing.T) {
	t.Parallel()
	ai := newFakeAI(t)
	r := newSpecRig(t, SessionSpec{ID: "rig", URL: ai.url(), Subprotocol: SubprotocolAlpha, ReconnectFor: soon})
	s, sh := r.p.s, r.p.sh
	s.srv.cfg.DialGuard = netguard.Policy{AllowLoopback: true}
	s.closed = false
	s.redial(soon, errSocketDead)
	conn := ai.next(t)
	require.Eventually(t, func() bool { return len(sh.inbox) == 1 }, soon, tick)
	close(sh.quit)
	close(sh.ended)
	select {
	case <-conn.done:
	case <-time.After(soon):
		require.FailNow(t, "the socket is open")
	}
	s.srv.tasks.Wait(t.Context())
}

// TestKillAudio proves that audio which was queued for 30 s stops within 40 ms of audio.
func TestKillAudio(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, ai := r.open(r.spec("kill"))
	p := newPhone(t)
	p.call(sess)
	ai.say(dsptest.Tone(1000, 16000, 30*16000))
	ai.text(`{"type":"mark","data":{"name":"end"}}`)
	require.Eventually(t, func() bool { return len(p.heard()) > 4000 && dsptest.Onset(p.heard()) >= 0 }, soon, tick)
	ai.text(`{"type":"killAudio"}`)
	require.JSONEq(t, `{"type":"mark","data":{"name":"end","event":"cleared"}}`, ai.waitText(t, `"end"`))
	played := len(p.got()) // when the AI knows
	require.Eventually(t, func() bool {
		pk := p.got()
		return len(pk) > 0 && quiet(pk[len(pk)-1].p)
	}, soon, tick)
	loud := 0
	for _, pkt := range p.got()[played:] {
		if !quiet(pkt.p) {
			loud++
		}
	}
	require.LessOrEqual(t, loud, 15, "frames of 20 ms that were still loud; TestBargeIn has the exact figure")
}

func quiet(payload []byte) bool {
	s := make([]int16, len(payload))
	dsp.DecodeULaw(s, payload)
	for _, v := range s[min(32, len(s)):] {
		if v > 50 || v < -50 {
			return false
		}
	}
	return true
}

// TestMarks proves that a mark is answered when its audio has been played, in order, and at once when nothing is queued.
func TestMarks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, ai := r.open(r.spec("marks"))
	p := newPhone(t)
	p.call(sess)
	ai.text(`{"type":"mark","data":{"name":"zero"}}`)
	ai.waitText(t, "zero", "playout")
	sent := time.Now()
	ai.say(dsptest.Tone(1000, 16000, 4800)) // 300 ms
	ai.text(`{"type":"mark","data":{"name":"one"}}`)
	ai.say(dsptest.Tone(1000, 16000, 80*16000))
	ai.text(`{"type":"mark","data":{"name":"two"}}`)
	ai.waitText(t, "one", "playout")
	require.Greater(t, time.Since(sent), 250*time.Millisecond)
	ai.text(`{"type":"clearMarks"}`)
	ai.waitText(t, "two", "cleared")
}

// TestPlayAudio sends audio by JSON: raw and WAV, rates as number and as text, long enough to be decoded elsewhere.
func TestPlayAudio(t *testing.T) {
	t.Parallel()
	raw := base64.StdEncoding.EncodeToString(pcmBytes(dsptest.Tone(1000, 24000, 24000)))
	short := base64.RawStdEncoding.EncodeToString(pcmBytes(dsptest.Tone(1000, 8000, 800)))
	head := wavtest.Samples(8000, 2, nil)
	head[22], head[24], head[25], head[32] = 1, 0x22, 0x56, 2 // mono, 22,050 Hz
	file := base64.StdEncoding.EncodeToString(append(head[:40:40], append([]byte{0xff, 0xff, 0xff, 0xff}, pcmBytes(dsptest.Tone(1000, 22050, 22050))...)...))
	for name, frame := range map[string]string{
		"raw":   `{"type":"playAudio","data":{"audioContentType":"raw","sampleRate":24000,"audioContent":"` + raw + `","textContent":"hi"}}`,
		"short": `{"type":"playAudio","data":{"audioContentType":"raw","sampleRate":"8000","audioContent":"` + short + `"}}`,
		"wav":   `{"type":"playAudio","data":{"audioContentType":"wave","audioContent":"` + file + `"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			sess, ai := r.open(r.spec("play"))
			p := newPhone(t)
			p.call(sess)
			ai.text(frame)
			ai.text(`{"type":"mark","data":{"name":"done"}}`)
			ai.waitText(t, "done", "playout")
			n := 700
			if name != "short" {
				n = 7900
			}
			var heard []int16
			require.Eventually(t, func() bool { // the phone may not have read all of it yet
				heard = p.heard()
				heard = heard[max(0, dsptest.Onset(heard)):]
				return dsptest.Onset(heard) >= 0 && len(heard) > n
			}, soon, tick)
			require.Greater(t, dsptest.Power(heard[:n], 1000, 8000), -20.0)
		})
	}
}

// TestBadFrames sends what can't be understood; the call goes on.
func TestBadFrames(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, ai := r.open(r.spec("bad"))
	bad := []string{
		`{`, `[]`, `"x"`, `{"type":"mark"}`, `{"type":"mark","data":{}}`,
		`{"type":"playAudio","data":{"audioContent":"!!!!"}}`,
		`{"type":"playAudio","data":{"audioContentType":"mp3","audioContent":""}}`,
		`{"type":"playAudio","data":{"audioContentType":"raw","sampleRate":"fast","audioContent":""}}`,
		`{"type":"playAudio","data":{"audioContentType":"wav","audioContent":"AAAA"}}`,
		`{"type":"playAudio","data":{"audioContentType":"raw","audioContent":"AAAA"}}`,
		`{"type":"playAudio","data":{"audioContentType":"raw","audioContent":"` + strings.Repeat("!", 10000) + `"}}`,
	}
	for _, f := range bad {
		ai.text(f)
	}
	ai.Write(websocket.BinaryMessage, []byte{1, 2, 3})
	ai.text(`{"type":"dance"}`)
	ai.text(`{"type":"dance"}`)
	ai.text(`{"type":"json","data":{"a":1}}`)
	got := event[Text](t, sess)
	require.Equal(t, "json", got.Type)
	require.JSONEq(t, `{"a":1}`, string(got.Data))
	st := sess.Stats()
	require.EqualValues(t, len(bad)+1, st.BadFrames)
	require.EqualValues(t, 2, st.UnknownTexts)
	require.InDelta(t, float64(len(bad)+1), testutil.ToFloat64(r.srv.metrics.texts.WithLabelValues("bad")), 0)
}

func TestActorTexts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, ai := r.open(r.spec("texts"))
	ai.text(`{"type":"command","id":"c1","data":{"event":"hangup"}}`)
	require.Equal(t, Text{Type: "command", ID: "c1", Data: json.RawMessage(`{"event":"hangup"}`)}, event[Text](t, sess))
	ai.text(`{"type":"command","id":7}`)
	require.Equal(t, "7", event[Text](t, sess).ID)
	require.NoError(t, sess.SendCommandResult(CommandResult{ID: "c1", OK: true, Status: 200, Result: map[string]any{"x": 1}}))
	require.JSONEq(t, `{"type":"command_result","data":{"id":"c1","ok":true,"status":200,"result":{"x":1}}}`, ai.waitText(t, "command_result"))
	require.NoError(t, sess.SendText("call_state", map[string]string{"state": "held"}))
	ai.waitText(t, "call_state", "held")
	sess.Close(CloseDisconnect)
	require.ErrorIs(t, sess.SendText("call_state", nil), ErrSessionClosed)
	_, open := <-sess.Events()
	for open {
		_, open = <-sess.Events()
	}
	<-ai.done
	var ce *websocket.CloseError
	require.ErrorAs(t, ai.closeErr(), &ce)
	require.Equal(t, 1000, ce.Code)
	require.Equal(t, "disconnect", ce.Text)
}

func TestCleanClose(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, ai := r.open(r.spec("clean"))
	ai.Close(websocket.CloseNormalClosure)
	got := event[SocketClosed](t, sess)
	require.Equal(t, SocketClosed{Code: 1000, Clean: true}, got)
}

// TestReconnect breaks the socket: the caller hears noise, the new socket gets reconnect:true and what has waited.
func TestReconnect(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, ai := r.open(r.spec("again"))
	p := newPhone(t)
	p.call(sess)
	r.ai.refuse(http.StatusServiceUnavailable)
	require.NoError(t, ai.c.NetConn().Close())
	event[SocketBroken](t, sess)
	sess.UpdateMetadata(json.RawMessage(`{"call_id":"again","token":"new"}`))
	require.NoError(t, sess.SendText("token_refresh", map[string]string{"service_callback_token": "t2"}))
	require.Eventually(t, func() bool {
		pk := p.got()
		return len(pk) > 0 && pk[len(pk)-1].p[7] != 0xff
	}, soon, tick, "no comfort noise")
	r.ai.refuse(0)
	event[SocketReconnected](t, sess)
	ai = r.ai.next(t)
	require.JSONEq(t, `{"call_id":"again","token":"new","reconnect":true}`, ai.waitText(t, "call_id"))
	ai.waitText(t, "token_refresh", "t2")
	p.speak(dsptest.Tone(425, 8000, 4000))
	require.Eventually(t, func() bool { return dsptest.Power(clearest(ai.heard(), 425, 16000), 425, 16000) > -20 }, soon, tick)
	require.EqualValues(t, 1, sess.Stats().Reconnects)
}

func TestReconnectGivesUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for limit, refused := 2*time.Second, false; !refused; limit *= 2 { // a busy machine may have no handshake refused within it
		spec := r.spec("lost" + limit.String())
		spec.ReconnectFor = limit
		r.ai.refuse(0)
		sess, ai := r.open(spec)
		r.ai.refuse(http.StatusServiceUnavailable)
		ai.Close(websocket.CloseInternalServerErr)
		got := event[SocketClosed](t, sess)
		require.False(t, got.Clean)
		require.Error(t, got.Err)
		if _, refused = errors.AsType[*ws.HandshakeError](got.Err); !refused {
			require.LessOrEqual(t, limit, 16*time.Second, got.Err)
		}
	}

	spec := r.spec("never")
	spec.ReconnectFor = 0
	r.ai.refuse(0)
	sess, ai := r.open(spec)
	ai.Close(websocket.CloseInternalServerErr)
	got := event[SocketClosed](t, sess)
	require.Equal(t, 1011, got.Code)
	require.False(t, got.Clean)
	require.ErrorIs(t, sess.SendText("x", nil), ErrSessionClosed)
}

// TestSlowAI lets the AI read nothing: audio is dropped and counted, and the rest of the server goes on.
func TestSlowAI(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	spec := r.spec("slow")
	sess, _ := r.openStuck(spec)
	p := newPhone(t)
	p.call(sess)
	silence := make([]int16, dsp.FrameSamples)
	require.Eventually(t, func() bool {
		for range 100 { // far faster than real time: the point is the backlog
			p.send(silence)
		}
		return sess.Stats().FramesDropped > 0
	}, 20*time.Second, 30*time.Millisecond)
}

// openStuck opens a session with an AI that never reads.
func (r *rig) openStuck(spec SessionSpec) (*Session, net.Conn) {
	r.t.Helper()
	conns := make(chan net.Conn, 1)
	srv := http.Server{ReadHeaderTimeout: soon, Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		up := websocket.Upgrader{Subprotocols: []string{spec.Subprotocol}}
		c, err := up.Upgrade(w, req, nil)
		if err == nil {
			conns <- c.NetConn()
		}
	})}
	l, err := new(net.ListenConfig).Listen(r.t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(r.t, err)
	go func() { _ = srv.Serve(l) }()
	r.t.Cleanup(func() { _ = srv.Close() })
	spec.URL = "ws://" + l.Addr().String()
	sess, err := r.srv.Open(r.t.Context(), spec)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { sess.Close(CloseHangup) })
	c := <-conns
	tcp, ok := c.(*net.TCPConn)
	require.True(r.t, ok)
	require.NoError(r.t, tcp.SetReadBuffer(16<<10)) // what waits is to wait on our side
	r.t.Cleanup(func() { _ = c.Close() })
	return sess, c
}
