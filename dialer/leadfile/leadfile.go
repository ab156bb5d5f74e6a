// Package leadfile reads lists of leads from the files that people have them in: CSV with any usual delimiter and encoding, and
// XLSX. It reads row by row, and holds no more of a file than one row and a few buffers.
//
// Read this file for what a row is and how a file's kind is told, header.go for how columns are named, encoding.go and csv.go
// for text, xlsx.go and texts.go for workbooks.
package leadfile

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Fault says what is wrong with one cell of a row.
type Fault struct{ Field, Message string }

// Row is one lead of the file. Empty text stands for an empty cell.
type Row struct {
	// Line is the row's number in the file, as an editor or a spreadsheet shows it; the header's is 1 where nothing is above it.
	Line int
	// Phone, Name, Email, CRMLeadID and Priority are the cells without the space around them.
	Phone, Name, Email, CRMLeadID, Priority string
	// Metadata is an object of the columns that have no meaning of their own, joined with the object in the column metadata; nil
	// without any.
	Metadata json.RawMessage
	Faults   []Fault
}

// FileError says why a file can't be read as a list of leads, or not any further.
type FileError struct {
	// Line is where reading ended; 0 when the file as a whole is meant.
	Line    int
	Message string
}

// Error implements error.
func (e *FileError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("read lead file: line %d %s", e.Line, e.Message)
	}
	return "read lead file: it " + e.Message
}

// File is an open list of leads. It belongs to one goroutine.
type File struct {
	cells  cells
	header header
	// numeric tells that numbers may come in scientific notation, as workbooks keep them.
	numeric bool
}

// cells gives a file's rows as they are. A row is good until the next one is asked for.
type cells interface {
	// next gives io.EOF at the end, a *rowError for a row that can't be read, and a *FileError when the file is broken.
	next() (line int, row []string, err error)
	io.Closer
}

// rowError says why a row can't be read; those after it can.
type rowError struct {
	line, cell int
	message    string
}

// Error implements error.
func (e *rowError) Error() string {
	return fmt.Sprintf("read lead file: line %d %s", e.line, e.message)
}

const (
	zipMagic = "PK\x03\x04"
	// oleMagic begins the workbooks of Excel up to 2003.
	oleMagic = "\xD0\xCF\x11\xE0"
	// sniffBytes is how much of a file is looked at to tell its kind.
	sniffBytes = 64 << 10
)

// TempPattern names the files that workbooks are kept in while they are read.
const TempPattern = "ringmaster-leads-*"

// Options are what reading a file needs besides it.
type Options struct {
	// Dir is where workbooks are kept meanwhile; the system's folder for such files when empty.
	Dir string
	// Workbooks bounds, by its capacity, how many workbooks are read at once; nil for any number. The others wait.
	Workbooks chan struct{}
}

// Open reads the header of a file; ctx bounds all that is read of a workbook. Errors: *FileError, the reader's own, or the context's. The
// file must be closed.
func Open(ctx context.Context, r io.Reader, o Options) (*File, error) {
	src := bufio.NewReaderSize(r, sniffBytes)
	start, err := src.Peek(len(zipMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read lead file: %w", err)
	}
	f := &File{}
	switch {
	case len(bytes.TrimSpace(start)) == 0 && errors.Is(err, io.EOF):
		return nil, &FileError{Message: "is empty"}
	case bytes.HasPrefix(start, []byte(oleMagic)):
		return nil, &FileError{Message: "is a workbook of an old format (.xls); save it as .xlsx or .csv"}
	case bytes.HasPrefix(start, []byte(zipMagic)):
		f.numeric = true
		f.cells, err = openWorkbook(ctx, src, o)
	default:
		f.cells, err = openText(src)
	}
	if err != nil {
		return nil, err
	}
	if err := f.readHeader(); err != nil {
		return nil, closing(f, err)
	}
	return f, nil
}

// closing closes a file that could not be opened after all.
func closing(c io.Closer, err error) error {
	_ = c.Close() // what failed before matters more
	return err
}

func (f *File) readHeader() error {
	for {
		_, row, err := f.cells.next()
		if errors.Is(err, io.EOF) {
			return &FileError{Message: "is empty"}
		}
		if bad, ok := errors.AsType[*rowError](err); ok {
			return &FileError{Line: bad.line, Message: bad.message}
		}
		if err != nil {
			return err
		}
		if blank(row) {
			continue
		}
		f.header = newHeader(row)
		if !f.header.hasPhone() {
			return &FileError{Message: "has no phone column: the first row must name the columns, one of them phone or mobile"}
		}
		return nil
	}
}

// Next gives the next row that isn't blank, and io.EOF after the last. Errors: *FileError, or the reader's own.
func (f *File) Next() (Row, error) {
	for {
		line, cells, err := f.cells.next()
		if bad, ok := errors.AsType[*rowError](err); ok {
			return Row{Line: bad.line, Faults: []Fault{{f.header.label(bad.cell), bad.message}}}, nil
		}
		if err != nil {
			return Row{}, err
		}
		if !blank(cells) {
			return f.row(line, cells), nil
		}
	}
}

// Close frees what the file holds, but for the reader.
func (f *File) Close() error { return f.cells.Close() }

func blank(row []string) bool {
	for _, cell := range row {
		if trim(cell) != "" {
			return false
		}
	}
	return true
}
