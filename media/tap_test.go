package media

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/amd"
	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/record"
)

// TestTapMixed sends what the leg brings to the socket, and nothing the other way: what the AI says and plays is dropped and
// counted, its marks are cleared.
func TestTapMixed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tap, err := r.srv.OpenTap(t.Context(), r.spec("tap"))
	require.NoError(t, err)
	t.Cleanup(func() { tap.Close(CloseHangup) })
	ai := r.ai.next(t)
	require.Len(t, tap.Legs, 1)
	require.Equal(t, TapMixed, tap.Legs[0].Side)
	require.InDelta(t, 1, testutil.ToFloat64(r.srv.metrics.tapLegs), 0)
	require.InDelta(t, 0, testutil.ToFloat64(r.srv.metrics.sessions), 0, "a tap is no session of a voice agent")
	sess := tap.Legs[0].Session
	p := newPhone(t)
	p.call(sess)
	ai.say(dsptest.Tone(1000, 16000, 16000))
	ai.text(`{"type":"playAudio","data":{"audioContentType":"raw","sampleRate":8000,"audioContent":"AAAAAAAAAAA="}}`)
	ai.text(`{"type":"mark","data":{"name":"m"}}`)
	p.speak(dsptest.Tone(425, dsp.SampleRate, dsp.SampleRate))
	ai.waitText(t, `"mark"`, `"m"`, `"cleared"`)
	require.Eventually(t, func() bool { return len(ai.heard()) > 12000 }, soon, tick)
	require.Greater(t, dsptest.Power(clearest(ai.heard(), 425, 16000), 425, 16000), -20.0)
	require.Eventually(t, func() bool { return len(p.heard()) > 4000 }, soon, tick, "silence goes out: the switch ends a leg that sends nothing")
	for _, s := range p.heard() {
		require.Zero(t, s)
	}
	st := tap.Close(CloseHangup)
	require.GreaterOrEqual(t, st.TapDropped, uint64(2))
	<-p.bye
	require.Eventually(t, func() bool { return testutil.ToFloat64(r.srv.metrics.tapLegs) == 0 }, soon, tick, "after the closing handshake")
}

// TestTapTwoChannels has the caller on the left and the other side on the right, in step, by two legs; a side whose leg is not
// up is silence.
func TestTapTwoChannels(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	spec := r.spec("pair")
	spec.Audio = AudioFormat{Channels: 2, SampleRateHz: 16000}
	tap, err := r.srv.OpenTap(t.Context(), spec)
	require.NoError(t, err)
	t.Cleanup(func() { tap.Close(CloseHangup) })
	ai := r.ai.next(t)
	require.Len(t, tap.Legs, 2)
	require.Equal(t, TapCaller, tap.Legs[0].Side)
	require.Equal(t, TapOther, tap.Legs[1].Side)
	caller, other := newPhone(t), newPhone(t)
	caller.call(tap.Legs[0].Session)
	caller.speak(dsptest.Tone(425, dsp.SampleRate, dsp.SampleRate)) // alone for a second
	other.call(tap.Legs[1].Session)
	done := make(chan struct{})
	go func() {
		defer close(done)
		other.speak(dsptest.Tone(1000, dsp.SampleRate, 2*dsp.SampleRate))
	}()
	caller.speak(dsptest.Tone(425, dsp.SampleRate, 2*dsp.SampleRate))
	<-done
	var left, right []int16
	require.Eventually(t, func() bool {
		left, right = left[:0], right[:0]
		for i, s := range ai.heard() {
			if i%2 == 0 {
				left = append(left, s)
			} else {
				right = append(right, s)
			}
		}
		return len(left) > 42000
	}, soon, tick)
	alone := right[3000:12000]
	for _, s := range alone {
		require.Zero(t, s, "the other side's leg is not up yet")
	}
	both := func(pcm []int16, own, foreign float64) {
		pcm = clearest(pcm[24000:], own, 16000)
		require.Greater(t, dsptest.Power(pcm, own, 16000), -20.0)
		require.Greater(t, dsptest.Power(pcm, own, 16000)-dsptest.Power(pcm, foreign, 16000), 40.0)
	}
	both(left, 425, 1000)
	both(right, 1000, 425)
	tap.Close(CloseHangup)
	<-caller.bye
	<-other.bye
}

// TestTapForDetector needs no socket: the detector hears the caller's side.
func TestTapForDetector(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tap, err := r.srv.OpenTap(t.Context(), SessionSpec{ID: "amd-tap", CallID: "amd-tap", AMD: &amd.Config{}})
	require.NoError(t, err)
	t.Cleanup(func() { tap.Close(CloseHangup) })
	require.Len(t, tap.Legs, 1)
	require.Equal(t, TapCaller, tap.Legs[0].Side)
	p := newPhone(t)
	p.call(tap.Legs[0].Session)
	p.speak(make([]int16, 1600))
	p.speak(dsptest.Tone(300, dsp.SampleRate, 4800))
	p.speak(make([]int16, 2*dsp.SampleRate))
	ev := event[AMD](t, tap.Legs[0].Session)
	require.Equal(t, amd.ClassHuman, ev.Class)
	st := tap.Close(CloseHangup)
	require.Zero(t, st.FramesDropped, "there is no socket that misses frames")
	<-p.bye
}

// TestTapPair pads the side that is late and drops nothing of the one that is not.
// It counts allocations, so it runs alone.
func TestTapPair(t *testing.T) {
	up, err := newUplink(AudioFormat{Encoding: EncodingPCM, SampleRateHz: dsp.SampleRate, Channels: 2, FrameMS: 20})
	require.NoError(t, err)
	up.resRight, err = dsp.NewResampler(dsp.SampleRate, dsp.SampleRate)
	require.NoError(t, err)
	p := assemble(&portCore{s: &Session{}, sh: &shard{}})
	p.rx.up = up
	pair := &tapPair{main: p}
	frame := dsptest.Tone(500, dsp.SampleRate, dsp.FrameSamples)
	for i := range 10 {
		pair.Put(TapCaller, frame, 0)
		want := max(0, i+1-tapSkew/dsp.FrameSamples) * dsp.FrameSamples
		require.Equal(t, uint64(want/dsp.FrameSamples), p.stats.FramesDropped, "frames that were ready, to a socket that is not there")
	}
	require.Equal(t, tapSkew, pair.side[record.Left].n)
	pair.Put(TapOther, frame, 0)
	require.Equal(t, tapSkew-dsp.FrameSamples, pair.side[record.Left].n)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		pair.Put(TapCaller, frame, 0)
		pair.Put(TapOther, frame, 0)
	}), "nothing is allocated per frame")
}
