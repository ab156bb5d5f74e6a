package recordings

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/ringmaster/ringmaster/media"
)

// WAVError says that a file is no recording that can be kept. Trying again does not help.
type WAVError struct {
	Path   string
	Reason string
}

// Error implements error.
func (e *WAVError) Error() string { return "check WAV file " + e.Path + ": " + e.Reason }

const (
	riffHeader  = 12 // "RIFF", size, "WAVE"
	chunkHeader = 8  // name, size
	formatPCM   = 1
	formatALaw  = 6
	formatULaw  = 7
	formatExt   = 0xFFFE // WAVE_FORMAT_EXTENSIBLE
)

// wavInfo is what a checked file holds.
type wavInfo struct {
	encoding media.RecordingEncoding
	channels int
	rate     int
	block    int64 // bytes of a frame
	frames   int64
	sizes    wavSizes
}

// wavSizes is where a header keeps its sizes, and what they should be.
type wavSizes struct {
	dataAt    int64 // of the data chunk's header
	dataBytes int64
	factAt    int64 // of the count in the fact chunk, which G.711 has; 0 without one
	frames    int64
	stale     bool // the header does not tell these sizes
}

func (w wavInfo) duration() time.Duration {
	return time.Duration(w.frames) * time.Second / time.Duration(w.rate)
}

// checkWAV reads a file's header: 16-bit PCM or G.711, one or two channels, some audio. A header whose sizes don't fit the file,
// as a writer leaves it that was killed, is corrected in place, since the samples are all there; the file keeps its time, which says when its
// audio was recorded.
func checkWAV(path string) (wavInfo, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return wavInfo{}, fmt.Errorf("open WAV file: %w", err)
	}
	info, err := readWAV(f, path)
	if err == nil && info.sizes.stale {
		err = writeSizes(f, info.sizes)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return wavInfo{}, err
	}
	return info, nil
}

func readWAV(f *os.File, path string) (wavInfo, error) {
	stat, err := f.Stat()
	if err != nil {
		return wavInfo{}, fmt.Errorf("read WAV file: %w", err)
	}
	var head [riffHeader]byte
	if err := readAt(f, path, head[:], 0); err != nil {
		return wavInfo{}, err
	}
	if string(head[:4]) != "RIFF" || string(head[8:]) != "WAVE" {
		return wavInfo{}, &WAVError{Path: path, Reason: "it is no RIFF WAVE file"}
	}
	var info wavInfo
	var factAt, fact int64
	for at := int64(riffHeader); ; {
		var chunk [chunkHeader]byte
		if err := readAt(f, path, chunk[:], at); err != nil {
			return wavInfo{}, err
		}
		size := int64(binary.LittleEndian.Uint32(chunk[4:]))
		switch string(chunk[:4]) {
		case "fmt ":
			if info, err = readFormat(f, path, at+chunkHeader, size); err != nil {
				return wavInfo{}, err
			}
		case "fact":
			var count [4]byte
			if err := readAt(f, path, count[:], at+chunkHeader); err != nil {
				return wavInfo{}, err
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

func readFormat(f *os.File, path string, at, size int64) (wavInfo, error) {
	const most = 40
	if size < 16 || size > most {
		return wavInfo{}, &WAVError{Path: path, Reason: fmt.Sprintf("its format chunk has %d bytes", size)}
	}
	var b [most]byte
	if err := readAt(f, path, b[:size], at); err != nil {
		return wavInfo{}, err
	}
	format := binary.LittleEndian.Uint16(b[0:])
	if format == formatExt && size == most {
		format = binary.LittleEndian.Uint16(b[24:])
	}
	channels, rate := binary.LittleEndian.Uint16(b[2:]), binary.LittleEndian.Uint32(b[4:])
	bits := binary.LittleEndian.Uint16(b[14:])
	g711 := (format == formatALaw || format == formatULaw) && bits == 8
	if !g711 && (format != formatPCM || bits != 16) || channels < 1 || channels > 2 || rate == 0 || rate > 192_000 {
		reason := fmt.Sprintf("format %d with %d channels of %d bits at %d Hz is not ours", format, channels, bits, rate)
		return wavInfo{}, &WAVError{Path: path, Reason: reason}
	}
	encoding := media.RecordPCM
	switch format {
	case formatULaw:
		encoding = media.RecordULaw
	case formatALaw:
		encoding = media.RecordALaw
	}
	return wavInfo{encoding: encoding, channels: int(channels), rate: int(rate), block: int64(channels) * int64(bits/8)}, nil
}

// withData takes the data chunk in. A size that leads to the end, or to further chunks that do, is believed; else all that
// follows is audio.
func (w wavInfo) withData(f *os.File, path string, at, size, riff, fileSize int64) (wavInfo, error) {
	if w.channels == 0 {
		return wavInfo{}, &WAVError{Path: path, Reason: "it has no format chunk before its data"}
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
		return wavInfo{}, &WAVError{Path: path, Reason: "it is longer than a WAV file can be"}
	}
	if size == 0 {
		return wavInfo{}, &WAVError{Path: path, Reason: "it holds no audio"}
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
func writeSizes(f *os.File, s wavSizes) error {
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
		return &WAVError{Path: path, Reason: "it ends inside its header"}
	}
	if err != nil {
		return fmt.Errorf("read WAV file: %w", err)
	}
	return nil
}
