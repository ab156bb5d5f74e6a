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

const (
	// maxLine bounds a row; the regulator's are below 100 bytes.
	maxLine = 64 << 10
	// maxBadLines bounds the line numbers that are kept of rows that can't be read; all are counted.
	maxBadLines = 20
)

// Entry is one row of a registry file: a ten-digit number, and what it is barred to, or no more.
type Entry struct {
	Number     uint64
	Remove     bool
	Categories Categories
	Modes      Modes
}

// ParseStats counts the rows of a file; blank lines and the header are not rows.
type ParseStats struct {
	Rows, Bad int64
	// BadLines are the numbers of the first lines that could not be read.
	BadLines []int64
}

// parser reads one file.
type parser struct {
	layout    columns
	delimiter byte // 0 until a line shows it
	started   bool
	line      int64
	stats     ParseStats
	fields    [][]byte

	categories memo[Categories]
	modes      memo[Modes]
}

// maxMemo bounds the lists that a memo remembers.
const maxMemo = 4096

// memo remembers what lists of codes mean: a file has few different ones, in millions of rows.
type memo[T any] struct {
	read func([]byte) (T, bool)
	seen map[string]reading[T]
}

type reading[T any] struct {
	set   T
	known bool
}

func (m memo[T]) of(field []byte) (T, bool) {
	if r, ok := m.seen[string(field)]; ok {
		return r.set, r.known
	}
	set, known := m.read(field)
	if len(m.seen) < maxMemo {
		m.seen[string(field)] = reading[T]{set, known}
	}
	return set, known
}

// Parse reads a file's rows and hands each number to emit, in the file's order. Rows that can't be read are counted. Errors:
// ErrNoPhoneColumn, the reader's own.
func Parse(r io.Reader, emit func(Entry)) (ParseStats, error) {
	in := bufio.NewReaderSize(r, maxLine)
	p := parser{
		layout: noColumns(), categories: memo[Categories]{readCategories, make(map[string]reading[Categories])},
		modes: memo[Modes]{readModes, make(map[string]reading[Modes])},
	}
	for {
		line, err := readLine(in)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return p.stats, fmt.Errorf("read do-not-call file: %w", err)
		}
		p.line++
		if errors.Is(err, bufio.ErrBufferFull) {
			p.started = true
			p.bad()
			continue
		}
		if ferr := p.take(line, emit); ferr != nil {
			return p.stats, ferr
		}
		if errors.Is(err, io.EOF) {
			return p.stats, nil
		}
	}
}

// take reads one line.
func (p *parser) take(line []byte, emit func(Entry)) error {
	if p.line == 1 {
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	if line = bytes.Trim(line, "\r\n "); len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	if p.delimiter == 0 {
		p.delimiter = delimiterOf(line)
	}
	p.fields = split(p.fields[:0], line, p.delimiter)
	if !p.started {
		p.started = true
		layout, header, err := readHeader(p.fields)
		if err != nil {
			return err
		}
		if header {
			p.layout = layout
			return nil
		}
	}
	e, ok := p.entry()
	if !ok {
		p.bad()
		return nil
	}
	p.stats.Rows++
	emit(e)
	return nil
}

func (p *parser) bad() {
	p.stats.Rows++
	p.stats.Bad++
	if len(p.stats.BadLines) < maxBadLines {
		p.stats.BadLines = append(p.stats.BadLines, p.line)
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

// delimiterOf is what stands most often between a line's fields; 0 for a line of one field.
func delimiterOf(line []byte) byte {
	var best byte
	most := 0
	for _, d := range []byte(",;\t|") {
		if n := bytes.Count(line, []byte{d}); n > most {
			best, most = d, n
		}
	}
	return best
}

// split cuts a line at the delimiters that stand outside quotes.
func split(into [][]byte, line []byte, delimiter byte) [][]byte {
	if delimiter == 0 {
		return append(into, unquote(line))
	}
	for {
		from := 0
		if len(line) > 0 && line[0] == '"' {
			if end := bytes.IndexByte(line[1:], '"'); end >= 0 {
				from = end + 2
			}
		}
		i := bytes.IndexByte(line[from:], delimiter)
		if i < 0 {
			return append(into, unquote(line))
		}
		into, line = append(into, unquote(line[:from+i])), bytes.TrimLeft(line[from+i+1:], " ")
	}
}

// unquote takes off the quotes, and what spreadsheets put before a number to keep it text.
func unquote(field []byte) []byte {
	field = bytes.TrimPrefix(bytes.TrimSpace(field), []byte("="))
	if len(field) >= 2 && (field[0] == '"' || field[0] == '\'') && field[len(field)-1] == field[0] {
		return bytes.TrimSpace(field[1 : len(field)-1])
	}
	return bytes.TrimPrefix(field, []byte("'"))
}

// columns says where a file keeps what; -1 is nowhere.
type columns struct {
	phone, operation, status, categories, modes int
}

func noColumns() columns {
	return columns{phone: -1, operation: -1, status: -1, categories: -1, modes: -1}
}

// readHeader tells whether the first row is a header: one without a digit, or one that names a column of numbers and holds no
// number.
func readHeader(fields [][]byte) (columns, bool, error) {
	layout, digits, preferences := noColumns(), false, -1
	first := func(place *int, i int) {
		if *place < 0 {
			*place = i
		}
	}
	for i, f := range fields {
		if _, number := Number(f); number {
			return noColumns(), false, nil
		}
		digits = digits || bytes.ContainsAny(f, "0123456789")
		switch name(f) {
		case "phone", "phonenumber", "phoneno", "mobile", "mobilenumber", "mobileno", "mobilephone", "msisdn", "number",
			"telephone", "telephonenumber", "telephoneno", "subscribernumber", "customernumber", "contactnumber", "contactno",
			"cli", "ph", "phno", "mdn":
			first(&layout.phone, i)
		case "opstype", "op", "operation", "operationtype", "action", "actiontype", "flag":
			first(&layout.operation, i)
		case "statu", "recordstatu", "dndstatu", "registrationstatu":
			first(&layout.status, i)
		case "category", "categorie", "blockedcategory", "blockedcategorie", "categorycode", "preferencecategory", "preferencecategorie":
			first(&layout.categories, i)
		case "preference", "preferencecode", "pref", "blockedpreference":
			first(&preferences, i)
		case "mode", "blockedmode", "modecode", "communicationmode", "modeofcommunication", "preferencemode", "prefmode":
			first(&layout.modes, i)
		}
	}
	switch {
	case layout.phone < 0 && digits:
		return noColumns(), false, nil
	case layout.phone < 0:
		return layout, true, ErrNoPhoneColumn
	case layout.modes >= 0:
		first(&layout.categories, preferences) // the register of 2018: preferences are what is barred
	}
	return layout, true, nil
}

// name reduces a field to its letters and digits, in the singular.
func name(field []byte) string {
	kept := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(string(field)))
	return strings.TrimSuffix(kept, "s")
}

// entry reads a row. Categories and modes that can't be told bar everything, and take nothing off.
func (p *parser) entry() (Entry, bool) {
	c := p.layout
	at := func(i int) []byte {
		if i < 0 || i >= len(p.fields) {
			return nil
		}
		return p.fields[i]
	}
	var e Entry
	operation := at(c.operation)
	if len(operation) == 0 {
		operation = at(c.status)
	}
	e.Remove = takesOff(operation)
	ok := true
	if c.categories >= 0 {
		var known bool
		e.Categories, known = p.categories.of(at(c.categories))
		ok = ok && (known || !e.Remove)
	}
	if c.modes >= 0 {
		var known bool
		e.Modes, known = p.modes.of(at(c.modes))
		ok = ok && (known || !e.Remove)
	}
	if !ok {
		return e, false
	}
	if c.phone >= 0 {
		e.Number, ok = Number(at(c.phone))
		return e, ok
	}
	for _, f := range p.fields {
		if n, ok := Number(f); ok {
			e.Number = n
			return e, true
		}
	}
	return e, false
}

// takesOff tells whether an operation or status ends a registration.
func takesOff(field []byte) bool {
	if len(field) == 1 {
		return field[0]|0x20 == 'd' // R is registered in some files, removed in others
	}
	switch strings.ToLower(string(field)) {
	case "del", "delete", "deleted", "remove", "removed", "deactivate", "deactivated", "inactive", "deregister", "deregistered",
		"de-registered", "unregistered", "cancelled", "canceled":
		return true
	}
	return false
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
