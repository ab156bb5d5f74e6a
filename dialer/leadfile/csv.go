package leadfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxRowBytes bounds one row of text, and how far the end of a cell over several lines is looked for.
const maxRowBytes = 256 << 10

// minPeek is how much more text is asked for at least when a row goes beyond what was read.
const minPeek = 4 << 10

var (
	errCutShort  = errors.New("row goes on")
	errOpenQuote = errors.New("quotation mark is not closed")
)

// textCells cuts text into rows as spreadsheets do: a quotation mark has a meaning only at the start of a cell, and what follows
// the closing one up to the delimiter belongs to the cell. A cell over several lines must be closed as CSV demands it, right
// before a delimiter or the end of a line. Otherwise its row ends with its first line and is at fault, and the next line begins
// the next row: a stray mark costs one row, never those after it.
type textCells struct {
	src   *bufio.Reader
	comma byte
	stops string // what ends a cell
	line  int    // of the next row
	// The row being read: its text without quotation marks, where each cell's ends, and the cells.
	text []byte
	ends []int
	row  []string
}

func openText(raw *bufio.Reader) (*textCells, error) {
	utf8Text, err := decoded(raw)
	if err != nil {
		return nil, err
	}
	t := &textCells{src: bufio.NewReaderSize(utf8Text, maxRowBytes), line: 1}
	start, err := t.src.Peek(sniffBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if bytes.IndexByte(start, '\n') < 0 && bytes.IndexByte(start, '\r') >= 0 {
		t.src = bufio.NewReaderSize(&linesOfCR{src: t.src}, maxRowBytes)
	}
	comma, directive, err := delimiter(t.src)
	if err != nil {
		return nil, err
	}
	if directive > 0 {
		if _, err := t.src.Discard(directive); err != nil {
			return nil, err
		}
		t.line = 2
	}
	t.comma, t.stops = comma, string([]byte{comma, '\n'})
	return t, nil
}

// linesOfCR is a text whose lines end in carriage returns alone, as spreadsheets write it for old Macintoshes: they are line feeds.
type linesOfCR struct{ src io.Reader }

func (l *linesOfCR) Read(p []byte) (int, error) {
	n, err := l.src.Read(p)
	for i, c := range p[:n] {
		if c == '\r' {
			p[i] = '\n'
		}
	}
	return n, err
}

func (t *textCells) next() (int, []string, error) {
	n, err := t.find()
	switch {
	case errors.Is(err, io.EOF):
		return 0, nil, io.EOF
	case errors.Is(err, errOpenQuote):
		return t.skip()
	case errors.Is(err, errCutShort):
		return 0, nil, t.tooLong()
	case err != nil:
		return 0, nil, fmt.Errorf("read lead file: %w", err)
	}
	taken, err := t.src.Peek(n)
	if err != nil {
		return 0, nil, fmt.Errorf("read lead file: %w", err)
	}
	line := t.line
	t.line += bytes.Count(taken, []byte{'\n'})
	text, from := string(t.text), 0
	t.row = t.row[:0]
	for _, end := range t.ends {
		t.row, from = append(t.row, text[from:end]), end
	}
	_, err = t.src.Discard(n)
	return line, t.row, err
}

// find cuts the next row, and gives its length. Errors: io.EOF, errOpenQuote, errCutShort for a row that is too long, the
// reader's own.
func (t *textCells) find() (int, error) {
	for want := max(t.src.Buffered(), 1); ; want = min(want+max(want, minPeek), maxRowBytes) {
		ahead, err := t.src.Peek(want)
		whole := errors.Is(err, io.EOF)
		if err != nil && !whole {
			return 0, err
		}
		if len(ahead) == 0 {
			return 0, io.EOF
		}
		n, err := t.cut(ahead, whole)
		if errors.Is(err, errCutShort) && want < maxRowBytes {
			continue
		}
		if errors.Is(err, errCutShort) {
			if _, open := t.cut(ahead, true); open != nil {
				return 0, open
			}
		}
		return n, err
	}
}

// skip passes over the line that the next row begins with, for its quotation mark that is not closed.
func (t *textCells) skip() (int, []string, error) {
	ahead, err := t.src.Peek(t.src.Buffered())
	if err != nil {
		return 0, nil, fmt.Errorf("read lead file: %w", err)
	}
	end := bytes.IndexByte(ahead, '\n')
	if end < 0 && len(ahead) >= maxRowBytes {
		return 0, nil, t.tooLong()
	}
	fault := &rowError{line: t.line, cell: len(t.ends), message: "has a quotation mark that is not closed"}
	t.line++
	if end < 0 {
		end = len(ahead) - 1
	}
	if _, err := t.src.Discard(end + 1); err != nil {
		return 0, nil, fmt.Errorf("read lead file: %w", err)
	}
	return 0, nil, fault
}

func (t *textCells) tooLong() error {
	return &FileError{Line: t.line, Message: fmt.Sprintf("begins a row of more than %d KiB", maxRowBytes>>10)}
}

// cut cuts the row that w begins with into cells, and gives its length. whole tells that nothing follows w. Errors: errOpenQuote,
// errCutShort when w ends before the row does.
func (t *textCells) cut(w []byte, whole bool) (int, error) {
	t.text, t.ends = t.text[:0], t.ends[:0]
	for at := 0; ; at++ {
		if at < len(w) && w[at] == '"' {
			n, err := t.quoted(w[at+1:], whole)
			if err != nil {
				return 0, err
			}
			at += 1 + n
		}
		rest := w[at:]
		if end := bytes.IndexAny(rest, t.stops); end >= 0 {
			rest = rest[:end]
		} else if !whole {
			return 0, errCutShort
		}
		at += len(rest)
		last := at == len(w) || w[at] == '\n'
		if last {
			rest = bytes.TrimSuffix(rest, []byte{'\r'})
		}
		t.text = append(t.text, rest...)
		t.ends = append(t.ends, len(t.text))
		if last {
			return min(at+1, len(w)), nil
		}
	}
}

// quoted takes a cell's text after its opening mark up to the closing one, and gives the length with that.
func (t *textCells) quoted(w []byte, whole bool) (int, error) {
	lines := false
	for at := 0; ; {
		n := bytes.IndexByte(w[at:], '"')
		if n < 0 && whole {
			return 0, errOpenQuote
		}
		if n < 0 || !whole && at+n+1 == len(w) {
			return 0, errCutShort
		}
		text := w[at : at+n]
		if bytes.IndexByte(text, '\n') >= 0 {
			lines = true
			text = bytes.ReplaceAll(text, []byte("\r\n"), []byte{'\n'})
		}
		t.text = append(t.text, text...)
		at += n + 1
		if at < len(w) && w[at] == '"' {
			t.text = append(t.text, '"')
			at++
			continue
		}
		if !lines {
			return at, nil
		}
		return at, t.closes(w[at:], whole)
	}
}

// closes tells whether a cell can end before rest.
func (t *textCells) closes(rest []byte, whole bool) error {
	switch {
	case len(rest) == 0, rest[0] == t.comma, rest[0] == '\n', bytes.HasPrefix(rest, []byte("\r\n")):
		return nil
	case len(rest) > 1 || rest[0] != '\r':
		return errOpenQuote
	case !whole:
		return errCutShort
	default:
		return nil
	}
}

func (t *textCells) Close() error { return nil }

// delimiters are those that are told by counting; the first wins a draw.
const delimiters = ",;\t|"

// delimiter finds what separates the cells of the first line that isn't blank, or reads it from the line "sep=;" that
// spreadsheets put before it, whose length it gives then.
func delimiter(src *bufio.Reader) (comma byte, directive int, err error) {
	start, err := src.Peek(sniffBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, 0, err
	}
	text := string(start)
	if rest, ok := strings.CutPrefix(text, "sep="); ok && rest != "" && strings.ContainsRune(delimiters, rune(rest[0])) {
		if end := strings.IndexByte(text, '\n'); end >= 0 && len(strings.TrimRight(text[:end], "\r")) == len("sep=;") {
			return rest[0], end + 1, nil
		}
	}
	text = strings.TrimLeft(text, "\r\n")
	counts := map[byte]int{}
	quoted := false
	for _, c := range []byte(text) {
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
	for _, c := range []byte(delimiters) {
		if counts[c] > counts[comma] {
			comma = c
		}
	}
	return comma, 0, nil
}
