package amd

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// heard is what a detector wanted listened to, and its events.
type heard struct {
	listens []int
	audio   [][]int16
	at      []time.Duration
	events  []Event
}

// listenAnd has odds told for what is wanted; nobody listens where odds is nil.
func listenAnd(cfg Config, pcm []int16, size int, odds func(listen int) float64) heard {
	var h heard
	d := New(cfg)
	for len(pcm) > 0 {
		n := min(size, len(pcm))
		d.Feed(pcm[:n])
		pcm = pcm[n:]
		if said, listen := d.Wanted(); said != nil {
			h.listens, h.audio, h.at = append(h.listens, listen), append(h.audio, slices.Clone(said)), append(h.at, d.heard())
			if odds != nil {
				d.Hear(odds(listen), listen)
			}
		}
		for ev, ok := d.Next(); ok; ev, ok = d.Next() {
			h.events = append(h.events, ev)
		}
	}
	return h
}

// TestWanted wants the audio from just before the onset on, as often as Listens says, and nothing without Words.
func TestWanted(t *testing.T) {
	t.Parallel()
	pcm := greeting().noise(40).pcm
	undecided := func(int) float64 { return 0 }
	require.Empty(t, listenAnd(Config{}, pcm, frameSamples, undecided).listens)
	cfg := Config{Words: true, TonesOnly: true}
	h := listenAnd(cfg, pcm, frameSamples, undecided)
	require.Equal(t, []int{0, 1, 2}, h.listens)
	for i, said := range h.audio {
		since := time.Duration(len(said))*time.Second/SampleRate - lead
		require.InDelta(t, Listens()[i].Seconds(), since.Seconds(), 0.03)
		end := int(h.at[i] * SampleRate / time.Second)
		require.Equal(t, pcm[end-len(said):end], said)
	}
	require.Equal(t, h, listenAnd(cfg, pcm, frameSamples, undecided), "the same again")
}

// TestHear goes by what words tell, though the pattern of speech tells the contrary.
func TestHear(t *testing.T) {
	t.Parallel()
	pcm := greeting().noise(40).pcm
	verdict := func(odds float64) Event {
		return listenAnd(Config{Words: true}, pcm, frameSamples, func(int) float64 { return odds }).events[0]
	}
	require.Equal(t, ClassHuman, verdict(-8).Class)
	machine := verdict(8)
	require.Equal(t, ClassMachine, machine.Class)
	require.GreaterOrEqual(t, machine.Confidence, actedOn)
	without := listenAnd(Config{}, pcm, frameSamples, nil).events
	require.Equal(t, without, listenAnd(Config{Words: true}, pcm, frameSamples, nil).events, "nobody listens")
	require.Equal(t, without, listenAnd(Config{Words: true}, pcm, frameSamples, func(int) float64 { return math.NaN() }).events, "nobody could")
}

// TestHearEarly decides by words before the limit.
func TestHearEarly(t *testing.T) {
	t.Parallel()
	ev := listenAnd(Config{Words: true}, greeting().noise(40).pcm, frameSamples, func(int) float64 { return 12 }).events[0]
	require.Equal(t, ClassMachine, ev.Class)
	require.Less(t, ev.At, 500*time.Millisecond+Listens()[1])
}

// TestWantedWaitsForHear wants nothing while a listener still has the audio, which stays as it is.
func TestWantedWaitsForHear(t *testing.T) {
	t.Parallel()
	pcm := greeting().noise(40).pcm
	require.Equal(t, []int{0}, listenAnd(Config{Words: true, TonesOnly: true}, pcm, frameSamples, nil).listens)
	d := New(Config{Words: true})
	var said, kept []int16
	for n := frameSamples; n <= len(pcm); n += frameSamples {
		d.Feed(pcm[n-frameSamples : n])
		if s, _ := d.Wanted(); s != nil {
			said, kept = s, slices.Clone(s)
		}
	}
	require.NotEmpty(t, said)
	require.Equal(t, kept, said)
	require.False(t, d.Hear(5, 0), "too late")
	_, more := d.Next()
	require.True(t, more, "the verdict is there without it")
}

// TestWantedAfterTheVerdict wants nothing any more.
func TestWantedAfterTheVerdict(t *testing.T) {
	t.Parallel()
	pcm := newTrack().silence(0.4).speech(0.5).silence(4).noise(40).pcm
	h := listenAnd(Config{Words: true}, pcm, frameSamples, func(int) float64 { return 0 })
	require.Equal(t, ClassHuman, h.events[0].Class)
	for _, at := range h.at {
		require.Less(t, at, h.events[0].At)
	}
}

// TestHearOfAnotherVoice goes by no words of a voice that spoke before the one that is heard: what a television said, or ringback.
func TestHearOfAnotherVoice(t *testing.T) {
	t.Parallel()
	tv := newTrack().silence(0.3).speech(1.7).pcm
	for i := range tv {
		tv[i] /= 16
	}
	pcm := slices.Concat(tv, newTrack().speech(6).pcm)
	d := New(Config{Words: true, TonesOnly: true})
	var listens []int
	for n := frameSamples; n <= len(pcm); n += frameSamples {
		d.Feed(pcm[n-frameSamples : n])
		if said, listen := d.Wanted(); said != nil {
			d.Hear(8, listen)
			listens = append(listens, listen)
		}
		if n > len(tv)+samples(0.5) && n < len(tv)+samples(1.4) {
			require.Negative(t, d.ear.listen, "the person hasn't been listened to yet")
		}
	}
	require.Equal(t, []int{0, 0, 1, 2}, listens, "the television once, the person as often as anybody")
}

// TestRingbackIsNoSureMachine gives no verdict while it rings: nobody has answered yet.
func TestRingbackIsNoSureMachine(t *testing.T) {
	t.Parallel()
	for _, hz := range [][]float64{{440, 480}, {425}, {400, 450}} {
		pcm := newTrack().silence(0.2).tone(2, hz...).silence(0.6).noise(10).pcm
		for _, ev := range listen(Config{}, pcm, frameSamples) {
			if ev.Kind == KindVerdict && ev.Class == ClassMachine {
				require.LessOrEqual(t, ev.Confidence, ringSure, "%v: %v", hz, ev)
			}
		}
	}
}
