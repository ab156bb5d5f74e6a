package dialer

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// soon is shorter than the rest of a pacer that polls twice a second and that nobody wakes.
const soon = (restPolls - 5) * 500 * time.Millisecond

// rests counts the campaigns that rest.
func (b *bundle) rests() int {
	_, campaigns := b.svc.signals.Resting()
	return len(campaigns)
}

// A campaign whose leads are done rests, and doesn't look for itself: it is dialed within a Poll or two once a lead falls due, comes in by another
// controller, or its settings change there.
func TestRestingCampaigns(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Poll = 500 * time.Millisecond }).trunkAndNumber(t)
	campaign := b.running(t)
	sw := &fakeSwitch{}
	pace(t, b.svc, sw)
	rests := func() bool { return b.rests() == 1 }
	within := func(ok func() bool, what string) {
		t.Helper()
		require.Eventually(t, ok, soon, every, what)
	}
	dialed := func(n int) func() bool { return func() bool { return len(sw.dialed()) == n } }
	require.Eventually(t, rests, waitFor, every)

	elsewhere := b.another(t, "node-2")
	_, err := elsewhere.Leads.PushLead(t.Context(), b.tenant, campaign.ID, decode[leads.Input](t, `{"phone":"9876543210"}`))
	require.NoError(t, err)
	within(dialed(1), "a lead of another controller")
	b.end(t, sw.dialed()[0], "completed", "NORMAL_CLEARING")
	require.Eventually(t, rests, waitFor, every)

	storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET status = 'retry', next_attempt_at = $1, attempts = 0", b.clock.Now().Add(time.Hour))
	b.clock.Advance(time.Hour)
	within(dialed(2), "a lead that falls due")
	b.end(t, sw.dialed()[1], "completed", "NORMAL_CLEARING")
	require.Eventually(t, rests, waitFor, every)

	b.svc.signals.Tenant(b.tenant)
	require.True(t, rests(), "what the tenant's campaigns share doesn't wake a campaign without leads")
}

// TestLeadsThatCantBeLookedAtHoldUpNoCampaign starts a campaign's pacer while the look for the resting campaigns' leads fails.
func TestLeadsThatCantBeLookedAtHoldUpNoCampaign(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Poll = 500 * time.Millisecond }).trunkAndNumber(t)
	b.running(t)
	other := b.running(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET status = 'paused' WHERE id = $1", other.ID)
	pace(t, b.svc, &fakeSwitch{})
	require.Eventually(t, func() bool { return b.rests() == 1 }, waitFor, every)

	tx, err := b.st.Pool().Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "LOCK TABLE leads IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET status = 'running' WHERE id = $1", other.ID)
	require.Eventually(t, func() bool {
		return b.svc.signals.Paced(other.ID)
	}, soon, every)
}
