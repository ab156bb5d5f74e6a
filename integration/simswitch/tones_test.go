package simswitch

import (
	"math"
	"testing"
	"time"

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

// settles waits until what is counted has not changed for a while.
func settles[N comparable](t *testing.T, unchanged time.Duration, count func() N) {
	t.Helper()
	last, since := count(), time.Now()
	require.Eventually(t, func() bool {
		if n := count(); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) >= unchanged
	}, 20*time.Second, time.Millisecond)
}

// tonal says that pcm is loud and nearly all of it at freq.
func tonal(pcm []int16, freq float64) bool {
	total := 0.0
	for _, s := range pcm {
		total += float64(s) * float64(s)
	}
	power := goertzel(pcm, freq)
	return total/float64(len(pcm)) > 1e5 && power*2/float64(len(pcm)) > 0.9*total
}

// goertzel is the squared amplitude at freq, scaled so that a pure tone gives total energy * len/2.
func goertzel(pcm []int16, freq float64) float64 {
	re, im := 0.0, 0.0
	for i, s := range pcm {
		a := 2 * math.Pi * freq * float64(i) / sampleRate
		re += float64(s) * math.Cos(a)
		im += float64(s) * math.Sin(a)
	}
	return re*re + im*im
}
