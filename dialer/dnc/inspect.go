package dnc

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"
)

// FileState tells what a snapshot knows of a file.
type FileState string

// The states of a file.
const (
	FileRead    FileState = "read"    // as it is now
	FileNew     FileState = "new"     // it came later
	FileChanged FileState = "changed" // it was another when it was read
	FileGone    FileState = "gone"    // it was there when the snapshot was made
)

// FileStatus is one file, and what was read of it.
type FileStatus struct {
	SourceStats

	State FileState
}

// Inspection is what can be told of a registry without reading its numbers.
type Inspection struct {
	Snapshot string // its path
	Version  string // empty when there is no snapshot that can be used
	AsOf     time.Time
	BuiltAt  time.Time
	Numbers  uint64 // of all kinds of bars, counted for each
	Files    []FileStatus
}

// State is "current" when a start loads the snapshot alone, "behind" when it reads files besides, "none" when all of them.
func (in Inspection) State() string {
	if in.Version == "" {
		return "none"
	}
	for _, f := range in.Files {
		if f.State != FileRead {
			return "behind"
		}
	}
	return "current"
}

// Inspect looks at the files and at their snapshot, beside them when snapshot is empty. Errors: the files', and the snapshot's
// when it is there and can't be used.
func Inspect(path, snapshot string) (Inspection, error) {
	files, err := sources(path)
	if err != nil {
		return Inspection{}, err
	}
	in := Inspection{Snapshot: cmp.Or(snapshot, defaultSnapshot(path))}
	alone := len(files) == 1 && isSnapshot(files[0].path)
	if alone {
		in.Snapshot, files = files[0].path, nil
	}
	f, err := os.Open(in.Snapshot)
	switch {
	case errors.Is(err, os.ErrNotExist):
		in.compare(nil, files)
		return in, nil
	case err != nil:
		return in, fmt.Errorf("read do-not-call snapshot: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	s, err := openFile(f)
	if err != nil {
		return in, err
	}
	in.Version, in.AsOf, in.BuiltAt = version(s.Sources), asOf(s.Sources), s.BuiltAt
	for _, p := range s.Planes {
		in.Numbers += p.Numbers
	}
	if alone {
		for _, was := range s.Sources {
			in.Files = append(in.Files, FileStatus{was, FileRead})
		}
		return in, nil
	}
	in.compare(s.Sources, files)
	return in, nil
}

// compare tells of each file what has become of it.
func (in *Inspection) compare(before []SourceStats, files []source) {
	read := make(map[string]SourceStats, len(before))
	for _, s := range before {
		read[s.Name] = s
	}
	for _, f := range files {
		was, known := read[f.name]
		delete(read, f.name)
		switch {
		case known && was.same(f):
			in.Files = append(in.Files, FileStatus{was, FileRead})
		case known:
			in.Files = append(in.Files, FileStatus{SourceStats{Name: f.name, Size: f.size, ModTime: f.mod, AsOf: f.asOf()}, FileChanged})
		default:
			in.Files = append(in.Files, FileStatus{SourceStats{Name: f.name, Size: f.size, ModTime: f.mod, AsOf: f.asOf()}, FileNew})
		}
	}
	for _, s := range before {
		if _, left := read[s.Name]; left {
			in.Files = append(in.Files, FileStatus{s, FileGone})
		}
	}
}
