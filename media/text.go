package media

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Types of the text frames that the AI sends.
const (
	textPlayAudio  = "playAudio"
	textKillAudio  = "killAudio"
	textClearMarks = "clearMarks"
	textMark       = "mark"
	textTransfer   = "transfer"
	textDisconnect = "disconnect"
	textJSON       = "json"
	textCommand    = "command"
)

// textAMD is the type of the frames that report answering-machine detection.
const textAMD = "amd"

// ErrTextFrame means that a text frame of the AI could not be understood.
var ErrTextFrame = errors.New("text frame can't be understood")

// textFrame is a text frame of the AI, decoded.
type textFrame struct {
	typ  string
	id   string
	data json.RawMessage
	mark string  // the name in a mark
	pcm  []int16 // the audio of a playAudio, at the leg's rate
}

// decodeText reads a text frame. It keeps no reference to msg. rate is the AI's own, for audio that names none.
func decodeText(msg []byte, rate int) (textFrame, error) {
	var env struct {
		Type string          `json:"type"`
		ID   json.RawMessage `json:"id"`
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(msg, &env); err != nil {
		return textFrame{}, fmt.Errorf("reading a text frame: %w: %w", ErrTextFrame, err)
	}
	f := textFrame{typ: env.Type, id: plainID(env.ID)}
	var err error
	switch env.Type {
	case textPlayAudio:
		f.pcm, err = decodePlayAudio(env.Data, rate)
	case textMark:
		var m struct {
			Name string `json:"name"`
		}
		if err = json.Unmarshal(env.Data, &m); err == nil && m.Name == "" {
			err = errors.New("no name")
		}
		f.mark = m.Name
	default:
		f.data = env.Data
	}
	if err != nil {
		return textFrame{typ: f.typ}, fmt.Errorf("reading a %s frame: %w: %w", f.typ, ErrTextFrame, err)
	}
	return f, nil
}

// plainID takes an id that is a string or a number.
func plainID(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	if s = string(bytes.TrimSpace(raw)); s == "null" {
		return ""
	}
	return s
}

// decodePlayAudio reads the audio of a playAudio frame: raw 16-bit samples or a WAV file, at any rate.
func decodePlayAudio(data json.RawMessage, rate int) ([]int16, error) {
	var d struct {
		ContentType string          `json:"audioContentType"`
		SampleRate  json.RawMessage `json:"sampleRate"`
		Content     string          `json:"audioContent"`
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, err
	}
	audio, err := decodeBase64(d.Content)
	if err != nil {
		return nil, fmt.Errorf("audioContent: %w", err)
	}
	var pcm []int16
	switch strings.ToLower(d.ContentType) {
	case "wav", "wave":
		if pcm, rate, err = decodeWAV(audio); err != nil {
			return nil, err
		}
	case "raw", "":
		if rate, err = numericRate(d.SampleRate, rate); err != nil {
			return nil, err
		}
		if len(audio)%2 != 0 {
			return nil, errors.New("audioContent: odd number of bytes")
		}
		pcm = make([]int16, len(audio)/2)
		for i := range pcm {
			pcm[i] = int16(binary.LittleEndian.Uint16(audio[2*i:]))
		}
	default:
		return nil, fmt.Errorf("audioContentType %q is unknown", d.ContentType)
	}
	r, err := NewResampler(rate, sampleRate)
	if err != nil {
		return nil, err
	}
	out := r.Process(make([]int16, 0, len(pcm)*sampleRate/rate+2*chunkSamples), pcm)
	return r.Flush(out), nil
}

// decodeBase64 takes the standard alphabet, with and without padding.
func decodeBase64(s string) ([]byte, error) {
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
}

// numericRate reads a sample rate that is a number or a numeric string.
func numericRate(raw json.RawMessage, fallback int) (int, error) {
	s := strings.Trim(string(raw), `" `)
	if s == "" || s == "null" {
		return fallback, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f < 4000 || f > 192000 {
		return 0, fmt.Errorf("sampleRate %q is not a rate", s)
	}
	return int(f), nil
}

// encodeText builds a text frame's body.
func encodeText(typ string, data any) ([]byte, error) {
	b, err := json.Marshal(struct {
		Type string `json:"type"`
		Data any    `json:"data,omitempty"`
	}{typ, data})
	if err != nil {
		return nil, fmt.Errorf("encoding a %s frame: %w", typ, err)
	}
	return b, nil
}

// markData is the body of a mark's answer.
type markData struct {
	Name  string `json:"name"`
	Event string `json:"event"`
}

// dtmfData is the body of a dtmf frame.
type dtmfData struct {
	Digit      string `json:"digit"`
	DurationMS int    `json:"duration_ms"`
}

// withReconnect adds "reconnect": true to a metadata object.
func withReconnect(meta json.RawMessage) json.RawMessage {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(meta, &m); err != nil || m == nil {
		return meta
	}
	m["reconnect"] = json.RawMessage("true")
	b, err := json.Marshal(m)
	if err != nil {
		return meta
	}
	return b
}
