package media

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
)

// TestTapSpeaks has the leg get what the socket sends while the tap speaks, and clips at any time. What was queued for those who heard before is
// dropped with each change.
func TestTapSpeaks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tap, err := r.srv.OpenTap(t.Context(), r.spec("tap"))
	require.NoError(t, err)
	t.Cleanup(func() { tap.Close(CloseHangup) })
	ai := r.ai.next(t)
	sess := tap.Legs[0].Session
	p := newPhone(t)
	p.call(sess)
	p.speak(make([]int16, dsp.SampleRate/5))
	hears := func(hz float64) func() bool {
		return func() bool { return dsptest.Power(clearest(p.heard(), hz, dsp.SampleRate), hz, dsp.SampleRate) > -20 }
	}
	require.NoError(t, sess.Play(&Clip{Samples: dsptest.Tone(700, dsp.SampleRate, dsp.SampleRate/2)}), "a tap that may not speak plays clips")
	require.Eventually(t, hears(700), soon, tick)
	speak(t, sess, true)
	ai.say(dsptest.Tone(1000, 16000, 16000))
	ai.text(`{"type":"mark","data":{"name":"m"}}`)
	require.Eventually(t, hears(1000), soon, tick)
	ai.waitText(t, `"mark"`, `"m"`, `"playout"`)
	ai.say(dsptest.Tone(1400, 16000, 10*16000))
	ai.text(`{"type":"mark","data":{"name":"late"}}`)
	require.Eventually(t, hears(1400), soon, tick)
	before := sess.Stats().TapDropped
	sess.Speak(false)
	ai.waitText(t, `"mark"`, `"late"`, `"cleared"`)
	require.Zero(t, before)
	ai.say(dsptest.Tone(1800, 16000, 16000))
	require.Eventually(t, func() bool { return sess.Stats().TapDropped > before }, soon, tick)
	require.Less(t, dsptest.Power(clearest(p.heard(), 1800, dsp.SampleRate), 1800, dsp.SampleRate), -40.0)
}

// speak changes whether a tap speaks, and waits until it is so: what the socket sends before that is dropped.
func speak(t *testing.T, sess *Session, on bool) {
	t.Helper()
	sess.Speak(on)
	require.Eventually(t, func() (is bool) {
		sess.sh.do(func() { is = sess.spec.tap.speaks == on })
		return is
	}, soon, tick)
}

// TestTapSpeaksByBothLegs has both legs of a tap of two channels send the same.
func TestTapSpeaksByBothLegs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	spec := r.spec("pair")
	spec.Audio = AudioFormat{Channels: 2, SampleRateHz: 16000}
	tap, err := r.srv.OpenTap(t.Context(), spec)
	require.NoError(t, err)
	t.Cleanup(func() { tap.Close(CloseHangup) })
	ai := r.ai.next(t)
	caller, other := newPhone(t), newPhone(t)
	caller.call(tap.Legs[0].Session)
	other.call(tap.Legs[1].Session)
	speak(t, tap.Legs[0].Session, true)
	tone := dsptest.Tone(1000, 16000, 16000)
	both := make([]int16, 0, 2*len(tone))
	for _, s := range tone {
		both = append(both, s, s)
	}
	caller.speak(make([]int16, dsp.SampleRate/5))
	other.speak(make([]int16, dsp.SampleRate/5))
	ai.say(both)
	for _, p := range []*phone{caller, other} {
		require.Eventually(t, func() bool { return sounding(p.heard(), 1000) >= 9*dsp.SampleRate/10 }, soon, tick)
		require.LessOrEqual(t, sounding(p.heard(), 1000), 11*dsp.SampleRate/10, "each frame goes out once")
	}
	require.NoError(t, tap.Legs[0].Session.Play(&Clip{Samples: dsptest.Tone(700, dsp.SampleRate, dsp.SampleRate/2)}))
	for _, p := range []*phone{caller, other} {
		require.Eventually(t, func() bool { return sounding(p.heard(), 700) >= 4*dsp.SampleRate/10 }, soon, tick)
	}
}

// sounding counts the samples, in pieces of 10 ms, that are mostly a tone.
func sounding(pcm []int16, hz float64) (n int) {
	const piece = dsp.SampleRate / 100
	for ; len(pcm) >= piece; pcm = pcm[piece:] {
		if dsptest.Power(pcm[:piece], hz, dsp.SampleRate) > -20 {
			n += piece
		}
	}
	return n
}
