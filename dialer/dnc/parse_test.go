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
		"bare numbers":          {"9876543210\n9123456789\n", []Entry{one, two}, 2, 0},
		"no last newline":       {"9876543210\r\n9123456789", []Entry{one, two}, 2, 0},
		"byte order mark":       {"\ufeff9876543210\n", []Entry{one}, 1, 0},
		"mark before header":    {"\ufeffphone\n9876543210\n", []Entry{one}, 1, 0},
		"blank lines":           {"\n\n9876543210\n  \n", []Entry{one}, 1, 0},
		"prefixes":              {"+919876543210\n09876543210\n919876543210\n98765 43210\n98765-43210", []Entry{one, one, one, one, one}, 5, 0},
		"header and columns":    {"Service Area Code,Phone Numbers,Preferences,Opstype,Phone Type\n1,9876543210,\"0\",A,2\n11,\"9123456789\",3,A,1\n", []Entry{one, two}, 2, 0},
		"taken off":             {"phone;opstype\n9876543210;A\n9876543210;D\n", []Entry{one, {Number: 9876543210, Remove: true}}, 2, 0},
		"no header, columns":    {"KA,9876543210,1\nTN,9123456789,7\n", []Entry{one, two}, 2, 0},
		"status":                {"phone,status\n9876543210,A\n9123456789,D\n", []Entry{one, {Number: two.Number, Remove: true}}, 2, 0},
		"operation over status": {"phone,status,opstype\n9876543210,D,A\n9123456789,D,\n", []Entry{one, {Number: two.Number, Remove: true}}, 2, 0},
		"words for taken off":   {"msisdn|action\n9876543210|DELETE\n9876543210|Deactivated\n9876543210|active\n", []Entry{{Number: one.Number, Remove: true}, {Number: one.Number, Remove: true}, one}, 3, 0},
		"quotes and commas":     {"phone,preferences,opstype\n\"9876543210\",\"1,2,3\",D\n", []Entry{{Number: one.Number, Remove: true}}, 1, 0},
		"spreadsheet's text":    {"phone\n'9876543210\n=\"9123456789\"\n", []Entry{one, two}, 2, 0},
		"header with digits":    {"Category (1-8),Mobile No.\n,9876543210\n", []Entry{one}, 1, 0},
		"empty first column":    {"name\tphone\n\t9876543210\n", []Entry{one}, 1, 0},
		"bare, then columns":    {"9876543210\n9123456789,1,A\n", []Entry{one, two}, 2, 0},
		"tabs":                  {"name\tmobile no\na\t9876543210\n", []Entry{one}, 1, 0},
		"bad rows":              {"phone\nabc\n123\n+14155550100\n9876543210\n0000000000\n98765432101234\n", []Entry{one}, 6, 5},
		"row without a column":  {"state,phone\nKA\nKA,9876543210\n", []Entry{one}, 2, 1},
		"empty":                 {"", nil, 0, 0},
		"overlong line":         {"9876543210\n" + strings.Repeat("9", 200_000) + "\n9123456789\n", []Entry{one, two}, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entries, stats := parse(t, c.text)
			require.Equal(t, c.entries, entries)
			require.Equal(t, []int64{c.rows, c.bad}, []int64{stats.Rows, stats.Bad})
			require.Len(t, stats.BadLines, int(c.bad))
		})
	}
	_, err := Parse(strings.NewReader("state,category\nKA,7\n"), func(Entry) {})
	require.ErrorIs(t, err, ErrNoPhoneColumn)
	_, err = Parse(iotest.ErrReader(errTest), func(Entry) {})
	require.ErrorIs(t, err, errTest)
}

// The register of 2010 names what may be sent by SMS: every number in it is barred. That of 2018 names what is barred.
func TestParseKinds(t *testing.T) {
	t.Parallel()
	const n = 9876543210
	cat := func(codes ...int) Categories {
		var set Categories
		for _, c := range codes {
			set |= 1 << c
		}
		return set
	}
	for name, c := range map[string]struct {
		text  string
		entry Entry
	}{
		"of 2010":                 {"Service Area Code,Phone Numbers,Preferences,Opstype,Phone Type\n1,9876543210,1#3,A,2\n", Entry{Number: n}},
		"of 2010, taken off":      {"Phone Numbers,Preferences,Opstype\n9876543210,1#3,D\n", Entry{Number: n, Remove: true}},
		"fully blocked":           {"phone,category,mode\n9876543210,0,\n", Entry{Number: n}},
		"zero over others":        {"phone,category,mode\n9876543210,0#3,11\n", Entry{Number: n, Modes: ModeVoice}},
		"categories":              {"phone,category\n9876543210,1#3\n", Entry{Number: n, Categories: cat(1, 3)}},
		"preferences, modes":      {"phone,preferences,modes\n9876543210,\"2, 8\",12\n", Entry{Number: n, Categories: cat(2, 8), Modes: ModeSMS}},
		"codes of modes":          {"phone,mode\n9876543210,11/13/14/15\n", Entry{Number: n, Modes: everyVoiceMode}},
		"names of modes":          {"phone,mode\n9876543210,\"Voice Call, SMS\"\n", Entry{Number: n, Modes: ModeVoice | ModeSMS}},
		"the dialer's modes":      {"phone,mode\n9876543210,Auto Dialer Call (With Pre-recorded Announcement)#Auto Dialer Call (With Connectivity to live agent)#Robo Calls\n", Entry{Number: n, Modes: ModePrerecorded | ModeLiveAgent | ModeRobo}},
		"all modes":               {"phone,mode\n9876543210,ALL\n", Entry{Number: n}},
		"unknown words":           {"phone,category,mode\n9876543210,Real Estate,telex\n", Entry{Number: n}},
		"a category there is not": {"phone,category\n9876543210,9\n", Entry{Number: n}},
		"leading zeros":           {"phone,category\n9876543210,03\n", Entry{Number: n, Categories: cat(3)}},
		"taken off in part":       {"phone,category,mode,status\n9876543210,3,13,D\n", Entry{Number: n, Remove: true, Categories: cat(3), Modes: ModePrerecorded}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entries, stats := parse(t, c.text)
			require.Equal(t, []Entry{c.entry}, entries)
			require.Zero(t, stats.Bad)
		})
	}
	entries, _ := parse(t, "phone,status\n9876543210,R\n9876543211,r\n")
	require.Equal(t, []Entry{{Number: 9876543210}, {Number: 9876543211}}, entries, "registered")
	entries, stats := parse(t, "phone,category,mode,status\n9876543210,Real Estate,,D\n9876543210,3,telex,D\n")
	require.Empty(t, entries, "what can't be told takes nothing off")
	require.Equal(t, []int64{2, 3}, stats.BadLines)
}

func TestBadLinesAreBounded(t *testing.T) {
	t.Parallel()
	_, stats := parse(t, "phone\n\n"+strings.Repeat("x\n", 50)+strings.Repeat("9", 100_000)+"\ny\n")
	require.EqualValues(t, 52, stats.Bad)
	require.Len(t, stats.BadLines, maxBadLines)
	require.EqualValues(t, 3, stats.BadLines[0], "lines are counted as an editor does")
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("phone,opstype\n9876543210,A\n+919123456789,D\n"), 3)
	f.Add([]byte("\ufeff09876543210;x\t\"919876543210\"\r\n"), 1)
	f.Add([]byte("a,b\n,,,\n\n"), 7)
	f.Add([]byte("phone|category|mode|status\n9876543210|1#2|11/12|D\n\"9876543210\"|\"0\"|x|A\n"), 2)
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
