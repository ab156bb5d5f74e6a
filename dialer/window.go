package dialer

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	_ "time/tzdata" // a host without zone files must know the callee's hours too
)

// calleeZone is where every number that the dialer takes is answered.
const calleeZone = "Asia/Kolkata"

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"} //nolint:gochecknoglobals // read only, by time.Weekday

// errWindow says what is wrong with a calling window.
var errWindow = errors.New("calling window")

// window is a CallingWindow made ready. From and to are minutes since midnight; a window whose end does not lie
// after its beginning ends on the next day and belongs to the day on which it begins.
type window struct {
	zone     *time.Location
	days     [7]bool
	from, to int
}

func newWindow(w CallingWindow) (window, error) {
	out := window{}
	zone, err := loadZone(w.Timezone)
	if err != nil {
		return window{}, err
	}
	out.zone = zone
	var okFrom, okTo bool
	out.from, okFrom = minutes(w.From)
	out.to, okTo = minutes(w.To)
	if !okFrom || !okTo || out.from == minutesPerDay || out.from == out.to {
		return window{}, fmt.Errorf("%w: from %q to %q is no time of day", errWindow, w.From, w.To)
	}
	for _, day := range w.Days {
		i := slices.Index(weekdays, day)
		if i < 0 {
			return window{}, fmt.Errorf("%w: %q is no day", errWindow, day)
		}
		out.days[i] = true
	}
	if len(w.Days) == 0 {
		out.days = [7]bool{true, true, true, true, true, true, true}
	}
	return out, nil
}

func loadZone(name string) (*time.Location, error) {
	if name == "" || name == "Local" {
		return nil, fmt.Errorf("%w: %q is no time zone", errWindow, name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %q is no time zone", errWindow, name)
	}
	return zone, nil
}

// storedWindow reads a window from its column; false when there is none.
func storedWindow(column json.RawMessage) (window, bool, error) {
	if len(column) == 0 || string(column) == "null" {
		return window{}, false, nil
	}
	var w CallingWindow
	if err := json.Unmarshal(column, &w); err != nil {
		return window{}, false, fmt.Errorf("%w: %w", errWindow, err)
	}
	if w.Timezone == "" {
		w.Timezone = calleeZone
	}
	ready, err := newWindow(w)
	return ready, err == nil, err
}

const minutesPerDay = 24 * 60

// minutes reads "HH:MM", "24:00" included.
func minutes(s string) (int, bool) {
	if len(s) != 5 || s[2] != ':' {
		return 0, false
	}
	for _, i := range []int{0, 1, 3, 4} {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	h, m := int(s[0]-'0')*10+int(s[1]-'0'), int(s[3]-'0')*10+int(s[4]-'0')
	n := h*60 + m
	return n, m < 60 && n <= minutesPerDay
}

// span is the window's opening that begins on the day of t, moved by days.
func (w window) span(t time.Time, days int) (from, to time.Time, ok bool) {
	y, m, d := t.In(w.zone).Date()
	d += days
	if !w.days[time.Date(y, m, d, 12, 0, 0, 0, w.zone).Weekday()] {
		return time.Time{}, time.Time{}, false
	}
	end := d
	if w.to <= w.from {
		end++
	}
	return w.wall(y, m, d, w.from), w.wall(y, m, end, w.to), true
}

// wall is a moment by the clock on the wall. One that the change to summer time skips is the moment of the change.
func (w window) wall(y int, m time.Month, d, minute int) time.Time {
	t := time.Date(y, m, d, 0, minute, 0, 0, w.zone)
	shown := t.Hour()*60 + t.Minute()
	wanted := minute % minutesPerDay
	if shown == wanted {
		return t
	}
	began, ends := t.ZoneBounds()
	if shown > wanted {
		return began
	}
	return ends
}

func (w window) open(t time.Time) bool {
	for _, day := range []int{-1, 0} {
		if from, to, ok := w.span(t, day); ok && !t.Before(from) && t.Before(to) {
			return true
		}
	}
	return false
}

// next is the first moment from t on at which the window is open.
func (w window) next(t time.Time) time.Time {
	if w.open(t) {
		return t
	}
	for day := range 9 {
		if from, _, ok := w.span(t, day); ok && !from.Before(t) {
			return from
		}
	}
	return t.Add(24 * time.Hour)
}

// openAt tells whether all windows are open at t, and when they next are. Windows that never meet are looked at
// again a day later.
func openAt(t time.Time, windows ...window) (bool, time.Time) {
	at := t
	for range 64 {
		moved := false
		for _, w := range windows {
			if next := w.next(at); next.After(at) {
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
