package twilio

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/ringmaster/ringmaster/media/jsonscan"
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

// Read reads a frame for a stream, and resolves escapes in the message itself: it costs the time of its length, and no memory. With an error the frame has
// the event, where one was found.
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
		if !utf8.Valid(f.Name) {
			f.Name = []byte(string([]rune(string(f.Name)))) // each byte that is none becomes U+FFFD, as everywhere in JSON
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

// scan finds the members that matter. It allocates nothing.
func scan(msg []byte) (Frame, error) {
	s := jsonscan.NewResolving(msg)
	f := Frame{}
	err := s.Object(func(key []byte) error {
		switch string(key) {
		case "event":
			return s.Text(&f.Event)
		case "streamSid":
			return s.Text(&f.StreamSID)
		case "media":
			return s.Member("payload", &f.Payload)
		case "mark":
			return s.Member("name", &f.Name)
		}
		return s.Skip()
	})
	if err != nil || !s.AtEnd() {
		return f, ErrNotJSON
	}
	return f, nil
}
