package leadfile

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/xuri/excelize/v2"
)

const (
	// maxWorkbookBytes bounds a workbook as it is sent, maxUnpackedBytes what it holds: a million rows of five columns have about
	// 300 MiB. Its sheets and texts are unpacked to files; what else it holds comes into memory, up to maxPartBytes in all.
	maxWorkbookBytes = 128 << 20
	maxUnpackedBytes = 2 << 30
	maxPartBytes     = 32 << 20
	// maxMemoryPart is the largest sheet that isn't unpacked to a file.
	maxMemoryPart = 4 << 20
)

// workbook is an XLSX file, kept in a file of our own while it is read.
type workbook struct {
	path string
	book *excelize.File
	rows *excelize.Rows
	line int
}

func openWorkbook(src io.Reader) (_ *workbook, err error) {
	w := &workbook{}
	defer func() {
		if err != nil {
			_ = w.Close() // what failed before matters more
		}
	}()
	if err := w.spool(src); err != nil {
		return nil, err
	}
	if err := checkArchive(w.path); err != nil {
		return nil, err
	}
	broken := &FileError{Message: "is no XLSX workbook that can be read"}
	w.book, err = excelize.OpenFile(w.path, excelize.Options{
		RawCellValue: true, UnzipSizeLimit: maxUnpackedBytes, UnzipXMLSizeLimit: maxMemoryPart,
	})
	if err != nil {
		return nil, errors.Join(broken, err)
	}
	sheets := w.book.GetSheetList()
	if len(sheets) == 0 {
		return nil, &FileError{Message: "has no sheet"}
	}
	if w.rows, err = w.book.Rows(sheets[0]); err != nil {
		return nil, errors.Join(broken, err)
	}
	return w, nil
}

// spool keeps the workbook in a file: its directory stands at its end.
func (w *workbook) spool(src io.Reader) error {
	file, err := os.CreateTemp("", "ringmaster-leads-*.xlsx")
	if err != nil {
		return fmt.Errorf("keep the workbook: %w", err)
	}
	w.path = file.Name()
	n, err := io.Copy(file, io.LimitReader(src, maxWorkbookBytes+1))
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("keep the workbook: %w", err)
	}
	if n > maxWorkbookBytes {
		return &FileError{Message: fmt.Sprintf("is a workbook of more than %d MiB; send it as CSV", maxWorkbookBytes>>20)}
	}
	return nil
}

// checkArchive refuses an archive that would unpack to more than a list of leads can be.
func checkArchive(path string) error {
	z, err := zip.OpenReader(path)
	if err != nil {
		return errors.Join(&FileError{Message: "is no XLSX workbook that can be read"}, err)
	}
	defer func() { _ = z.Close() }() // it was only read
	var all, inMemory uint64
	for _, part := range z.File {
		size := part.UncompressedSize64
		if size > maxUnpackedBytes {
			size = maxUnpackedBytes + 1
		}
		all += size
		name := strings.ToLower(part.Name)
		if name != "xl/sharedstrings.xml" && !strings.HasPrefix(name, "xl/worksheets/sheet") {
			inMemory += size
		}
		if all > maxUnpackedBytes || inMemory > maxPartBytes {
			return &FileError{Message: "is a workbook that holds too much; send the leads as CSV"}
		}
	}
	return nil
}

func (w *workbook) next() (int, []string, error) {
	if !w.rows.Next() {
		if err := w.rows.Error(); err != nil {
			return 0, nil, errors.Join(&FileError{Line: w.line + 1, Message: "can't be read"}, err)
		}
		return 0, nil, io.EOF
	}
	w.line++
	row, err := w.rows.Columns()
	if err != nil {
		return 0, nil, errors.Join(&FileError{Line: w.line, Message: "can't be read"}, err)
	}
	return w.line, row, nil
}

// Close removes the files that the workbook was unpacked to.
func (w *workbook) Close() error {
	var errs []error
	if w.rows != nil {
		errs = append(errs, w.rows.Close())
	}
	if w.book != nil {
		errs = append(errs, w.book.Close())
	}
	if w.path != "" {
		errs = append(errs, os.Remove(w.path))
	}
	return errors.Join(errs...)
}
