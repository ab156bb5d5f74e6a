package wav

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"
)

// FileError says that a file is no recording that can be kept. Trying again does not help.
type FileError struct {
	Path   string
	Reason string
}

// Error implements error.
func (e *FileError) Error() string { return "check WAV file " + e.Path + ": " + e.Reason }

const (
	riffHeader  = 12 // "RIFF", size, "WAVE"
	chunkHeader = 8  // name, size
)

// Checked is what a checked file holds.
type Checked struct {
	Encoding Encoding
	Channels int
	Rate     int   // in Hz
	block    int64 // bytes of a frame
	frames   int64
	sizes    sizes
}

// sizes is where a header keeps its sizes, and what they should be.
type sizes struct {
	dataAt    int64 // of the data chunk's header
	dataBytes int64
	factAt    int64 // of the count in the fact chunk, which G.711 has; 0 without one
	frames    int64
	stale     bool // the header does not tell these sizes
}

// Duration is how long the audio is.
func (w Checked) Duration() time.Duration {
	return time.Duration(w.frames) * time.Second / time.Duration(w.Rate)
}

// Check reads a file's header: 16-bit PCM or G.711, one or two channels, some audio. A header whose sizes don't fit the file,
// as a writer leaves it that was killed, is corrected in place, since the samples are all there; the file keeps its time, which says when its
// audio was recorded.
func Check(path string) (Checked, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return Checked{}, fmt.Errorf("open WAV file: %w", err)
	}
	info, err := readFile(f, path)
	if err == nil && info.sizes.stale {
		err = writeSizes(f, info.sizes)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return Checked{}, err
	}
	return info, nil
}

func readFile(f *os.File, path string) (Checked, error) {
	stat, err := f.Stat()
	if err != nil {
		return Checked{}, fmt.Errorf("read WAV file: %w", err)
	}
	var head [riffHeader]byte
	if err := readAt(f, path, head[:], 0); err != nil {
		return Checked{}, err
	}
	if string(head[:4]) != "RIFF" || string(head[8:]) != "WAVE" {
		return Checked{}, &FileError{Path: path, Reason: "it is no RIFF WAVE file"}
	}
	var info Checked
	var factAt, fact int64
	for at := int64(riffHeader); ; {
		var chunk [chunkHeader]byte
		if err := readAt(f, path, chunk[:], at); err != nil {
			return Checked{}, err
		}
		size := int64(binary.LittleEndian.Uint32(chunk[4:]))
		switch string(chunk[:4]) {
		case "fmt ":
			if info, err = readFormat(f, path, at+chunkHeader, size); err != nil {
				return Checked{}, err
			}
		case "fact":
			var count [4]byte
			if err := readAt(f, path, count[:], at+chunkHeader); err != nil {
				return Checked{}, err
			}
			factAt, fact = at+chunkHeader, int64(binary.LittleEndian.Uint32(count[:]))
		case "data":
			riff := int64(binary.LittleEndian.Uint32(head[4:8]))
			info, err := info.withData(f, path, at, size, riff, stat.Size())
			info.sizes.factAt = factAt
			info.sizes.stale = info.sizes.stale || factAt > 0 && fact != info.frames
			return info, err
		}
		at += chunkHeader + size + size&1
	}
}

func readFormat(f *os.File, path string, at, size int64) (Checked, error) {
	const most = 40
	if size < 16 || size > most {
		return Checked{}, &FileError{Path: path, Reason: fmt.Sprintf("its format chunk has %d bytes", size)}
	}
	var b [most]byte
	if err := readAt(f, path, b[:size], at); err != nil {
		return Checked{}, err
	}
	format := binary.LittleEndian.Uint16(b[0:])
	if format == formatExtensible && size == most {
		format = binary.LittleEndian.Uint16(b[24:])
	}
	channels, rate := binary.LittleEndian.Uint16(b[2:]), binary.LittleEndian.Uint32(b[4:])
	bits := binary.LittleEndian.Uint16(b[14:])
	g711 := (format == FormatALaw || format == FormatULaw) && bits == 8
	if !g711 && (format != FormatPCM || bits != 16) || channels < 1 || channels > 2 || rate == 0 || rate > 192_000 {
		reason := fmt.Sprintf("format %d with %d channels of %d bits at %d Hz is not ours", format, channels, bits, rate)
		return Checked{}, &FileError{Path: path, Reason: reason}
	}
	encoding := PCM
	switch format {
	case FormatULaw:
		encoding = ULaw
	case FormatALaw:
		encoding = ALaw
	}
	return Checked{Encoding: encoding, Channels: int(channels), Rate: int(rate), block: int64(channels) * int64(bits/8)}, nil
}

// withData takes the data chunk in. A size that leads to the end, or to further chunks that do, is believed; else all that
// follows is audio.
func (w Checked) withData(f *os.File, path string, at, size, riff, fileSize int64) (Checked, error) {
	if w.Channels == 0 {
		return Checked{}, &FileError{Path: path, Reason: "it has no format chunk before its data"}
	}
	start := at + chunkHeader
	if !chunksReachEnd(f, start+size+size&1, fileSize) {
		size = fileSize - start
		w.sizes.stale = true
	}
	if rest := size % w.block; rest != 0 { // the last frame was cut off
		size -= rest
		w.sizes.stale = true
	}
	if size > math.MaxUint32-start {
		return Checked{}, &FileError{Path: path, Reason: "it is longer than a WAV file can be"}
	}
	if size == 0 {
		return Checked{}, &FileError{Path: path, Reason: "it holds no audio"}
	}
	w.sizes.dataAt, w.sizes.dataBytes, w.frames = at, size, size/w.block
	w.sizes.frames = w.frames
	w.sizes.stale = w.sizes.stale || riff+chunkHeader > fileSize
	return w, nil
}

// chunksReachEnd tells whether the chunks from there on end where the file does.
func chunksReachEnd(f *os.File, at, fileSize int64) bool {
	for at < fileSize {
		var chunk [chunkHeader]byte
		if _, err := f.ReadAt(chunk[:], at); err != nil {
			return false
		}
		for _, c := range chunk[:4] {
			if c < ' ' || c > '~' {
				return false
			}
		}
		size := int64(binary.LittleEndian.Uint32(chunk[4:]))
		at += chunkHeader + size + size&1
	}
	return at == fileSize
}

// writeSizes makes a stale header tell what is there, and cuts off half a frame at the end.
func writeSizes(f *os.File, s sizes) error {
	end := s.dataAt + chunkHeader + s.dataBytes
	var size [4]byte
	stat, err := f.Stat()
	if err == nil {
		binary.LittleEndian.PutUint32(size[:], uint32(s.dataBytes)) //nolint:gosec // withData bounds it
		_, err = f.WriteAt(size[:], s.dataAt+4)
	}
	if err == nil {
		binary.LittleEndian.PutUint32(size[:], uint32(end-chunkHeader)) //nolint:gosec // withData bounds it
		_, err = f.WriteAt(size[:], 4)
	}
	if err == nil && s.factAt > 0 {
		binary.LittleEndian.PutUint32(size[:], uint32(s.frames)) //nolint:gosec // withData bounds it
		_, err = f.WriteAt(size[:], s.factAt)
	}
	if err == nil {
		err = f.Truncate(end)
	}
	if err == nil {
		err = os.Chtimes(f.Name(), time.Time{}, stat.ModTime())
	}
	if err != nil {
		return fmt.Errorf("correct the header of a WAV file: %w", err)
	}
	return nil
}

func readAt(f *os.File, path string, b []byte, at int64) error {
	_, err := f.ReadAt(b, at)
	if errors.Is(err, io.EOF) {
		return &FileError{Path: path, Reason: "it ends inside its header"}
	}
	if err != nil {
		return fmt.Errorf("read WAV file: %w", err)
	}
	return nil
}
