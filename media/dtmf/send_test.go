package dtmf

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
)

// TestDTMFSender follows two digits and a pause, frame by frame.
func TestDTMFSender(t *testing.T) {
	t.Parallel()
	keys, err := Parse("1wd", 50*time.Millisecond)
	require.NoError(t, err)
	var d Sender
	require.NoError(t, d.Add(keys))
	type sent struct {
		event    byte
		end      bool
		duration int
		ts       uint32
		marker   bool
	}
	var got []sent
	silent, ts := 0, uint32(4294967000)
	for frame := 0; ; frame++ {
		require.Less(t, frame, 100)
		what, p, marker := d.Step(ts, dsp.FrameSamples)
		if what == StepNone {
			break
		}
		if what == StepRest {
			silent++
		} else {
			require.Equal(t, byte(volume), p[1]&0x3f)
			got = append(got, sent{p[0], p[1]&0x80 != 0, int(binary.BigEndian.Uint16(p[2:])), d.ts, marker})
		}
		ts += dsp.FrameSamples
	}
	begin := uint32(4294967000)
	second := begin + (3+2+2+25)*dsp.FrameSamples // the digit of 60 ms, its end again twice, the rest, the pause
	require.Equal(t, []sent{
		{1, false, 160, begin, true},
		{1, false, 320, begin, false},
		{1, true, 480, begin, false},
		{1, true, 480, begin, false},
		{1, true, 480, begin, false},
		{15, false, 160, second, true},
		{15, false, 320, second, false},
		{15, true, 480, second, false},
		{15, true, 480, second, false},
		{15, true, 480, second, false},
	}, got)
	require.Equal(t, restFrames+25+restFrames, silent)
}

func TestParseKeys(t *testing.T) {
	t.Parallel()
	keys, err := Parse("0123456789*#ABCDabcdwW", 0)
	require.NoError(t, err)
	require.Len(t, keys, 22)
	require.Equal(t, Key{event: 0, frames: 8}, keys[0])
	require.Equal(t, Key{event: 12, frames: 8}, keys[16])
	require.Equal(t, Key{event: pauseKey, frames: 50}, keys[21])
	keys, err = Parse("5", time.Hour)
	require.NoError(t, err)
	require.Equal(t, 250, keys[0].frames, "no event outgrows its 16-bit field")
	for _, bad := range []string{"", "e", "1 2", "1,2", "٣", strings.Repeat("1", 100)} {
		_, err := Parse(bad, 0)
		require.ErrorIs(t, err, ErrDigits, bad)
	}
	_, err = Parse(strings.Repeat("1", 99), 0)
	require.NoError(t, err)
}
