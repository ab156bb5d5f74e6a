package switchctl

import (
	"time"

	"github.com/ringmaster/ringmaster/switchctl/esl"
)

const (
	// skewWindow is the span whose least delayed event tells how far the clocks are apart.
	skewWindow = 30 * time.Second
	// skewWarned is the difference that is warned of: recordings' beginnings and answer times mix both clocks.
	skewWarned = 500 * time.Millisecond
)

// clockSkew measures by how much our clock is ahead of the switch's, which keeps its own offset after a step of the host's clock. It is for the
// goroutine that reads events.
type clockSkew struct {
	began  time.Time
	least  time.Duration
	warned bool
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

// noteSkew publishes the difference of the clocks, and warns once while it is large.
func (l *hostLink) noteSkew(ev *esl.Event) {
	skew, ok := l.skew.note(ev, l.clock.Now())
	if !ok {
		return
	}
	l.metrics.skew.Set(skew.Seconds())
	far := skew.Abs() >= skewWarned
	if far && !l.skew.warned {
		l.log.Warn("the switch's clock and ours differ: times of calls and beginnings of recordings are wrong by that much; restart the switch, or send it `fsctl sync_clock`",
			"ahead_by", skew)
	}
	l.skew.warned = far
}
