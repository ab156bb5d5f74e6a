package dnc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrNoPhoneColumn is a file whose header names no column of numbers.
var ErrNoPhoneColumn = errors.New("read do-not-call file: header names no phone column")

// maxLine bounds a row; the regulator's are below 100 bytes.
const maxLine = 64 << 10

// Entry is one row of a registry file: a ten-digit number that is added to the registry or taken off it.
type Entry struct {
	Number uint64
	Remove bool
}

// ParseStats counts the rows of a file; blank lines and the header are not rows.
type ParseStats struct {
	Rows, Bad int64
}

// Parse reads comma, semicolon or tab separated rows and hands each number to emit, in the file's order. The
// column is found by the header; without one, it is the first field that is a number. Preference categories, modes and
// areas are not told apart: a registered number is registered. An operation column (opstype) with D or R takes
// the number off, so that the regulator's incremental files can follow the full one.
func Parse(r io.Reader, emit func(Entry)) (ParseStats, error) {
	var stats ParseStats
	in := bufio.NewReaderSize(r, maxLine)
	layout := columns{phone: -1, operation: -1}
	first := true
	var fields [][]byte
	for {
		line, err := readLine(in)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return stats, fmt.Errorf("read do-not-call file: %w", err)
		}
		done, long := errors.Is(err, io.EOF), errors.Is(err, bufio.ErrBufferFull)
		if first {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if line = bytes.TrimSpace(line); len(line) > 0 || long {
			fields = split(fields[:0], line)
			header, herr := false, error(nil)
			if first && !long {
				layout, header, herr = readHeader(fields)
			}
			if herr != nil {
				return stats, herr
			}
			first = false
			if !header {
				stats.Rows++
				if entry, ok := layout.entry(fields); ok && !long {
					emit(entry)
				} else {
					stats.Bad++
				}
			}
		}
		if done {
			return stats, nil
		}
	}
}

// readLine returns the next line, which is valid until the next call. A line that does not fit is skipped to its
// end and reported as bufio.ErrBufferFull.
func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = in.ReadSlice('\n')
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return nil, bufio.ErrBufferFull
}

func split(into [][]byte, line []byte) [][]byte {
	for {
		i := bytes.IndexAny(line, ",;\t")
		if i < 0 {
			return append(into, unquote(line))
		}
		into, line = append(into, unquote(line[:i])), line[i+1:]
	}
}

func unquote(field []byte) []byte {
	field = bytes.TrimSpace(field)
	if len(field) >= 2 && (field[0] == '"' || field[0] == '\'') && field[len(field)-1] == field[0] {
		field = bytes.TrimSpace(field[1 : len(field)-1])
	}
	return field
}

// columns says where a file keeps what; -1 is nowhere.
type columns struct {
	phone, operation int
}

// readHeader tells whether the first row is a header, which it is when none of its fields is a number.
func readHeader(fields [][]byte) (columns, bool, error) {
	layout := columns{phone: -1, operation: -1}
	for _, f := range fields {
		if bytes.ContainsAny(f, "0123456789") {
			return layout, false, nil
		}
	}
	for i, f := range fields {
		switch name(f) {
		case "phone", "phonenumber", "mobile", "mobilenumber", "mobileno", "phoneno", "msisdn", "number", "telephone":
			if layout.phone < 0 {
				layout.phone = i
			}
		case "opstype", "op", "opst", "operation", "action":
			layout.operation = i
		}
	}
	if layout.phone < 0 {
		return layout, true, ErrNoPhoneColumn
	}
	return layout, true, nil
}

// name reduces a header field to its letters, in the singular.
func name(field []byte) string {
	letters := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, strings.ToLower(string(field)))
	return strings.TrimSuffix(letters, "s")
}

func (c columns) entry(fields [][]byte) (Entry, bool) {
	var e Entry
	if c.operation >= 0 && c.operation < len(fields) {
		switch strings.ToLower(string(fields[c.operation])) {
		case "d", "r", "delete", "remove", "deactivate":
			e.Remove = true
		}
	}
	if c.phone >= 0 {
		if c.phone >= len(fields) {
			return e, false
		}
		n, ok := Number(fields[c.phone])
		e.Number = n
		return e, ok
	}
	for _, f := range fields {
		if n, ok := Number(f); ok {
			e.Number = n
			return e, true
		}
	}
	return e, false
}

// Number reads an Indian number: ten digits, with or without 0, 91 or +91 before them; spaces and hyphens between
// digits are passed over.
func Number(field []byte) (uint64, bool) {
	plus := len(field) > 0 && field[0] == '+'
	if plus {
		field = field[1:]
	}
	var n uint64
	digits := 0
	for _, c := range field {
		switch {
		case c >= '0' && c <= '9':
			if digits++; digits > 12 {
				return 0, false
			}
			n = n*10 + uint64(c-'0')
		case c == ' ' || c == '-':
		default:
			return 0, false
		}
	}
	switch {
	case digits == 12 && n/1e10 == 91:
		n %= 1e10
	case digits == 11 && n < 1e10 && !plus:
	case digits == 10 && !plus:
	default:
		return 0, false
	}
	return n, n >= 1e9
}
