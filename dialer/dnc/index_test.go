package dnc

import (
	"math/rand/v2"
	"testing"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/stretchr/testify/require"
)

// Pages of every fill, at the edges of everything, answer as the bitmap does that they were made of.
func TestIndexAnswersAsItsBitmap(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // a test
	numbers, more := roaring64.BitmapOf(0, 1e9, maxNumber-1), roaring64.BitmapOf(1e9, 6e9)
	var probes []uint64
	for i, fill := range []int{1, 2, 3, 4, 5, maxSparse - 1, maxSparse, maxSparse + 1, 30_000} {
		base := (uint64(i) + 100_000) << pageBits
		for range fill {
			numbers.Add(base + rng.Uint64N(1<<pageBits))
		}
		numbers.Add(base)
		for range 5000 {
			probes = append(probes, base+rng.Uint64N(1<<pageBits), base-1, base)
		}
	}
	numbers.AddRange(110_000<<pageBits, 110_001<<pageBits)
	for low := range uint64(1 << pageBits) {
		probes = append(probes, 110_000<<pageBits+low)
	}
	x, err := newIndex([]*roaring64.Bitmap{numbers, more})
	require.NoError(t, err)
	numbers.Or(more)
	require.Equal(t, numbers.GetCardinality(), x.numbers)
	for it := numbers.Iterator(); it.HasNext(); {
		require.True(t, x.contains(it.Next()))
	}
	for _, n := range append(probes, 0, 1, 1e9-1, 1e9+1, maxNumber-2, maxNumber-1, maxNumber, 1<<63) {
		require.Equal(t, numbers.Contains(n), x.contains(n), n)
	}
	none, err := newIndex(nil)
	require.NoError(t, err)
	require.Zero(t, none.numbers)
	require.False(t, none.contains(1e9))
}
