package amdcorpus

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/amd"
)

// recordings makes one half of the corpus. Without the synthesizer the test or benchmark is skipped, loudly.
func recordings(tb testing.TB, half Half) []Recording {
	tb.Helper()
	samples, err := Plan(Seed)
	require.NoError(tb, err)
	samples = slices.DeleteFunc(samples, func(s Sample) bool { return s.Half != half })
	speech, err := OpenSpeech(tb.Context())
	if errors.Is(err, ErrNoSynthesizer) {
		tb.Skipf("NOT MEASURED: %v; install the packages espeak-ng and sox", err)
	}
	require.NoError(tb, err)
	recs, err := Render(tb.Context(), speech, samples)
	require.NoError(tb, err)
	return recs
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
