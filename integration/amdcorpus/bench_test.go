package amdcorpus

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/amd"
)

// recordings makes one half of the corpus.
func recordings(tb testing.TB, half Half) []Recording {
	tb.Helper()
	samples, err := Plan(Seed)
	require.NoError(tb, err)
	samples = slices.DeleteFunc(samples, func(s Sample) bool { return s.Half != half })
	recs, err := Render(tb.Context(), open(tb), samples)
	require.NoError(tb, err)
	return recs
}

// open finds the synthesizer. Without it the test or benchmark is skipped, loudly.
func open(tb testing.TB) *Speech {
	tb.Helper()
	speech, err := OpenSpeech(tb.Context())
	if errors.Is(err, ErrNoSynthesizer) {
		tb.Skipf("NOT MEASURED: %v; install the packages espeak-ng and sox", err)
	}
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, speech.festival.close()) })
	return speech
}

// BenchmarkHeldOut prints the confusion matrix of the half that nothing was tuned on.
func BenchmarkHeldOut(b *testing.B) { benchmarkHalf(b, HeldOut) }

// BenchmarkTuning prints that of the tuning half, to compare.
func BenchmarkTuning(b *testing.B) { benchmarkHalf(b, Tuning) }

func benchmarkHalf(b *testing.B, half Half) {
	b.Helper()
	recs := recordings(b, half)
	var s Score
	for b.Loop() {
		s = Evaluate(recs)
	}
	require.NoError(b, s.Print(os.Stderr))
	b.ReportMetric(100*s.Right, "%right")
	b.ReportMetric(100*s.FalseMachines, "%persons-as-machine")
}

// BenchmarkFrame measures the detector on 20 ms of a voicemail.
func BenchmarkFrame(b *testing.B) {
	recs := recordings(b, Tuning)
	i := slices.IndexFunc(recs, func(r Recording) bool { return r.Category == VoicemailPlain })
	pcm := recs[i].PCM
	d, n := amd.New(amd.Config{Listen: time.Hour}), 0
	b.ReportAllocs()
	for b.Loop() {
		if n += frameSamples; n > len(pcm) {
			d, n = amd.New(amd.Config{Listen: time.Hour}), frameSamples
		}
		d.Feed(pcm[n-frameSamples : n])
		d.Next()
	}
}

// BenchmarkSources prints how the detector does on each source of either half: those that are held out have synthesizers, voices and recordings of
// their own.
func BenchmarkSources(b *testing.B) {
	have, missing, err := Sources(Seed)
	require.NoError(b, err)
	for _, name := range missing {
		b.Logf("NOT MEASURED: %s: its package is not installed, see .ci/speech", name)
	}
	speech := open(b)
	var t table
	for b.Loop() {
		t = table{}
		for i := range have {
			recs, err := Render(b.Context(), speech, have[i].Plan(Seed, judged))
			require.NoError(b, err)
			t.add(have[i].Name, recs)
		}
	}
	require.NoError(b, t.print(os.Stderr))
	if path := os.Getenv("RINGMASTER_AMD_WRONG"); path != "" {
		require.NoError(b, os.WriteFile(path, []byte(strings.Join(t.wrong, "\n")+"\n"), 0o600))
	}
	b.ReportMetric(100*t.worst(HeldOut).right(), "%right-at-worst")
}

// judged is the take of each source that is judged, and of training sources not trained on.
const judged = 1000
