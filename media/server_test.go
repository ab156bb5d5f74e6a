package media

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/media/record"
)

func TestConfigFaults(t *testing.T) {
	t.Parallel()
	_, err := New(Config{SIPAddr: "x", RTPIP: "::1", RTPPortMin: 9, RTPPortMax: 3, Subprotocols: []string{"nope"}})
	require.Error(t, err)
	for _, want := range []string{"SIP address", "RTP address", "RTP ports", "subprotocol"} {
		require.ErrorContains(t, err, want, "all faults at once")
	}
}

// TestStartStop starts and stops servers in every order, with sessions in mid-call.
func TestStartStop(t *testing.T) {
	t.Parallel()
	ai := newFakeAI(t)
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			srv, err := New(Config{SIPAddr: "127.0.0.1:0", DialGuard: netguard.Policy{AllowLoopback: true}, Registerer: prometheus.NewRegistry()})
			if err != nil || srv.Start(t.Context()) != nil {
				t.Error("the server did not start")
				return
			}
			for range 3 {
				wg.Go(func() {
					// Whether it opens or the server is closed already, nothing may be left behind.
					_, _ = srv.Open(t.Context(), SessionSpec{ID: "x", URL: ai.url(), ReconnectFor: time.Second})
				})
			}
			ctx, cancel := context.WithTimeout(context.Background(), soon)
			defer cancel()
			if err := srv.Close(ctx); err != nil {
				t.Error(err)
			}
			if err := srv.Close(ctx); err != nil {
				t.Error("a second Close failed")
			}
		})
	}
	wg.Wait()
	srv, err := New(Config{SIPAddr: "127.0.0.1:0"})
	require.NoError(t, err)
	require.NoError(t, srv.Close(t.Context()), "before Start")
	require.ErrorIs(t, srv.Start(t.Context()), ErrServerClosed)
	_, err = srv.Open(t.Context(), SessionSpec{ID: "x"})
	require.ErrorIs(t, err, ErrServerClosed)
}

// TestOpensWhileItCloses proves that a session which a shard has, and Close doesn't know of yet, ends like the others: its AI is told, and its
// recording is whole.
func TestOpensWhileItCloses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	spec := r.spec("late")
	start := time.Now()
	spec.Recording = &record.Spec{Path: filepath.Join(t.TempDir(), "late.wav"), Start: start}
	require.NoError(t, r.srv.checkSpec(&spec))
	sess, err := r.srv.open(t.Context(), spec)
	require.NoError(t, err)
	ai := r.ai.next(t)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	require.NoError(t, r.srv.Close(ctx))
	sess.Close(CloseShutdown)
	select {
	case <-ai.done:
	case <-time.After(soon):
		require.FailNow(t, "the AI's socket stays open")
	}
	require.True(t, websocket.IsCloseError(ai.closeErr(), websocket.CloseGoingAway), ai.closeErr())
	_, err = sess.FinishRecording(start, start.Add(time.Millisecond))
	require.NoError(t, err)
	require.Zero(t, metric(t, r.srv.metrics.sessions))
}

// TestTwoOnOnePort refuses a second endpoint on the address of the first.
func TestTwoOnOnePort(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	srv, err := New(Config{SIPAddr: r.srv.SIPAddr()})
	require.NoError(t, err)
	require.ErrorContains(t, srv.Start(t.Context()), "binding SIP")
}

// TestPanicEndsOneSession proves that a fault in one session leaves the others alone.
func TestPanicEndsOneSession(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	bad, _ := r.open(r.spec("bad"))
	good, ai := r.open(r.spec("good"))
	p := newPhone(t)
	p.call(bad)
	r.faults = 1
	bad.sh.do(func() { bad.port.rx.up = nil })
	p.send(make([]int16, 160))
	require.ErrorIs(t, event[SocketClosed](t, bad).Err, errSessionFault)
	require.InDelta(t, 1, metric(t, r.srv.metrics.panics), 0)
	bad.Close(CloseError)
	p = newPhone(t)
	p.call(good)
	p.speak(dsptest.Tone(425, 8000, 1600))
	require.Eventually(t, func() bool { return len(ai.heard()) > 3000 }, soon, tick)
}

// TestPanicBesideTheTick proves that a fault in what others ask of a session ends that session, a paused socket's too, and that one in a
// goroutine beside the shards ends nothing.
func TestPanicBesideTheTick(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	bad, ai := r.open(r.spec("bad"))
	r.faults = 2
	bad.sh.do(func() { // a filter without coefficients
		d := bad.port.ai.sock.dec
		d.res, d.from, d.into = new(dsp.Resampler), 24000, bad.port.tx.queue.Rate
	})
	ai.Write(1, playFrame("raw", "24000", make([]byte, 2*inlineText)))
	require.Eventually(t, func() bool { return metric(t, r.srv.metrics.panics) == 1 }, soon, tick)
	require.Eventually(t, func() bool { return bad.Stats().BadFrames == 1 }, soon, tick)
	bad.post(func() { panic("injected") })
	require.ErrorIs(t, event[SocketClosed](t, bad).Err, errSessionFault)
	bad.Close(CloseError)
	_, ai = r.open(r.spec("good"))
	require.NotNil(t, ai)
}

// TestGauges returns to zero when all is over.
func TestGauges(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, _ := r.open(r.spec("gauge"))
	p := newPhone(t)
	p.call(sess)
	require.InDelta(t, 1, metric(t, r.srv.metrics.sessions), 0)
	require.Eventually(t, func() bool { return metric(t, r.srv.metrics.legs) == 1 }, soon, tick)
	sess.Close(CloseHangup)
	require.Eventually(t, func() bool { return metric(t, r.srv.metrics.sessions) == 0 && metric(t, r.srv.metrics.legs) == 0 }, soon, tick)
	families, err := r.reg.Gather()
	require.NoError(t, err)
	require.NotEmpty(t, families)
}
