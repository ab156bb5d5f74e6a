package flow

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// hours is business_hours.
type hours struct {
	zone     *time.Location
	windows  []window
	holidays []string // as 2006-01-02
}

// window is a stretch of the day, in minutes, on some days of the week. One whose to is not after from ends on the next day.
type window struct {
	days     [7]bool
	from, to int
}

func readHours(f *fields) action {
	n := hours{zone: time.UTC}
	if name := f.text("timezone", true, 64); name != "" {
		zone, err := time.LoadLocation(name)
		if err != nil || name == "Local" {
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
			n.windows = append(n.windows, readWindow(f, fmt.Sprintf("windows[%d]", i), w.Days, w.From, w.To))
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
func readWindow(f *fields, name string, days []string, from, to string) window {
	var w window
	names := []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
	for _, d := range days {
		i := slices.Index(names, strings.ToLower(d))
		if i < 0 {
			f.fault(name+".days", "may hold mon to sun")
			continue
		}
		w.days[i] = true
	}
	if len(days) == 0 {
		w.days = [7]bool{true, true, true, true, true, true, true}
	}
	var ok bool
	if w.from, ok = clock(from); !ok || w.from == 24*60 {
		f.fault(name+".from", "must be a time of day such as 09:00")
	}
	if w.to, ok = clock(to); !ok {
		f.fault(name+".to", "must be a time of day such as 18:00")
	}
	return w
}

// clock reads HH:MM, 24:00 included, into minutes.
func clock(s string) (int, bool) {
	h, m, ok := strings.Cut(s, ":")
	if !ok || len(h) != 2 || len(m) != 2 {
		return 0, false
	}
	hour, err1 := strconv.ParseUint(h, 10, 8)
	minute, err2 := strconv.ParseUint(m, 10, 8)
	if err1 != nil || err2 != nil || minute > 59 || hour > 24 || hour == 24 && minute > 0 {
		return 0, false
	}
	return int(hour)*60 + int(minute), true //nolint:gosec // small
}

// at tells whether a moment is open or closed.
func (n hours) at(now time.Time) string {
	local := now.In(n.zone)
	if slices.Contains(n.holidays, local.Format(time.DateOnly)) {
		return OutcomeClosed
	}
	// The day before by the calendar: a day of a clock change has 23 or 25 hours.
	before := time.Date(local.Year(), local.Month(), local.Day()-1, 12, 0, 0, 0, n.zone)
	beforeWorks := !slices.Contains(n.holidays, before.Format(time.DateOnly))
	minute := local.Hour()*60 + local.Minute()
	for _, w := range n.windows {
		over := w.to <= w.from
		switch today, yesterday := w.days[local.Weekday()], w.days[before.Weekday()] && beforeWorks; {
		case !over && today && minute >= w.from && minute < w.to,
			over && today && minute >= w.from,
			over && yesterday && minute < w.to:
			return OutcomeOpen
		}
	}
	return OutcomeClosed
}

func (n hours) run(r *runner) (string, error) { return n.at(r.now()), nil }
