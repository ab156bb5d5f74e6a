package wav_test

import (
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

const perSample = int64(time.Second / wav.Rate)

// TestFinishEveryEncoding cuts and pads recordings of each encoding; what is padded is silence.
func TestFinishEveryEncoding(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	for _, encoding := range wav.Encodings() {
		for name, tc := range map[string]struct{ head, length int64 }{
			"as it is": {0, wav.Rate}, "longer": {0, 3 * wav.Rate}, "shorter": {0, 1000},
			"head cut": {800, wav.Rate}, "head padded": {-800, 2 * wav.Rate}, "beyond": {3 * wav.Rate, 800},
		} {
			t.Run(string(encoding)+" "+name, func(t *testing.T) {
				t.Parallel()
				lay, err := wav.LayoutOf(encoding)
				require.NoError(t, err)
				path := filepath.Join(t.TempDir(), "f.wav")
				b := lay.AppendHeader(nil, wav.Rate)
				for pos := range int64(wav.Rate) {
					b = lay.AppendSamples(b, []int16{wavtest.MarkAt(pos, 0), wavtest.MarkAt(pos, 1)})
				}
				require.NoError(t, os.WriteFile(path, b, 0o600))
				at := start.Add(time.Duration(tc.head * perSample))
				info, err := wav.Finish(t.Context(), path, start, at, at.Add(time.Duration(tc.length*perSample)))
				require.NoError(t, err)
				require.False(t, info.Partial)
				require.EqualValues(t, tc.length*perSample, info.Duration)
				s := wavtest.ReadStrict(t, path)
				require.EqualValues(t, tc.length, s.Frames)
				wavtest.Soxi(t, path, s.Frames)
				for i, got := range s.Left {
					want := int16(0)
					if pos := int64(i) + tc.head; pos >= 0 && pos < wav.Rate {
						want = wav.Info{Format: lay.Format}.AppendTo(nil, lay.AppendSamples(nil, []int16{wavtest.MarkAt(pos, 0)}))[0]
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
		_, err := wav.Finish(t.Context(), path, start, start, start.Add(time.Second))
		require.NoError(t, err)
		require.Equal(t, wav.Rate, wavtest.ReadStrict(t, path).Frames)
	}
}

// TestFinishRefusesImpossibleSpans keeps a wrong clock from filling the disk with silence.
func TestFinishRefusesImpossibleSpans(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f.wav")
	lay, err := wav.LayoutOf(wav.ALaw)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, lay.AppendHeader(nil, 0), 0o600))
	now := time.Now()
	for _, at := range [][2]time.Time{{{}, now}, {now, now.AddDate(1, 0, 0)}} {
		_, err = wav.Finish(t.Context(), path, now, at[0], at[1])
		require.ErrorIs(t, err, wav.ErrFull)
	}
	require.Zero(t, wavtest.ReadStrict(t, path).Frames)
}

// TestJoinEncodings joins parts of every pair of encodings into each: what both hold is there, and one encoding holds for all.
func TestJoinEncodings(t *testing.T) {
	t.Parallel()
	for _, one := range wav.Encodings() {
		for _, two := range wav.Encodings() {
			for _, joined := range wav.Encodings() {
				t.Run(string(one+" "+two+" in "+joined), func(t *testing.T) {
					t.Parallel()
					joinsEncodings(t, joined, one, two)
				})
			}
		}
	}
}

func joinsEncodings(t *testing.T, joined wav.Encoding, encodings ...wav.Encoding) {
	t.Helper()
	dir := t.TempDir()
	parts := make([]wav.Part, len(encodings))
	for i, encoding := range encodings {
		lay, err := wav.LayoutOf(encoding)
		require.NoError(t, err)
		b := lay.AppendHeader(nil, wav.Rate)
		for _, s := range dsptest.Tone(float64(500+500*i), wav.Rate, wav.Rate) {
			b = lay.AppendSamples(b, []int16{s, 0})
		}
		parts[i] = wav.Part{Path: filepath.Join(dir, strconv.Itoa(i)), Offset: time.Duration(i) * 1500 * time.Millisecond}
		require.NoError(t, os.WriteFile(parts[i].Path, b, 0o600))
	}
	info, err := wav.Join(filepath.Join(dir, "all.wav"), wav.JoinSpec{Encoding: joined}, parts)
	require.NoError(t, err)
	require.Equal(t, 2500*time.Millisecond, info.Duration)
	s := wavtest.ReadStrict(t, info.Path)
	wavtest.Soxi(t, info.Path, 20000)
	lay, err := wav.LayoutOf(joined)
	require.NoError(t, err)
	require.EqualValues(t, lay.Format, s.Format)
	require.Greater(t, dsptest.Power(s.Left[:8000], 500, 8000), -20.0)
	require.Greater(t, dsptest.Power(s.Left[12000:], 1000, 8000), -20.0)
	require.Equal(t, -1, dsptest.Onset(s.Left[8000:12000]), "the gap is silent")
	require.Equal(t, -1, dsptest.Onset(s.Right))
}
