package wav

import (
	"bytes"
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
	FormatPCM        = 1
	FormatFloat      = 3
	FormatALaw       = 6
	FormatULaw       = 7
	formatExtensible = 0xFFFE
)

// ErrFormat means that a file is not a WAV file, or of a kind that is not understood.
var ErrFormat = errors.New("not a usable WAV file")

// Info is what a WAV file's header says.
type Info struct {
	Format   uint16 // FormatPCM, FormatFloat, FormatALaw or FormatULaw
	Channels int    // 1 to 8
	Rate     int    // in Hz
	Bits     int    // of a sample
	DataAt   int64  // where the audio begins, in bytes
	DataLen  int64  // as far as the file holds it
}

// FrameBytes is the size of one frame of all channels.
func (i Info) FrameBytes() int { return i.Channels * i.Bits / 8 }

// Scan reads the header. A data chunk that claims more than the file holds, as after a crash, ends with the file.
func Scan(r io.ReaderAt, size int64) (Info, error) {
	var info Info
	var head [12]byte
	if _, err := r.ReadAt(head[:], 0); err != nil || string(head[:4]) != "RIFF" || string(head[8:]) != "WAVE" {
		return info, fmt.Errorf("reading a WAV header: no RIFF header: %w", ErrFormat)
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
			info.DataAt, info.DataLen = at, min(n, size-at)
			return info, info.check()
		}
		at += n + n&1
	}
	return info, fmt.Errorf("reading a WAV header: no data: %w", ErrFormat)
}

func (i *Info) readFormat(r io.ReaderAt, at, n int64) error {
	b := make([]byte, min(max(n, 0), 40))
	if len(b) < 16 {
		return fmt.Errorf("reading a WAV header: short format: %w", ErrFormat)
	}
	if _, err := r.ReadAt(b, at); err != nil {
		return fmt.Errorf("reading a WAV header: %w", err)
	}
	i.Format = binary.LittleEndian.Uint16(b)
	i.Channels = int(binary.LittleEndian.Uint16(b[2:]))
	i.Rate = int(binary.LittleEndian.Uint32(b[4:]))
	i.Bits = int(binary.LittleEndian.Uint16(b[14:]))
	if i.Format == formatExtensible && len(b) >= 26 {
		i.Format = binary.LittleEndian.Uint16(b[24:])
	}
	return nil
}

func (i Info) check() error {
	pcm := i.Format == FormatPCM && (i.Bits == 8 || i.Bits == 16 || i.Bits == 24 || i.Bits == 32) || i.Format == FormatFloat && i.Bits == 32
	g711 := (i.Format == FormatALaw || i.Format == FormatULaw) && i.Bits == 8
	if !pcm && !g711 {
		return fmt.Errorf("reading a WAV header: format %d with %d bits: %w", i.Format, i.Bits, ErrFormat)
	}
	if i.Channels < 1 || i.Channels > 8 || i.Rate < 4000 || i.Rate > 192000 {
		return fmt.Errorf("reading a WAV header: %d channels at %d Hz: %w", i.Channels, i.Rate, ErrFormat)
	}
	return nil
}

// AppendTo appends raw data to dst as 16-bit samples, interleaved as in the file.
func (i Info) AppendTo(dst []int16, raw []byte) []int16 {
	switch i.Format {
	case FormatALaw, FormatULaw:
		at := len(dst)
		dst = slices.Grow(dst, len(raw))[:at+len(raw)]
		if i.Format == FormatALaw {
			dsp.DecodeALaw(dst[at:], raw)
		} else {
			dsp.DecodeULaw(dst[at:], raw)
		}
	case FormatFloat:
		for ; len(raw) >= 4; raw = raw[4:] {
			dst = append(dst, floatSample(math.Float32frombits(binary.LittleEndian.Uint32(raw))))
		}
	default:
		if i.Bits == 8 { // the only unsigned one
			for _, b := range raw {
				dst = append(dst, int16(b)<<8^math.MinInt16)
			}
			return dst
		}
		n := max(2, i.Bits/8)
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

// MixDown averages interleaved channels, in place.
func MixDown(pcm []int16, channels int) []int16 {
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

// File is a whole file in memory, its samples interleaved.
type File struct {
	Rate, Channels int
	Samples        []int16
}

// Parse reads a WAV file of 16-bit PCM or G.711. It returns ErrFormat for anything else.
func Parse(b []byte) (File, error) {
	info, err := Scan(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return File{}, err
	}
	raw := b[info.DataAt : info.DataAt+info.DataLen]
	return File{Rate: info.Rate, Channels: info.Channels, Samples: info.AppendTo(make([]int16, 0, len(raw)*8/info.Bits), raw)}, nil
}

// Channel gives the samples of one channel, counted from 0; none when the file has no such channel.
func (w File) Channel(n int) []int16 {
	if n < 0 || n >= w.Channels {
		return nil
	}
	out := make([]int16, 0, len(w.Samples)/w.Channels)
	for i := n; i < len(w.Samples); i += w.Channels {
		out = append(out, w.Samples[i])
	}
	return out
}

// Encode is a file of mono samples of 8 kHz, in 16-bit PCM.
func Encode(pcm []int16) []byte {
	lay := pcmLayout().Mono()
	b := make([]byte, 0, lay.header+lay.FrameSize*int64(len(pcm)))
	return lay.AppendSamples(lay.AppendHeader(b, int64(len(pcm))), pcm)
}
