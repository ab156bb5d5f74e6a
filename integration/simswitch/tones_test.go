package simswitch

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKeyTones(t *testing.T) {
	t.Parallel()
	frame := func(n int, hz ...float64) []int16 {
		pcm := make([]int16, frameSamples)
		for i := range pcm {
			for _, f := range hz {
				pcm[i] += int16(6000 * math.Sin(2*math.Pi*f*float64(n*frameSamples+i)/sampleRate))
			}
		}
		return pcm
	}
	k := &keyTones{}
	var heard []byte
	for _, press := range [][]float64{{770, 1336}, nil, {770, 1336}, nil, {941, 1477}, {425}, {697, 1209}} {
		for n := range 5 {
			if d := k.feed(frame(n, press...)); d != 0 {
				heard = append(heard, d)
			}
		}
	}
	require.Equal(t, "55#1", string(heard))
}
