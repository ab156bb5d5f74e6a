package call

import (
	"context"
	"os"
	"time"

	"github.com/google/uuid"

	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/cluster"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// presentEvery is how often the switch is asked for its channels: a call whose end was never told is found, and one that is there is known
// to live.
const presentEvery = time.Minute

// noteAlive keeps that the call's channel was there.
func (k *core) noteAlive(at time.Time) {
	for {
		before := k.aliveAt.Load()
		if at.UnixMicro() <= before || k.aliveAt.CompareAndSwap(before, at.UnixMicro()) {
			return
		}
	}
}

// livedUntil is when, by the switch's clock, a call that ended unseen is known to have lived last: its last sign, or when the switch with all
// its channels was in sight last. That is not before its answer. What a process before us recorded counts for one beat after that sight, no
// more: it writes silence too, a file that is finished is written to once more, and clocks are set.
func (k *core) livedUntil(switchSeen time.Time) time.Time {
	at := switchSeen
	later := func(t time.Time) {
		if t.After(at) {
			at = t
		}
	}
	ahead := k.ahead()
	if us := k.aliveAt.Load(); us > 0 {
		later(time.UnixMicro(us).Add(-ahead))
	}
	if t := k.recordedAt; !t.IsZero() && !switchSeen.IsZero() {
		wrote := t.Add(-ahead)
		if most := switchSeen.Add(cluster.MaxBeat); wrote.After(most) {
			wrote = most
		}
		later(wrote)
	}
	for _, t := range []*time.Time{k.call.RingTime, k.call.AgentConnectTime} {
		if t != nil {
			later(*t)
		}
	}
	if k.call.AnswerTime == nil { // these are by our clock, and before an answer
		later(k.call.CreatedAt.Add(-ahead))
		if t := k.call.DialTime; t != nil {
			later(t.Add(-ahead))
		}
	}
	if t := k.call.AnswerTime; t != nil {
		later(*t)
	}
	return at
}

// lastRecorded is when audio of a call was written last, by our clock; the zero time when there is no recording of ours.
func (c *host) lastRecorded(call uuid.UUID) time.Time {
	file, err := os.Stat(c.recordPath(call))
	if err != nil || file.ModTime().After(c.clock.Now()) {
		return time.Time{}
	}
	return file.ModTime()
}

// signs notes what a message says of the channel's life.
func (k *core) signs(m message) {
	switch m := m.(type) {
	case channelEvent:
		if m.ev.UUID() == k.channel && m.ev.Name() != fs.ChannelHangupComplete && m.ev.Name() != fs.ChannelDestroy {
			k.noteAlive(k.c.clock.Now())
		}
	case channelFound:
		k.noteAlive(k.c.clock.Now())
	}
}

// inSight reports whether the switch's channels are known: the link is up, and what there was before it has been looked for.
func (c *host) inSight() bool {
	return c.sight.Knows(c.link.Generation())
}

// keepPresent asks for the switch's channels now and then, calls' and phones', until ctx ends.
func (c *Controller) keepPresent(ctx context.Context) {
	for rt.Pause(ctx, c.clock, presentEvery) == nil {
		c.lookForAbsent(ctx)
	}
}

// lookForAbsent holds the live calls against the switch's channels: FreeSWITCH drops events when its queue for us is full, and says nothing.
func (c *Controller) lookForAbsent(ctx context.Context) {
	if c.link.Generation() == 0 {
		return
	}
	before := c.clock.Now()
	actors := c.registry.all()
	channels, err := fs.ListChannels(ctx, c.link)
	if err != nil {
		if ctx.Err() == nil {
			c.log.WarnContext(ctx, "listing the switch's channels failed", "error", err)
		}
		return
	}
	there := make(map[string]bool, len(channels))
	for _, channel := range channels {
		there[channel] = true
	}
	c.phones.Absent(there)
	var absent []*core
	for _, a := range actors {
		switch us := a.aliveAt.Load(); {
		case there[a.channel]:
			a.noteAlive(before)
		case us > 0 && before.Sub(time.UnixMicro(us)) >= strayAge:
			absent = append(absent, a)
		}
	}
	if err := c.lookAll(ctx, absent, nil); err != nil && ctx.Err() == nil {
		c.log.WarnContext(ctx, "checking calls whose channel is missing failed", "error", err)
	}
}
