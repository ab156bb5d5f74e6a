// Package jsonscan reads the members of JSON objects that matter, for the tick threads: it allocates nothing, and either resolves escapes in the
// message's own memory or refuses what needs encoding/json.
package jsonscan

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf16"
	"unicode/utf8"
)

var (
	// ErrSyntax means that it isn't JSON, or not a JSON object.
	ErrSyntax = errors.New("not a JSON object")
	// ErrUnusual means that a message has to be read with encoding/json.
	ErrUnusual = errors.New("a string has escapes, or is not UTF-8")
)

const (
	// maxDepth bounds what lies within each other.
	maxDepth = 32
	// checked is the length up to which strings are looked at, in bytes: longer ones are base64, or of no matter.
	checked = 1024
)

// Scanner walks over JSON (RFC 8259).
type Scanner struct {
	b        []byte
	at       int
	resolves bool
}

// New begins to read a message.
func New(msg []byte) Scanner { return Scanner{b: msg} }

// NewResolving begins to read a message that is the reader's own: escapes are resolved in its memory, so that any message costs the time of its
// length. What is not UTF-8 stays as it is, and [ErrUnusual] doesn't come.
func NewResolving(msg []byte) Scanner { return Scanner{b: msg, resolves: true} }

func (s *Scanner) space() {
	for s.at < len(s.b) {
		switch s.b[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// AtEnd tells whether nothing follows.
func (s *Scanner) AtEnd() bool {
	s.space()
	return s.at == len(s.b)
}

// next takes a character, behind space.
func (s *Scanner) next(c byte) bool {
	s.space()
	if s.at < len(s.b) && s.b[s.at] == c {
		s.at++
		return true
	}
	return false
}

// Object calls value for each member, which has to take its value.
func (s *Scanner) Object(value func(key []byte) error) error {
	if !s.next('{') {
		return ErrSyntax
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
			return ErrSyntax
		}
		if err := value(key); err != nil {
			return err
		}
		if s.next('}') {
			return nil
		}
		if !s.next(',') {
			return ErrSyntax
		}
	}
}

// Text takes a value, and keeps it when it is a string.
func (s *Scanner) Text(to *[]byte) error {
	s.space()
	*to = nil
	if s.at == len(s.b) || s.b[s.at] != '"' {
		return s.skip(0)
	}
	v, err := s.string()
	*to = v
	return err
}

// Member takes a value, and keeps a member of it when it is an object.
func (s *Scanner) Member(name string, to *[]byte) error {
	s.space()
	*to = nil
	if s.at == len(s.b) || s.b[s.at] != '{' {
		return s.skip(0)
	}
	return s.Object(func(key []byte) error {
		if string(key) == name {
			return s.Text(to)
		}
		return s.skip(1)
	})
}

// Index takes a value, and keeps it when it is a natural number of at most nine digits.
func (s *Scanner) Index(to *int) error {
	s.space()
	begin := s.at
	if err := s.skip(0); err != nil {
		return err
	}
	n, digits := 0, s.b[begin:s.at]
	if len(digits) > 9 {
		return nil
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return nil
		}
		n = 10*n + int(c-'0')
	}
	*to = n
	return nil
}

// Skip takes a value that doesn't matter.
func (s *Scanner) Skip() error { return s.skip(0) }

// string takes a string, which has no escapes unless they are resolved.
func (s *Scanner) string() ([]byte, error) {
	if s.at == len(s.b) || s.b[s.at] != '"' {
		return nil, ErrSyntax
	}
	end := bytes.IndexByte(s.b[s.at+1:], '"')
	if end < 0 {
		return nil, ErrSyntax
	}
	v := s.b[s.at+1 : s.at+1+end]
	if bytes.IndexByte(v, '\\') >= 0 {
		if s.resolves {
			return s.escaped()
		}
		return nil, ErrUnusual
	}
	if len(v) <= checked {
		for _, c := range v {
			if c < 0x20 {
				return nil, ErrSyntax
			}
		}
		if !s.resolves && !utf8.Valid(v) {
			return nil, ErrUnusual // encoding/json replaces what is not
		}
	}
	s.at += end + 2
	return v, nil
}

// escaped takes a string, and resolves its escapes where it lies: none is shorter than what it stands for.
func (s *Scanner) escaped() ([]byte, error) {
	begin := s.at + 1
	out := s.b[begin:begin]
	for at := begin; at < len(s.b); {
		c := s.b[at]
		switch {
		case c == '"':
			s.at = at + 1
			return out, nil
		case c < 0x20:
			return nil, ErrSyntax
		case c != '\\':
			out = append(out, c)
			at++
			continue
		}
		r, n := escape(s.b[at:])
		if n == 0 {
			return nil, ErrSyntax
		}
		out = utf8.AppendRune(out, r)
		at += n
	}
	return nil, ErrSyntax
}

// escape reads an escape, of n bytes; 0 when it is none.
func escape(b []byte) (r rune, n int) {
	if len(b) < 2 {
		return 0, 0
	}
	switch c := b[1]; c {
	case '"', '\\', '/':
		return rune(c), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	}
	r, ok := unit(b)
	if !ok {
		return 0, 0
	}
	if utf16.IsSurrogate(r) {
		if low, ok := unit(b[6:]); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return pair, 12
			}
		}
		r = utf8.RuneError // a half of a pair stands for nothing
	}
	return r, 6
}

// unit reads \uXXXX.
func unit(b []byte) (r rune, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	for _, c := range b[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

func (s *Scanner) skip(depth int) error {
	s.space()
	if s.at == len(s.b) || depth > maxDepth {
		return ErrSyntax
	}
	switch s.b[s.at] {
	case '"':
		_, err := s.string()
		return err
	case '{':
		return s.Object(func([]byte) error { return s.skip(depth + 1) })
	case '[':
		return s.array(depth)
	}
	return s.literal()
}

func (s *Scanner) array(depth int) error {
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
			return ErrSyntax
		}
	}
}

// literal takes a number, true, false or null.
func (s *Scanner) literal() error {
	begin := s.at
	for s.at < len(s.b) {
		c := s.b[s.at]
		if c != '-' && c != '+' && c != '.' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && c != 'E' {
			break
		}
		s.at++
	}
	if !json.Valid(s.b[begin:s.at]) {
		return ErrSyntax
	}
	return nil
}
