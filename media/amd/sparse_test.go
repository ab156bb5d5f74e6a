package amd

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSparseHearingMissesNoBeep gives a beep behind a person's verdict at each place beside the frames that are heard then. Its
// report is the one that a detector gives which hears every frame.
func TestSparseHearingMissesNoBeep(t *testing.T) {
	t.Parallel()
	for shift := range 2 * sparse {
		t.Run(strconv.Itoa(shift), func(t *testing.T) {
			t.Parallel()
			at := 4 + float64(shift)*frameTime.Seconds()/2
			track := newTrack().silence(0.3).speech(0.6).silence(at-0.9).speech(1).silence(0.3).tone(0.3, 1000).silence(2).noise(20)
			evs := listen(Config{}, track.pcm, frameSamples)
			require.Len(t, evs, 3)
			require.Equal(t, ClassHuman, evs[0].Class)
			require.Equal(t, KindBeep, evs[2].Kind)

			all, d := []Event{}, New(Config{})
			for n := frameSamples; n <= len(track.pcm); n += frameSamples {
				if d.decided {
					d.hear((*[frameSamples]int16)(track.pcm[n-frameSamples:]))
				} else {
					d.Feed(track.pcm[n-frameSamples : n])
				}
				for ev, ok := d.Next(); ok; ev, ok = d.Next() {
					all = append(all, ev)
				}
			}
			require.Equal(t, all, evs)
		})
	}
}

// TestSparseHearing transforms one frame in four of a person who says nothing.
func TestSparseHearing(t *testing.T) {
	t.Parallel()
	d := New(Config{})
	d.Feed(newTrack().silence(0.3).speech(0.6).silence(3).noise(20).pcm)
	require.True(t, d.decided)
	before, transformed := d.frame+d.keeps, 0
	for range 100 {
		d.Feed(newTrack().silence(frameTime.Seconds()).noise(20).pcm)
		if d.keeps == 0 {
			transformed++
		}
	}
	require.Equal(t, 100/sparse, transformed)
	require.Equal(t, before+100, d.frame+d.keeps)
}
