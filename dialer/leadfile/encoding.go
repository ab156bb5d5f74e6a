package leadfile

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

// decoded gives a text file in UTF-8. What it is in is told by its byte order mark; without one, UTF-16 by its zeros, and the
// rest by the first character that isn't ASCII: it begins UTF-8, or the file is in Windows-1252, of which Latin-1 is a part.
func decoded(src *bufio.Reader) (io.Reader, error) {
	start, err := src.Peek(sniffBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(start, []byte("\xFF\xFE\x00\x00")), bytes.HasPrefix(start, []byte("\x00\x00\xFE\xFF")):
		return nil, &FileError{Message: "is in UTF-32; save it in UTF-8"}
	case bytes.HasPrefix(start, []byte("\xFF\xFE")), bytes.HasPrefix(start, []byte("\xFE\xFF")):
		return unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM).NewDecoder().Reader(src), nil
	case bytes.HasPrefix(start, []byte("\xEF\xBB\xBF")):
		if _, err := src.Discard(3); err != nil {
			return nil, err
		}
		return src, nil
	case bytes.IndexByte(start, 0) < 0:
		return &asciiFirst{src: src}, nil
	}
	order, ok := utf16Order(start)
	if !ok {
		return nil, &FileError{Message: "is no text: it must be CSV in UTF-8, UTF-16 or Latin-1, or XLSX"}
	}
	return unicode.UTF16(order, unicode.IgnoreBOM).NewDecoder().Reader(src), nil
}

// utf16Order tells the byte order of text in UTF-16 without a mark, which is mostly characters below 256.
func utf16Order(start []byte) (unicode.Endianness, bool) {
	var zeros [2]int
	for i, b := range start {
		if b == 0 {
			zeros[i%2]++
		}
	}
	half := len(start) / 2
	switch {
	case zeros[1]*10 > half*4 && zeros[0]*20 < half:
		return unicode.LittleEndian, true
	case zeros[0]*10 > half*4 && zeros[1]*20 < half:
		return unicode.BigEndian, true
	default:
		return unicode.LittleEndian, false
	}
}

// lookAhead is how much of the text around the first character beyond ASCII is looked at.
const lookAhead = 4 << 10

// asciiFirst passes ASCII on, and decides what the text is in when it meets the first other byte.
type asciiFirst struct {
	src *bufio.Reader
	// rest is all from that byte on.
	rest io.Reader
}

func (a *asciiFirst) Read(p []byte) (int, error) {
	if a.rest != nil {
		return a.rest.Read(p)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if _, err := a.src.Peek(1); err != nil {
		return 0, err
	}
	chunk, err := a.src.Peek(min(len(p), a.src.Buffered()))
	if err != nil {
		return 0, err
	}
	n := bytes.IndexFunc(chunk, func(c rune) bool { return c >= utf8.RuneSelf })
	if n < 0 {
		n = len(chunk)
	}
	if n == 0 {
		ahead, err := a.src.Peek(lookAhead)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		a.rest = a.src
		if !isUTF8(ahead) {
			a.rest = charmap.Windows1252.NewDecoder().Reader(a.src)
		}
		return a.rest.Read(p)
	}
	copy(p, chunk[:n])
	return a.src.Discard(n)
}

// isUTF8 tells whether b is in UTF-8, but for a last character that may be cut.
func isUTF8(b []byte) bool {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if tail := b[len(b)-i:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				b = b[:len(b)-i]
			}
			break
		}
	}
	return utf8.Valid(b)
}
