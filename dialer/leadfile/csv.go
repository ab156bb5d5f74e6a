package leadfile

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxRowBytes bounds one row of text. A quotation mark that is never closed would otherwise take the rest of the file for one
// cell.
const maxRowBytes = 256 << 10

var errLongRow = errors.New("row is too long")

type textCells struct {
	csv    *csv.Reader
	budget *budget
	// skipped counts the lines above the header that the CSV reader never sees.
	skipped int
	line    int
}

func openText(raw *bufio.Reader) (*textCells, error) {
	utf8Text, err := decoded(raw)
	if err != nil {
		return nil, err
	}
	src := bufio.NewReaderSize(utf8Text, sniffBytes)
	t := &textCells{budget: &budget{src: src}}
	comma, directive, err := delimiter(src)
	if err != nil {
		return nil, err
	}
	if directive > 0 {
		if _, err := src.Discard(directive); err != nil {
			return nil, err
		}
		t.skipped = 1
	}
	t.csv = csv.NewReader(t.budget)
	t.csv.Comma, t.csv.FieldsPerRecord, t.csv.LazyQuotes, t.csv.ReuseRecord = comma, -1, true, true
	return t, nil
}

func (t *textCells) next() (int, []string, error) {
	t.budget.left = maxRowBytes
	row, err := t.csv.Read()
	switch {
	case err == nil:
		line, _ := t.csv.FieldPos(0)
		t.line = line + t.skipped
		return t.line, row, nil
	case errors.Is(err, io.EOF):
		return 0, nil, io.EOF
	case errors.Is(err, errLongRow):
		return 0, nil, &FileError{
			Line:    t.line + 1,
			Message: fmt.Sprintf("begins a row of more than %d KiB; is a quotation mark not closed?", maxRowBytes>>10),
		}
	default:
		if broken, ok := errors.AsType[*csv.ParseError](err); ok {
			return 0, nil, &FileError{Line: broken.StartLine + t.skipped, Message: "is no CSV: " + broken.Err.Error()}
		}
		return 0, nil, fmt.Errorf("read lead file: %w", err)
	}
}

func (t *textCells) Close() error { return nil }

// budget lets a reader have so many bytes until it is set anew.
type budget struct {
	src  io.Reader
	left int
}

func (b *budget) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errLongRow
	}
	n, err := b.src.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// delimiters are those that are told by counting; the first wins a draw.
const delimiters = ",;\t|"

// delimiter finds what separates the cells of the first line that isn't blank, or reads it from the line "sep=;" that
// spreadsheets put before it, whose length it gives then.
func delimiter(src *bufio.Reader) (comma rune, directive int, err error) {
	start, err := src.Peek(sniffBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, 0, err
	}
	text := string(start)
	if rest, ok := strings.CutPrefix(text, "sep="); ok && rest != "" && strings.ContainsRune(delimiters, rune(rest[0])) {
		if end := strings.IndexByte(text, '\n'); end >= 0 && len(strings.TrimRight(text[:end], "\r")) == len("sep=;") {
			return rune(rest[0]), end + 1, nil
		}
	}
	text = strings.TrimLeft(text, "\r\n")
	counts := map[rune]int{}
	quoted := false
	for _, c := range text {
		if c == '\n' && !quoted {
			break
		}
		if c == '"' {
			quoted = !quoted
		}
		if !quoted {
			counts[c]++
		}
	}
	comma = ','
	for _, c := range delimiters {
		if counts[c] > counts[comma] {
			comma = c
		}
	}
	return comma, 0, nil
}
