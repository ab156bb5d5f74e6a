package media

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/netio"
	"github.com/ringmaster/ringmaster/media/rtp"
	"github.com/ringmaster/ringmaster/media/sip"
)

// clickLimit is the level above which what a cut adds to the spectrum is heard as a click, dB of full scale.
const clickLimit = -50

// TestCutsDontClick cuts a tone by everything that cuts what a caller hears, in each phase: at most 5 ms are heard behind the last whole frame, and
// no click. Under the race detector some phases do: make test has all of them without it besides.
func TestCutsDontClick(t *testing.T) {
	t.Parallel()
	tone := dsptest.Tone(440, dsp.SampleRate, 4*dsp.SampleRate)
	cut := make([]int16, 2*dsp.SampleRate)
	copy(cut, tone[:5+dsp.SampleRate/10])
	require.Greater(t, dsptest.Click(cut, dsp.SampleRate), float64(clickLimit), "a cut without a fade is one")

	clip, silence, soft := &Clip{Samples: tone}, make([]int16, dsp.SampleRate), slices.Repeat([]int16{ringBelow + 1}, dsp.SampleRate)
	say := func(r *portRig) { r.send(aiAudio(tone)) }
	play := func(r *portRig) { require.True(t, r.p.tx.extra.add(clip)) }
	music := func(r *portRig) { r.p.tx.extra.setHold(true, clip) }
	kill := func(r *portRig) { r.send(aiText(`{"type":"killAudio"}`)) }
	ring := func(r *portRig) {
		r.p.tx.extra.setRing(clip)
		for range ringAfter + 2 {
			r.turn()
			r.heard()
		}
	}
	const runsDry = "an AI that runs dry"
	phases := 6
	if raceEnabled {
		phases = 2
	}
	for name, c := range map[string]struct {
		begin, cut func(r *portRig)
		follows    bool // something is heard thereafter
	}{
		"killAudio":               {begin: say, cut: kill},
		"killAudio twice":         {begin: say, cut: func(r *portRig) { kill(r); kill(r) }},
		"killAudio around audio":  {begin: say, cut: func(r *portRig) { kill(r); r.send(aiAudio(tone[:dsp.FrameSamples])); kill(r) }},
		"mute":                    {begin: say, cut: func(r *portRig) { r.p.muted[FromAgent] = true }},
		"hold":                    {begin: say, cut: func(r *portRig) { r.p.tx.extra.setHold(true, nil) }},
		"a tap that falls silent": {begin: say, cut: func(r *portRig) { r.p.tx.killAudio() }},
		"a stopped clip":          {begin: play, cut: func(r *portRig) { r.p.tx.extra.stop() }},
		"a clip stopped twice":    {begin: play, cut: func(r *portRig) { r.p.tx.extra.stop(); r.p.tx.extra.stop() }},
		"killAudio of a clip":     {begin: play, cut: kill},
		"the end of music":        {begin: music, cut: func(r *portRig) { r.p.tx.extra.setHold(false, nil) }},
		"other music": {begin: music, follows: true, cut: func(r *portRig) {
			r.p.tx.extra.setHold(true, nil)
			r.p.tx.extra.setHold(true, &Clip{Samples: silence})
		}},
		"a clip over music": {begin: music, follows: true, cut: func(r *portRig) { require.True(t, r.p.tx.extra.add(&Clip{Samples: silence})) }},
		"music behind a clip": {begin: music, follows: true, cut: func(r *portRig) {
			require.True(t, r.p.tx.extra.add(&Clip{Samples: silence[:3*dsp.FrameSamples]}))
		}},
		"the end of ringback":       {begin: ring, cut: func(r *portRig) { r.p.tx.extra.setRing(nil) }},
		"ringback and the AI":       {begin: ring, follows: true, cut: func(r *portRig) { r.send(aiAudio(soft)) }},
		"ringback and a hold":       {begin: ring, cut: func(r *portRig) { r.p.tx.extra.setHold(true, nil) }},
		"ringback around a clip":    {begin: ring, follows: true, cut: func(r *portRig) { require.True(t, r.p.tx.extra.add(&Clip{Samples: silence[:480]})) }},
		"the end of it all at once": {begin: music, cut: func(r *portRig) { r.p.tx.extra.setHold(false, nil); kill(r); r.p.tx.extra.setRing(nil) }},
		runsDry:                     {begin: func(r *portRig) { r.send(aiAudio(tone[:6*dsp.FrameSamples+37])) }, cut: func(*portRig) {}},
	} {
		for _, rate := range []int{dsp.SampleRate, 16000} {
			t.Run(fmt.Sprintf("%s, %d Hz", name, rate), func(t *testing.T) {
				t.Parallel()
				worst := -200.0
				for frames := 3; frames < 3+phases; frames++ { // each ends at another phase
					r := newPortRig(t, eightKHz())
					r.connect()
					r.p.leg.setLeg(sip.Media{Remote: r.caller.Local, Codec: rtp.L16, Rate: rate, PT: l16PT, Dir: sip.Direction{Send: true, Recv: true}}, r.now)
					r.p.leg.speakAt = 0
					c.begin(r)
					var heard []int16
					for range frames {
						r.turn()
						heard = append(heard, r.heard()...)
					}
					before := len(heard)
					c.cut(r)
					for range 10 {
						r.turn()
						heard = append(heard, r.heard()...)
					}
					if name != runsDry && !c.follows && rate == dsp.SampleRate {
						require.LessOrEqual(t, loudTail(heard)-before, 5*dsp.SampleRate/1000, "the fade's length")
					}
					worst = max(worst, dsptest.Click(heard[before-rate/dsp.FramesPerSecond:], rate))
				}
				t.Logf("%.1f dBFS", worst)
				require.Less(t, worst, float64(clickLimit))
			})
		}
	}
}

// TestUnmuteDoesntClick: what was muted comes back without a click, too.
func TestUnmuteDoesntClick(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, eightKHz())
	r.connect()
	r.call()
	r.send(aiAudio(dsptest.Tone(440, dsp.SampleRate, 4*dsp.SampleRate)))
	var heard []int16
	for i := range 60 {
		r.p.muted[FromAgent] = i%7 < 3
		r.turn()
		heard = append(heard, r.heard()...)
	}
	require.Less(t, dsptest.Click(heard[dsp.FrameSamples:], dsp.SampleRate), float64(clickLimit))
	require.Greater(t, dsptest.Power(heard, 440, dsp.SampleRate), -20.0)
}

// TestPortsRest: a pair of ports serves no other call until packets of its last one can't come any more, unless there is no other.
func TestPortsRest(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, eightKHz())
	srv := r.p.s.srv
	now := time.Unix(1000, 0)
	srv.cfg.Clock = func() time.Time { return now }
	srv.cfg.RTPPortMin, srv.cfg.RTPPortMax = 19990, 19997 // four pairs, of ports that nobody is given by chance
	take := func() int {
		s, err := srv.bindRTP()
		require.NoError(t, err)
		port := int(s.Local.Port())
		require.NoError(t, s.Close())
		srv.ports.rest(port, now)
		return port
	}
	seen := map[int]bool{}
	for range 4 {
		now = now.Add(portRest / 10)
		seen[take()] = true
	}
	require.Len(t, seen, 4)
	first := take()
	require.Equal(t, 19990+(first-19990+2)%8, take(), "all rest: the one that has rested longest")
	now = now.Add(portRest)
	seen = map[int]bool{}
	for range 4 {
		seen[take()] = true
	}
	require.Len(t, seen, 4)
}

// TestPortsRestBeforeTheyAreFree: there is no moment at which a pair of ports that has served a call is free and doesn't rest.
func TestPortsRestBeforeTheyAreFree(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, eightKHz())
	srv := r.p.s.srv
	port, looked := int(r.p.leg.rtp.Local.Port()), false
	now := time.Unix(1000, 0)
	srv.cfg.Clock = func() time.Time { // its rest begins
		_, err := netio.OpenPair(srv.rtpIP, port)
		require.ErrorIs(t, err, netio.ErrPortInUse)
		looked = true
		return now
	}
	r.call()
	r.p.leg.closeRTP()
	require.True(t, looked)
	_, rests := srv.ports.restedFor(port, now)
	require.True(t, rests)
}
