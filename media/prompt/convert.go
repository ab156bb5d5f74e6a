package prompt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hajimehoshi/go-mp3"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/wav"
)

const (
	// Rate is that of the converted files, in Hz.
	Rate = 8000
	// mp3Frame is one stereo sample as the decoder gives it.
	mp3Frame = 4
)

// convert turns a WAV or MP3 file into a WAV file of 8 kHz, mono, 16 bit.
func convert(src []byte, longest time.Duration) (file []byte, err error) {
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
	return wav.Encode(out[:min(len(out), want)]), nil
}

// decode gives mono samples and their rate.
func decode(src []byte, longest time.Duration) ([]int16, int, error) {
	if bytes.HasPrefix(src, []byte("RIFF")) {
		file, err := wav.Parse(src)
		if err != nil {
			return nil, 0, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		return wav.MixDown(file.Samples, file.Channels), file.Rate, nil
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
