package words

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestModel holds the net that is built in to its format.
func TestModel(t *testing.T) {
	t.Parallel()
	n := 0
	new(Net).Numbers(func(*float32) { n++ })
	require.Len(t, model, 4*n)
	require.Equal(t, model, string(known().Append(nil)))
	idle := 0
	known().Numbers(func(v *float32) {
		require.Less(t, math.Abs(float64(*v)), 100.0)
		if *v == 0 {
			idle++
		}
	})
	require.Less(t, idle, n/10, "a net that was trained")
}

// TestOdds computes a small net's odds by hand: its first unit sees a bump, wherever it is.
func TestOdds(t *testing.T) {
	t.Parallel()
	n := new(Net)
	n.Weight[2*Width+7][0], n.Bias[0], n.Mean[0], n.Max[0], n.Shift = 2, -1, 10, 1, 0.5
	pairs := make([]float32, 11*Width) // four windows
	require.InDelta(t, 0.5, n.Odds(pairs), 1e-6)
	pairs[6*Width+7] = 3 // the middle of the third
	require.InDelta(t, 0.5+10*5.0/4+5, n.Odds(pairs), 1e-5)
	require.Zero(t, n.Odds(pairs[:Inputs-1]), "less than a window")
	require.Zero(t, n.Odds(nil))
}

// TestHalve makes means, and leaves an odd frame out.
func TestHalve(t *testing.T) {
	t.Parallel()
	frames := make([]float32, 5*Width)
	for i := range frames {
		frames[i] = float32(i / Width)
	}
	half := Halve(frames)
	require.Len(t, half, 2*Width)
	require.InDelta(t, 0.5, half[0], 1e-6)
	require.InDelta(t, 2.5, half[2*Width-1], 1e-6)
}

// TestListener takes whatever there is.
func TestListener(t *testing.T) {
	t.Parallel()
	l := New()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 300, 8000, 23000, 60000} {
		pcm := make([]int16, n)
		require.False(t, math.IsNaN(l.Odds(pcm)), "silence")
		for i := range pcm {
			pcm[i] = int16(rng.IntN(1<<16) - 1<<15)
		}
		first := l.Odds(pcm)
		require.False(t, math.IsNaN(first) || math.IsInf(first, 0))
		l.Odds(make([]int16, 8000))
		require.InDelta(t, first, l.Odds(pcm), 0, "whatever was heard before")
	}
}

// TestListenerAllocatesNothing, once it exists.
func TestListenerAllocatesNothing(t *testing.T) { //nolint:paralleltest // it counts allocations
	l, pcm := New(), make([]int16, 16000)
	require.Zero(t, testing.AllocsPerRun(20, func() { l.Odds(pcm) }))
}

func BenchmarkOdds(b *testing.B) {
	l, pcm := New(), make([]int16, 21920)
	for i := range pcm {
		pcm[i] = int16(i * 7919)
	}
	b.ReportAllocs()
	for b.Loop() {
		l.Odds(pcm)
	}
}

func BenchmarkNet(b *testing.B) {
	pairs := make([]float32, 56*Width)
	for b.Loop() {
		known().Odds(pairs)
	}
}
