package dialer

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ringmaster/ringmaster/dialer/week"
)

// calleeZone is where every number that the dialer takes is answered.
const calleeZone = "Asia/Kolkata"

// errWindow says what is wrong with a calling window.
var errWindow = errors.New("calling window")

// newWindow makes a CallingWindow ready.
func newWindow(w CallingWindow) (week.Window, error) {
	zone, err := week.Zone(w.Timezone)
	if err != nil {
		return week.Window{}, fmt.Errorf("%w: %w", errWindow, err)
	}
	from, okFrom := week.Clock(w.From)
	to, okTo := week.Clock(w.To)
	if !okFrom || !okTo || from == week.MinutesPerDay || from == to {
		return week.Window{}, fmt.Errorf("%w: from %q to %q is no time of day", errWindow, w.From, w.To)
	}
	days, unknown := week.ParseDays(w.Days)
	if len(unknown) > 0 {
		return week.Window{}, fmt.Errorf("%w: %q are no days", errWindow, unknown)
	}
	return week.Window{Zone: zone, Days: days, From: from, To: to}, nil
}

// storedWindow reads a window from its column; false when there is none.
func storedWindow(column json.RawMessage) (week.Window, bool, error) {
	if len(column) == 0 || string(column) == "null" {
		return week.Window{}, false, nil
	}
	var w CallingWindow
	if err := json.Unmarshal(column, &w); err != nil {
		return week.Window{}, false, fmt.Errorf("%w: %w", errWindow, err)
	}
	if w.Timezone == "" {
		w.Timezone = calleeZone
	}
	ready, err := newWindow(w)
	return ready, err == nil, err
}

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
	w, set, err := storedWindow(column)
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
