package esl

import (
	"iter"
	"slices"
	"strings"
)

// Field is one header, its value decoded.
type Field struct {
	Name  string
	Value string
}

// span is where one field lies in a parsed block, in bytes.
type span struct {
	name, nameEnd, value, valueEnd int32
}

// Header is a list of fields in the order of the wire. Names are compared without regard to case, as the switch does.
// A parsed header keeps the text that it came from and decodes a value only when it is asked for; a header that is
// written to keeps fields. The zero value is empty and ready for use.
type Header struct {
	block  string
	spans  []span
	fields []Field
}

// Get gives the first value of a header, or "".
func (h *Header) Get(name string) string {
	value, _ := h.Lookup(name)
	return value
}

// Lookup gives the first value of a header, and whether there is one.
func (h *Header) Lookup(name string) (string, bool) {
	for i := range h.spans {
		s := &h.spans[i]
		if int(s.nameEnd-s.name) == len(name) && strings.EqualFold(h.block[s.name:s.nameEnd], name) {
			return unescape(h.block[s.value:s.valueEnd]), true
		}
	}
	for i := range h.fields {
		if strings.EqualFold(h.fields[i].Name, name) {
			return h.fields[i].Value, true
		}
	}
	return "", false
}

// Len is the number of fields.
func (h *Header) Len() int { return len(h.spans) + len(h.fields) }

// All gives the fields in order.
func (h *Header) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, s := range h.spans {
			if !yield(h.block[s.name:s.nameEnd], unescape(h.block[s.value:s.valueEnd])) {
				return
			}
		}
		for _, f := range h.fields {
			if !yield(f.Name, f.Value) {
				return
			}
		}
	}
}

// Set gives a header one value, in the place of its first one.
func (h *Header) Set(name, value string) {
	h.thaw()
	at := slices.IndexFunc(h.fields, func(f Field) bool { return strings.EqualFold(f.Name, name) })
	if at < 0 {
		h.fields = append(h.fields, Field{Name: name, Value: value})
		return
	}
	h.fields[at].Value = value
	rest := slices.DeleteFunc(h.fields[at+1:], func(f Field) bool { return strings.EqualFold(f.Name, name) })
	h.fields = h.fields[:at+1+len(rest)]
}

// Add appends a field.
func (h *Header) Add(name, value string) {
	h.thaw()
	h.fields = append(h.fields, Field{Name: name, Value: value})
}

// Del removes a header.
func (h *Header) Del(name string) {
	h.thaw()
	h.fields = slices.DeleteFunc(h.fields, func(f Field) bool { return strings.EqualFold(f.Name, name) })
}

// Clone gives a copy that can be written to apart from the original.
func (h *Header) Clone() Header {
	return Header{block: h.block, spans: h.spans, fields: slices.Clone(h.fields)}
}

// thaw turns a parsed header into fields, so that it can be written to.
func (h *Header) thaw() {
	if h.spans == nil {
		return
	}
	fields := make([]Field, 0, len(h.spans)+4)
	for name, value := range h.All() {
		fields = append(fields, Field{Name: name, Value: value})
	}
	*h = Header{fields: fields}
}

// parseHeader reads "Name: value" lines up to a blank line or the end, and gives what follows the blank line.
func parseHeader(text string) (Header, string, error) {
	spans := make([]span, 0, strings.Count(text, "\n")+1)
	pos := 0
	for pos < len(text) {
		end, next := len(text), len(text)
		if n := strings.IndexByte(text[pos:], '\n'); n >= 0 {
			end, next = pos+n, pos+n+1
		}
		if end > pos && text[end-1] == '\r' {
			end--
		}
		if end == pos {
			return Header{block: text, spans: spans}, text[next:], nil
		}
		colon := strings.IndexByte(text[pos:end], ':')
		if colon <= 0 {
			return Header{}, "", &ProtocolError{Reason: "header line without a name: " + excerpt(text[pos:end])}
		}
		value := pos + colon + 1
		for value < end && text[value] == ' ' {
			value++
		}
		for end > value && text[end-1] == ' ' {
			end--
		}
		spans = append(spans, span{int32(pos), int32(pos + colon), int32(value), int32(end)})
		pos = next
	}
	return Header{block: text, spans: spans}, "", nil
}

// excerpt is the start of a broken line, short enough for a log and without its value.
func excerpt(line string) string {
	const most = 32
	if len(line) > most {
		line = line[:most]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || (r >= '0' && r <= '9') {
			return '?'
		}
		return r
	}, line)
}

// unescape undoes the switch's percent-encoding (switch_url_encode). What is no escape stays as it is.
func unescape(s string) string {
	at := strings.IndexByte(s, '%')
	if at < 0 {
		return s
	}
	out := make([]byte, 0, len(s))
	for {
		out = append(out, s[:at]...)
		s = s[at:]
		if hi, lo, ok := hexPair(s); ok {
			out = append(out, hi<<4|lo)
			s = s[3:]
		} else {
			out = append(out, '%')
			s = s[1:]
		}
		if at = strings.IndexByte(s, '%'); at < 0 {
			return string(append(out, s...))
		}
	}
}

func hexPair(s string) (hi, lo byte, ok bool) {
	if len(s) < 3 {
		return 0, 0, false
	}
	hi, okHi := hexDigit(s[1])
	lo, okLo := hexDigit(s[2])
	return hi, lo, okHi && okLo
}

func hexDigit(b byte) (byte, bool) {
	switch {
	case b >= '0' && b <= '9':
		return b - '0', true
	case b >= 'A' && b <= 'F':
		return b - 'A' + 10, true
	case b >= 'a' && b <= 'f':
		return b - 'a' + 10, true
	default:
		return 0, false
	}
}

// appendEscaped percent-encodes the bytes that the switch's own list (SWITCH_URL_UNSAFE) names, and all that is not
// printable ASCII.
func appendEscaped(dst []byte, s string) []byte {
	const unsafe, digits = "\r\n #%&+:;<=>?@[\\]^`{|}\"", "0123456789ABCDEF"
	for i := range len(s) {
		b := s[i]
		if b < ' ' || b > '~' || strings.IndexByte(unsafe, b) >= 0 {
			dst = append(dst, '%', digits[b>>4], digits[b&15])
			continue
		}
		dst = append(dst, b)
	}
	return dst
}
