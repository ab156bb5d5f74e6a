package leadfile

import (
	"archive/zip"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxWorkbookBytes bounds a workbook as it is sent, maxUnpackedBytes and maxTextBytes its sheet and its shared texts as they are
	// read: a million rows of five columns have about 300 MiB.
	maxWorkbookBytes = 128 << 20
	maxUnpackedBytes = 2 << 30
	maxTextBytes     = 256 << 20
	// maxRatio is how far a part may be compressed that unpacks to more than ratioFloor. Lists of people compress to a tenth.
	maxRatio   = 50
	ratioFloor = 32 << 20
	// maxDirectory bounds the archive's directory, maxPartBytes the parts that say where sheet and texts are.
	maxDirectory = 1 << 20
	maxPartBytes = 1 << 20
	// maxRows is a sheet's own bound. A row with more cells than maxRowCells, or a value beyond maxColumns, is no lead.
	maxRows     = 1 << 20
	maxColumns  = 1000
	maxRowCells = 1 << 14
	// maxCellBytes bounds the text of a cell: Excel keeps 32,767 characters.
	maxCellBytes = 128 << 10
)

var (
	errNoWorkbook = &FileError{Message: "is no XLSX workbook that can be read"}
	errTooMuch    = &FileError{Message: "is a workbook that holds too much; send the leads as CSV"}
)

// workbook is an XLSX file, kept in a file of our own while its first sheet is read, element by element. It holds one row, and where
// each shared text begins.
type workbook struct {
	path    string
	file    *os.File
	release func()
	texts   *texts
	sheet   *part
	line    int
	row     []string
}

func openWorkbook(ctx context.Context, src io.Reader, o Options) (_ *workbook, err error) {
	w := &workbook{release: func() {}}
	defer func() {
		if err != nil {
			_ = w.Close() // what failed before matters more
		}
	}()
	if err := w.spool(src, o.Dir); err != nil {
		return nil, err
	}
	if o.Workbooks != nil {
		select {
		case o.Workbooks <- struct{}{}:
			w.release = func() { <-o.Workbooks }
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	archive, err := openArchive(w.file)
	if err != nil {
		return nil, err
	}
	sheet, shared, err := archive.find(ctx)
	if err != nil {
		return nil, err
	}
	if shared != nil {
		if w.texts, err = readTexts(ctx, shared, o.Dir, maxTexts); err != nil {
			return nil, err
		}
	}
	w.sheet, err = openPart(ctx, sheet, maxUnpackedBytes)
	return w, err
}

// spool keeps the workbook in a file: its directory stands at its end.
func (w *workbook) spool(src io.Reader, dir string) error {
	file, err := os.CreateTemp(dir, TempPattern)
	if err != nil {
		return fmt.Errorf("keep the workbook: %w", err)
	}
	w.path, w.file = file.Name(), file
	n, err := io.Copy(file, io.LimitReader(src, maxWorkbookBytes+1))
	if err != nil {
		return fmt.Errorf("keep the workbook: %w", err)
	}
	if n > maxWorkbookBytes {
		return &FileError{Message: fmt.Sprintf("is a workbook of more than %d MiB; send it as CSV", maxWorkbookBytes>>20)}
	}
	return nil
}

// archive is a workbook's parts by their names in lower case.
type archive map[string]*zip.File

// openArchive reads the directory, and no more of the file than one can have.
func openArchive(file *os.File) (archive, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("read the workbook: %w", err)
	}
	src := &boundedAt{src: file, left: maxDirectory}
	z, err := zip.NewReader(src, info.Size())
	switch {
	case src.left < 0:
		return nil, errTooMuch
	case err != nil:
		return nil, errors.Join(errNoWorkbook, err)
	}
	src.left = -1 // what follows is bounded by part
	src.open = true
	a := archive{}
	for _, f := range z.File {
		a[strings.ToLower(strings.TrimPrefix(f.Name, "/"))] = f
	}
	return a, nil
}

// boundedAt gives so many bytes until it is open.
type boundedAt struct {
	src  io.ReaderAt
	left int64
	open bool
}

func (b *boundedAt) ReadAt(p []byte, off int64) (int, error) {
	if !b.open {
		if b.left -= int64(len(p)); b.left < 0 {
			return 0, errTooMuch
		}
	}
	return b.src.ReadAt(p, off)
}

// find gives the first sheet, and the shared texts, nil without any.
func (a archive) find(ctx context.Context) (sheet, shared *zip.File, err error) {
	book := "xl/workbook.xml"
	roots, err := a.relations(ctx, "_rels/.rels", "")
	if err != nil {
		return nil, nil, err
	}
	for _, r := range roots {
		if strings.HasSuffix(r.kind, "/officeDocument") {
			book = r.target
		}
	}
	dir, name := path.Split(book)
	relations, err := a.relations(ctx, dir+"_rels/"+name+".rels", dir)
	if err != nil {
		return nil, nil, err
	}
	id, err := a.firstSheet(ctx, book)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range relations {
		switch {
		case r.id == id:
			sheet = a[r.target]
		case strings.HasSuffix(r.kind, "/sharedStrings"):
			shared = a[r.target]
		}
	}
	if sheet == nil {
		return nil, nil, errNoWorkbook
	}
	return sheet, shared, nil
}

// relation is one of a part's to another.
type relation struct{ id, kind, target string }

// relations reads the relations of a part in a folder; none without their file.
func (a archive) relations(ctx context.Context, name, dir string) (all []relation, err error) {
	err = a.each(ctx, name, "Relationship", func(attr func(string) string) bool {
		target := attr("Target")
		if !strings.HasPrefix(target, "/") {
			target = dir + target
		}
		all = append(all, relation{attr("Id"), attr("Type"), strings.ToLower(strings.TrimPrefix(path.Clean(target), "/"))})
		return true
	})
	return all, err
}

// firstSheet gives the relation of the workbook's first sheet.
func (a archive) firstSheet(ctx context.Context, book string) (id string, err error) {
	if a[book] == nil {
		return "", errNoWorkbook
	}
	found := false
	err = a.each(ctx, book, "sheet", func(attr func(string) string) bool {
		id, found = attr("id"), true
		return false
	})
	if err == nil && !found {
		return "", &FileError{Message: "has no sheet"}
	}
	return id, err
}

// each visits the elements of a name in a small part.
func (a archive) each(ctx context.Context, name, element string, visit func(attr func(string) string) bool) error {
	f := a[name]
	if f == nil {
		return nil
	}
	p, err := openPart(ctx, f, maxPartBytes)
	if err != nil {
		return err
	}
	defer p.close()
	for {
		token, err := p.token()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == element {
			if !visit(func(attr string) string { return attribute(start, attr) }) {
				return nil
			}
		}
	}
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// part is a part of the archive that is read as XML. Its tokens are raw: nothing is kept of the elements that are open.
type part struct {
	src io.ReadCloser
	xml *xml.Decoder
}

// openPart opens a part that unpacks to no more than limit.
func openPart(ctx context.Context, f *zip.File, limit int64) (*part, error) {
	size := f.UncompressedSize64
	if size > uint64(limit) || size > ratioFloor && size/maxRatio > f.CompressedSize64 { //nolint:gosec // limit is positive
		return nil, errTooMuch
	}
	src, err := f.Open()
	if err != nil {
		return nil, errors.Join(errNoWorkbook, err)
	}
	p := &part{src: src, xml: xml.NewDecoder(&boundedText{ctx: ctx, src: src, left: limit})}
	p.xml.CharsetReader = func(string, io.Reader) (io.Reader, error) { return nil, errNoWorkbook }
	return p, nil
}

// token gives the next one, io.EOF after the last. Errors: *FileError, or the context's.
func (p *part) token() (xml.Token, error) {
	token, err := p.xml.RawToken()
	if err == nil || errors.Is(err, io.EOF) {
		return token, err
	}
	var refused *FileError
	if errors.As(err, &refused) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil, err
	}
	return nil, errors.Join(errNoWorkbook, err)
}

func (p *part) close() {
	if p != nil {
		_ = p.src.Close() // it was only read
	}
}

// boundedText gives a part's bytes while the request lives: no more than left, and none of them in a run without a tag that is longer
// than a cell, since XML's reader keeps such a run in memory.
type boundedText struct {
	ctx  context.Context //nolint:containedctx // that of the reads
	src  io.Reader
	left int64
	run  int
}

func (b *boundedText) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx)
	}
	n, err := b.src.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooMuch
	}
	for _, c := range p[:n] {
		if b.run++; c == '<' || c == '>' {
			b.run = 0
		}
		if b.run > maxCellBytes {
			return 0, &FileError{Message: fmt.Sprintf("has a cell of more than %d KiB", maxCellBytes>>10)}
		}
	}
	return n, err
}

// next gives the next row that has a cell.
func (w *workbook) next() (int, []string, error) {
	for {
		token, err := w.sheet.token()
		if err != nil {
			return 0, nil, w.fault(err)
		}
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "row" {
			continue
		}
		line := w.line + 1
		if r, err := strconv.Atoi(attribute(start, "r")); err == nil && r > w.line {
			line = r
		}
		if w.line = line; line > maxRows {
			return 0, nil, &FileError{Line: line, Message: "is more than a sheet can have"}
		}
		if err := w.readRow(); err != nil {
			return 0, nil, w.fault(err)
		}
		if len(w.row) > 0 {
			return line, w.row, nil
		}
	}
}

// fault says where the sheet is broken.
func (w *workbook) fault(err error) error {
	var refused *FileError
	switch {
	case errors.Is(err, io.EOF):
		return io.EOF
	case !errors.As(err, &refused):
		return err
	case errors.Is(err, errNoWorkbook):
		return errors.Join(&FileError{Line: w.line + 1, Message: "can't be read"}, err)
	case refused.Line == 0:
		return &FileError{Line: max(1, w.line), Message: refused.Message}
	}
	return err
}

// readRow reads the cells of the row that has begun.
func (w *workbook) readRow() error {
	w.row = w.row[:0]
	column := -1
	for count := 0; ; {
		token, err := w.sheet.token()
		if errors.Is(err, io.EOF) {
			return errNoWorkbook
		}
		if err != nil {
			return err
		}
		switch t := token.(type) {
		case xml.EndElement:
			if t.Name.Local == "row" {
				return nil
			}
		case xml.StartElement:
			if t.Name.Local != "c" {
				continue
			}
			if count++; count > maxRowCells {
				return &FileError{Message: "has more cells than a row can have"}
			}
			column++
			if at, ok := columnOf(attribute(t, "r")); ok {
				column = at
			}
			value, err := w.readCell(attribute(t, "t"))
			if err != nil {
				return err
			}
			if err := w.set(column, value); err != nil {
				return err
			}
		}
	}
}

// set puts a value into the row. Empty cells may be anywhere.
func (w *workbook) set(column int, value string) error {
	switch {
	case value == "":
		return nil
	case column >= maxColumns:
		return &FileError{Message: fmt.Sprintf("has more than %d columns", maxColumns)}
	}
	for len(w.row) <= column {
		w.row = append(w.row, "")
	}
	w.row[column] = value
	return nil
}

// readCell gives the value of the cell that has begun, of a type: s is a shared text, inlineStr one of its own; of the others it is
// what stands in v.
func (w *workbook) readCell(kind string) (string, error) {
	var value, text richText
	err := w.sheet.collect("c", map[string]*richText{"v": &value, "is": &text})
	switch {
	case err != nil:
		return "", err
	case kind == "inlineStr":
		return text.value(), nil
	case kind != "s":
		return value.value(), nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(value.value()))
	if err != nil || w.texts == nil {
		return "", nil //nolint:nilerr // a text that isn't there is an empty cell
	}
	return w.texts.at(n)
}

// columnOf is the column of a reference such as B5, from 0.
func columnOf(ref string) (int, bool) {
	n, digits := 0, false
	for _, c := range ref {
		switch {
		case c >= 'A' && c <= 'Z' && !digits && n < 1<<20:
			n = n*26 + int(c-'A') + 1
		case c >= '0' && c <= '9' && n > 0:
			digits = true
		default:
			return 0, false
		}
	}
	return n - 1, digits
}

// richText gathers a text that may come in runs.
type richText struct{ b strings.Builder }

func (t *richText) add(s []byte) error {
	if t.b.Len()+len(s) > maxCellBytes {
		return &FileError{Message: fmt.Sprintf("has a cell of more than %d KiB", maxCellBytes>>10)}
	}
	t.b.Write(s)
	return nil
}

func (t *richText) value() string { return unescape(t.b.String()) }

// unescape replaces _xHHHH_, as which workbooks write what XML can't hold.
func unescape(s string) string {
	if !strings.Contains(s, "_x") {
		return s
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "_x")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		if len(rest) > 4 && rest[4] == '_' {
			if code, err := strconv.ParseUint(rest[:4], 16, 16); err == nil {
				b.WriteRune(rune(code))
				s = rest[5:]
				continue
			}
		}
		b.WriteString("_x")
		s = rest
	}
}

// collect reads to the end of an element. What stands in the children that are named goes into their texts: all of v, the t of others,
// but for phonetic hints (rPh).
func (p *part) collect(end string, into map[string]*richText) error {
	var child string
	var open []string // at most so deep as a cell is
	for {
		token, err := p.token()
		if errors.Is(err, io.EOF) {
			return errNoWorkbook
		}
		if err != nil {
			return err
		}
		switch t := token.(type) {
		case xml.StartElement:
			if len(open) == 0 {
				child = t.Name.Local
			}
			if open = append(open, t.Name.Local); len(open) > 16 {
				return errNoWorkbook
			}
		case xml.EndElement:
			if len(open) == 0 {
				if t.Name.Local == end {
					return nil
				}
				return errNoWorkbook
			}
			open = open[:len(open)-1]
		case xml.CharData:
			text := into[child]
			if len(open) == 0 || text == nil || slices.Contains(open, "rPh") || child != "v" && open[len(open)-1] != "t" {
				continue
			}
			if err := text.add(t); err != nil {
				return err
			}
		}
	}
}

// Close removes the files of the workbook.
func (w *workbook) Close() error {
	defer w.release()
	w.release = func() {}
	w.sheet.close()
	var errs []error
	if w.texts != nil {
		errs = append(errs, w.texts.close())
	}
	if w.file != nil {
		errs = append(errs, w.file.Close(), os.Remove(w.path))
	}
	return errors.Join(errs...)
}
