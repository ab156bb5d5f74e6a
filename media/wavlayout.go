package media

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/ringmaster/ringmaster/media/dsp"
)

// RecordingEncoding is how the samples of a recording are stored. All are at 8 kHz.
type RecordingEncoding string

// The encodings of recordings.
const (
	// RecordPCM is 16-bit linear PCM, 32 kB a second. It is the default.
	RecordPCM RecordingEncoding = "pcm"
	// RecordULaw and RecordALaw are G.711, 16 kB a second: exact for a caller on that law, and half the disk.
	RecordULaw RecordingEncoding = "ulaw"
	RecordALaw RecordingEncoding = "alaw"
)

// RecordingEncodings lists the encodings that a recording may have.
func RecordingEncodings() []RecordingEncoding {
	return []RecordingEncoding{RecordPCM, RecordULaw, RecordALaw}
}

const (
	// wavHeaderSize is the size of a PCM recording's header: RIFF, fmt and data, nothing else.
	wavHeaderSize = 44
	// wavHeaderG711 is that of a G.711 recording: its fmt has a (zero) extension size, and a fact chunk counts the samples, as
	// the format demands for all but PCM.
	wavHeaderG711 = 58
	// stereoBytes is the size of one stereo frame of a PCM recording.
	stereoBytes = 4
)

// wavLayout is the shape of our own recordings in one encoding.
type wavLayout struct {
	format  uint16
	header  int64 // where the audio begins, in bytes
	frame   int64 // the size of a frame of all channels, in bytes
	silence byte  // G.711's zero is not 0
	mono    bool  // one channel: parts that the switch recorded, joined
}

// asMono is the layout with one channel.
func (l wavLayout) asMono() wavLayout {
	l.frame, l.mono = l.frame/2, true
	return l
}

func (l wavLayout) channels() int64 {
	if l.mono {
		return 1
	}
	return 2
}

// layoutOf returns the layout of an encoding, "" being PCM's.
func layoutOf(e RecordingEncoding) (wavLayout, error) {
	switch e {
	case "", RecordPCM:
		return wavLayout{format: wavPCM, header: wavHeaderSize, frame: stereoBytes}, nil
	case RecordULaw:
		return wavLayout{format: wavULaw, header: wavHeaderG711, frame: 2, silence: 0xFF}, nil
	case RecordALaw:
		return wavLayout{format: wavALaw, header: wavHeaderG711, frame: 2, silence: 0xD5}, nil
	}
	return wavLayout{}, &SpecError{Field: "recording.encoding", Message: fmt.Sprintf("%q is unknown", e)}
}

// ours returns the layout of a file that has one of ours: a recording of this package.
func (i wavInfo) ours() (wavLayout, bool) {
	for _, e := range RecordingEncodings() {
		if l, err := layoutOf(e); err == nil && l.format == i.format && l.header == i.dataAt && i.channels == 2 && i.rate == sampleRate {
			return l, true
		}
	}
	return wavLayout{}, false
}

// maxFrames is how many stereo frames the sizes in a header can count.
func (l wavLayout) maxFrames() int64 { return (math.MaxUint32 - l.header) / l.frame }

// offset is where a frame lies in the file.
func (l wavLayout) offset(frame int64) int64 { return l.header + frame*l.frame }

// framesIn is how many whole frames a file of that size holds.
func (l wavLayout) framesIn(fileSize int64) int64 { return max(0, fileSize-l.header) / l.frame }

// appendHeader appends the header of a file that holds so many stereo frames.
func (l wavLayout) appendHeader(b []byte, frames int64) []byte {
	frames = min(frames, l.maxFrames())
	data, le := uint32(frames*l.frame), binary.LittleEndian
	b = append(b, "RIFF"...)
	b = le.AppendUint32(b, data+uint32(l.header)-8)
	b = append(b, "WAVEfmt "...)
	fmtSize := uint32(16)
	if l.format != wavPCM {
		fmtSize = 18
	}
	b = le.AppendUint32(b, fmtSize)
	b = le.AppendUint16(b, l.format)
	b = le.AppendUint16(b, uint16(l.channels()))
	b = le.AppendUint32(b, sampleRate)
	b = le.AppendUint32(b, uint32(sampleRate*l.frame))
	b = le.AppendUint16(b, uint16(l.frame))
	b = le.AppendUint16(b, uint16(8*l.frame/l.channels()))
	if l.format != wavPCM {
		b = le.AppendUint16(b, 0)
		b = append(b, "fact"...)
		b = le.AppendUint32(b, 4)
		b = le.AppendUint32(b, uint32(frames))
	}
	b = append(b, "data"...)
	return le.AppendUint32(b, data)
}

// appendSamples appends samples as the layout stores them.
func (l wavLayout) appendSamples(b []byte, pcm []int16) []byte {
	n := len(b)
	switch l.format {
	case wavULaw:
		b = append(b, make([]byte, len(pcm))...)
		dsp.EncodeULaw(b[n:], pcm)
	case wavALaw:
		b = append(b, make([]byte, len(pcm))...)
		dsp.EncodeALaw(b[n:], pcm)
	default:
		b = append(b, make([]byte, 2*len(pcm))...)
		putPCM(b[n:], pcm)
	}
	return b
}

// silenceBlock is how much silence is written at a time, in bytes.
const silenceBlock = 64 << 10

// fillSilence writes silence from one frame to another. A hole in the file would read as zeros, which is silence in PCM
// and a loud constant in G.711.
func (l wavLayout) fillSilence(w io.WriterAt, from, to int64) error {
	if from >= to {
		return nil
	}
	b := make([]byte, min(silenceBlock, (to-from)*l.frame))
	for i := range b {
		b[i] = l.silence
	}
	for at, end := l.offset(from), l.offset(to); at < end; at += int64(len(b)) {
		if _, err := w.WriteAt(b[:min(int64(len(b)), end-at)], at); err != nil {
			return err
		}
	}
	return nil
}

// extend makes a file hold at least so many frames, silence behind what is there.
func (l wavLayout) extend(f *os.File, from, to int64) error {
	if from >= to {
		return nil
	}
	if l.silence == 0 {
		return f.Truncate(l.offset(to)) // a hole takes no space
	}
	return l.fillSilence(f, from, to)
}
