package prompt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hajimehoshi/go-mp3"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/dsp"
)

const (
	// Rate is that of the converted files, in Hz.
	Rate = 8000
	// headerBytes precede the samples of a converted file.
	headerBytes = 44
	// mp3Frame is one stereo sample as the decoder gives it.
	mp3Frame = 4
)

// Length is how long a converted file of that many bytes plays.
func Length(fileBytes int64) time.Duration {
	return time.Duration(max(0, fileBytes-headerBytes)/2) * time.Second / Rate
}

// convert turns a WAV or MP3 file into a WAV file of 8 kHz, mono, 16 bit.
func convert(src []byte, longest time.Duration) (wav []byte, err error) {
	defer func() {
		// The decoders were written for well-formed files.
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: the decoder gave up: %v", ErrFormat, r)
		}
	}()
	pcm, rate, err := decode(src, longest)
	if err != nil {
		return nil, err
	}
	if len(pcm) == 0 {
		return nil, fmt.Errorf("it holds no audio: %w", ErrFormat)
	}
	if time.Duration(len(pcm))*time.Second/time.Duration(rate) > longest {
		return nil, fmt.Errorf("it plays longer than %s: %w", longest, ErrTooLarge)
	}
	resampler, err := dsp.NewResampler(rate, Rate)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	want := (len(pcm)*Rate + rate - 1) / rate
	out := resampler.Process(make([]int16, 0, want+rate/50), pcm)
	// The filter holds the last samples back; silence drives them out.
	out = resampler.Process(out, make([]int16, rate/50))
	return wavFile(out[:min(len(out), want)]), nil
}

// decode gives mono samples and their rate.
func decode(src []byte, longest time.Duration) ([]int16, int, error) {
	if bytes.HasPrefix(src, []byte("RIFF")) {
		wav, err := media.ParseWAV(src)
		if err != nil {
			return nil, 0, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		return mono(wav.Samples, wav.Channels), wav.Rate, nil
	}
	if !isMP3(src) {
		return nil, 0, ErrFormat
	}
	return decodeMP3(src, longest)
}

// isMP3 tells a file with an ID3 tag, or that begins with a frame of MPEG audio, layer III.
func isMP3(src []byte) bool {
	return bytes.HasPrefix(src, []byte("ID3")) || len(src) > 2 && src[0] == 0xff && src[1]&0xe6 == 0xe2
}

// decodeMP3 reads until the end, or until what it plays is above the limit.
func decodeMP3(src []byte, longest time.Duration) (pcm []int16, rate int, err error) {
	d, err := mp3.NewDecoder(bytes.NewReader(src))
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	rate = d.SampleRate()
	most := int(longest/time.Second+1) * rate
	buf := make([]byte, 16<<10)
	for len(pcm) <= most {
		n, err := io.ReadFull(d, buf)
		for i := 0; i+mp3Frame <= n; i += mp3Frame {
			left, right := int16(binary.LittleEndian.Uint16(buf[i:])), int16(binary.LittleEndian.Uint16(buf[i+2:]))
			pcm = append(pcm, int16((int(left)+int(right))/2))
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return pcm, rate, nil
		}
		if err != nil {
			return nil, 0, fmt.Errorf("%w: %w", ErrFormat, err)
		}
	}
	return pcm, rate, nil
}

// mono averages interleaved channels.
func mono(samples []int16, channels int) []int16 {
	if channels <= 1 {
		return samples
	}
	out := make([]int16, len(samples)/channels)
	for i := range out {
		sum := 0
		for _, s := range samples[i*channels : (i+1)*channels] {
			sum += int(s)
		}
		out[i] = int16(sum / channels)
	}
	return out
}

// wavFile writes 8 kHz mono samples as a file.
func wavFile(pcm []int16) []byte {
	size := uint32(2 * len(pcm))
	b := make([]byte, 0, headerBytes+2*len(pcm))
	le := binary.LittleEndian
	b = append(le.AppendUint32(append(b, "RIFF"...), size+headerBytes-8), "WAVEfmt "...)
	b = le.AppendUint16(le.AppendUint16(le.AppendUint32(b, 16), 1), 1)
	b = le.AppendUint32(le.AppendUint32(b, Rate), 2*Rate)
	b = le.AppendUint16(le.AppendUint16(b, 2), 16)
	b = le.AppendUint32(append(b, "data"...), size)
	for _, s := range pcm {
		b = le.AppendUint16(b, uint16(s))
	}
	return b
}
