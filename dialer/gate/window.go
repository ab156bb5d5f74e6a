package gate

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/week"
)

// maxWindows bounds the windows that are kept ready.
const maxWindows = 1024

// windowCache keeps stored windows ready: reading a time zone's rules costs more than all else that a pacer's round with nothing
// to do does. The zero value is empty.
type windowCache struct {
	mu    sync.Mutex
	ready map[string]week.Window
}

// read is storedWindow, remembered.
func (c *windowCache) read(column json.RawMessage) (week.Window, bool, error) {
	if len(column) == 0 {
		return week.Window{}, false, nil
	}
	c.mu.Lock()
	w, ok := c.ready[string(column)]
	c.mu.Unlock()
	if ok {
		return w, true, nil
	}
	w, set, err := campaigns.StoredWindow(column)
	if err != nil || !set {
		return w, set, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ready == nil || len(c.ready) >= maxWindows {
		c.ready = make(map[string]week.Window)
	}
	c.ready[string(column)] = w
	return w, true, nil
}

// hours are open at some times.
type hours interface {
	// Next is the first moment from t on at which they are.
	Next(t time.Time) time.Time
}

// daysOff are open on all days but some, each as "YYYY-MM-DD" in a zone.
type daysOff struct {
	zone *time.Location
	days []string
}

// Next implements hours.
func (o daysOff) Next(t time.Time) time.Time {
	for range len(o.days) + 1 {
		local := t.In(o.zone)
		if !slices.Contains(o.days, local.Format(time.DateOnly)) {
			return t
		}
		y, m, d := local.Date()
		t = time.Date(y, m, d+1, 0, 0, 0, 0, o.zone)
	}
	return t
}

// openAt tells whether all windows are open at t, and when they next are. Windows that never meet are looked at
// again a day later.
func openAt(t time.Time, windows ...hours) (bool, time.Time) {
	at := t
	for range 64 {
		moved := false
		for _, w := range windows {
			if next := w.Next(at); next.After(at) {
				at, moved = next, true
			}
		}
		if !moved {
			return at.Equal(t), at
		}
		if at.Sub(t) > 14*24*time.Hour {
			break
		}
	}
	return false, t.Add(24 * time.Hour)
}
