package cdr

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	rt "github.com/ringmaster/ringmaster/switchctl/actor"
)

// The switch's call records hold callees' numbers. A call's are deleted once it is closed in the ledger: nobody asks for them any more.
// Those of legs that nobody knows of, of channels that are not ours, and of calls whose end another process wrote, go by the sweep.
const (
	// Suffix ends the name of a channel's record, after its UUID.
	Suffix = ".cdr.json"
	// grace is how long after a call's end its records are deleted: by then the switch has written those of all its legs.
	grace = time.Minute
	// deleteEvery is how often records that are due are looked for.
	deleteEvery = 10 * time.Second
	// kept is how old a record may get that nobody asked for.
	kept = 24 * time.Hour
	// batch is how many names are read at a time.
	batch = 512
)

// Folder is where the switch writes its call records. They are read there, and deleted once nobody asks for them any more.
type Folder struct {
	dir   string // empty: there are none
	clock rt.Clock
	log   *slog.Logger
	// live tells whether a channel belongs to a call or a phone that is not over.
	live func(channel string) bool

	mu     sync.Mutex
	due    []pending // oldest first
	warned bool
}

// NewFolder takes the folder, and what tells whether a channel belongs to a call or a phone that is not over.
func NewFolder(dir string, clock rt.Clock, log *slog.Logger, live func(channel string) bool) *Folder {
	return &Folder{dir: dir, clock: clock, log: log, live: live}
}

// pending are channels whose call records may go.
type pending struct {
	at       time.Time
	channels []string
}

// ScheduleDeletion has the call records of channels deleted after a while.
func (f *Folder) ScheduleDeletion(channels ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.due = append(f.due, pending{at: f.clock.Now().Add(grace), channels: channels})
}

// takeDue takes the channels whose time has come.
func (f *Folder) takeDue(now time.Time) (channels []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for n < len(f.due) && !f.due[n].at.After(now) {
		channels = append(channels, f.due[n].channels...)
		n++
	}
	f.due = slices.Delete(f.due, 0, n)
	return channels
}

// KeepDeleting deletes the records of closed calls as they fall due until ctx ends, and then what is left.
func (f *Folder) KeepDeleting(ctx context.Context) {
	for rt.Pause(ctx, f.clock, deleteEvery) == nil {
		f.deleteDue(ctx, f.clock.Now())
	}
	f.deleteDue(ctx, f.clock.Now().Add(grace))
}

func (f *Folder) deleteDue(ctx context.Context, now time.Time) {
	for _, channel := range f.takeDue(now) {
		name := channel + Suffix
		if recordOf(name) == "" || f.dir == "" || f.live(channel) {
			continue // a live call's or phone's goes with its end
		}
		path := filepath.Join(f.dir, name)
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			f.delete(ctx, path)
		}
	}
}

// delete deletes one record. The first that can't be deleted is worth a warning: the others won't be either.
func (f *Folder) delete(ctx context.Context, path string) bool {
	err := os.Remove(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err == nil
	}
	f.warn(ctx, err)
	return false
}

func (f *Folder) warn(ctx context.Context, err error) {
	f.mu.Lock()
	first := !f.warned
	f.warned = true
	f.mu.Unlock()
	if first {
		f.log.WarnContext(ctx, "deleting the switch's call records failed, callees' numbers stay in them", "cdr_dir", f.dir, "error", err)
	}
}

// recordOf gives the channel whose call record has this name, "" for any other file's.
func recordOf(name string) string {
	channel, ok := strings.CutSuffix(name, Suffix)
	if !ok || len(channel) != len(uuid.Nil.String()) || uuid.Validate(channel) != nil {
		return ""
	}
	return channel
}

// Sweep deletes the switch's call records of this host that are older than a day, except those of calls that are open, and
// tells how many. A folder that can't be read or written is a warning.
func (f *Folder) Sweep(ctx context.Context, now time.Time) (deleted int) {
	if f.dir == "" {
		return 0
	}
	folder, err := os.Open(f.dir)
	if err != nil {
		f.warn(ctx, err)
		return 0
	}
	defer func() { _ = folder.Close() }() // it was read only
	for ctx.Err() == nil {
		entries, err := folder.ReadDir(batch)
		for _, e := range entries {
			if !f.past(e, now) {
				continue
			}
			if f.delete(ctx, filepath.Join(f.dir, e.Name())) {
				deleted++
			} else if _, err := os.Lstat(filepath.Join(f.dir, e.Name())); err == nil {
				return deleted // the folder is not ours to write
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				f.warn(ctx, err)
			}
			return deleted
		}
	}
	return deleted
}

// past tells a call record that nobody will ask for.
func (f *Folder) past(e fs.DirEntry, now time.Time) bool {
	channel := recordOf(e.Name())
	if channel == "" || !e.Type().IsRegular() || f.live(channel) {
		return false
	}
	info, err := e.Info()
	return err == nil && now.Sub(info.ModTime()) > kept
}
