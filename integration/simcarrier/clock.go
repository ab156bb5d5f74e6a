package simcarrier

import "time"

const (
	// maxLate is the jitter that a packet may have; more is a break in the sender's timestamps.
	maxLate = 400 * time.Millisecond
	// clockWindow is the number of packets over which the least delay is taken.
	clockWindow = 25
)

// mediaClock dates packets by their RTP timestamps, laid on the wall clock by the packets that came fastest. What a
// busy machine delays is thereby heard when it was said.
type mediaClock struct {
	anchored bool
	ts       uint32
	at       time.Time // when a packet of timestamp ts comes if nothing delays it
	least    time.Duration
	packets  int
	recent   [4]dated
	next     int
}

// dated is a packet's time by the clock, and how much later it came.
type dated struct {
	at   time.Time
	late time.Duration
}

// date is when the first sample of a packet is heard, given when the packet came.
func (c *mediaClock) date(ts uint32, came time.Time) time.Time {
	due := c.at.Add(time.Duration(int32(ts-c.ts)) * time.Second / rateHz)
	late := came.Sub(due)
	if !c.anchored || late < 0 || late > maxLate {
		c.anchored, c.packets, late, due = true, 0, 0, came
	}
	if c.packets == 0 || late < c.least {
		c.least = late
	}
	c.ts, c.at = ts, due
	if c.packets++; c.packets == clockWindow {
		c.at, c.packets = c.at.Add(c.least), 0
	}
	c.recent[c.next%len(c.recent)] = dated{due, late}
	c.next++
	return due
}

// cameAt is when audio dated at really came.
func (c *mediaClock) cameAt(at time.Time) time.Time {
	nearest := dated{}
	for _, d := range c.recent {
		if !d.at.After(at.Add(5*time.Millisecond)) && d.at.After(nearest.at) {
			nearest = d
		}
	}
	return at.Add(nearest.late)
}
