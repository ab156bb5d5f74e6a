package media

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
)

// TestFinishEveryEncoding cuts and pads recordings of each encoding; what is padded is silence.
func TestFinishEveryEncoding(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	for _, encoding := range RecordingEncodings() {
		for name, tc := range map[string]struct{ head, length int64 }{
			"as it is": {0, sampleRate}, "longer": {0, 3 * sampleRate}, "shorter": {0, 1000},
			"head cut": {800, sampleRate}, "head padded": {-800, 2 * sampleRate}, "beyond": {3 * sampleRate, 800},
		} {
			t.Run(string(encoding)+" "+name, func(t *testing.T) {
				t.Parallel()
				lay, err := layoutOf(encoding)
				require.NoError(t, err)
				path := filepath.Join(t.TempDir(), "f.wav")
				b := lay.appendHeader(nil, sampleRate)
				for pos := range int64(sampleRate) {
					b = lay.appendSamples(b, []int16{markAt(pos, 0), markAt(pos, 1)})
				}
				require.NoError(t, os.WriteFile(path, b, 0o600))
				at := start.Add(time.Duration(tc.head * nsPerSample))
				info, err := FinishWAV(t.Context(), path, start, at, at.Add(time.Duration(tc.length*nsPerSample)))
				require.NoError(t, err)
				require.False(t, info.Partial)
				require.EqualValues(t, tc.length*nsPerSample, info.Duration)
				s := readStrict(t, path)
				require.EqualValues(t, tc.length, s.frames)
				soxi(t, path, s.frames)
				for i, got := range s.left {
					want := int16(0)
					if pos := int64(i) + tc.head; pos >= 0 && pos < sampleRate {
						want = wavInfo{format: lay.format}.samples(nil, lay.appendSamples(nil, []int16{markAt(pos, 0)}))[0]
					}
					if max(want-got, got-want) > 8 { // A-law has no zero
						require.Equal(t, want, got, "sample %d", i)
					}
				}
			})
		}
	}
}

// TestFinishWithoutAHeader makes recordings of files whose header never reached the disk.
func TestFinishWithoutAHeader(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	for _, size := range []int{0, 10, 44, 4000} {
		path := filepath.Join(t.TempDir(), "f.wav")
		require.NoError(t, os.WriteFile(path, make([]byte, size), 0o600))
		_, err := FinishWAV(t.Context(), path, start, start, start.Add(time.Second))
		require.NoError(t, err)
		require.Equal(t, sampleRate, readStrict(t, path).frames)
	}
}

// TestFinishRefusesImpossibleSpans keeps a wrong clock from filling the disk with silence.
func TestFinishRefusesImpossibleSpans(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f.wav")
	lay, err := layoutOf(RecordALaw)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, lay.appendHeader(nil, 0), 0o600))
	now := time.Now()
	for _, at := range [][2]time.Time{{{}, now}, {now, now.AddDate(1, 0, 0)}} {
		_, err = FinishWAV(t.Context(), path, now, at[0], at[1])
		require.ErrorIs(t, err, errRecordingFull)
	}
	require.Zero(t, readStrict(t, path).frames)
}

// TestJoinEncodings joins parts of every pair of encodings into each: what both hold is there, and one encoding holds for all.
func TestJoinEncodings(t *testing.T) {
	t.Parallel()
	for _, one := range RecordingEncodings() {
		for _, two := range RecordingEncodings() {
			for _, joined := range RecordingEncodings() {
				t.Run(string(one+" "+two+" in "+joined), func(t *testing.T) {
					t.Parallel()
					joinsEncodings(t, joined, one, two)
				})
			}
		}
	}
}

func joinsEncodings(t *testing.T, joined RecordingEncoding, encodings ...RecordingEncoding) {
	t.Helper()
	dir := t.TempDir()
	parts := make([]WAVPart, len(encodings))
	for i, encoding := range encodings {
		lay, err := layoutOf(encoding)
		require.NoError(t, err)
		b := lay.appendHeader(nil, sampleRate)
		for _, s := range dsptest.Tone(float64(500+500*i), sampleRate, sampleRate) {
			b = lay.appendSamples(b, []int16{s, 0})
		}
		parts[i] = WAVPart{Path: filepath.Join(dir, strconv.Itoa(i)), Offset: time.Duration(i) * 1500 * time.Millisecond}
		require.NoError(t, os.WriteFile(parts[i].Path, b, 0o600))
	}
	info, err := JoinWAV(filepath.Join(dir, "all.wav"), JoinSpec{Encoding: joined}, parts)
	require.NoError(t, err)
	require.Equal(t, 2500*time.Millisecond, info.Duration)
	s := readStrict(t, info.Path)
	soxi(t, info.Path, 20000)
	lay, err := layoutOf(joined)
	require.NoError(t, err)
	require.EqualValues(t, lay.format, s.format)
	require.Greater(t, dsptest.Power(s.left[:8000], 500, 8000), -20.0)
	require.Greater(t, dsptest.Power(s.left[12000:], 1000, 8000), -20.0)
	require.Equal(t, -1, onset(s.left[8000:12000]), "the gap is silent")
	require.Equal(t, -1, onset(s.right))
}
