package dnc

import (
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// source is one of the regulator's files.
type source struct {
	path string
	name string
	size int64
	mod  time.Time
	date time.Time // of the day that its name tells; zero when it tells none
}

// asOf is when what the file says was so: the day of its name, or when it was written.
func (s source) asOf() time.Time {
	if !s.date.IsZero() && s.date.Before(s.mod) {
		return s.date
	}
	return s.mod
}

// sources lists the files at path, a file or a folder, in the order in which they are read: those whose names tell no day by
// name, then the others by day and name, so that what changed follows what it changes.
func sources(path string) ([]source, error) {
	if path == "" {
		return nil, fmt.Errorf("load do-not-call registry: %w: no path configured", ErrUnavailable)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("load do-not-call registry: %w", err)
	}
	if !info.IsDir() {
		return []source{newSource(path, info)}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("load do-not-call registry: %w", err)
	}
	var files []source
	for _, entry := range entries {
		if entry.IsDir() || !isSource(entry.Name()) {
			continue
		}
		info, err := os.Stat(filepath.Join(path, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("load do-not-call registry: %w", err)
		}
		files = append(files, newSource(filepath.Join(path, entry.Name()), info))
	}
	slices.SortFunc(files, func(a, b source) int { return cmp.Or(a.date.Compare(b.date), strings.Compare(a.name, b.name)) })
	return files, nil
}

// isSource tells whether a file of the folder is the registry's, by its name.
func isSource(name string) bool {
	lower := strings.TrimSuffix(strings.ToLower(name), ".gz")
	return !strings.HasPrefix(name, ".") && (strings.HasSuffix(lower, ".csv") || strings.HasSuffix(lower, ".txt"))
}

func newSource(path string, info os.FileInfo) source {
	name := filepath.Base(path)
	return source{path: path, name: name, size: info.Size(), mod: info.ModTime(), date: dayIn(name)}
}

// dayIn finds a day in a file's name, as 2026-11-21, 20261121, 21-11-2026 or 21112026, maybe with a time of day.
func dayIn(name string) time.Time {
	for _, form := range []struct {
		pattern          *regexp.Regexp
		year, month, day int
	}{
		{regexp.MustCompile(`(?:^|\D)(20\d\d)[-_.]?(\d\d)[-_.]?(\d\d)(?:\d{4}|\d{6})?(?:\D|$)`), 1, 2, 3},
		{regexp.MustCompile(`(?:^|\D)(\d\d)[-_.]?(\d\d)[-_.]?(20\d\d)(?:\d{4}|\d{6})?(?:\D|$)`), 3, 2, 1},
	} {
		m := form.pattern.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		if at, err := time.Parse("2006-01-02", m[form.year]+"-"+m[form.month]+"-"+m[form.day]); err == nil {
			return at
		}
	}
	return time.Time{}
}

// fingerprint changes when a file does, or when files come or go.
func fingerprint(files []source) string {
	var b strings.Builder
	for _, f := range files {
		b.WriteString(strconv.Quote(f.name) + " " + strconv.FormatInt(f.size, 10) + " " + strconv.FormatInt(f.mod.UnixNano(), 10) + "\n")
	}
	return b.String()
}

// SourceStats is one file as it was read.
type SourceStats struct {
	Name     string    `json:"name"`
	Size     int64     `json:"size"`
	ModTime  time.Time `json:"mod_time"`
	AsOf     time.Time `json:"as_of"`
	SHA256   string    `json:"sha256"`
	Rows     int64     `json:"rows"`
	BadRows  int64     `json:"bad_rows"`
	BadLines []int64   `json:"bad_lines,omitempty"`
}

func (s SourceStats) same(f source) bool {
	return s.Name == f.name && s.Size == f.size && s.ModTime.Equal(f.mod)
}

// A file with more than a few rows that can't be read, and more than one of so many, is no list to go by: what it doesn't tell
// would be called.
const (
	fewBadRows   = 10
	badRowsShare = 1000
)

// ErrBroken is a file of which too many rows can't be read.
var ErrBroken = errors.New("too many of its rows can't be read")

// read hands the file's rows to emit.
func (s source) read(ctx context.Context, emit func(Entry)) (_ SourceStats, err error) {
	out := SourceStats{Name: s.name, Size: s.size, ModTime: s.mod.UTC(), AsOf: s.asOf().UTC()}
	f, err := os.Open(s.path)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	sum := sha256.New()
	r := io.TeeReader(contextReader(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return f.Read(p)
	}), sum)
	if strings.HasSuffix(strings.ToLower(s.name), ".gz") {
		if r, err = gzip.NewReader(r); err != nil {
			return out, fmt.Errorf("decompress do-not-call file: %w", err)
		}
	}
	stats, err := Parse(r, emit)
	if err != nil {
		return out, err
	}
	out.Rows, out.BadRows, out.BadLines = stats.Rows, stats.Bad, stats.BadLines
	if stats.Bad > stats.Rows-stats.Bad || stats.Bad > fewBadRows && stats.Bad*badRowsShare > stats.Rows {
		return out, fmt.Errorf("%w: %d of %d, the first in line %d", ErrBroken, stats.Bad, stats.Rows, stats.BadLines[0])
	}
	out.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return out, nil
}

type contextReader func([]byte) (int, error)

func (r contextReader) Read(p []byte) (int, error) { return r(p) }
