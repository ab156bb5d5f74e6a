package dialer

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func TestClaimSizeFollowsWhatIsDialed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		size             claimSize
		claimed, settled int
		next             claimSize
	}{
		{50, 50, 50, 50}, {50, 50, 19, 28}, {28, 28, 19, 28}, {28, 28, 28, 50}, {20, 3, 3, 40}, {50, 50, 0, 1}, {1, 1, 1, 2}, {4, 4, 0, 1}, {4, 4, 4, 8}, {8, 8, 1, minClaim},
	} {
		require.Equal(t, c.next, c.size.after(c.claimed, c.settled), "%+v", c)
	}
}

// What one round has claimed and not dialed the next ones dial, until it goes back.
func TestPacerDialsWhatAnEarlierRoundHasClaimed(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	for i := range 6 {
		b.push(t, campaign.ID, fmt.Sprintf("987654320%d", i))
	}
	sw := &fakeSwitch{}
	p := newPacer(b.svc.Pacers, sw, b.tenant, campaign.ID, nil)
	claimed := func() int {
		return storetest.Count(t, b.st, "SELECT count(*) FROM leads WHERE claimed_by LIKE 'pacer:%'")
	}
	storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET max_concurrent = 2")
	list, _, err := p.Claim(t.Context(), leads.ClaimBatch, b.clock.Now())
	require.NoError(t, err)
	p.stock = stock{claimed: len(list), until: time.Now().Add(time.Hour)}
	p.dry = true // nothing is left to claim
	p.keep(t.Context(), list)
	require.Equal(t, 6, claimed())
	p.round(t.Context())
	require.Len(t, sw.dialed(), 2, "as many as the campaign may have")
	require.Equal(t, 4, claimed())
	storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET max_concurrent = 5")
	p.round(t.Context())
	require.Len(t, sw.dialed(), 5)
	require.Equal(t, 1, claimed())

	p.stock.until = time.Now()
	p.round(t.Context())
	require.Zero(t, claimed(), "its time is over")
	require.Len(t, sw.dialed(), 5)
	require.Equal(t, claimSize(7), p.size, "five of six were dialed")
	for i, call := range sw.dialed() {
		require.Equal(t, list[i].ID, *call.LeadID, "in their order")
	}
}

// The registry is asked once about a lead that waits for its turn by several plans, and again when it was given back meanwhile.
func TestPacerAsksTheRegistryOnceWhileALeadIsHeld(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Now = time.Now }).trunkAndNumber(t)
	campaign := b.running(t)
	b.push(t, campaign.ID, "9876543210")
	asked := func() int {
		b.registry.mu.Lock()
		defer b.registry.mu.Unlock()
		return b.registry.asked
	}
	p := newPacer(b.svc.Pacers, &fakeSwitch{}, b.tenant, campaign.ID, nil)
	p.book = newCallBook("node-1", false)
	other := b.svc.Pacers.rates.turn(b.tenant, time.Time{})
	require.NoError(t, other.refused(t.Context(), time.Now()))
	defer other.leave()
	claim := func() {
		list, _, err := p.Claim(t.Context(), leads.ClaimBatch, time.Now())
		require.NoError(t, err)
		require.Len(t, list, 1)
		p.stock = stock{claimed: 1, until: time.Now().Add(time.Hour), leads: list}
	}
	claim()
	before := asked()
	for range 3 {
		require.False(t, p.dial(t.Context(), p.stock.take(1), plan{holds: 20 * time.Millisecond}))
	}
	require.Equal(t, before+1, asked())
	p.empty(t.Context())
	claim()
	require.False(t, p.dial(t.Context(), p.stock.take(1), plan{holds: 20 * time.Millisecond}))
	require.Equal(t, before+2, asked())
}
