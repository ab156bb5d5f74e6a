package echoai

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ringmaster/ringmaster/media/dsp"
)

const (
	subprotocolAlpha = "audio.alpha.org"
	subprotocolBeta  = "audio.beta.org"

	encodingPCM  = "pcm_s16le"
	encodingULaw = "pcmu"
	encodingALaw = "pcma"
)

// Format is how audio crosses a socket.
type Format struct {
	Encoding     string `json:"encoding"`
	SampleRateHz int    `json:"sample_rate_hz"`
	Channels     int    `json:"channels"`
	FrameMS      int    `json:"frame_ms"`
}

// metadata is what the first frame says that matters here.
type metadata struct {
	CallID      string `json:"call_id"`
	Reconnect   bool   `json:"reconnect"`
	Purpose     string `json:"purpose"`
	ControlURL  string `json:"control_url"`
	Token       string `json:"service_callback_token"`
	SampleRate  int    `json:"sampleRate"`
	AudioFormat struct {
		Format
		SampleRate int `json:"sample_rate"`
	} `json:"audio_format"`
}

// parseMetadata reads the first frame and the format it declares; on audio.beta.org audio is always linear.
func parseMetadata(frame []byte, subprotocol string) (metadata, Format, error) {
	var m metadata
	if err := json.Unmarshal(frame, &m); err != nil {
		return m, defaultFormat(), fmt.Errorf("parse metadata frame: %w", err)
	}
	f := m.AudioFormat.Format
	for _, rate := range []int{m.AudioFormat.SampleRate, m.SampleRate, 16000} {
		if f.SampleRateHz == 0 {
			f.SampleRateHz = rate
		}
	}
	if f.Encoding == "" || subprotocol == subprotocolBeta {
		f.Encoding = encodingPCM
	}
	if f.Channels == 0 {
		f.Channels = 1
	}
	if f.FrameMS == 0 {
		f.FrameMS = 20
	}
	return m, f, f.validate()
}

func defaultFormat() Format { return Format{encodingPCM, 16000, 1, 20} }

func (f Format) validate() error {
	if f.Encoding != encodingPCM && f.Encoding != encodingULaw && f.Encoding != encodingALaw {
		return fmt.Errorf("metadata's encoding %q is unknown", f.Encoding)
	}
	if f.SampleRateHz < 4000 || f.SampleRateHz > 192000 || f.Channels < 1 || f.Channels > 8 || f.FrameMS < 1 || f.FrameMS > 1000 {
		return errors.New("metadata's audio_format is out of range")
	}
	return nil
}

// bytesPerSample counts all channels.
func (f Format) bytesPerSample() int {
	if f.Encoding == encodingPCM {
		return 2 * f.Channels
	}
	return f.Channels
}

func (f Format) frameBytes() int { return f.SampleRateHz * f.FrameMS / 1000 * f.bytesPerSample() }

// encode puts the same samples on every channel.
func (f Format) encode(samples []int16) []byte {
	wide := make([]int16, 0, len(samples)*f.Channels)
	for _, s := range samples {
		for range f.Channels {
			wide = append(wide, s)
		}
	}
	out := make([]byte, len(samples)*f.bytesPerSample())
	switch f.Encoding {
	case encodingULaw:
		dsp.EncodeULaw(out, wide)
	case encodingALaw:
		dsp.EncodeALaw(out, wide)
	default:
		for i, s := range wide {
			binary.LittleEndian.PutUint16(out[2*i:], uint16(s))
		}
	}
	return out
}

// decode writes one channel (the first one when there is no such) to buf, which it may grow.
func (f Format) decode(buf []int16, b []byte, channel int) []int16 {
	if channel >= f.Channels {
		channel = 0
	}
	n := len(b) / f.bytesPerSample() * f.Channels
	if cap(buf) < n {
		buf = make([]int16, n)
	}
	buf = buf[:n]
	switch f.Encoding {
	case encodingULaw:
		dsp.DecodeULaw(buf, b)
	case encodingALaw:
		dsp.DecodeALaw(buf, b)
	default:
		for i := range buf {
			buf[i] = int16(binary.LittleEndian.Uint16(b[2*i:]))
		}
	}
	if f.Channels == 1 {
		return buf
	}
	for i := range n / f.Channels {
		buf[i] = buf[i*f.Channels+channel]
	}
	return buf[:n/f.Channels]
}

// wav wraps mono linear samples in a RIFF header.
func wav(samples []byte, rateHz int) []byte {
	out := make([]byte, 44, 44+len(samples))
	copy(out, "RIFF")
	binary.LittleEndian.PutUint32(out[4:], uint32(36+len(samples)))
	copy(out[8:], "WAVEfmt ")
	binary.LittleEndian.PutUint32(out[16:], 16)
	binary.LittleEndian.PutUint16(out[20:], 1)
	binary.LittleEndian.PutUint16(out[22:], 1)
	binary.LittleEndian.PutUint32(out[24:], uint32(rateHz))
	binary.LittleEndian.PutUint32(out[28:], uint32(rateHz*2))
	binary.LittleEndian.PutUint16(out[32:], 2)
	binary.LittleEndian.PutUint16(out[34:], 16)
	copy(out[36:], "data")
	binary.LittleEndian.PutUint32(out[40:], uint32(len(samples)))
	return append(out, samples...)
}
