package media

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/amd"
	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
)

// TestAMD reports a person to the call's owner and to the AI, though the caller is muted: whoever mutes a caller wants to know
// who that is all the more.
func TestAMD(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	spec := r.spec("amd")
	spec.AMD = &amd.Config{}
	sess, ai := r.open(spec)
	sess.SetMute(FromCaller, true)
	p := newPhone(t)
	p.call(sess)
	p.speak(make([]int16, 1600))
	p.speak(dsptest.Tone(300, dsp.SampleRate, 4800))
	p.speak(make([]int16, 2*dsp.SampleRate))
	ev := event[AMD](t, sess)
	require.Equal(t, amd.KindVerdict, ev.Kind)
	require.Equal(t, amd.ClassHuman, ev.Class)
	require.False(t, ev.Heard.IsZero())
	ai.waitText(t, `"type":"amd"`, `"event":"verdict"`, `"class":"human"`, `"confidence":0.`)
	i := slices.IndexFunc(ai.allTexts(), func(s string) bool { return strings.Contains(s, `"type":"amd"`) })
	require.Regexp(t, `"confidence":0\.\d{1,3}}`, ai.allTexts()[i])
	for _, s := range ai.heard() {
		require.Zero(t, s, "a muted caller is silence for the AI")
	}
}

// TestAMDOff reports nothing when nobody has asked.
func TestAMDOff(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, ai := r.open(r.spec("amd-off"))
	p := newPhone(t)
	p.call(sess)
	p.speak(dsptest.Tone(300, dsp.SampleRate, 4800))
	p.speak(make([]int16, 2*dsp.SampleRate))
	p.raw(101, true, []byte{1, 0x8a, 1, 0}, 0)
	event[DTMF](t, sess)
	for _, s := range ai.allTexts() {
		require.NotContains(t, s, `"amd"`)
	}
}
