package wav

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/wav/wavtest"
)

func writeFile(t *testing.T, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

func TestCheckWAV(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stereo := wavtest.PCM(2, 1500*time.Millisecond, 7)
	list := append(bytes.Clone(stereo), "LIST\x05\x00\x00\x00hello\x00"...)
	for name, c := range map[string]struct {
		content []byte
		want    []byte // after the check
	}{
		"complete":                  {stereo, stereo},
		"a chunk after the data":    {list, list},
		"sizes never written":       {wavtest.Patched(wavtest.Patched(stereo, 4, 0), 40, 0), stereo},
		"sizes of an unknown end":   {wavtest.Patched(wavtest.Patched(stereo, 4, 0xFFFFFFFF), 40, 0xFFFFFFFF), stereo},
		"sizes of an earlier flush": {wavtest.Patched(wavtest.Patched(stereo, 4, 36+800), 40, 800), stereo},
		"half a frame at the end":   {append(bytes.Clone(stereo), 1, 2), stereo},
		"an odd byte at the end":    {append(bytes.Clone(stereo), 1), stereo},
	} {
		path := writeFile(t, dir, name, c.content)
		written := time.Now().Add(-2 * time.Hour).Truncate(time.Second)
		require.NoError(t, os.Chtimes(path, written, written))
		info, err := Check(path)
		require.NoError(t, err, name)
		require.Equal(t, 2, info.Channels, name)
		require.Equal(t, 8000, info.Rate, name)
		require.Equal(t, 1500*time.Millisecond, info.Duration(), name)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, c.want, got, name)
		at, err := os.Stat(path)
		require.NoError(t, err)
		require.WithinDuration(t, written, at.ModTime(), 0, "adoption is repeated when it fails: by that time the part's place is found")
	}
	info, err := Check(writeFile(t, dir, "mono", wavtest.PCM(1, time.Second, 1)))
	require.NoError(t, err)
	require.Equal(t, 1, info.Channels)
	require.Equal(t, time.Second, info.Duration())
}

// TestCheckG711 corrects all three sizes that a killed writer may have left behind.
func TestCheckG711(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := wavtest.ULaw(1500*time.Millisecond, 7)
	for name, content := range map[string][]byte{
		"complete": good, "sizes never written": wavtest.Patched(wavtest.Patched(wavtest.Patched(good, 4, 50), 46, 0), 54, 0),
		"fact alone": wavtest.Patched(good, 46, 99), "half a frame": append(bytes.Clone(good), 1),
	} {
		path := writeFile(t, dir, name, content)
		info, err := Check(path)
		require.NoError(t, err, name)
		require.Equal(t, 1500*time.Millisecond, info.Duration(), name)
		require.Equal(t, 2, info.Channels)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, good, got, name)
	}
}

func TestCheckWAVRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := wavtest.PCM(2, time.Second, 7)
	muLaw := bytes.Clone(good)
	muLaw[20] = 7
	for name, content := range map[string][]byte{
		"empty":         {},
		"short":         good[:30],
		"no header":     bytes.Repeat([]byte("x"), 100),
		"no wave":       append([]byte("RIFF\x00\x00\x00\x00AVI "), good[12:]...),
		"no data chunk": good[:36],
		"no audio":      wavtest.PCM(2, 0, 0),
		"no format":     append(bytes.Clone(good[:12]), good[36:]...),
		"mu-law":        muLaw,
		"no rate":       wavtest.Patched(good, 24, 0),
		"format size":   wavtest.Patched(good, 16, 0xFFFFFFF0),
	} {
		_, err := Check(writeFile(t, dir, name, content))
		var bad *FileError
		require.ErrorAs(t, err, &bad, name)
	}
	_, err := Check(filepath.Join(dir, "missing"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func FuzzReadWAV(f *testing.F) {
	good := wavtest.PCM(2, 10*time.Millisecond, 7)
	f.Add(good)
	f.Add(wavtest.Patched(good, 40, 0))
	f.Add(wavtest.Patched(wavtest.ULaw(10*time.Millisecond, 1), 46, 3))
	f.Add(append(bytes.Clone(good), "LIST\x00\x00\x00\x00"...))
	f.Fuzz(func(t *testing.T, content []byte) {
		path := writeFile(t, t.TempDir(), "f.wav", content)
		info, err := Check(path)
		if err != nil {
			return
		}
		require.Positive(t, info.frames)
		again, err := Check(path)
		require.NoError(t, err)
		require.False(t, again.sizes.stale, "one check corrects all")
		require.Equal(t, info.frames, again.frames)
	})
}
