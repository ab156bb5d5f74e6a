package hostlink

import (
	"time"

	"github.com/ringmaster/ringmaster/switchctl/esl"
)

const (
	// skewWindow is the span whose least delayed event tells how far the clocks are apart.
	skewWindow = 30 * time.Second
	// MinSkew is the difference that is corrected and warned of; a busy host's events come later than they are made.
	MinSkew = 500 * time.Millisecond
)

// clockSkew measures by how much our clock is ahead of the switch's, which keeps its own offset after a step of the host's clock. It is for the
// goroutine that reads events.
type clockSkew struct {
	began time.Time
	least time.Duration
}

// note takes an event that came at now. When a window ends it gives the least difference in it.
func (s *clockSkew) note(ev *esl.Event, now time.Time) (skew time.Duration, ok bool) {
	at := ev.Micros("Event-Date-Timestamp")
	if at.IsZero() {
		return 0, false
	}
	d := now.Sub(at)
	if s.began.IsZero() || now.Sub(s.began) < 0 {
		s.began, s.least = now, d
		return 0, false
	}
	s.least = min(s.least, d)
	if now.Sub(s.began) < skewWindow {
		return 0, false
	}
	skew = s.least
	s.began = time.Time{}
	return skew, true
}
