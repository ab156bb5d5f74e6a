package media

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLegSteady reports a caller whose silence comes as packets: after a word, and once a leg.
func TestLegSteady(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, _ := r.open(r.spec("steady"))
	p := newPhone(t)
	p.call(sess)
	p.speak(tone(425, sampleRate, 4000))
	for try := 0; try < 10 && len(sess.Events()) == 0; try++ { // a busy machine fills in what comes too late
		p.speak(make([]int16, steadyQuiet+4*frameSamples))
	}
	event[LegSteady](t, sess)
	p.speak(make([]int16, steadyQuiet+4*frameSamples))
	require.Empty(t, sess.Events())
}

// TestPausesAreNotSteady looks for 0.8 s of silence in a row that came as packets: not speech, not what was filled in, and not what
// a sender of comfort noise says.
func TestPausesAreNotSteady(t *testing.T) {
	t.Parallel()
	silence, speech := make([]int16, frameSamples), tone(425, sampleRate, frameSamples)
	for name, c := range map[string]struct {
		pcm   func(frame int) []int16
		sent  func(frame int) bool
		noise bool
		agent []int16
		want  bool
	}{
		"silence":       {want: true},
		"speech":        {pcm: func(int) []int16 { return speech }},
		"words":         {pcm: func(i int) []int16 { return [][]int16{silence, speech}[i%39/38] }},
		"pauses":        {sent: func(i int) bool { return i%39 != 38 }},
		"comfort noise": {noise: true},
		"voice agent":   {agent: speech},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &Session{events: make(chan Event, 8)}
			p := &port{s: s}
			p.in.noise.on = c.noise
			agent := silence
			if c.agent != nil {
				agent = c.agent
			}
			for i := range 200 {
				pcm, sent := silence, true
				if c.pcm != nil {
					pcm = c.pcm(i)
				}
				if c.sent != nil {
					sent = c.sent(i)
				}
				p.watchLull(agent)
				p.watchPauses(pcm, sent, int64(i)*frameNS)
				p.in.noise.on = false
			}
			require.Equal(t, c.want, len(s.events) == 1)
			require.Equal(t, c.want || c.noise, p.steady.decided)
		})
	}
}

// TestWordsWaitForTheSteadyLeg: while the switch is likely at work on the leg, silence goes on and a word waits, whole.
func TestWordsWaitForTheSteadyLeg(t *testing.T) {
	t.Parallel()
	p := &port{queue: newPlayout(new(chunkPool), sampleRate)}
	p.queue.push(make([]int16, frameSamples))
	p.queue.push(tone(1000, sampleRate, 2*frameSamples))
	p.steady.until = steadyHold
	require.False(t, p.holdsWord(0), "silence is nothing to lose")
	require.Equal(t, frameSamples, p.queue.pull(make([]int16, frameSamples)))
	for at := frameNS; at < steadyHold; at += frameNS {
		require.True(t, p.holdsWord(at))
	}
	require.False(t, p.holdsWord(steadyHold))
	require.Equal(t, 2*frameSamples, p.queue.backlog())
}
