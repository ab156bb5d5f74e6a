package amd

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTreeAsks walks to each leaf.
func TestTreeAsks(t *testing.T) {
	t.Parallel()
	b := []byte{0, 1, 1, 2, 2, 2, 2}
	for range Leaves - 1 {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(0.5))
	}
	for leaf := range Leaves {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(leaf)))
	}
	require.Len(t, b, treeSize)
	for leaf := range Leaves {
		x := []float64{float64(leaf >> 2 & 1), float64(leaf >> 1 & 1), float64(leaf & 1)}
		require.InDelta(t, float64(leaf), answer(string(b), x), 1e-9)
	}
	require.InDelta(t, 0.0, answer(string(b), []float64{0.5, 0.5, 0.5}), 1e-9, "a limit is not above itself")
}

// TestModel holds the model that is built in to its format.
func TestModel(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, model)
	require.Zero(t, len(model)%treeSize)
	for at := 0; at < len(model); at += treeSize {
		tree := model[at : at+treeSize]
		for _, input := range []byte(tree[:limitsAt]) {
			require.Less(t, int(input), InputCount)
		}
		for leaf := leavesAt; leaf < treeSize; leaf += 4 {
			require.Less(t, math.Abs(float64(number(tree[leaf:]))), 1.0)
		}
	}
}

// TestPitch finds the pitch of voices that the telephone has taken the fundamental from.
func TestPitch(t *testing.T) {
	t.Parallel()
	for _, hz := range []float64{90, 130, 180, 250, 330} {
		var harmonics []float64
		for h := math.Ceil(300 / hz); h*hz < 1500; h++ {
			harmonics = append(harmonics, h*hz)
		}
		s := newSpectrum()
		pcm := newTrack().tone(0.2, harmonics...).noise(100).pcm
		for n := frameSamples; n <= len(pcm); n += frameSamples {
			s.hear((*[frameSamples]int16)(pcm[n-frameSamples : n]))
		}
		require.InDelta(t, math.Log2(hz), float64(s.pitch()), 0.05, "%.0f Hz", hz)
	}
	s := newSpectrum()
	require.Zero(t, s.pitch(), "silence")
	pcm := newTrack().silence(0.2).noise(1000).pcm
	for n := frameSamples; n <= len(pcm); n += frameSamples {
		s.hear((*[frameSamples]int16)(pcm[n-frameSamples : n]))
	}
	require.Zero(t, s.pitch(), "noise")
}
