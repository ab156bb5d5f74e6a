package leadfile

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"github.com/xuri/excelize/v2"
	"go.uber.org/goleak"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// readAll gives the rows of a file, and the error that ended it.
func readAll(tb testing.TB, r io.Reader) (rows []Row, err error) {
	tb.Helper()
	f, err := Open(tb.Context(), r, Options{Dir: tb.TempDir()})
	if err != nil {
		return nil, err
	}
	defer func() { require.NoError(tb, f.Close()) }()
	for {
		row, err := f.Next()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return rows, err
		}
		rows = append(rows, row)
	}
}

func TestColumnsAreFoundByTheirNames(t *testing.T) {
	t.Parallel()
	for name, head := range map[string]string{
		"canonical": "phone,name,email,crm_lead_id", "aliases": "mobile,first_name,email,lead_id",
		"case and space": ` Phone , NAME,E-Mail, CRM Lead ID `, "words": "Mobile Number,Full Name,Email Address,crm-lead-id",
		"byte order mark": "\ufeffphone,name,email,crm_lead_id", "quoted": `"phone","name","email","crm_lead_id"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows, err := readAll(t, strings.NewReader(head+"\n 9812345678 ,Ann, a@b.test,crm-1\n"))
			require.NoError(t, err)
			require.Equal(t, []Row{{Line: 2, Phone: "9812345678", Name: "Ann", Email: "a@b.test", CRMLeadID: "crm-1"}}, rows)
		})
	}
}

func TestCanonicalColumnWinsOverItsAlias(t *testing.T) {
	t.Parallel()
	rows, err := readAll(t, strings.NewReader("mobile,phone_number,phone,first_name,name\n1,2,3,a,b\n1,2,,a,\n,2,,,\n"))
	require.NoError(t, err)
	require.Equal(t, []Row{
		{Line: 2, Phone: "3", Name: "b"}, {Line: 3, Phone: "1", Name: "a"}, {Line: 4, Phone: "2"},
	}, rows, "where it is empty, the alias counts")
}

func TestOtherColumnsAreMetadata(t *testing.T) {
	t.Parallel()
	rows, err := readAll(t, strings.NewReader(strings.Join([]string{
		"phone,City,metadata,Plan Type,,phone_2",
		`1,Pune,"{""plan"":{""x"":1.50},""City"":""Goa""}",gold,ignored,7`,
		`2,,,,,`,
		`3,,[1],,,`,
		`4,,"{""n"":1e999999}",,,`,
		`5,,"{""n"":""\u0000""}",,,`,
		`6,,{} {},,,`,
		`7,,"` + strings.Repeat(`{""a"":`, 40) + "1" + strings.Repeat("}", 40) + `",,,`,
	}, "\n")))
	require.NoError(t, err)
	require.Len(t, rows, 7)
	require.JSONEq(t, `{"plan":{"x":1.50},"City":"Goa","Plan Type":"gold","phone_2":"7"}`, string(rows[0].Metadata))
	require.Nil(t, rows[1].Metadata)
	for _, row := range rows[2:] {
		require.Len(t, row.Faults, 1, "line %d", row.Line)
		require.Equal(t, "metadata", row.Faults[0].Field, "line %d", row.Line)
	}
}

func TestDelimitersAndLayout(t *testing.T) {
	t.Parallel()
	want := []Row{{Line: 2, Phone: "9812345678", Name: "Ann"}, {Line: 3, Phone: "9812345679", Name: "Bo"}}
	for name, text := range map[string]string{
		"comma": "phone,name\n9812345678,Ann\n9812345679,Bo\n", "semicolon": "phone;name\n9812345678;Ann\n9812345679;Bo",
		"tab": "phone\tname\r\n9812345678\tAnn\r\n9812345679\tBo\r\n", "pipe": "phone|name\n9812345678|Ann\n9812345679|Bo\n",
		"carriage returns":    "phone,name\r9812345678,Ann\r9812345679,Bo\r",
		"short and long rows": "phone,name,email\n9812345678,Ann\n9812345679,Bo,,,,\n",
		"text by apostrophe":  "phone,name\n'9812345678,Ann\n'9812345679,Bo\n",
		"delimiters quoted":   "phone,name,\"a;b;c;d\"\n9812345678,Ann\n9812345679,Bo\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows, err := readAll(t, strings.NewReader(text))
			require.NoError(t, err)
			require.Equal(t, want, rows)
		})
	}
	rows, err := readAll(t, strings.NewReader("sep=;\nphone;name\n\n;;\n9812345678;\"An\nn \"\"A\"\"\"\n9812345679;Bo\n"))
	require.NoError(t, err)
	require.Equal(t, []Row{{Line: 5, Phone: "9812345678", Name: "An\nn \"A\""}, {Line: 7, Phone: "9812345679", Name: "Bo"}}, rows)
	rows, err = readAll(t, strings.NewReader("phone,name\n'9812345678,'t Hooft\n'+919812345679,'=1+1\n"))
	require.NoError(t, err)
	require.Equal(t, []Row{{Line: 2, Phone: "9812345678", Name: "'t Hooft"}, {Line: 3, Phone: "+919812345679", Name: "=1+1"}}, rows, "a name's own apostrophe")
}

func TestEncodings(t *testing.T) {
	t.Parallel()
	text := "phone,name\n9812345678,José\n" + strings.Repeat("9812345679,Ann\n", 10_000) + "9812345670,Müller\n"
	latin, err := charmap.ISO8859_1.NewEncoder().String(text)
	require.NoError(t, err)
	encode := func(e unicode.Endianness, bom unicode.BOMPolicy) string {
		out, err := unicode.UTF16(e, bom).NewEncoder().String(text)
		require.NoError(t, err)
		return out
	}
	for name, file := range map[string]string{
		"UTF-8": text, "UTF-8 with a mark": "\ufeff" + text, "Latin-1": latin,
		"UTF-16 little-endian": encode(unicode.LittleEndian, unicode.UseBOM), "UTF-16 big-endian": encode(unicode.BigEndian, unicode.UseBOM),
		"UTF-16 little-endian without a mark": encode(unicode.LittleEndian, unicode.IgnoreBOM),
		"UTF-16 big-endian without a mark":    encode(unicode.BigEndian, unicode.IgnoreBOM),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows, err := readAll(t, strings.NewReader(file))
			require.NoError(t, err)
			require.Len(t, rows, 10_002)
			require.Equal(t, "José", rows[0].Name)
			require.Equal(t, "Müller", rows[10_001].Name)
			require.Equal(t, 10_003, rows[10_001].Line)
		})
	}
	// The first character beyond ASCII comes late.
	late := "phone,name\n" + strings.Repeat("9812345679,Ann\n", 20_000) + "9812345678,Jos\xe9\n"
	rows, err := readAll(t, strings.NewReader(late))
	require.NoError(t, err)
	require.Equal(t, "José", rows[20_000].Name)
	// In a file that began in UTF-8 the row is at fault.
	rows, err = readAll(t, strings.NewReader("phone,name\n9812345679,José\n"+strings.Repeat("9812345679,Ann\n", 10_000)+"9812345678,Jos\xe9\n"))
	require.NoError(t, err)
	require.Equal(t, []Fault{{"name", "is not valid UTF-8"}}, rows[10_001].Faults)
}

func TestFilesThatAreRefused(t *testing.T) {
	t.Parallel()
	workbook := workbookOf(t, [][]any{{"number", "name"}, {1, "a"}})
	for name, tt := range map[string]struct{ file, message string }{
		"empty":               {"", "is empty"},
		"blank":               {"\n\n  ,\n", "is empty"},
		"no phone column":     {"name,email\nAnn,a@b.test\n", "has no phone column"},
		"no header":           {"9812345678,Ann\n", "has no phone column"},
		"old workbook":        {"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1", "old format"},
		"picture":             {"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x01\x00", "is no text"},
		"UTF-32":              {"\xFF\xFE\x00\x00p\x00\x00\x00", "UTF-32"},
		"archive":             {"PK\x03\x04 and nothing more", "is no XLSX workbook"},
		"quote in the header": {"phone,\"name\n9812345678,x\n", "quotation mark"},
		"one endless row":     {"phone," + strings.Repeat("x", 400_000), "more than 256 KiB"},
		"one endless cell":    {"phone,\"" + strings.Repeat("x", 400_000), "more than 256 KiB"},
		"workbook, no phone":  {string(workbook), "has no phone column"},
		"workbook, cut":       {string(workbook[:len(workbook)/2]), "is no XLSX workbook"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := readAll(t, strings.NewReader(tt.file))
			var refused *FileError
			require.ErrorAs(t, err, &refused)
			require.Contains(t, refused.Message, tt.message)
		})
	}
}

// A quotation mark too many costs its own row at most: what it would swallow are other people's numbers.
func TestStrayQuotesTakeNoOtherRows(t *testing.T) {
	t.Parallel()
	others := "9876650081,y\r\n9876650082,\"z\"\r\n"
	fault := []Fault{{"name", "has a quotation mark that is not closed"}}
	for text, first := range map[string]Row{
		`9876650080,"Bob" Lee`:      {Phone: "9876650080", Name: "Bob Lee"},
		`9876650080,"Bob "B" Lee"`:  {Phone: "9876650080", Name: `Bob B" Lee"`},
		`9876650080,Bob "B" Lee`:    {Phone: "9876650080", Name: `Bob "B" Lee`},
		`9876650080,Bob"`:           {Phone: "9876650080", Name: `Bob"`},
		`9876650080,"Bob, ""B"" L"`: {Phone: "9876650080", Name: `Bob, "B" L`},
		`"9876650080" ,""`:          {Phone: "9876650080"},
		"9876650080,\"Bob\r\nLee\"": {Phone: "9876650080", Name: "Bob\nLee"},
		`9876650080,"Bob Lee`:       {Faults: fault},
		`9876650080,"Bob" Lee,"x`:   {Faults: []Fault{{"row", fault[0].Message}}},
		`9876650080,"""Bob`:         {Faults: fault},
	} {
		first.Line = 2
		after := 3 + strings.Count(text, "\n")
		want := []Row{first, {Line: after, Phone: "9876650081", Name: "y"}, {Line: after + 1, Phone: "9876650082", Name: "z"}}
		rows, err := readAll(t, strings.NewReader("phone,name\r\n"+text+"\r\n"+others))
		require.NoError(t, err, text)
		require.Equal(t, want, rows, text)
		want[0].Line, want[1].Line, want[2].Line = 4, 2, 3
		rows, err = readAll(t, strings.NewReader("phone,name\r\n"+others+text))
		require.NoError(t, err, text)
		require.Equal(t, []Row{want[1], want[2], want[0]}, rows, text)
	}
	// Far more follows than is looked through for the end of a cell.
	rows, err := readAll(t, strings.NewReader("phone,name\n9876650080,\"Bob\n"+strings.Repeat("9876650081,y\n", 30_000)))
	require.NoError(t, err)
	require.Len(t, rows, 30_001)
	require.Equal(t, Row{Line: 2, Faults: fault}, rows[0])
	require.Equal(t, Row{Line: 30_002, Phone: "9876650081", Name: "y"}, rows[30_000])
}

func TestReaderErrorsAreNoFileErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	for _, begun := range []string{"", "phone,name\n9812345678,Ann\n", string(workbookOf(t, [][]any{{"phone"}, {1}}))[:100]} {
		_, err := readAll(t, io.MultiReader(strings.NewReader(begun), iotest.ErrReader(broken)))
		require.ErrorIs(t, err, broken)
		var refused *FileError
		require.NotErrorAs(t, err, &refused)
	}
}

func workbookOf(tb testing.TB, rows [][]any) []byte {
	tb.Helper()
	book := excelize.NewFile()
	w, err := book.NewStreamWriter("Sheet1")
	require.NoError(tb, err)
	for i, row := range rows {
		require.NoError(tb, w.SetRow(fmt.Sprintf("A%d", i+1), row))
	}
	require.NoError(tb, w.Flush())
	var out bytes.Buffer
	require.NoError(tb, book.Write(&out))
	require.NoError(tb, book.Close())
	return out.Bytes()
}

func TestWorkbooks(t *testing.T) {
	t.Parallel()
	rows := [][]any{{"Mobile", "First Name", "City"}, {9812345678, "Ann", "Pune"}, {}, {9.812345679e9, "Bo", 7.5}, {"+91 98123 45670", nil, nil}}
	for i := range 4_000 {
		rows = append(rows, []any{9800000000 + i, "Somebody with a name of some length", "x"})
	}
	got, err := readAll(t, bytes.NewReader(workbookOf(t, rows)))
	require.NoError(t, err)
	require.Len(t, got, 4_003)
	require.Equal(t, Row{Line: 2, Phone: "9812345678", Name: "Ann", Metadata: json.RawMessage(`{"City":"Pune"}`)}, got[0])
	require.Equal(t, Row{Line: 4, Phone: "9812345679", Name: "Bo", Metadata: json.RawMessage(`{"City":"7.5"}`)}, got[1])
	require.Equal(t, "+91 98123 45670", got[2].Phone)
	require.Equal(t, "9800003999", got[4_002].Phone)
	require.Equal(t, 4_005, got[4_002].Line)
}

// However the bytes come in, the rows are the same, and their text can be kept.
func FuzzText(f *testing.F) {
	for _, seed := range []string{
		"phone,name\n9812345678,Ann\n", "sep=;\nmobile;x\n1;2", "phone\tmetadata\n1\t{\"a\":1}\n", "\ufeffphone\n1\n",
		"phone,name\n1,\"Bob\" Lee\n2,\"x\n3,\"y\nz\"\r\n4,\"\"\"\n",
		"\xff\xfep\x00h\x00o\x00n\x00e\x00\n\x001\x00", "phone,name\n1,Jos\xe9\n", "phone,\"a\nb\"\n1,\"\"\"\n", "PK\x03\x04",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		rows, err := readAll(t, bytes.NewReader(file))
		slow, slowErr := readAll(t, iotest.OneByteReader(bytes.NewReader(file)))
		require.Equal(t, rows, slow)
		require.Equal(t, err == nil, slowErr == nil)
		line := 0
		for _, row := range rows {
			require.Greater(t, row.Line, line)
			line = row.Line
			for _, text := range []string{row.Phone, row.Name, row.Email, row.CRMLeadID} {
				require.True(t, utf8.ValidString(text))
			}
			if row.Metadata != nil {
				require.True(t, json.Valid(row.Metadata))
				require.NotContains(t, string(row.Metadata), `\u0000`)
			}
		}
	})
}

// What is CSV is read as CSV; and whatever stands above them, rows without quotation marks are rows of their own.
func FuzzQuotes(f *testing.F) {
	for _, seed := range []string{
		"1,x\n", "1,\"Bob\" Lee\n", "1,\"x\ny\"\r\n2,\"\"\"\"", "\"a\r\nb\",\"c\" d\n\"", "\"\"\"\n,\"\n\"\"", "\"\n\"\r",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		all := func(text []byte) (rows [][]string) {
			cells := &textCells{src: bufio.NewReaderSize(bytes.NewReader(text), maxRowBytes), comma: ',', stops: ",\n", line: 1}
			for {
				_, row, err := cells.next()
				if errors.Is(err, io.EOF) {
					return rows
				}
				if _, bad := errors.AsType[*rowError](err); bad {
					rows = append(rows, nil)
					continue
				}
				require.NoError(t, err)
				if len(row) > 1 || row[0] != "" {
					rows = append(rows, slices.Clone(row))
				}
			}
		}
		if len(text) > maxRowBytes/2 {
			return
		}
		strict := csv.NewReader(bytes.NewReader(text))
		strict.FieldsPerRecord = -1
		if want, err := strict.ReadAll(); err == nil {
			want = slices.DeleteFunc(want, func(row []string) bool { return len(row) == 1 && row[0] == "" })
			require.Len(t, all(text), len(want))
			for i, row := range all(text) {
				require.Equal(t, want[i], row)
			}
		}
		last := [][]string{{"9876650081", "y"}, {"9876650082", "z"}}
		rows := all(append(slices.Clone(text), "\n9876650081,y\n9876650082,z"...))
		require.GreaterOrEqual(t, len(rows), 2)
		require.Equal(t, last, rows[len(rows)-2:])
	})
}
