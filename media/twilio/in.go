package twilio

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// The events that a voice agent sends.
const (
	EventMedia = "media"
	EventMark  = "mark"
	EventClear = "clear"
)

// MaxName bounds a mark's name, in characters.
const MaxName = 256

// Frame is a frame of the voice agent. Its members are parts of the message that was read.
type Frame struct {
	Event, StreamSID []byte
	// Payload is a media frame's audio: μ-law in base64, at least a byte.
	Payload []byte
	// Name is a mark's.
	Name []byte
}

// What is wrong with a frame.
var (
	ErrNotJSON      = errors.New("the frame is not a JSON object")
	ErrNoEvent      = errors.New("event is missing, or not a string")
	ErrUnknownEvent = errors.New("event must be media, mark or clear")
	ErrNoStream     = errors.New("streamSid is missing, or not a string")
	ErrOtherStream  = errors.New("streamSid is another stream's")
	ErrNoPayload    = errors.New("media.payload is missing, empty, or not a string")
	ErrPayload      = errors.New("media.payload is not base64")
	ErrNoName       = errors.New("mark.name is missing, empty, or not a string")
	ErrLongName     = fmt.Errorf("mark.name has more than %d characters", MaxName)
)

// Read reads a frame for a stream. With an error the frame has the event, where one was found.
func Read(msg []byte, streamSID string) (Frame, error) {
	f, err := scan(msg)
	if err != nil {
		return f, err
	}
	switch string(f.Event) {
	case "":
		return f, ErrNoEvent
	case EventMedia, EventMark, EventClear:
	default:
		return f, ErrUnknownEvent
	}
	switch {
	case len(f.StreamSID) == 0:
		return f, ErrNoStream
	case string(f.StreamSID) != streamSID:
		return f, ErrOtherStream
	}
	switch string(f.Event) {
	case EventMedia:
		if len(f.Payload) == 0 {
			return f, ErrNoPayload
		}
	case EventMark:
		if len(f.Name) == 0 {
			return f, ErrNoName
		}
		if len(f.Name) > MaxName && utf8.RuneCount(f.Name) > MaxName {
			return f, ErrLongName
		}
	}
	return f, nil
}

// Audio decodes a payload into dst, whose memory it uses when it is enough. Padding may be left away.
func Audio(dst, payload []byte) ([]byte, error) {
	payload = bytes.TrimRight(payload, "=")
	n := base64.RawStdEncoding.DecodedLen(len(payload))
	if cap(dst) < n {
		dst = make([]byte, n)
	}
	dst = dst[:n]
	if bytes.IndexByte(payload, '\n') >= 0 || bytes.IndexByte(payload, '\r') >= 0 { // which the decoder would leave out
		return nil, ErrPayload
	}
	if _, err := base64.RawStdEncoding.Decode(dst, payload); err != nil {
		return nil, ErrPayload
	}
	return dst, nil
}

// errUnusual says that a message has to be read with encoding/json.
var errUnusual = errors.New("a string has escapes, or is not UTF-8")

// scan finds the members that matter. It allocates nothing where no string that it reads has escapes, which none need.
func scan(msg []byte) (Frame, error) {
	s := scanner{b: msg}
	f := Frame{}
	err := s.object(func(key []byte) error {
		switch string(key) {
		case "event":
			return s.text(&f.Event)
		case "streamSid":
			return s.text(&f.StreamSID)
		case "media":
			return s.member("payload", &f.Payload)
		case "mark":
			return s.member("name", &f.Name)
		}
		return s.skip(0)
	})
	if err == nil && !s.atEnd() {
		err = ErrNotJSON
	}
	if errors.Is(err, errUnusual) {
		return slow(msg)
	}
	return f, err
}

// slow reads any message, as scan does.
func slow(msg []byte) (Frame, error) {
	var env map[string]json.RawMessage
	if err := json.Unmarshal(msg, &env); err != nil || env == nil {
		return Frame{}, ErrNotJSON
	}
	text := func(raw json.RawMessage) []byte {
		var v string
		if json.Unmarshal(raw, &v) != nil {
			return nil
		}
		return []byte(v)
	}
	member := func(name, key string) []byte {
		var part map[string]json.RawMessage
		if json.Unmarshal(env[name], &part) != nil {
			return nil
		}
		return text(part[key])
	}
	return Frame{
		Event: text(env["event"]), StreamSID: text(env["streamSid"]),
		Payload: member("media", "payload"), Name: member("mark", "name"),
	}, nil
}

// scanner walks over JSON (RFC 8259).
type scanner struct {
	b  []byte
	at int
}

// maxDepth bounds what lies within each other.
const maxDepth = 32

func (s *scanner) space() {
	for s.at < len(s.b) {
		switch s.b[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

func (s *scanner) atEnd() bool {
	s.space()
	return s.at == len(s.b)
}

// next takes a character, behind space.
func (s *scanner) next(c byte) bool {
	s.space()
	if s.at < len(s.b) && s.b[s.at] == c {
		s.at++
		return true
	}
	return false
}

// object calls value for each member, which has to take its value.
func (s *scanner) object(value func(key []byte) error) error {
	if !s.next('{') {
		return ErrNotJSON
	}
	if s.next('}') {
		return nil
	}
	for {
		s.space()
		key, err := s.string()
		if err != nil {
			return err
		}
		if !s.next(':') {
			return ErrNotJSON
		}
		if err := value(key); err != nil {
			return err
		}
		if s.next('}') {
			return nil
		}
		if !s.next(',') {
			return ErrNotJSON
		}
	}
}

// text takes a value, and keeps it when it is a string.
func (s *scanner) text(to *[]byte) error {
	s.space()
	*to = nil
	if s.at == len(s.b) || s.b[s.at] != '"' {
		return s.skip(0)
	}
	v, err := s.string()
	*to = v
	return err
}

// member takes a value, and keeps a member of it when it is an object.
func (s *scanner) member(name string, to *[]byte) error {
	s.space()
	*to = nil
	if s.at == len(s.b) || s.b[s.at] != '{' {
		return s.skip(0)
	}
	return s.object(func(key []byte) error {
		if string(key) == name {
			return s.text(to)
		}
		return s.skip(1)
	})
}

// string takes a string without escapes.
func (s *scanner) string() ([]byte, error) {
	if s.at == len(s.b) || s.b[s.at] != '"' {
		return nil, ErrNotJSON
	}
	end := bytes.IndexByte(s.b[s.at+1:], '"')
	if end < 0 {
		return nil, ErrNotJSON
	}
	v := s.b[s.at+1 : s.at+1+end]
	if bytes.IndexByte(v, '\\') >= 0 {
		return nil, errUnusual
	}
	if len(v) <= MaxName*utf8.UTFMax { // longer ones are base64, or of no matter
		for _, c := range v {
			if c < 0x20 {
				return nil, ErrNotJSON
			}
		}
		if !utf8.Valid(v) {
			return nil, errUnusual // encoding/json replaces what is not
		}
	}
	s.at += end + 2
	return v, nil
}

// skip takes a value that doesn't matter.
func (s *scanner) skip(depth int) error {
	s.space()
	if s.at == len(s.b) || depth > maxDepth {
		return ErrNotJSON
	}
	switch c := s.b[s.at]; {
	case c == '"':
		_, err := s.string()
		return err
	case c == '{':
		return s.object(func([]byte) error { return s.skip(depth + 1) })
	case c == '[':
		return s.array(depth)
	}
	return s.literal()
}

func (s *scanner) array(depth int) error {
	s.at++
	if s.next(']') {
		return nil
	}
	for {
		if err := s.skip(depth + 1); err != nil {
			return err
		}
		if s.next(']') {
			return nil
		}
		if !s.next(',') {
			return ErrNotJSON
		}
	}
}

// literal takes a number, true, false or null.
func (s *scanner) literal() error {
	begin := s.at
	for s.at < len(s.b) {
		c := s.b[s.at]
		if c != '-' && c != '+' && c != '.' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && c != 'E' {
			break
		}
		s.at++
	}
	if !json.Valid(s.b[begin:s.at]) {
		return ErrNotJSON
	}
	return nil
}
