package esl

import (
	"bufio"
	"bytes"
	"strconv"
	"strings"
)

// What a switch does at its side of the socket, for tests that play one.

// NewMessage builds a frame; Encode adds its Content-Length.
func NewMessage(contentType, body string) *Message {
	m := &Message{Body: body}
	m.Header.Add("Content-Type", contentType)
	return m
}

// NewReply builds the frame that answers a command, text as in "+OK" or "-ERR No such channel!".
func NewReply(text string) *Message {
	m := NewMessage(TypeReply, "")
	m.Header.Add("Reply-Text", text)
	return m
}

// NewEventMessage builds the frame of an event in plain format, or in JSON.
func NewEventMessage(e *Event, asJSON bool) *Message {
	if asJSON {
		return NewMessage(TypeEventJSON, string(e.EncodeJSON()))
	}
	return NewMessage(TypeEventPlain, string(e.EncodePlain()))
}

// Encode gives the frame as it goes over the wire. Values are escaped only where they would break the frame, since
// the switch does not escape the words of a reply.
func (m *Message) Encode() []byte {
	out := make([]byte, 0, 96+len(m.Body))
	if m.Body != "" {
		out = append(out, "Content-Length: "...)
		out = strconv.AppendInt(out, int64(len(m.Body)), 10)
		out = append(out, '\n')
	}
	for name, value := range m.Header.All() {
		if strings.EqualFold(name, "Content-Length") {
			continue
		}
		out = append(append(out, name...), ": "...)
		out = append(out, frameEscape(value)...)
		out = append(out, '\n')
	}
	out = append(out, '\n')
	return append(out, m.Body...)
}

// frameEscape escapes line breaks, the escape itself, and the spaces at the ends that a reader takes off.
func frameEscape(value string) string {
	if !strings.ContainsAny(value, "\r\n%") && strings.Trim(value, " ") == value {
		return value
	}
	var out strings.Builder
	for i := range len(value) {
		switch b := value[i]; {
		case b == '\r':
			out.WriteString("%0D")
		case b == '\n':
			out.WriteString("%0A")
		case b == '%':
			out.WriteString("%25")
		case b == ' ' && (i == 0 || i == len(value)-1):
			out.WriteString("%20")
		default:
			out.WriteByte(b)
		}
	}
	return out.String()
}

// Request is a command as a switch receives it: the first line, then headers and a body for those that have them.
type Request struct {
	Line   string
	Header Header
	Body   string
}

// ReadRequest reads one command. Its errors are ReadMessage's.
func ReadRequest(r *bufio.Reader) (*Request, error) {
	head, err := readHead(r, nil, func(string, int) {})
	if err != nil {
		return nil, err
	}
	line, rest, _ := strings.Cut(string(head), "\n")
	header, _, err := parseHeader(rest)
	if err != nil {
		return nil, err
	}
	_, fields, _ := bytes.Cut(head, []byte{'\n'})
	body, err := readBody(r, fields)
	if err != nil {
		return nil, err
	}
	return &Request{Line: strings.TrimSpace(line), Header: header, Body: body}, nil
}

// ParsePlainEvent parses the body of a text/event-plain frame: percent-encoded headers, a blank line, and a body of
// its own Content-Length.
func ParsePlainEvent(text []byte) (*Event, error) { return parsePlain(string(text)) }

// Clone gives a copy that can be written to apart from the original.
func (e *Event) Clone() *Event { return &Event{header: e.header.Clone(), body: e.body} }
