package switchctl

import (
	"context"
	"errors"
	"io"
	"io/fs"
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
	cdrSuffix = ".cdr.json"
	// cdrGrace is how long after a call's end its records are deleted: by then the switch has written those of all its legs.
	cdrGrace = time.Minute
	// cdrDeleteEvery is how often records that are due are looked for.
	cdrDeleteEvery = 10 * time.Second
	// cdrKept is how old a record may get that nobody asked for.
	cdrKept = 24 * time.Hour
	// cdrFolderBatch is how many names are read at a time.
	cdrFolderBatch = 512
)

// spentCDRs are the channels whose call records may go, oldest first.
type spentCDRs struct {
	mu     sync.Mutex
	due    []spentCDR
	warned bool
}

type spentCDR struct {
	at       time.Time
	channels []string
}

// spendCDRs has the call records of channels deleted after a while.
func (c *host) spendCDRs(channels ...string) {
	s := &c.spent
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = append(s.due, spentCDR{at: c.clock.Now().Add(cdrGrace), channels: channels})
}

// takeDue takes the channels whose time has come.
func (s *spentCDRs) takeDue(now time.Time) (channels []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for n < len(s.due) && !s.due[n].at.After(now) {
		channels = append(channels, s.due[n].channels...)
		n++
	}
	s.due = slices.Delete(s.due, 0, n)
	return channels
}

// deleteCDRs deletes the records of closed calls as they fall due, and what is left at the end.
func (c *Controller) deleteCDRs(ctx context.Context) {
	for rt.Pause(ctx, c.clock, cdrDeleteEvery) == nil {
		c.deleteDueCDRs(ctx, c.clock.Now())
	}
	c.deleteDueCDRs(ctx, c.clock.Now().Add(cdrGrace))
}

func (c *Controller) deleteDueCDRs(ctx context.Context, now time.Time) {
	for _, channel := range c.spent.takeDue(now) {
		name := channel + cdrSuffix
		if recordOf(name) == "" || c.cfg.CDRDir == "" || c.live(channel) {
			continue // a live call's or phone's goes with its end
		}
		path := filepath.Join(c.cfg.CDRDir, name)
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			c.deleteCDR(ctx, path)
		}
	}
}

// live tells whether a channel belongs to a call or a phone that is not over.
func (c *Controller) live(channel string) bool {
	return c.registry.find(channel, "") != nil || c.phones.ofChannel(channel) != nil
}

// deleteCDR deletes one record. The first that can't be deleted is worth a warning: the others won't be either.
func (c *Controller) deleteCDR(ctx context.Context, path string) bool {
	err := os.Remove(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err == nil
	}
	c.warnOfCDRs(ctx, err)
	return false
}

func (c *Controller) warnOfCDRs(ctx context.Context, err error) {
	c.spent.mu.Lock()
	first := !c.spent.warned
	c.spent.warned = true
	c.spent.mu.Unlock()
	if first {
		c.log.WarnContext(ctx, "the switch's call records can't be deleted, callees' numbers stay in them", "cdr_dir", c.cfg.CDRDir, "error", err)
	}
}

// recordOf gives the channel whose call record has this name, "" for any other file's.
func recordOf(name string) string {
	channel, ok := strings.CutSuffix(name, cdrSuffix)
	if !ok || len(channel) != len(uuid.Nil.String()) || uuid.Validate(channel) != nil {
		return ""
	}
	return channel
}

// SweepCallRecords deletes the switch's call records of this host that are older than a day, except those of calls that are open, and
// tells how many. A folder that can't be read or written is a warning.
func (c *Controller) SweepCallRecords(ctx context.Context, now time.Time) (deleted int) {
	if c.cfg.CDRDir == "" {
		return 0
	}
	folder, err := os.Open(c.cfg.CDRDir)
	if err != nil {
		c.warnOfCDRs(ctx, err)
		return 0
	}
	defer func() { _ = folder.Close() }() // it was read only
	for ctx.Err() == nil {
		entries, err := folder.ReadDir(cdrFolderBatch)
		for _, e := range entries {
			if !c.pastCDR(e, now) {
				continue
			}
			if c.deleteCDR(ctx, filepath.Join(c.cfg.CDRDir, e.Name())) {
				deleted++
			} else if _, err := os.Lstat(filepath.Join(c.cfg.CDRDir, e.Name())); err == nil {
				return deleted // the folder is not ours to write
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				c.warnOfCDRs(ctx, err)
			}
			return deleted
		}
	}
	return deleted
}

// pastCDR tells a call record that nobody will ask for.
func (c *Controller) pastCDR(e fs.DirEntry, now time.Time) bool {
	channel := recordOf(e.Name())
	if channel == "" || !e.Type().IsRegular() || c.live(channel) {
		return false
	}
	info, err := e.Info()
	return err == nil && now.Sub(info.ModTime()) > cdrKept
}
