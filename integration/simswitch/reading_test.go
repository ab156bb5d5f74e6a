package simswitch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReading(t *testing.T) {
	t.Parallel()
	const begin = 1<<32 - 3*frameSamples // it wraps around
	heard := func(r *reading, packets int, marked ...int) (of []int) {
		for n := range packets {
			marker := false
			for _, k := range marked {
				marker = marker || n == k
			}
			if r.takes(uint32(begin+n*frameSamples), marker) {
				of = append(of, n)
			}
		}
		return of
	}
	require.Equal(t, []int{0, 1, 2, 3, 4, 5}, heard(new(reading), 6))
	require.Equal(t, []int{2, 3, 4, 5}, heard(&reading{flush: true}, 6), "a bridge has begun")
	require.Equal(t, []int{0, 1, 2, 4, 5}, heard(new(reading), 6, 0, 3), "a marker, but in the first packet")

	r := &reading{flush: true}
	require.False(t, r.takes(1000, false))
	require.True(t, r.takes(1000+2*frameSamples, false), "the timestamp doesn't go on")
	require.True(t, r.takes(9000, true), "speech after a pause")
}
