package media

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
	pcm  []int16 // the audio of a playAudio
	rate int     // its rate, playout's when it began to be decoded
}

// read parses a text frame; content is the audio that was cut out of it.
func (t *textDecoder) read(msg, content []byte, mayDesign bool) (textFrame, error) {
	var env struct {
		Type string          `json:"type"`
		ID   json.RawMessage `json:"id"`
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(msg, &env); err != nil {
		return textFrame{}, fmt.Errorf("reading a text frame: %w: %w", ErrTextFrame, err)
	}
	f := textFrame{typ: env.Type, id: plainID(env.ID), rate: t.to}
	if content != nil && env.Type != textPlayAudio {
		return f, errNotCut
	}
	var err error
	switch env.Type {
	case textPlayAudio:
		if f.pcm, err = t.playAudio(env.Data, content, mayDesign); errors.Is(err, errFilter) || errors.Is(err, errNotCut) {
			return f, err
		}
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
