package media

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
)

// wavHeader is the header of a PCM recording of so many bytes.
func wavHeader(dataLen int64) []byte {
	lay, err := layoutOf(RecordPCM)
	if err != nil {
		return nil
	}
	return lay.appendHeader(nil, dataLen/stereoBytes)
}

// writeWAV writes a WAV file of 16-bit samples.
func writeWAV(t *testing.T, path string, rate, channels int, pcm []int16) {
	t.Helper()
	h := wavHeader(int64(2 * len(pcm)))
	binary.LittleEndian.PutUint16(h[22:], uint16(channels))
	binary.LittleEndian.PutUint32(h[24:], uint32(rate))
	require.NoError(t, os.WriteFile(path, append(h, pcmBytes(pcm)...), 0o600))
}

// TestRecordingIsPlayable reads the file while the call goes on: its header is right at every flush.
func TestRecordingIsPlayable(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	spec := r.spec("crash")
	path := filepath.Join(t.TempDir(), "crash.wav")
	spec.Recording = &RecordingSpec{Path: path, Start: time.Now()}
	sess, _ := r.open(spec)
	p := newPhone(t)
	p.call(sess)
	p.speak(dsptest.Tone(425, 8000, 12000))
	require.Eventually(t, func() bool {
		b, err := os.ReadFile(path)
		if err != nil {
			return false
		}
		s, err := parseStrict(b)
		if !assert.NoError(t, err, "valid at every moment") {
			return true
		}
		for at := 0; at+800 <= s.frames; at += 200 {
			if dsptest.Power(s.left[at:at+800], 425, 8000) > -20 {
				return true
			}
		}
		return false
	}, soon, 50*time.Millisecond, "what was said is on the disk, in a valid file, while the call lives")
	_, err := sess.FinishRecording(time.Now(), time.Now())
	require.ErrorIs(t, err, ErrSessionOpen)
}

// TestRecordingAppend goes on in the file of a session that crashed: the gap is silence.
func TestRecordingAppend(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	path := filepath.Join(t.TempDir(), "a.wav")
	start := time.Now().Add(-3 * time.Second)
	half := make([]int16, 0, 32000)
	for _, s := range dsptest.Tone(425, 8000, 16000) {
		half = append(half, s, 0)
	}
	writeWAV(t, path, 8000, 2, half)
	spec := r.spec("append")
	spec.Reconnected = true
	spec.Recording = &RecordingSpec{Path: path, Start: start, Append: true}
	sess, ai := r.open(spec)
	ai.waitText(t, `"reconnect":true`)
	p := newPhone(t)
	p.call(sess)
	p.speak(dsptest.Tone(700, 8000, 8000))
	sess.Close(CloseHangup)
	info, err := sess.FinishRecording(start, start.Add(5*time.Second))
	require.NoError(t, err)
	require.Equal(t, 5*time.Second, info.Duration)
	require.EqualValues(t, wavHeaderSize+5*8000*4, info.Bytes)
	left, _ := readStereo(t, path)
	require.Greater(t, dsptest.Power(left[:15000], 425, 8000), -20.0)
	require.Equal(t, -1, onset(left[16100:23500]))
	require.Positive(t, onset(left[23500:]))
	require.Greater(t, dsptest.Power(clearest(left[23500:], 700, 8000), 700, 8000), -20.0)
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
			info, err := FinishWAV(t.Context(), path, start, start.Add(tc.answered), start.Add(tc.ended))
			require.NoError(t, err)
			require.Equal(t, max(tc.ended-tc.answered, 0), info.Duration)
			left, right := readStereo(t, path)
			require.Equal(t, left, right)
			require.InDelta(t, tc.onset, onset(left), 80)
		})
	}
	_, err := FinishWAV(t.Context(), filepath.Join(t.TempDir(), "none.wav"), start, start, start)
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
	info, err := JoinWAV(filepath.Join(dir, "all.wav"), JoinSpec{}, []WAVPart{
		{Path: filepath.Join(dir, "1.wav")},
		{Path: filepath.Join(dir, "2.wav"), Offset: 2 * time.Second},
		{Path: filepath.Join(dir, "3.wav"), Offset: 2500 * time.Millisecond},
	})
	require.NoError(t, err)
	require.Equal(t, 3500*time.Millisecond, info.Duration)
	require.True(t, info.Stereo)
	left, right := readStereo(t, info.Path)
	require.Greater(t, dsptest.Power(left[800:7000], 425, 8000), -20.0)
	require.Equal(t, -1, onset(right[:15900]))
	require.Equal(t, -1, onset(left[8100:15900]))
	require.Greater(t, dsptest.Power(right[16800:19000], 1000, 8000), -20.0)
	require.Greater(t, dsptest.Power(left[20800:23000], 425, 8000), -20.0)
	require.Greater(t, dsptest.Power(left[20800:23000], 1000, 8000), -20.0)
	_, err = JoinWAV(filepath.Join(dir, "bad.wav"), JoinSpec{}, []WAVPart{{Path: filepath.Join(dir, "none")}})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = JoinWAV(filepath.Join(dir, "bad.wav"), JoinSpec{Encoding: "mp3"}, []WAVPart{{Path: filepath.Join(dir, "1.wav")}})
	require.ErrorAs(t, err, new(*SpecError))
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
	info, err := JoinWAV(filepath.Join(dir, "all.wav"), JoinSpec{Mono: true}, []WAVPart{
		{Path: filepath.Join(dir, "0"), Offset: 500 * time.Millisecond},
		{Path: filepath.Join(dir, "1"), Offset: 2 * time.Second},
		{Path: filepath.Join(dir, "2"), Offset: 3 * time.Second},
	})
	require.NoError(t, err)
	require.Equal(t, 4*time.Second, info.Duration)
	require.False(t, info.Stereo)
	require.Equal(t, info.Bytes, int64(wavHeaderSize+4*8000*2))
	text, err := os.ReadFile(info.Path)
	require.NoError(t, err)
	wav, err := ParseWAV(text)
	require.NoError(t, err)
	require.Equal(t, 8000, wav.Rate)
	require.Len(t, text, int(info.Bytes))
	require.EqualValues(t, 1, text[22], "channels")
	require.EqualValues(t, 16, text[34], "bits")
	audio := wav.Channel(0)
	require.Equal(t, -1, onset(audio[:3990]))
	require.Greater(t, dsptest.Power(audio[4800:11000], 425, 8000), -20.0)
	require.Equal(t, -1, onset(audio[12010:15990]))
	require.Greater(t, dsptest.Power(audio[16800:23000], 1000, 8000), -20.0)
	require.Greater(t, dsptest.Power(audio[24800:31000], 700, 8000), -20.0)
	require.Greater(t, dsptest.Power(audio[24800:31000], 1500, 8000), -20.0)
}

func TestScanWAV(t *testing.T) {
	t.Parallel()
	good := wavHeader(8)
	file := slices.Concat(good, []byte{1, 0, 2, 0, 3, 0, 4, 0})
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
	alaw[20], alaw[22], alaw[34] = wavALaw, 1, 8
	pcm, _, err = decodeWAV(alaw)
	require.NoError(t, err)
	require.Len(t, pcm, 8)
}

func FuzzWAV(f *testing.F) {
	h := wavHeader(4)
	f.Add(append(h, 1, 2, 3, 4))
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
	info, err := scanWAV(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, 0, err
	}
	raw := b[info.dataAt : info.dataAt+info.dataLen]
	return mixDown(info.samples(make([]int16, 0, len(raw)*8/info.bits), raw), info.channels), info.rate, nil
}
