package campaigns

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ringmaster/ringmaster/dialer/week"
)

// CalleeZone is where every number that the dialer takes is answered.
const CalleeZone = "Asia/Kolkata"

// ErrWindow says what is wrong with a calling window.
var ErrWindow = errors.New("calling window")

// NewWindow makes a CallingWindow ready.
func NewWindow(w CallingWindow) (week.Window, error) {
	zone, err := week.Zone(w.Timezone)
	if err != nil {
		return week.Window{}, fmt.Errorf("%w: %w", ErrWindow, err)
	}
	from, okFrom := week.Clock(w.From)
	to, okTo := week.Clock(w.To)
	if !okFrom || !okTo || from == week.MinutesPerDay || from == to {
		return week.Window{}, fmt.Errorf("%w: from %q to %q is no time of day", ErrWindow, w.From, w.To)
	}
	days, unknown := week.ParseDays(w.Days)
	if len(unknown) > 0 {
		return week.Window{}, fmt.Errorf("%w: %q are no days", ErrWindow, unknown)
	}
	return week.Window{Zone: zone, Days: days, From: from, To: to}, nil
}

// StoredWindow reads a window from its column; false when there is none.
func StoredWindow(column json.RawMessage) (week.Window, bool, error) {
	if len(column) == 0 || string(column) == "null" {
		return week.Window{}, false, nil
	}
	var w CallingWindow
	if err := json.Unmarshal(column, &w); err != nil {
		return week.Window{}, false, fmt.Errorf("%w: %w", ErrWindow, err)
	}
	if w.Timezone == "" {
		w.Timezone = CalleeZone
	}
	ready, err := NewWindow(w)
	return ready, err == nil, err
}

// ShownWindow gives a stored calling window as it was sent; nil when there is none.
func ShownWindow(column json.RawMessage) *CallingWindow {
	var w *CallingWindow
	if len(column) == 0 || json.Unmarshal(column, &w) != nil {
		return nil
	}
	return w
}
