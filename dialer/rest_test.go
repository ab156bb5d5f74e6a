package dialer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/storetest"
)

// A campaign whose leads are done rests, and doesn't look for itself: it is dialed within a Poll or two once a lead falls due, comes in by another
// controller, or its settings change there.
func TestRestingCampaigns(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Poll = 500 * time.Millisecond }).trunkAndNumber(t)
	campaign := b.running(t)
	sw := &fakeSwitch{gate: b.svc.Gate()}
	pace(t, b.svc, sw)
	rests := func() bool { return len(b.svc.signals.resting()) == 1 }
	// soon is shorter than the rest of a pacer that nobody wakes.
	const soon = (restPolls - 5) * 500 * time.Millisecond
	within := func(ok func() bool, what string) {
		t.Helper()
		require.Eventually(t, ok, soon, every, what)
	}
	dialed := func(n int) func() bool { return func() bool { return len(sw.dialed()) == n } }
	require.Eventually(t, rests, waitFor, every)

	elsewhere := b.another(t, "node-2")
	_, err := elsewhere.PushLead(t.Context(), b.tenant, campaign.ID, decode[LeadInput](t, `{"phone":"9876543210"}`))
	require.NoError(t, err)
	within(dialed(1), "a lead of another controller")
	b.end(t, sw.dialed()[0], "completed", "NORMAL_CLEARING")
	require.Eventually(t, rests, waitFor, every)

	storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET status = 'retry', next_attempt_at = $1, attempts = 0", b.clock.Now().Add(time.Hour))
	b.clock.advance(time.Hour)
	within(dialed(2), "a lead that falls due")
	b.end(t, sw.dialed()[1], "completed", "NORMAL_CLEARING")
	require.Eventually(t, rests, waitFor, every)

	b.svc.AgentsChanged(b.tenant)
	require.True(t, rests(), "what the tenant's campaigns share doesn't wake a campaign without leads")
}
