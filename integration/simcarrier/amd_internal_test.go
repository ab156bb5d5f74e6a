package simcarrier

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/amd"
)

// TestAnsweringMachineDetection lets the detector hear what a number's callee sends, by the same player and clips.
func TestAnsweringMachineDetection(t *testing.T) {
	t.Parallel()
	for _, voiceName := range []string{"tone:425", "tone:700", "tone:1000", "babble"} {
		for _, codecName := range []string{codecPCMU, codecPCMA} {
			for number, want := range map[string]amd.Class{
				"00": amd.ClassHuman, "13": amd.ClassHuman, "64": amd.ClassHuman, "71": amd.ClassHuman, "72": amd.ClassMachine,
				"73": amd.ClassHuman, "74": amd.ClassUnknown, "75": amd.ClassHuman, "76": amd.ClassHuman, "89": amd.ClassHuman,
			} {
				t.Run(voiceName+" "+codecName+" "+number, func(t *testing.T) {
					t.Parallel()
					spec, err := parseVoice(voiceName)
					require.NoError(t, err)
					c, _ := codecByName(codecName)
					evs := detect(BehaviourOf("98450000"+number), spec, c)
					require.NotEmpty(t, evs)
					require.Equal(t, amd.KindVerdict, evs[0].Kind)
					require.Equal(t, want, evs[0].Class, "%+v", evs)
					require.Less(t, evs[0].At, 4*time.Second)
					var after []amd.EventKind
					for _, ev := range evs[1:] {
						after = append(after, ev.Kind)
					}
					if number == "72" {
						require.Equal(t, []amd.EventKind{amd.KindGreetingEnd, amd.KindBeep}, after)
						require.InDelta(t, 9.4, evs[2].At.Seconds(), 0.25, "the beep ends after 9.4 s")
					} else {
						require.Empty(t, after)
					}
				})
			}
		}
	}
}

// detect plays 20 s of a callee to a detector.
func detect(b Behaviour, spec voiceSpec, c codec) []amd.Event {
	bank := newVoiceBank(1)
	st := &stream{voice: bank.get(b.voice(spec)), beep: bank.beep, quiet: bank.quiet, player: player{script: scriptFor(b, spec.kind)}}
	rng := rand.New(rand.NewPCG(1, 75))
	d := amd.New(amd.Config{})
	pcm := make([]int16, frameSamples)
	var out []amd.Event
	for range 20 * perSecond {
		k, at := st.player.next()
		if b == Lossy && rng.Float64() < lossRatio {
			for i := range pcm { // what conceals the loss
				pcm[i] = int16(0.6 * float64(pcm[i]))
			}
		} else {
			c.decode(pcm, st.payload(k, at, c))
		}
		d.Feed(pcm)
		for ev, ok := d.Next(); ok; ev, ok = d.Next() {
			out = append(out, ev)
		}
	}
	return out
}
