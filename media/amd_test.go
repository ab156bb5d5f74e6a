package media

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/amd"
	"github.com/ringmaster/ringmaster/media/amd/encoder"
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

// TestAMDListens has words listened to while the caller's voice goes on, and decides all the same.
func TestAMDListens(t *testing.T) {
	t.Parallel()
	if !encoder.Fast() {
		t.Skip("this processor lacks AVX2 and FMA, without which words aren't listened to")
	}
	r := newRig(t)
	spec := r.spec("amd-words")
	spec.AMD = &amd.Config{}
	sess, _ := r.open(spec)
	p := newPhone(t)
	p.call(sess)
	for i := range 40 { // syllables of a voice that doesn't pause
		p.speak(dsptest.Tone(float64(300+70*(i%7)), dsp.SampleRate, 640))
		p.speak(make([]int16, 160))
	}
	require.Equal(t, amd.KindVerdict, event[AMD](t, sess).Kind)
	heard := func() float64 { return testutil.ToFloat64(r.srv.metrics.listens.WithLabelValues("heard")) }
	require.Eventually(t, func() bool { return heard() > 0 }, 5*time.Second, 5*time.Millisecond)
}

// TestAMDListensTooLong counts a listen as late that had a processor in time, but whose answer comes after the verdict.
func TestAMDListensTooLong(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, eightKHz())
	sh, d := r.p.sh, amd.New(amd.Config{Words: true})
	r.p.rx.amd = d
	for i := range 40 {
		d.Feed(dsptest.Tone(float64(300+70*(i%7)), dsp.SampleRate, 640))
		d.Feed(make([]int16, 160))
		if said, listen := d.Wanted(); said != nil {
			r.p.rx.listen(said, listen)
		}
	}
	ev, ok := d.Next()
	require.True(t, ok)
	require.Equal(t, amd.KindVerdict, ev.Kind)
	sh.srv.tasks.Wait(t.Context())
	sh.drain()
	require.InDelta(t, 1, testutil.ToFloat64(sh.srv.metrics.listens.WithLabelValues("late")), 0)
}

// TestAMDWithoutWords wants nothing listened to.
func TestAMDWithoutWords(t *testing.T) {
	t.Parallel()
	srv, err := New(Config{NoWords: true})
	require.NoError(t, err)
	require.False(t, srv.listens)
	r := newRig(t)
	r.srv.listens = false
	spec := r.spec("amd-no-words")
	spec.AMD = &amd.Config{}
	sess, _ := r.open(spec)
	p := newPhone(t)
	p.call(sess)
	for i := range 40 {
		p.speak(dsptest.Tone(float64(300+70*(i%7)), dsp.SampleRate, 640))
		p.speak(make([]int16, 160))
	}
	require.Equal(t, amd.KindVerdict, event[AMD](t, sess).Kind)
	for _, result := range []string{"heard", "late", "failed"} {
		require.Zero(t, testutil.ToFloat64(r.srv.metrics.listens.WithLabelValues(result)))
	}
}
