package media

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/ringmaster/ringmaster/media/dsp"
)

// WAV format tags that are understood.
const (
	wavPCM        = 1
	wavFloat      = 3
	wavALaw       = 6
	wavULaw       = 7
	wavExtensible = 0xFFFE
)

// ErrWAV means that a file is not a WAV file, or of a kind that is not understood.
var ErrWAV = errors.New("not a usable WAV file")

// wavInfo is what a WAV file's header says.
type wavInfo struct {
	format   uint16
	channels int
	rate     int
	bits     int
	dataAt   int64
	dataLen  int64
}

func (i wavInfo) frameBytes() int { return i.channels * i.bits / 8 }

// scanWAV reads the header. A data chunk that claims more than the file holds, as after a crash, ends with the file.
func scanWAV(r io.ReaderAt, size int64) (wavInfo, error) {
	var info wavInfo
	var head [12]byte
	if _, err := r.ReadAt(head[:], 0); err != nil || string(head[:4]) != "RIFF" || string(head[8:]) != "WAVE" {
		return info, fmt.Errorf("reading a WAV header: no RIFF header: %w", ErrWAV)
	}
	for at := int64(12); at+8 <= size; {
		var ck [8]byte
		if _, err := r.ReadAt(ck[:], at); err != nil {
			return info, fmt.Errorf("reading a WAV header: %w", err)
		}
		n := int64(binary.LittleEndian.Uint32(ck[4:]))
		at += 8
		switch string(ck[:4]) {
		case "fmt ":
			if err := info.readFormat(r, at, n); err != nil {
				return info, err
			}
		case "data":
			info.dataAt, info.dataLen = at, min(n, size-at)
			return info, info.check()
		}
		at += n + n&1
	}
	return info, fmt.Errorf("reading a WAV header: no data: %w", ErrWAV)
}

func (i *wavInfo) readFormat(r io.ReaderAt, at, n int64) error {
	b := make([]byte, min(max(n, 0), 40))
	if len(b) < 16 {
		return fmt.Errorf("reading a WAV header: short format: %w", ErrWAV)
	}
	if _, err := r.ReadAt(b, at); err != nil {
		return fmt.Errorf("reading a WAV header: %w", err)
	}
	i.format = binary.LittleEndian.Uint16(b)
	i.channels = int(binary.LittleEndian.Uint16(b[2:]))
	i.rate = int(binary.LittleEndian.Uint32(b[4:]))
	i.bits = int(binary.LittleEndian.Uint16(b[14:]))
	if i.format == wavExtensible && len(b) >= 26 {
		i.format = binary.LittleEndian.Uint16(b[24:])
	}
	return nil
}

func (i wavInfo) check() error {
	pcm := i.format == wavPCM && (i.bits == 8 || i.bits == 16 || i.bits == 24 || i.bits == 32) || i.format == wavFloat && i.bits == 32
	g711 := (i.format == wavALaw || i.format == wavULaw) && i.bits == 8
	if !pcm && !g711 {
		return fmt.Errorf("reading a WAV header: format %d with %d bits: %w", i.format, i.bits, ErrWAV)
	}
	if i.channels < 1 || i.channels > 8 || i.rate < 4000 || i.rate > 192000 {
		return fmt.Errorf("reading a WAV header: %d channels at %d Hz: %w", i.channels, i.rate, ErrWAV)
	}
	return nil
}

// samples turns raw data into 16-bit samples, interleaved as in the file, appended to dst.
func (i wavInfo) samples(dst []int16, raw []byte) []int16 {
	switch i.format {
	case wavALaw, wavULaw:
		at := len(dst)
		dst = slices.Grow(dst, len(raw))[:at+len(raw)]
		if i.format == wavALaw {
			dsp.DecodeALaw(dst[at:], raw)
		} else {
			dsp.DecodeULaw(dst[at:], raw)
		}
	case wavFloat:
		for ; len(raw) >= 4; raw = raw[4:] {
			dst = append(dst, floatSample(math.Float32frombits(binary.LittleEndian.Uint32(raw))))
		}
	default:
		if i.bits == 8 { // the only unsigned one
			for _, b := range raw {
				dst = append(dst, int16(b)<<8^math.MinInt16)
			}
			return dst
		}
		n := max(2, i.bits/8)
		for ; len(raw) >= n; raw = raw[n:] {
			dst = append(dst, int16(binary.LittleEndian.Uint16(raw[n-2:]))) // the upper 16 bits
		}
	}
	return dst
}

// floatSample takes a sample of ±1.
func floatSample(f float32) int16 {
	if f != f {
		return 0
	}
	return dsp.Clip16(max(-1, min(1, f)) * math.MaxInt16)
}

// mixDown averages interleaved channels, in place.
func mixDown(pcm []int16, channels int) []int16 {
	if channels == 1 {
		return pcm
	}
	n := len(pcm) / channels
	for i := range n {
		sum := 0
		for _, s := range pcm[i*channels : (i+1)*channels] {
			sum += int(s)
		}
		pcm[i] = int16(sum / channels)
	}
	return pcm[:n]
}
