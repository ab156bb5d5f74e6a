package esl

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"
)

// Event is one of the switch's events, or the channel that Connect gives.
type Event struct {
	header Header
	body   string
}

// NewEvent builds an event, for a switch's side.
func NewEvent(name string) *Event {
	e := &Event{}
	e.header.Add("Event-Name", name)
	return e
}

// Name is the event's name, as in CHANNEL_ANSWER.
func (e *Event) Name() string { return e.header.Get("Event-Name") }

// Subclass is the name that a CUSTOM event goes by, as in conference::maintenance.
func (e *Event) Subclass() string { return e.header.Get("Event-Subclass") }

// UUID is the channel's id.
func (e *Event) UUID() string { return e.header.Get("Unique-ID") }

// Get gives a header's value, decoded, or "".
func (e *Event) Get(header string) string { return e.header.Get(header) }

// Lookup gives a header's value, decoded, and whether the event has it.
func (e *Event) Lookup(header string) (string, bool) { return e.header.Lookup(header) }

// Var gives a channel variable, which events carry as variable_<name>.
func (e *Event) Var(name string) string { return e.header.Get("variable_" + name) }

// Micros gives a time that a header holds in microseconds since the epoch; the zero time when it is absent or 0, which
// the switch writes for what has not happened.
func (e *Event) Micros(header string) time.Time {
	us, err := strconv.ParseInt(e.header.Get(header), 10, 64)
	if err != nil || us <= 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// Body is the text after the headers.
func (e *Event) Body() string { return e.body }

// Headers gives the headers in order, values decoded.
func (e *Event) Headers() iter.Seq2[string, string] { return e.header.All() }

// Len is the number of headers.
func (e *Event) Len() int { return e.header.Len() }

// Set gives a header one value.
func (e *Event) Set(header, value string) { e.header.Set(header, value) }

// Del removes a header.
func (e *Event) Del(header string) { e.header.Del(header) }

// SetBody sets the text after the headers.
func (e *Event) SetBody(body string) { e.body = body }

// parsePlain parses the body of a text/event-plain frame: percent-encoded headers, a blank line, and a body of its own Content-Length.
func parsePlain(text string) (*Event, error) {
	header, rest, err := parseHeader(text)
	if err != nil {
		return nil, err
	}
	if header.Len() == 0 {
		return nil, &ProtocolError{Reason: "event without headers"}
	}
	e := &Event{header: header}
	if rest == "" {
		return e, nil
	}
	length, ok := header.Lookup("Content-Length")
	if !ok {
		return nil, &ProtocolError{Reason: "event with a body and no Content-Length"}
	}
	size, err := strconv.Atoi(length)
	if err != nil || size < 0 || size > len(rest) {
		return nil, &ProtocolError{Reason: "event's Content-Length does not fit its body", Err: err}
	}
	e.body = rest[:size]
	return e, nil
}

// ParseJSONEvent parses the body of a text/event-json frame: one object of strings. The member _body is the body; an
// array is given as the plain format writes it, ARRAY::a|:b.
func ParseJSONEvent(text []byte) (*Event, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := expectDelim(dec, '{'); err != nil {
		return nil, err
	}
	e := &Event{header: Header{fields: make([]Field, 0, 64)}}
	for dec.More() {
		name, err := jsonText(dec)
		if err != nil {
			return nil, err
		}
		value, err := jsonText(dec)
		if err != nil {
			return nil, err
		}
		if name == "_body" {
			e.body = value
			continue
		}
		if name == "" {
			return nil, &ProtocolError{Reason: "JSON event with a nameless header"}
		}
		e.header.fields = append(e.header.fields, Field{Name: name, Value: value})
	}
	if err := expectDelim(dec, '}'); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, &ProtocolError{Reason: "JSON event is followed by more input"}
	}
	if len(e.header.fields) == 0 {
		return nil, &ProtocolError{Reason: "event without headers"}
	}
	return e, nil
}

func expectDelim(dec *json.Decoder, want json.Delim) error {
	token, err := dec.Token()
	if err != nil {
		return &ProtocolError{Reason: "JSON event is malformed", Err: err}
	}
	if token != want {
		return &ProtocolError{Reason: "JSON event is no object"}
	}
	return nil
}

// jsonText reads one value as text: a name, or a header's value.
func jsonText(dec *json.Decoder) (string, error) {
	token, err := dec.Token()
	if err != nil {
		return "", &ProtocolError{Reason: "JSON event is malformed", Err: err}
	}
	switch v := token.(type) {
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	case bool:
		return strconv.FormatBool(v), nil
	case nil:
		return "", nil
	case json.Delim:
		if v == '[' {
			return jsonArray(dec)
		}
	}
	return "", &ProtocolError{Reason: "JSON event holds a value that is no text"}
}

func jsonArray(dec *json.Decoder) (string, error) {
	var items []string
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return "", &ProtocolError{Reason: "JSON event is malformed", Err: err}
		}
		item, ok := token.(string)
		if !ok {
			return "", &ProtocolError{Reason: "JSON event holds an array of no text"}
		}
		items = append(items, item)
	}
	if _, err := dec.Token(); err != nil {
		return "", &ProtocolError{Reason: "JSON event is malformed", Err: err}
	}
	return "ARRAY::" + strings.Join(items, "|:"), nil
}

// EncodePlain gives the event as the body of a text/event-plain frame. It is also, as it stands, the frame that answers
// an outbound socket's connect.
func (e *Event) EncodePlain() []byte {
	out := make([]byte, 0, 64*(e.header.Len()+1)+len(e.body))
	for name, value := range e.header.All() {
		if e.body != "" && strings.EqualFold(name, "Content-Length") {
			continue
		}
		out = append(append(out, name...), ": "...)
		out = append(appendEscaped(out, value), '\n')
	}
	if e.body == "" {
		return append(out, '\n')
	}
	out = append(out, "Content-Length: "...)
	out = strconv.AppendInt(out, int64(len(e.body)), 10)
	out = append(out, "\n\n"...)
	return append(out, e.body...)
}

// EncodeJSON gives the event as the body of a text/event-json frame.
func (e *Event) EncodeJSON() []byte {
	out := append(make([]byte, 0, 64*(e.header.Len()+1)+len(e.body)), '{')
	member := func(name, value string) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(appendJSON(out, name), ':')
		out = appendJSON(out, value)
	}
	for name, value := range e.header.All() {
		if e.body != "" && strings.EqualFold(name, "Content-Length") {
			continue
		}
		member(name, value)
	}
	if e.body != "" {
		member("Content-Length", strconv.Itoa(len(e.body)))
		member("_body", e.body)
	}
	return append(out, '}')
}

func appendJSON(dst []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil { // a string always marshals
		return append(dst, `""`...)
	}
	return append(dst, text...)
}
