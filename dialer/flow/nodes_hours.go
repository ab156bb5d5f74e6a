package flow

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/dialer/week"
)

// hours is business_hours. A window goes over midnight when its end does not lie after its beginning.
type hours struct {
	zone     *time.Location
	windows  []week.Window
	holidays []string // as 2006-01-02
}

func readHours(f *fields) action {
	n := hours{zone: time.UTC}
	if name := f.text("timezone", true, 64); name != "" {
		zone, err := week.Zone(name)
		if err != nil {
			f.fault("timezone", "must be a time zone such as Asia/Kolkata")
		} else {
			n.zone = zone
		}
	}
	var raw []struct {
		Days     []string `json:"days"`
		From, To string
	}
	if f.get("windows", "a list of windows with days, from and to", true, &raw) {
		for i, w := range raw {
			n.windows = append(n.windows, readWindow(f, fmt.Sprintf("windows[%d]", i), n.zone, w.Days, w.From, w.To))
		}
	}
	f.get("holidays", "a list of dates", false, &n.holidays)
	for i, day := range n.holidays {
		if _, err := time.Parse(time.DateOnly, day); err != nil {
			f.fault(fmt.Sprintf("holidays[%d]", i), "must be a date such as 2026-12-25")
		}
	}
	return n
}

// readWindow reads one window; without days it is one of every day.
func readWindow(f *fields, name string, zone *time.Location, days []string, from, to string) week.Window {
	w := week.Window{Zone: zone}
	names := make([]string, len(days))
	for i, d := range days {
		names[i] = strings.ToLower(d)
	}
	var unknown []string
	if w.Days, unknown = week.ParseDays(names); len(unknown) > 0 {
		f.fault(name+".days", "may hold mon to sun")
	}
	var ok bool
	if w.From, ok = week.Clock(from); !ok || w.From == week.MinutesPerDay {
		f.fault(name+".from", "must be a time of day such as 09:00")
	}
	if w.To, ok = week.Clock(to); !ok {
		f.fault(name+".to", "must be a time of day such as 18:00")
	}
	return w
}

// at tells whether a moment is open or closed. A holiday is closed all day, and nothing begins on it.
func (n hours) at(now time.Time) string {
	local := now.In(n.zone)
	if n.holiday(local) {
		return OutcomeClosed
	}
	// The day before by the calendar: a day of a clock change has 23 or 25 hours.
	before := time.Date(local.Year(), local.Month(), local.Day()-1, 12, 0, 0, 0, n.zone)
	for _, w := range n.windows {
		if w.OpenFrom(now, 0) || w.OpenFrom(now, -1) && !n.holiday(before) {
			return OutcomeOpen
		}
	}
	return OutcomeClosed
}

func (n hours) holiday(day time.Time) bool {
	return slices.Contains(n.holidays, day.Format(time.DateOnly))
}

func (n hours) run(r *runner) (string, error) { return n.at(r.now()), nil }
