package call

import (
	"context"
	"time"

	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

const (
	// skewWindow is the span whose least delayed event tells how far the clocks are apart.
	skewWindow = 30 * time.Second
	// skewWarned is the difference that is corrected and warned of; a busy host's events come later than they are made.
	skewWarned = 500 * time.Millisecond
	// askTimeout bounds the request that the switch set its clock.
	askTimeout = 10 * time.Second
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

// skewed takes by how much our clock is ahead of the switch's. While that is much, what is measured here from an answer on is corrected by it, and
// the switch is asked once to take over the host's clock as soon as it has no calls; times in a call's record stay the switch's, so that durations are
// right.
func (c *Controller) skewed(skew time.Duration) {
	c.metrics.skew.Set(skew.Seconds())
	far := skew.Abs() >= skewWarned
	if !far {
		skew = 0
	}
	before := c.sight.ahead.Swap(int64(skew))
	if !far || before != 0 {
		return
	}
	c.log.Warn("the switch's clock and this host's differ, and so do the times in call records; the switch sets its clock once it has no calls",
		"ahead_by", skew)
	c.besideLink(func() {
		ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
		defer cancel()
		if _, err := c.link.API(ctx, fs.SyncClock()); err != nil {
			c.log.Warn("setting the switch's clock failed", "error", err)
		}
	})
}

// ahead is by how much our clock was ahead of the switch's when that told of the call's answer, or is now.
func (k *core) ahead() time.Duration {
	if k.answerAt != nil && k.call.AnswerTime != nil {
		return k.answerAt.Sub(*k.call.AnswerTime)
	}
	return time.Duration(k.c.sight.ahead.Load())
}
