package leadfile

import (
	"archive/zip"
	"bufio"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxTexts bounds a workbook's shared texts: four bytes of memory each.
const maxTexts = 5_000_000

// texts are a workbook's shared texts, in a file of our own: one after the other, text n from ends[n-1] to ends[n].
type texts struct {
	file *os.File
	ends []uint32
	buf  []byte
}

// readTexts unpacks the shared texts, at most so many.
func readTexts(ctx context.Context, f *zip.File, dir string, most int) (_ *texts, err error) {
	p, err := openPart(ctx, f, maxTextBytes)
	if err != nil {
		return nil, err
	}
	defer p.close()
	t := &texts{}
	if t.file, err = os.CreateTemp(dir, TempPattern); err != nil {
		return nil, fmt.Errorf("keep the workbook's texts: %w", err)
	}
	defer func() {
		if err != nil {
			_ = t.close() // what failed before matters more
		}
	}()
	out := bufio.NewWriter(t.file)
	end := 0
	for {
		token, err := p.token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "si" {
			continue
		}
		if len(t.ends) == most {
			return nil, errTooMuch
		}
		text, err := p.sharedText()
		if err != nil {
			return nil, err
		}
		if end += len(text); end > maxTextBytes {
			return nil, errTooMuch
		}
		t.ends = append(t.ends, uint32(end)) //nolint:gosec // maxTextBytes is less
		if _, err := out.WriteString(text); err != nil {
			return nil, fmt.Errorf("keep the workbook's texts: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return nil, fmt.Errorf("keep the workbook's texts: %w", err)
	}
	return t, nil
}

// sharedText reads the si that has begun: a text, or runs of it.
func (p *part) sharedText() (string, error) {
	var plain, runs richText
	err := p.collect("si", map[string]*richText{"t": &plain, "r": &runs})
	return plain.value() + runs.value(), err
}

// at gives a text; one that isn't there is empty.
func (t *texts) at(n int) (string, error) {
	if n < 0 || n >= len(t.ends) {
		return "", nil
	}
	from := uint32(0)
	if n > 0 {
		from = t.ends[n-1]
	}
	size := int(t.ends[n] - from)
	if cap(t.buf) < size {
		t.buf = make([]byte, size)
	}
	if _, err := t.file.ReadAt(t.buf[:size], int64(from)); err != nil {
		return "", fmt.Errorf("read the workbook's texts: %w", err)
	}
	return string(t.buf[:size]), nil
}

func (t *texts) close() error { return errors.Join(t.file.Close(), os.Remove(t.file.Name())) }
