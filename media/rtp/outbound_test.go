package rtp

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
)

// reporter receives our packets as a switch or a carrier does: what lies between two that came is lost.
type reporter struct {
	id         uint32
	first, got int
	newest     int
}

// outboundRun numbers our packets and sends them to one of the reporters.
type outboundRun struct {
	c    Reports
	sent int
	addr netip.Addr
}

const firstOutSeq = 65_500

func (r *outboundRun) seq() uint16 { return uint16(firstOutSeq + r.sent) }

func (r *outboundRun) send(to *reporter, n, lost int) {
	for i := range n {
		if i >= lost {
			if to.got == 0 {
				to.first = r.sent
			}
			to.got++
			to.newest = r.sent
		}
		r.sent++
	}
}

// report tells the counts as of a moment; jitter is in ms.
func (r *outboundRun) report(by *reporter, jitter uint32) {
	b := Block{
		Lost: int32(by.newest - by.first + 1 - by.got), Highest: uint32(uint16(firstOutSeq + by.newest)), jitter: 8 * jitter,
	}
	r.c.Reported(by.id, b, 0, uint64(r.sent))
	r.c.ReportedJitter(b, r.addr, dsp.SampleRate)
}

func (r *outboundRun) move(to netip.Addr) {
	r.addr = to
	r.c.out.moved(uint64(r.sent), r.seq())
}

// TestOutboundBypass goes into bypass and out of it three times without loss: what went past the switch is not lost, whatever it
// reports, and its jitter, a whole frame, is not believed.
func TestOutboundBypass(t *testing.T) {
	t.Parallel()
	home, away := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	sw, carrier := &reporter{id: 1}, &reporter{id: 2}
	r := outboundRun{addr: home}
	r.c.Begin(0, home, 0, r.seq())
	packet := 20 * time.Millisecond
	r.send(sw, 50, 0)
	require.False(t, r.c.Quality(packet).Measured)
	r.report(sw, 20)
	for range 3 {
		r.move(away)
		r.send(carrier, 250, 0)
		r.report(carrier, 4)
		r.send(carrier, 250, 0)
		r.report(carrier, 4)
		r.move(home)
		r.report(sw, 20) // of the time before: it hasn't seen a packet yet
		r.send(sw, 30, 0)
		r.report(sw, 20)
		r.send(sw, 20, 0)
		r.report(sw, 20)
	}
	require.Positive(t, sw.newest+1-sw.got, "the switch does count them")
	q := r.c.Quality(packet)
	require.True(t, q.Measured)
	require.Zero(t, q.LossPct)
	require.InDelta(t, 4, q.JitterMS, 0)
	require.EqualValues(t, 50+3*(250+20), q.Packets)
	require.Greater(t, q.MOS, 4.38)

	// Loss that is real counts on every way.
	r.send(sw, 30, 10)
	r.report(sw, 20)
	r.move(away)
	r.send(carrier, 10, 0)
	r.report(carrier, 4)
	r.send(carrier, 100, 20)
	r.send(carrier, 10, 0)
	r.report(carrier, 4)
	r.move(home)
	r.send(sw, 500, 400) // nobody reports on them
	q = r.c.Quality(packet)
	require.EqualValues(t, 50+3*270+30+110, q.Packets)
	require.InDelta(t, percent(30, q.Packets), q.LossPct, 0)
}

// TestOutboundShort judges a call by its ways that have been reported on, not by a few seconds before it moved.
func TestOutboundShort(t *testing.T) {
	t.Parallel()
	home, away := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	sw, carrier := &reporter{id: 1}, &reporter{id: 2}
	r := outboundRun{addr: home}
	r.c.Begin(0, home, 0, r.seq())
	r.send(sw, 10, 0)
	r.send(sw, 10, 5)
	r.send(sw, 1, 0)
	r.report(sw, 20)
	require.Zero(t, r.c.Quality(0).JitterMS)
	r.move(away)
	r.send(carrier, 1000, 0)
	r.report(carrier, 0)
	require.EqualValues(t, 21, r.c.Quality(0).Packets)
	r.send(carrier, 979, 0)
	r.report(carrier, 0)
	q := r.c.Quality(0)
	require.EqualValues(t, 1000, q.Packets)
	require.InDelta(t, 0.5, q.LossPct, 0)

	// Our own SSRC changes: counts begin at 0 on either side, and the first report counts in full.
	r.c.out.begin(uint64(r.sent), r.seq())
	fresh := &reporter{id: 2}
	r.send(fresh, 20, 0)
	r.send(fresh, 20, 10)
	r.report(fresh, 0)
	q = r.c.Quality(0)
	require.EqualValues(t, 1040, q.Packets)
	require.InDelta(t, percent(15, 1040), q.LossPct, 0)

	// A late packet takes loss back.
	fresh.got++
	r.report(fresh, 0)
	require.InDelta(t, percent(14, 1040), r.c.Quality(0).LossPct, 0)
}
