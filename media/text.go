package media

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
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

// textTransferFailed is the type of the frame that says so.
const textTransferFailed = "transfer_failed"

// ErrTextFrame means that a text frame of the AI could not be understood.
var ErrTextFrame = errors.New("invalid text frame")

// textFrame is a text frame of the AI, decoded.
type textFrame struct {
	typ  string
	id   string
	data json.RawMessage
	mark string  // the name in a mark
	pcm  []int16 // the audio of a playAudio
	rate int     // its rate, playout's when it began to be decoded
	cut  int     // samples that were left out, since playout has no room for them
	// openai is an event of OpenAI's Realtime API.
	openai *openaiFrame
}

// maxName bounds a mark's name and a frame's id, in characters.
const maxName = 256

// errLongName refuses a mark's name or a frame's id.
var errLongName = errors.New("a mark's name and a frame's id may have at most 256 characters")

// read parses a text frame; content is the audio that was cut out of it.
func (t *textDecoder) Read(msg, content []byte, mayDesign bool) (textFrame, error) {
	var env struct {
		Type string          `json:"type"`
		ID   json.RawMessage `json:"id"`
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(msg, &env); err != nil {
		return textFrame{}, fmt.Errorf("reading a text frame: %w: %w", ErrTextFrame, err)
	}
	f := textFrame{typ: env.Type, rate: t.to}
	if content != nil && env.Type != textPlayAudio {
		return f, errNotCut
	}
	var err error
	if f.id, err = plainID(env.ID); err != nil {
		return f, fmt.Errorf("reading a %s frame: %w: %w", clip(f.typ, 64), ErrTextFrame, err)
	}
	switch env.Type {
	case textPlayAudio:
		if f.pcm, f.cut, err = t.playAudio(env.Data, content, mayDesign); errors.Is(err, errFilter) || errors.Is(err, errNotCut) {
			return f, err
		}
	case textMark:
		var m struct {
			Name string `json:"name"`
		}
		switch err = json.Unmarshal(env.Data, &m); {
		case err != nil:
		case m.Name == "":
			err = errors.New("no name")
		case longName(m.Name):
			err = errLongName
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
func plainID(raw json.RawMessage) (string, error) {
	if len(raw) > 6*maxName+2 { // \u0000 is the longest way to write a character
		return "", errLongName
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		if s = string(bytes.TrimSpace(raw)); s == "null" {
			return "", nil
		}
	}
	if longName(s) {
		return "", errLongName
	}
	return s, nil
}

func longName(s string) bool { return len(s) > maxName && utf8.RuneCountInString(s) > maxName }

// announcedType finds the type that a text frame begins with, "" when it doesn't stand in the part that has come: clients may
// write it behind the data.
func announcedType(head []byte) string {
	depth, key, isKey := 0, "", false
	for i := 0; i < len(head); i++ {
		switch head[i] {
		case '{':
			depth++
			isKey = depth == 1
		case '[':
			depth++
		case '}', ']':
			depth--
		case ',':
			isKey = depth == 1
		case ':':
			isKey = false
		case '"':
			end := stringEnd(head[i+1:])
			if end < 0 {
				return ""
			}
			s := head[i+1 : i+1+end]
			i += end + 1
			switch {
			case depth != 1:
			case isKey:
				key = string(s[:min(len(s), 8)])
			case key == "type":
				return string(s[:min(len(s), 64)])
			}
		}
	}
	return ""
}

// hasAudio tells whether a frame's audio has begun.
func hasAudio(head []byte) bool { return bytes.Contains(head, []byte(`"audioContent"`)) }

// stringEnd is where a JSON string's closing quote stands, -1 when it has not come.
func stringEnd(b []byte) int {
	for at := 0; ; {
		quote := bytes.IndexByte(b[at:], '"')
		if quote < 0 {
			return -1
		}
		at += quote
		slashes := 0
		for at-slashes > 0 && b[at-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return at
		}
		at++
	}
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

// withReconnect adds the member "reconnect" to a metadata object.
func withReconnect(meta json.RawMessage, value any) json.RawMessage {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(meta, &m); err != nil || m == nil {
		return meta
	}
	var err error
	if m["reconnect"], err = json.Marshal(value); err != nil {
		return meta
	}
	b, err := json.Marshal(m)
	if err != nil {
		return meta
	}
	return b
}
