package recordings

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// wav builds a file of 8 kHz, 16 bit, every sample with the value given.
func wav(channels int, length time.Duration, value int16) []byte {
	samples := int(length.Seconds()*8000) * channels
	var b bytes.Buffer
	put := func(values ...any) {
		for _, v := range values {
			if s, ok := v.(string); ok {
				b.WriteString(s)
				continue
			}
			_ = binary.Write(&b, binary.LittleEndian, v) // to memory
		}
	}
	put("RIFF", uint32(36+2*samples), "WAVE", "fmt ", uint32(16), uint16(1), uint16(channels), uint32(8000),
		uint32(8000*2*channels), uint16(2*channels), uint16(16), "data", uint32(2*samples))
	for range samples {
		put(value)
	}
	return b.Bytes()
}

// ulaw builds a stereo file of mu-law, every byte with the value given.
func ulaw(length time.Duration, value byte) []byte {
	frames := int(length.Seconds() * 8000)
	le := binary.LittleEndian
	b := le.AppendUint32([]byte("RIFF"), uint32(50+2*frames))
	b = le.AppendUint32(append(b, "WAVEfmt "...), 18)
	for _, v := range []uint16{7, 2, 8000, 0, 16000, 0, 2, 8, 0} {
		b = le.AppendUint16(b, v)
	}
	b = le.AppendUint32(append(b, "fact\x04\x00\x00\x00"...), uint32(frames))
	b = le.AppendUint32(append(b, "data"...), uint32(2*frames))
	return append(b, bytes.Repeat([]byte{value}, 2*frames)...)
}

func writeFile(t *testing.T, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

func patched(b []byte, at int, value uint32) []byte {
	b = bytes.Clone(b)
	binary.LittleEndian.PutUint32(b[at:], value)
	return b
}

func TestCheckWAV(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stereo := wav(2, 1500*time.Millisecond, 7)
	list := append(bytes.Clone(stereo), "LIST\x05\x00\x00\x00hello\x00"...)
	for name, c := range map[string]struct {
		content []byte
		want    []byte // after the check
	}{
		"complete":                  {stereo, stereo},
		"a chunk after the data":    {list, list},
		"sizes never written":       {patched(patched(stereo, 4, 0), 40, 0), stereo},
		"sizes of an unknown end":   {patched(patched(stereo, 4, 0xFFFFFFFF), 40, 0xFFFFFFFF), stereo},
		"sizes of an earlier flush": {patched(patched(stereo, 4, 36+800), 40, 800), stereo},
		"half a frame at the end":   {append(bytes.Clone(stereo), 1, 2), stereo},
		"an odd byte at the end":    {append(bytes.Clone(stereo), 1), stereo},
	} {
		path := writeFile(t, dir, name, c.content)
		written := time.Now().Add(-2 * time.Hour).Truncate(time.Second)
		require.NoError(t, os.Chtimes(path, written, written))
		info, err := checkWAV(path)
		require.NoError(t, err, name)
		require.Equal(t, 2, info.channels, name)
		require.Equal(t, 8000, info.rate, name)
		require.Equal(t, 1500*time.Millisecond, info.duration(), name)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, c.want, got, name)
		at, err := os.Stat(path)
		require.NoError(t, err)
		require.WithinDuration(t, written, at.ModTime(), 0, "adoption is repeated when it fails: by that time the part's place is found")
	}
	info, err := checkWAV(writeFile(t, dir, "mono", wav(1, time.Second, 1)))
	require.NoError(t, err)
	require.Equal(t, 1, info.channels)
	require.Equal(t, time.Second, info.duration())
}

// TestCheckG711 corrects all three sizes that a killed writer may have left behind.
func TestCheckG711(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := ulaw(1500*time.Millisecond, 7)
	for name, content := range map[string][]byte{
		"complete": good, "sizes never written": patched(patched(patched(good, 4, 50), 46, 0), 54, 0),
		"fact alone": patched(good, 46, 99), "half a frame": append(bytes.Clone(good), 1),
	} {
		path := writeFile(t, dir, name, content)
		info, err := checkWAV(path)
		require.NoError(t, err, name)
		require.Equal(t, 1500*time.Millisecond, info.duration(), name)
		require.Equal(t, 2, info.channels)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, good, got, name)
	}
}

func TestCheckWAVRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := wav(2, time.Second, 7)
	muLaw := bytes.Clone(good)
	muLaw[20] = 7
	for name, content := range map[string][]byte{
		"empty":         {},
		"short":         good[:30],
		"no header":     bytes.Repeat([]byte("x"), 100),
		"no wave":       append([]byte("RIFF\x00\x00\x00\x00AVI "), good[12:]...),
		"no data chunk": good[:36],
		"no audio":      wav(2, 0, 0),
		"no format":     append(bytes.Clone(good[:12]), good[36:]...),
		"mu-law":        muLaw,
		"no rate":       patched(good, 24, 0),
		"format size":   patched(good, 16, 0xFFFFFFF0),
	} {
		_, err := checkWAV(writeFile(t, dir, name, content))
		var bad *WAVError
		require.ErrorAs(t, err, &bad, name)
	}
	_, err := checkWAV(filepath.Join(dir, "missing"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func FuzzReadWAV(f *testing.F) {
	good := wav(2, 10*time.Millisecond, 7)
	f.Add(good)
	f.Add(patched(good, 40, 0))
	f.Add(patched(ulaw(10*time.Millisecond, 1), 46, 3))
	f.Add(append(bytes.Clone(good), "LIST\x00\x00\x00\x00"...))
	f.Fuzz(func(t *testing.T, content []byte) {
		path := writeFile(t, t.TempDir(), "f.wav", content)
		info, err := checkWAV(path)
		if err != nil {
			return
		}
		require.Positive(t, info.frames)
		again, err := checkWAV(path)
		require.NoError(t, err)
		require.False(t, again.sizes.stale, "one check corrects all")
		require.Equal(t, info.frames, again.frames)
	})
}
