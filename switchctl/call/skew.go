package call

import (
	"context"
	"time"

	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/hostlink"
)

// askTimeout bounds the request that the switch set its clock.
const askTimeout = 10 * time.Second

// skewed takes by how much our clock is ahead of the switch's. While that is much, what is measured here from an answer on is corrected by it, and
// the switch is asked once to take over the host's clock as soon as it has no calls; times in a call's record stay the switch's, so that durations are
// right.
func (c *Controller) skewed(skew time.Duration) {
	c.metrics.skew.Set(skew.Seconds())
	far := skew.Abs() >= hostlink.MinSkew
	if !far {
		skew = 0
	}
	before := c.sight.SetAhead(skew)
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
	return k.c.sight.Ahead()
}
