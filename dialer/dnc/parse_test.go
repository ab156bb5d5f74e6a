package dnc

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
)

func parse(t *testing.T, text string) ([]Entry, ParseStats) {
	t.Helper()
	var entries []Entry
	stats, err := Parse(strings.NewReader(text), func(e Entry) { entries = append(entries, e) })
	require.NoError(t, err)
	return entries, stats
}

func TestParse(t *testing.T) {
	t.Parallel()
	one, two := Entry{Number: 9876543210}, Entry{Number: 9123456789}
	for name, c := range map[string]struct {
		text    string
		entries []Entry
		rows    int64
		bad     int64
	}{
		"bare numbers":         {"9876543210\n9123456789\n", []Entry{one, two}, 2, 0},
		"no last newline":      {"9876543210\r\n9123456789", []Entry{one, two}, 2, 0},
		"byte order mark":      {"\ufeff9876543210\n", []Entry{one}, 1, 0},
		"mark before header":   {"\ufeffphone\n9876543210\n", []Entry{one}, 1, 0},
		"blank lines":          {"\n\n9876543210\n  \n", []Entry{one}, 1, 0},
		"prefixes":             {"+919876543210\n09876543210\n919876543210\n98765 43210\n98765-43210", []Entry{one, one, one, one, one}, 5, 0},
		"header and columns":   {"Service Area Code,Phone Numbers,Preferences,Opstype,Phone Type\n1,9876543210,\"0\",A,2\n11,\"9123456789\",3,A,1\n", []Entry{one, two}, 2, 0},
		"taken off":            {"phone;opstype\n9876543210;A\n9876543210;D\n", []Entry{one, {Number: 9876543210, Remove: true}}, 2, 0},
		"no header, columns":   {"KA,9876543210,1\nTN,9123456789,7\n", []Entry{one, two}, 2, 0},
		"tabs":                 {"name\tmobile no\na\t9876543210\n", []Entry{one}, 1, 0},
		"bad rows":             {"phone\nabc\n123\n+14155550100\n9876543210\n0000000000\n98765432101234\n", []Entry{one}, 6, 5},
		"row without a column": {"state,phone\nKA\nKA,9876543210\n", []Entry{one}, 2, 1},
		"empty":                {"", nil, 0, 0},
		"overlong line":        {"9876543210\n" + strings.Repeat("9", 200_000) + "\n9123456789\n", []Entry{one, two}, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entries, stats := parse(t, c.text)
			require.Equal(t, c.entries, entries)
			require.Equal(t, ParseStats{Rows: c.rows, Bad: c.bad}, stats)
		})
	}
	_, err := Parse(strings.NewReader("state,category\nKA,7\n"), func(Entry) {})
	require.ErrorIs(t, err, ErrNoPhoneColumn)
	_, err = Parse(iotest.ErrReader(errTest), func(Entry) {})
	require.ErrorIs(t, err, errTest)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("phone,opstype\n9876543210,A\n+919123456789,D\n"), 3)
	f.Add([]byte("\ufeff09876543210;x\t\"919876543210\"\r\n"), 1)
	f.Add([]byte("a,b\n,,,\n\n"), 7)
	f.Fuzz(func(t *testing.T, data []byte, chunk int) {
		collect := func(split bool) ([]Entry, ParseStats, error) {
			var entries []Entry
			r := bytes.NewReader(data)
			if split {
				stats, err := Parse(chunked{r, 1 + abs(chunk)%64}, func(e Entry) { entries = append(entries, e) })
				return entries, stats, err
			}
			stats, err := Parse(r, func(e Entry) { entries = append(entries, e) })
			return entries, stats, err
		}
		whole, stats, err := collect(false)
		parts, splitStats, splitErr := collect(true)
		require.Equal(t, whole, parts, "however the input is cut")
		require.Equal(t, stats, splitStats)
		require.Equal(t, err, splitErr)
		require.Equal(t, stats.Rows-stats.Bad, int64(len(whole)))
		var again strings.Builder
		for _, e := range whole {
			require.GreaterOrEqual(t, e.Number, uint64(1e9))
			require.Less(t, e.Number, uint64(1e10))
			fmt.Fprintf(&again, "%d\n", e.Number)
		}
		i := 0
		_, err = Parse(strings.NewReader(again.String()), func(e Entry) {
			require.Equal(t, whole[i].Number, e.Number)
			i++
		})
		require.NoError(t, err)
		require.Len(t, whole, i, "what was read can be written and read again")
	})
}

type chunked struct {
	r *bytes.Reader
	n int
}

func (c chunked) Read(p []byte) (int, error) { return c.r.Read(p[:min(len(p), c.n)]) }

func abs(n int) int { return max(n, -(n + 1)) }

// FuzzNumber holds the registry's reading of a number against the service's own: what both read, they read alike.
func FuzzNumber(f *testing.F) {
	for _, s := range []string{"9876543210", "09876543210", "919876543210", "+91 98765-43210", "9198765432", "0", "+1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, ok := Number([]byte(strings.TrimSpace(s)))
		if phone, err := store.ParsePhone(s); err == nil && ok {
			require.Equal(t, phone.National(), strconv.FormatUint(n, 10))
		} else if err == nil {
			t.Fatalf("the service takes %q, the registry does not", s)
		}
	})
}
