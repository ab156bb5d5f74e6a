package leadfile

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/xuri/excelize/v2"
)

const (
	rels = `<Relationships><Relationship Id="r1" Type="http://x/worksheet" Target="worksheets/sheet1.xml"/>` +
		`<Relationship Id="r2" Type="http://x/sharedStrings" Target="/xl/sharedStrings.xml"/></Relationships>`
	book = `<workbook xmlns:r="r"><sheets><sheet name="a" sheetId="1" r:id="r1"/></sheets></workbook>`
)

// packed makes a workbook of a sheet and shared texts, compressed or not.
func packed(tb testing.TB, method uint16, sheet, shared string) []byte {
	tb.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestSpeed) })
	for name, text := range map[string]string{
		"xl/workbook.xml": book, "xl/_rels/workbook.xml.rels": rels, "xl/worksheets/sheet1.xml": sheet, "xl/sharedStrings.xml": shared,
	} {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		require.NoError(tb, err)
		_, err = io.WriteString(w, text)
		require.NoError(tb, err)
	}
	require.NoError(tb, z.Close())
	return out.Bytes()
}

const (
	sheetHead = `<worksheet><sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>phone</t></is></c></row>`
	sheetTail = `</sheetData></worksheet>`
)

// heapWhile is the most that was on the heap while f ran.
func heapWhile(f func()) (peak uint64) {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	done, ended := make(chan struct{}), make(chan uint64)
	go func() {
		var most uint64
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64())
			select {
			case <-done:
				ended <- most
				return
			case <-tick.C:
			}
		}
	}()
	f()
	close(done)
	return <-ended
}

// TestWorkbookBombs: whatever a workbook says that it holds, it costs little memory, and ends. Under the race detector the bombs are
// small, and those that can't be small are left out: each has its bound proven by another one, or by TestSharedTextsAreCounted.
func TestWorkbookBombs(t *testing.T) { //nolint:paralleltest // it measures the heap
	dir := t.TempDir()
	cut := testing.Short() || raceEnabled // whole in `make bench`
	mega := 1 << 20
	if cut {
		mega = 1 << 15
	}
	for name, bomb := range map[string]struct {
		file  func() []byte
		want  string // in the refusal
		whole bool   // or not at all
	}{
		"empty texts": {func() []byte {
			return packed(t, zip.Store, sheetHead+sheetTail, "<sst>"+strings.Repeat("<si/>", maxTexts+1)+"</sst>")
		}, "holds too much", true},
		"empty texts packed": {func() []byte {
			return packed(t, zip.Deflate, sheetHead+sheetTail, "<sst>"+strings.Repeat("<si/>", 8<<20)+"</sst>")
		}, "holds too much", true},
		"one text": {func() []byte {
			return packed(t, zip.Store, sheetHead+`<row><c t="inlineStr"><is><t>`+strings.Repeat("x", 48*mega)+`</t></is></c></row>`+sheetTail, "")
		}, "has a cell of more than", false},
		"one text of many runs": {func() []byte {
			return packed(t, zip.Store, sheetHead+`<row><c t="inlineStr"><is>`+strings.Repeat("<r><t>xxxxxxxxxxxxxxxx</t></r>", mega)+`</is></c></row>`+sheetTail, "")
		}, "has a cell of more than", false},
		"one text packed": {func() []byte {
			return packed(t, zip.Deflate, sheetHead+`<row><c t="inlineStr"><is><t>`+strings.Repeat("x", ratioFloor+1)+`</t></is></c></row>`+sheetTail, "")
		}, "holds too much", false},
		"one tag": {func() []byte {
			return packed(t, zip.Store, sheetHead+`<row a="`+strings.Repeat("x", 48*mega)+`"/>`+sheetTail, "")
		}, "has a cell of more than", false},
		"elements in others": {func() []byte { return packed(t, zip.Store, sheetHead+"<row>"+strings.Repeat("<a>", mega), "") }, "can't be read", false},
		"cells in cells":     {func() []byte { return packed(t, zip.Store, sheetHead+"<row>"+strings.Repeat("<c>", mega), "") }, "can't be read", false},
		"one row": {func() []byte {
			return packed(t, zip.Store, sheetHead+"<row>"+strings.Repeat("<c/>", mega)+"</row>"+sheetTail, "")
		}, "more cells", false},
		"a far column": {func() []byte {
			return packed(t, zip.Store, sheetHead+`<row><c r="XFD2"><v>1</v></c></row>`+sheetTail, "")
		}, "more than 1000 columns", false},
		"a far row": {func() []byte {
			return packed(t, zip.Store, sheetHead+`<row r="2000000"><c><v>1</v></c></row>`+sheetTail, "")
		}, "more than a sheet", false},
		"a row too many": {func() []byte {
			return packed(t, zip.Store, sheetHead+fmt.Sprintf(`<row r="%d"/><row/>`, maxRows)+sheetTail, "")
		}, "more than a sheet", false},
		"many rows": {func() []byte {
			return packed(t, zip.Store, sheetHead+strings.Repeat("<row/>", maxRows+1)+sheetTail, "")
		}, "more than a sheet", true},
		"many parts": {func() []byte {
			var out bytes.Buffer
			z := zip.NewWriter(&out)
			for i := range 10_000 {
				_, err := z.CreateHeader(&zip.FileHeader{Name: fmt.Sprintf("xl/%060d.xml", i), Method: zip.Store})
				require.NoError(t, err)
			}
			require.NoError(t, z.Close())
			return out.Bytes()
		}, "holds too much", false},
		"a small size that is a lie": {func() []byte { return lying(t) }, "XLSX workbook", false},
	} {
		if cut && bomb.whole {
			continue
		}
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // it measures the heap
			path := dir + "/bomb"
			require.NoError(t, os.WriteFile(path, bomb.file(), 0o600))
			debug.FreeOSMemory()
			src, err := os.Open(path)
			require.NoError(t, err)
			defer func() { require.NoError(t, src.Close()) }()
			before := heapWhile(func() {})
			peak := heapWhile(func() { _, err = readAll(t, src) })
			if bomb.want == "" {
				require.NoError(t, err)
			} else {
				var refused *FileError
				require.ErrorAs(t, err, &refused)
				require.Contains(t, err.Error(), bomb.want)
			}
			require.Less(t, int64(peak)-int64(before), int64(64<<20), "bytes on the heap") //nolint:gosec // sizes of a heap
		})
	}
}

// TestSharedTextsAreCounted while they are read.
func TestSharedTextsAreCounted(t *testing.T) {
	t.Parallel()
	file := packed(t, zip.Store, sheetHead+sheetTail, "<sst>"+strings.Repeat("<si><t>a</t></si>", 10)+"</sst>")
	z, err := zip.NewReader(bytes.NewReader(file), int64(len(file)))
	require.NoError(t, err)
	for _, f := range z.File {
		if f.Name != "xl/sharedStrings.xml" {
			continue
		}
		_, err := readTexts(t.Context(), f, t.TempDir(), 9)
		require.ErrorIs(t, err, errTooMuch)
		texts, err := readTexts(t.Context(), f, t.TempDir(), 10)
		require.NoError(t, err)
		last, err := texts.at(9)
		require.NoError(t, err)
		require.Equal(t, "a", last)
		require.NoError(t, texts.close())
	}
}

// lying is a workbook whose sheet has a hundred times the size that the directory says.
func lying(t *testing.T) []byte {
	t.Helper()
	var sheet bytes.Buffer
	text := sheetHead + strings.Repeat("<row><c><v>1</v></c></row>", 100_000) + sheetTail
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for name, text := range map[string]string{"xl/workbook.xml": book, "xl/_rels/workbook.xml.rels": rels} {
		w, err := z.Create(name)
		require.NoError(t, err)
		_, err = io.WriteString(w, text)
		require.NoError(t, err)
	}
	sheet.WriteString(text)
	w, err := z.CreateRaw(&zip.FileHeader{
		Name: "xl/worksheets/sheet1.xml", Method: zip.Store, CRC32: crc32.ChecksumIEEE([]byte(text)),
		CompressedSize64: uint64(len(text)), UncompressedSize64: uint64(len(text) / 100), //nolint:gosec // a length
	})
	require.NoError(t, err)
	_, err = w.Write(sheet.Bytes())
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return out.Bytes()
}

// TestWorkbookReadsAsSpreadsheetsWrite compares what is read with what excelize reads of random sheets that it has written.
func TestWorkbookReadsAsSpreadsheetsWrite(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a simulation
	book := excelize.NewFile()
	text := func() any {
		return []any{
			rng.Int64N(1e10), rng.Float64(), "x & <y> \"z\"", "नमस्ते", " blank around ", "a\nb", "", nil, true, "_x0041_", time.Unix(1.7e9, 0), "plain",
		}[rng.IntN(12)]
	}
	require.NoError(t, book.SetCellValue("Sheet1", "A1", "phone"))
	for row := 2; row < 300; row++ {
		for range rng.IntN(6) {
			cell, err := excelize.CoordinatesToCellName(1+rng.IntN(40), row+rng.IntN(3))
			require.NoError(t, err)
			require.NoError(t, book.SetCellValue("Sheet1", cell, text()))
		}
	}
	require.NoError(t, book.SetCellRichText("Sheet1", "B2", []excelize.RichTextRun{{Text: "two "}, {Text: "runs", Font: &excelize.Font{Bold: true}}}))
	require.NoError(t, book.SetCellFormula("Sheet1", "C2", "1+1"))
	var out bytes.Buffer
	require.NoError(t, book.Write(&out))
	read, err := excelize.OpenReader(bytes.NewReader(out.Bytes()), excelize.Options{RawCellValue: true})
	require.NoError(t, err)
	want, err := read.GetRows("Sheet1")
	require.NoError(t, err)
	require.NoError(t, errors.Join(book.Close(), read.Close()))

	w, err := openWorkbook(t.Context(), bytes.NewReader(out.Bytes()), Options{Dir: t.TempDir()})
	require.NoError(t, err)
	defer func() { require.NoError(t, w.Close()) }()
	got := make([][]string, len(want))
	for {
		line, row, err := w.next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		got[line-1] = append(got[line-1], row...)
	}
	trimmed := func(rows [][]string) [][]string {
		for i, row := range rows {
			for len(row) > 0 && row[len(row)-1] == "" {
				row = row[:len(row)-1]
			}
			rows[i] = append([]string{}, row...)
		}
		return rows
	}
	require.Equal(t, trimmed(want), trimmed(got))
}

// TestWorkbookEndsWithItsRequest, in the middle of rows that are all blank, and while it waits for others.
func TestWorkbookEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := packed(t, zip.Store, sheetHead+strings.Repeat("<row/>", 500_000)+sheetTail, "<sst/>")
	ctx, cancel := context.WithCancel(t.Context())
	only := make(chan struct{}, 1)
	f, err := Open(ctx, bytes.NewReader(file), Options{Dir: dir, Workbooks: only})
	require.NoError(t, err)
	require.Len(t, only, 1)
	second := make(chan error, 1)
	go func() {
		_, err := Open(ctx, bytes.NewReader(file), Options{Dir: dir, Workbooks: only})
		second <- err
	}()
	cancel()
	require.ErrorIs(t, <-second, context.Canceled)
	_, err = f.Next()
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, f.Close())
	require.Empty(t, only)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "nothing stays behind")
}
