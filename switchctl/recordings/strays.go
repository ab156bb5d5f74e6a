package recordings

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media/wav"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/retry"
)

const (
	// strayAge is for how long nobody must have written to a file that is taken for a stray.
	strayAge = 10 * time.Minute
	// strayEvery is how often strays are looked for.
	strayEvery = time.Hour
	// strayAgain is when a call whose files were no strays is looked for again: each look asks all tenants' calls for it.
	strayAgain = 24 * time.Hour
	// strayBatch bounds the calls that are looked for at a time.
	strayBatch = 500
)

// KeepAdopting adopts recordings until ctx ends: at once, again when those that a crash has cut just before are old enough, and then every hour.
func (l *Library) KeepAdopting(ctx context.Context, node string) {
	l.keepAdopting(ctx, node, retry.Pause)
}

// keepAdopting waits by pause until that fails.
func (l *Library) keepAdopting(ctx context.Context, node string, pause func(context.Context, time.Duration) error) {
	for wait := strayAge; ; wait = strayEvery {
		if _, err := l.Adopt(ctx, node); err != nil && ctx.Err() == nil {
			l.log.ErrorContext(ctx, "adopting recordings without a database row failed", "error", err)
		}
		if pause(ctx, wait) != nil {
			return
		}
	}
}

// Adopt gives a recording to the calls that have files in the spool folder and none in the database: the process that had begun to record
// was killed, or gave up, before the row was written. Their files are processed on this node. It tells how many; one that can't be adopted
// holds up no other. There is one Adopt at a time.
func (l *Library) Adopt(ctx context.Context, node string) (adopted int, err error) {
	files, err := l.strayFiles()
	if err != nil {
		return 0, err
	}
	l.skipNoStrays(files)
	for batch := range slices.Chunk(slices.Collect(maps.Keys(files)), strayBatch) {
		var calls []db.CallsWithoutRecordingRow
		err := l.store.InSystem(ctx, func(tx *store.Tx) (err error) {
			calls, err = tx.Q.CallsWithoutRecording(ctx, batch)
			return err
		})
		if err != nil {
			return adopted, fmt.Errorf("adopt recordings: %w", err)
		}
		for _, id := range batch {
			l.notStrays[id] = l.now()
		}
		for _, c := range calls {
			delete(l.notStrays, c.ID)
			if err := l.adopt(ctx, c, files[c.ID], node); err != nil {
				if ctx.Err() != nil {
					return adopted, context.Cause(ctx)
				}
				l.log.ErrorContext(ctx, "adopting a recording failed", "call_id", c.ID, "error", err)
				continue
			}
			adopted++
			l.log.WarnContext(ctx, "recording without a database row adopted", "call_id", c.ID, "files", len(files[c.ID]))
		}
	}
	return adopted, nil
}

// skipNoStrays leaves out the calls that were looked for within a day, and forgets those whose files are gone.
func (l *Library) skipNoStrays(files map[uuid.UUID][]string) {
	if l.notStrays == nil {
		l.notStrays = map[uuid.UUID]time.Time{}
	}
	for id, seen := range l.notStrays {
		if _, there := files[id]; !there || l.now().Sub(seen) >= strayAgain {
			delete(l.notStrays, id)
			continue
		}
		delete(files, id)
	}
}

// strayFiles are the spool's files of calls, CALL.wav and CALL.N.wav, that nobody has written to for a while, in the order of their names.
func (l *Library) strayFiles() (map[uuid.UUID][]string, error) {
	files := map[uuid.UUID][]string{}
	entries, err := os.ReadDir(l.spool)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // nor does an empty path
		return nil, fmt.Errorf("list the spool folder: %w", err)
	}
	for _, e := range entries {
		name, _, _ := strings.Cut(e.Name(), ".")
		id, err := uuid.Parse(name)
		if err != nil || e.IsDir() || filepath.Ext(e.Name()) != ".wav" {
			continue
		}
		if at, err := e.Info(); err == nil && l.now().Sub(at.ModTime()) >= strayAge {
			files[id] = append(files[id], filepath.Join(l.spool, e.Name()))
		}
	}
	return files, nil
}

// adopt writes a call's recording as its controller would have done. A part that the switch wrote ended when its file was last changed.
func (l *Library) adopt(ctx context.Context, call db.CallsWithoutRecordingRow, paths []string, node string) error {
	return l.store.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		for _, path := range paths {
			offset := time.Duration(0)
			if filepath.Base(path) != call.ID.String()+".wav" && call.AnswerTime != nil {
				offset = fileBegan(path).Sub(*call.AnswerTime)
			}
			if err := Continue(ctx, tx, call.TenantID, call.ID, path, false, max(0, offset)); err != nil {
				return err
			}
		}
		return Finish(ctx, tx, call.TenantID, call.ID, node)
	})
}

// fileBegan is when a file's first sample was recorded; the zero time if nobody can tell.
func fileBegan(path string) time.Time {
	at, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	info, err := wav.Check(path)
	if err != nil {
		return time.Time{}
	}
	return at.ModTime().Add(-info.Duration())
}
