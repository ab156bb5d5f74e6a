package wav_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/wav"
	"github.com/ringmaster/ringmaster/media/wav/wavtest"
)

// TestWAVHeaders compares our headers with what the format says, byte by byte.
func TestWAVHeaders(t *testing.T) {
	t.Parallel()
	lay, err := wav.LayoutOf(wav.ULaw)
	require.NoError(t, err)
	h := lay.AppendHeader(nil, 3)
	require.Equal(t, "RIFF\x38\x00\x00\x00WAVEfmt \x12\x00\x00\x00\x07\x00\x02\x00\x40\x1f\x00\x00\x80\x3e\x00\x00\x02\x00\x08\x00\x00\x00"+
		"fact\x04\x00\x00\x00\x03\x00\x00\x00data\x06\x00\x00\x00", string(h))
	_, err = wav.LayoutOf("opus")
	require.ErrorIs(t, err, wav.ErrEncoding)
	pcm, err := wav.LayoutOf("")
	require.NoError(t, err)
	huge := pcm.AppendHeader(nil, 1<<40)
	require.LessOrEqual(t, uint64(binary.LittleEndian.Uint32(huge[4:]))+8, uint64(1)<<32, "sizes that don't fit are the largest that do")
	require.True(t, bytes.HasPrefix(huge, []byte("RIFF")))
}

// writeWAV writes a WAV file of 16-bit samples.
func writeWAV(t *testing.T, path string, rate, channels int, pcm []int16) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, wavtest.Samples(rate, channels, pcm), 0o600))
}

func TestFinishWAV(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		answered, ended time.Duration
		onset           int
	}{
		"as it is":       {0, time.Second, 4000},
		"head is cut":    {250 * time.Millisecond, 900 * time.Millisecond, 2000},
		"head is padded": {-250 * time.Millisecond, 2 * time.Second, 6000},
		"cut beyond":     {5 * time.Second, 6 * time.Second, -1},
		"ends early":     {0, 400 * time.Millisecond, -1},
		"no time at all": {time.Second, 0, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "x.wav")
			pcm := make([]int16, 8000, 16000)
			for _, s := range dsptest.Tone(425, 8000, 4000) {
				pcm = append(pcm, s, s)
			}
			writeWAV(t, path, 8000, 2, pcm)
			info, err := wav.Finish(t.Context(), path, start, start.Add(tc.answered), start.Add(tc.ended))
			require.NoError(t, err)
			require.Equal(t, max(tc.ended-tc.answered, 0), info.Duration)
			left, right := wavtest.ReadStereo(t, path)
			require.Equal(t, left, right)
			require.InDelta(t, tc.onset, dsptest.Onset(left), 80)
		})
	}
	_, err := wav.Finish(t.Context(), filepath.Join(t.TempDir(), "none.wav"), start, start, start)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestJoinWAV lays a stereo file, a mono one at another rate and an overlapping one on one timeline.
func TestJoinWAV(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := make([]int16, 0, 16000)
	for _, s := range dsptest.Tone(425, 8000, 8000) {
		first = append(first, s, 0)
	}
	writeWAV(t, filepath.Join(dir, "1.wav"), 8000, 2, first)
	writeWAV(t, filepath.Join(dir, "2.wav"), 16000, 1, dsptest.Tone(1000, 16000, 16000))
	writeWAV(t, filepath.Join(dir, "3.wav"), 8000, 2, first)
	info, err := wav.Join(filepath.Join(dir, "all.wav"), wav.JoinSpec{}, []wav.Part{
		{Path: filepath.Join(dir, "1.wav")},
		{Path: filepath.Join(dir, "2.wav"), Offset: 2 * time.Second},
		{Path: filepath.Join(dir, "3.wav"), Offset: 2500 * time.Millisecond},
	})
	require.NoError(t, err)
	require.Equal(t, 3500*time.Millisecond, info.Duration)
	require.True(t, info.Stereo)
	left, right := wavtest.ReadStereo(t, info.Path)
	require.Greater(t, dsptest.Power(left[800:7000], 425, 8000), -20.0)
	require.Equal(t, -1, dsptest.Onset(right[:15900]))
	require.Equal(t, -1, dsptest.Onset(left[8100:15900]))
	require.Greater(t, dsptest.Power(right[16800:19000], 1000, 8000), -20.0)
	require.Greater(t, dsptest.Power(left[20800:23000], 425, 8000), -20.0)
	require.Greater(t, dsptest.Power(left[20800:23000], 1000, 8000), -20.0)
	_, err = wav.Join(filepath.Join(dir, "bad.wav"), wav.JoinSpec{}, []wav.Part{{Path: filepath.Join(dir, "none")}})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = wav.Join(filepath.Join(dir, "bad.wav"), wav.JoinSpec{Encoding: "mp3"}, []wav.Part{{Path: filepath.Join(dir, "1.wav")}})
	require.ErrorIs(t, err, wav.ErrEncoding)
	_, err = os.Stat(filepath.Join(dir, "bad.wav"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestJoinMono: what the switch recorded in mono stays so, though it begins after the answer; both sides of a stereo part are in it.
func TestJoinMono(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, hz := range []float64{425, 1000} {
		writeWAV(t, filepath.Join(dir, strconv.Itoa(i)), 8000, 1, dsptest.Tone(hz, 8000, 8000))
	}
	both := make([]int16, 0, 16000)
	left := dsptest.Tone(1500, 8000, 8000)
	for i, right := range dsptest.Tone(700, 8000, 8000) {
		both = append(both, left[i], right)
	}
	writeWAV(t, filepath.Join(dir, "2"), 8000, 2, both)
	info, err := wav.Join(filepath.Join(dir, "all.wav"), wav.JoinSpec{Mono: true}, []wav.Part{
		{Path: filepath.Join(dir, "0"), Offset: 500 * time.Millisecond},
		{Path: filepath.Join(dir, "1"), Offset: 2 * time.Second},
		{Path: filepath.Join(dir, "2"), Offset: 3 * time.Second},
	})
	require.NoError(t, err)
	require.Equal(t, 4*time.Second, info.Duration)
	require.False(t, info.Stereo)
	require.Equal(t, info.Bytes, int64(wav.HeaderSize+4*8000*2))
	text, err := os.ReadFile(info.Path)
	require.NoError(t, err)
	wav, err := wav.Parse(text)
	require.NoError(t, err)
	require.Equal(t, 8000, wav.Rate)
	require.Len(t, text, int(info.Bytes))
	require.EqualValues(t, 1, text[22], "channels")
	require.EqualValues(t, 16, text[34], "bits")
	audio := wav.Channel(0)
	require.Equal(t, -1, dsptest.Onset(audio[:3990]))
	require.Greater(t, dsptest.Power(audio[4800:11000], 425, 8000), -20.0)
	require.Equal(t, -1, dsptest.Onset(audio[12010:15990]))
	require.Greater(t, dsptest.Power(audio[16800:23000], 1000, 8000), -20.0)
	require.Greater(t, dsptest.Power(audio[24800:31000], 700, 8000), -20.0)
	require.Greater(t, dsptest.Power(audio[24800:31000], 1500, 8000), -20.0)
}

func TestScanWAV(t *testing.T) {
	t.Parallel()
	file := wavtest.Samples(8000, 2, []int16{1, 2, 3, 4})
	pcm, rate, err := decodeWAV(file)
	require.NoError(t, err)
	require.Equal(t, 8000, rate)
	require.Equal(t, []int16{1, 3}, pcm)
	for name, change := range map[string]func([]byte) []byte{
		"short":      func(b []byte) []byte { return b[:20] },
		"no RIFF":    func(b []byte) []byte { b[0] = 'X'; return b },
		"no data":    func(b []byte) []byte { return b[:36] },
		"float":      func(b []byte) []byte { b[20] = 3; return b }, // of 16 bits
		"12 bits":    func(b []byte) []byte { b[34] = 12; return b },
		"no channel": func(b []byte) []byte { b[22] = 0; return b },
		"short fmt":  func(b []byte) []byte { b[16] = 4; return b },
	} {
		_, _, err := decodeWAV(change(bytes.Clone(file)))
		require.Error(t, err, name)
	}
	alaw := bytes.Clone(file)
	alaw[20], alaw[22], alaw[34] = wav.FormatALaw, 1, 8
	pcm, _, err = decodeWAV(alaw)
	require.NoError(t, err)
	require.Len(t, pcm, 8)
}

func FuzzWAV(f *testing.F) {
	f.Add(wavtest.Samples(8000, 2, []int16{1, 2}))
	f.Fuzz(func(t *testing.T, b []byte) {
		pcm, rate, err := decodeWAV(b)
		if err == nil {
			require.Positive(t, rate)
			require.LessOrEqual(t, len(pcm), len(b))
		}
	})
}

// decodeWAV reads a whole WAV file into mono samples.
func decodeWAV(b []byte) (pcm []int16, rate int, err error) {
	info, err := wav.Scan(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, 0, err
	}
	raw := b[info.DataAt : info.DataAt+info.DataLen]
	return wav.MixDown(info.AppendTo(make([]int16, 0, len(raw)*8/info.Bits), raw), info.Channels), info.Rate, nil
}
