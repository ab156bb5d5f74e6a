package wav

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/ringmaster/ringmaster/media/dsp"
)

// Encoding is how the samples of a recording are stored. All are at 8 kHz.
type Encoding string

// The encodings of recordings. One more is its layout here, check.go, scan.go, its codec in package dsp, and the comment on recordings.encoding in
// conf/ringmaster.yaml. A file of another kind than WAV has other names and another content type: those stand in switchctl/recordings (s3.go,
// too) and call/voice.go, httpapi/recordings.go and cmd/remote/recordings.go; its writer is in media/record.
const (
	// PCM is 16-bit linear PCM, 32 kB a second. It is the default.
	PCM Encoding = "pcm"
	// ULaw and ALaw are G.711, 16 kB a second: exact for a caller on that law, and half the disk.
	ULaw Encoding = "ulaw"
	ALaw Encoding = "alaw"
)

// Encodings lists the encodings that a recording may have.
func Encodings() []Encoding { return []Encoding{PCM, ULaw, ALaw} }

const (
	// HeaderSize is the size of a PCM recording's header: RIFF, fmt and data, nothing else.
	HeaderSize = 44
	// headerG711 is that of a G.711 recording: its fmt has a (zero) extension size, and a fact chunk counts the samples, as
	// the format demands for all but PCM.
	headerG711 = 58
	// StereoBytes is the size of one stereo frame of a PCM recording.
	StereoBytes = 4
)

// Layout is the shape of our own recordings in one encoding.
type Layout struct {
	Format    uint16 // FormatPCM, FormatULaw or FormatALaw
	FrameSize int64  // of all channels, in bytes
	Silence   byte   // G.711's zero is not 0
	header    int64  // where the audio begins, in bytes
	mono      bool   // one channel: parts that the switch recorded, joined
}

// Mono is the layout with one channel.
func (l Layout) Mono() Layout {
	l.FrameSize, l.mono = l.FrameSize/2, true
	return l
}

func (l Layout) channels() int64 {
	if l.mono {
		return 1
	}
	return 2
}

// ErrEncoding means an encoding that is none of [Encodings].
var ErrEncoding = errors.New("unknown encoding of a recording")

func pcmLayout() Layout { return Layout{Format: FormatPCM, header: HeaderSize, FrameSize: StereoBytes} }

// LayoutOf returns the layout of an encoding, "" being PCM's.
func LayoutOf(e Encoding) (Layout, error) {
	switch e {
	case "", PCM:
		return pcmLayout(), nil
	case ULaw:
		return Layout{Format: FormatULaw, header: headerG711, FrameSize: 2, Silence: 0xFF}, nil
	case ALaw:
		return Layout{Format: FormatALaw, header: headerG711, FrameSize: 2, Silence: 0xD5}, nil
	}
	return Layout{}, fmt.Errorf("%w: %q", ErrEncoding, e)
}

// ours returns the layout of a file that has one of ours: a recording of this package.
func (i Info) ours() (Layout, bool) {
	for _, e := range Encodings() {
		if l, err := LayoutOf(e); err == nil && l.Format == i.Format && l.header == i.DataAt && i.Channels == 2 && i.Rate == Rate {
			return l, true
		}
	}
	return Layout{}, false
}

// MaxFrames is how many stereo frames the sizes in a header can count.
func (l Layout) MaxFrames() int64 { return (math.MaxUint32 - l.header) / l.FrameSize }

// Offset is where a frame lies in the file.
func (l Layout) Offset(frame int64) int64 { return l.header + frame*l.FrameSize }

// FramesIn is how many whole frames a file of that size holds.
func (l Layout) FramesIn(fileSize int64) int64 { return max(0, fileSize-l.header) / l.FrameSize }

// AppendHeader appends the header of a file that holds so many stereo frames.
func (l Layout) AppendHeader(b []byte, frames int64) []byte {
	frames = min(frames, l.MaxFrames())
	data, le := uint32(frames*l.FrameSize), binary.LittleEndian
	b = append(b, "RIFF"...)
	b = le.AppendUint32(b, data+uint32(l.header)-8)
	b = append(b, "WAVEfmt "...)
	fmtSize := uint32(16)
	if l.Format != FormatPCM {
		fmtSize = 18
	}
	b = le.AppendUint32(b, fmtSize)
	b = le.AppendUint16(b, l.Format)
	b = le.AppendUint16(b, uint16(l.channels()))
	b = le.AppendUint32(b, Rate)
	b = le.AppendUint32(b, uint32(Rate*l.FrameSize))
	b = le.AppendUint16(b, uint16(l.FrameSize))
	b = le.AppendUint16(b, uint16(8*l.FrameSize/l.channels()))
	if l.Format != FormatPCM {
		b = le.AppendUint16(b, 0)
		b = append(b, "fact"...)
		b = le.AppendUint32(b, 4)
		b = le.AppendUint32(b, uint32(frames))
	}
	b = append(b, "data"...)
	return le.AppendUint32(b, data)
}

// AppendSamples appends samples as the layout stores them.
func (l Layout) AppendSamples(b []byte, pcm []int16) []byte {
	n := len(b)
	switch l.Format {
	case FormatULaw:
		b = append(b, make([]byte, len(pcm))...)
		dsp.EncodeULaw(b[n:], pcm)
	case FormatALaw:
		b = append(b, make([]byte, len(pcm))...)
		dsp.EncodeALaw(b[n:], pcm)
	default:
		b = append(b, make([]byte, 2*len(pcm))...)
		dsp.PutPCM(b[n:], pcm)
	}
	return b
}

// silenceBlock is how much silence is written at a time, in bytes.
const silenceBlock = 64 << 10

// FillSilence writes silence from one frame to another. A hole in the file would read as zeros, which is silence in PCM
// and a loud constant in G.711.
func (l Layout) FillSilence(w io.WriterAt, from, to int64) error {
	if from >= to {
		return nil
	}
	b := make([]byte, min(silenceBlock, (to-from)*l.FrameSize))
	for i := range b {
		b[i] = l.Silence
	}
	for at, end := l.Offset(from), l.Offset(to); at < end; at += int64(len(b)) {
		if _, err := w.WriteAt(b[:min(int64(len(b)), end-at)], at); err != nil {
			return err
		}
	}
	return nil
}

// Extend makes a file hold at least so many frames, silence behind what is there.
func (l Layout) Extend(f *os.File, from, to int64) error {
	if from >= to {
		return nil
	}
	if l.Silence == 0 {
		return f.Truncate(l.Offset(to)) // a hole takes no space
	}
	return l.FillSilence(f, from, to)
}

// ScanOwn reads the layout of one of our own files and how many frames of audio it really holds. One whose header never
// reached the disk, as a loss of power leaves it, counts as PCM.
func ScanOwn(f *os.File) (Layout, int64, error) {
	st, err := f.Stat()
	if err != nil {
		return Layout{}, 0, err
	}
	var head [HeaderSize]byte
	if n, err := f.ReadAt(head[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return Layout{}, 0, err
	} else if n < HeaderSize || head == [HeaderSize]byte{} {
		lay, err := LayoutOf(PCM)
		return lay, lay.FramesIn(st.Size()), err
	}
	info, err := Scan(f, st.Size())
	if err != nil {
		return Layout{}, 0, err
	}
	lay, ok := info.ours()
	if !ok {
		return lay, 0, fmt.Errorf("%s is no recording of ours: %w", filepath.Base(f.Name()), ErrFormat)
	}
	return lay, lay.FramesIn(st.Size()), nil
}
