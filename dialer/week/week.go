// Package week knows stretches of the day that come again every week, by the clock on the wall of a time zone: calling windows and
// business hours. A stretch whose end does not lie after its beginning ends on the next day and belongs to the day on which it begins.
package week

import (
	"errors"
	"fmt"
	"slices"
	"time"
	_ "time/tzdata" // a host without zone files must know the callee's hours too
)

// MinutesPerDay is 24:00 as [Clock] reads it.
const MinutesPerDay = 24 * 60

// ErrZone says that a time zone is not known.
var ErrZone = errors.New("no time zone")

// DayNames lists the names of days, by time.Weekday.
func DayNames() []string { return []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"} }

// Days are those of the week on which something begins, by time.Weekday.
type Days [7]bool

// ParseDays reads names of days, and gives those that are none; no names are all days.
func ParseDays(names []string) (days Days, unknown []string) {
	if len(names) == 0 {
		return Days{true, true, true, true, true, true, true}, nil
	}
	for _, name := range names {
		if i := slices.Index(DayNames(), name); i >= 0 {
			days[i] = true
		} else {
			unknown = append(unknown, name)
		}
	}
	return days, unknown
}

// Zone finds a time zone by its name. The host's own has none. Error: ErrZone.
func Zone(name string) (*time.Location, error) {
	if name == "" || name == "Local" {
		return nil, fmt.Errorf("%w: %q", ErrZone, name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %q", ErrZone, name)
	}
	return zone, nil
}

// Window is a stretch of the day on some days of the week. From and To are minutes since midnight.
type Window struct {
	Zone     *time.Location
	Days     Days
	From, To int
}

// Clock reads "HH:MM", "24:00" included, into minutes since midnight.
func Clock(s string) (int, bool) {
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
	return n, m < 60 && n <= MinutesPerDay
}

// Span is the window's opening that begins on the day of t, moved by days; false when none does.
func (w Window) Span(t time.Time, days int) (from, to time.Time, ok bool) {
	y, m, d := t.In(w.Zone).Date()
	d += days
	if !w.Days[time.Date(y, m, d, 12, 0, 0, 0, w.Zone).Weekday()] {
		return time.Time{}, time.Time{}, false
	}
	end := d
	if w.To <= w.From {
		end++
	}
	return w.wall(y, m, d, w.From), w.wall(y, m, end, w.To), true
}

// wall is a moment by the clock on the wall. One that the change to summer time skips is the moment of the change.
func (w Window) wall(y int, m time.Month, d, minute int) time.Time {
	t := time.Date(y, m, d, 0, minute, 0, 0, w.Zone)
	// Of a skipped midnight t may show the day before.
	sy, sm, sd := t.Date()
	shown := time.Date(sy, sm, sd, t.Hour(), t.Minute(), 0, 0, time.UTC)
	wanted := time.Date(y, m, d, 0, minute, 0, 0, time.UTC)
	began, ends := t.ZoneBounds()
	switch {
	case shown.After(wanted):
		return began
	case shown.Before(wanted):
		return ends
	default:
		return t
	}
}

// Open tells whether t lies in the window.
func (w Window) Open(t time.Time) bool { return w.OpenFrom(t, 0) || w.OpenFrom(t, -1) }

// OpenFrom tells whether t lies in the opening that begins on the day of t, moved by days.
func (w Window) OpenFrom(t time.Time, days int) bool {
	from, to, ok := w.Span(t, days)
	return ok && !t.Before(from) && t.Before(to)
}

// Next is the first moment from t on at which the window is open.
func (w Window) Next(t time.Time) time.Time {
	if w.Open(t) {
		return t
	}
	for day := range 9 {
		if from, _, ok := w.Span(t, day); ok && !from.Before(t) {
			return from
		}
	}
	return t.Add(24 * time.Hour)
}
