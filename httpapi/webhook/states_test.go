package webhook_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/webhook"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// clocked is a dispatcher on a clock that the test sets, with the waits of the interface document, a tenth longer each.
type clocked struct {
	*bundle
	clock *storetest.Clock
	other *receiver // of another subscription
}

func newClocked(t *testing.T) *clocked {
	t.Helper()
	c := &clocked{clock: storetest.NewClock(time.Now().Truncate(time.Millisecond)), other: newReceiver(t)}
	c.bundle = setup(t, func(cfg *webhook.Config) {
		cfg.Now, cfg.Delays, cfg.Random = c.clock.Now, webhook.Delays(), func() float64 { return 0.5 }
	})
	c.subscribe(t, c.other.URL, "campaign.paused")
	return c
}

// passes moves the clock on, and waits until the dispatcher has looked at what is due then: it has delivered something to another.
func (c *clocked) passes(t *testing.T, d time.Duration) {
	t.Helper()
	c.clock.Advance(d)
	n := len(c.other.requests())
	c.emit(t, storetest.NewID(t), store.EventCampaignPaused)
	require.Eventually(t, func() bool { return len(c.other.requests()) == n+1 }, 30*time.Second, time.Millisecond)
}

// delivery is a delivery as it is kept.
type delivery struct {
	id       uuid.UUID
	status   string
	next     *time.Time
	attempts []webhook.Attempt
}

// after waits until a subscription's only delivery has had so many attempts.
func (c *clocked) after(t *testing.T, sub uuid.UUID, attempts int) (d delivery) {
	t.Helper()
	require.Eventually(t, func() bool {
		var raw []byte
		err := c.st.InTenant(t.Context(), c.tenant, func(tx *store.Tx) error {
			return tx.Pgx().QueryRow(t.Context(), "SELECT id, status, next_attempt_at, attempts FROM webhook_deliveries WHERE subscription_id = $1",
				sub).Scan(&d.id, &d.status, &d.next, &raw)
		})
		return err == nil && json.Unmarshal(raw, &d.attempts) == nil && len(d.attempts) == attempts
	}, 30*time.Second, 5*time.Millisecond, "attempt %d", attempts)
	return d
}

// edit edits a subscription, and tells of it, as whoever edits one does.
func (c *clocked) edit(t *testing.T, sub uuid.UUID, set string) {
	t.Helper()
	require.NoError(t, c.st.InTenant(t.Context(), c.tenant, func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(t.Context(), "UPDATE webhook_subscriptions SET "+set+" WHERE id = $1", sub)
		tx.WebhookEdited(sub)
		return err
	}))
}

// A delivery is pending until it is delivered, or dead_lettered after the fourth attempt; each attempt is made when the one before says, and not a
// millisecond earlier. A replay begins anew, and what is no longer kept is neither tried nor replayed.
func TestStatesOfADelivery(t *testing.T) {
	t.Parallel()
	c := newClocked(t)
	service, _ := c.subscriptions(t)
	r := newReceiver(t, 500, 429, 408, 503, 500, 200, 404, 500)
	r.after = "7"
	sub := c.subscribe(t, r.URL)
	c.emit(t, storetest.NewID(t), store.EventCallEnded)
	pending := func(attempts int, wait time.Duration) {
		t.Helper()
		d := c.after(t, sub, attempts)
		require.Equal(t, "pending", d.status)
		require.Equal(t, wait, d.next.Sub(c.clock.Now()))
		c.passes(t, wait-time.Millisecond)
		c.passes(t, time.Millisecond)
		d = c.after(t, sub, attempts+1)
		require.Equal(t, wait, d.attempts[attempts].At.Sub(d.attempts[attempts-1].At))
	}
	ended := func(attempts int, status string) uuid.UUID {
		t.Helper()
		d := c.after(t, sub, attempts)
		require.Equal(t, status, d.status)
		require.Nil(t, d.next)
		require.Zero(t, storetest.Count(t, c.st, "SELECT count(*) FROM webhook_queue WHERE subscription_id = $1", sub))
		return d.id
	}
	pending(1, 220*time.Millisecond)
	pending(2, 7*time.Second) // as the receiver asks for
	pending(3, 22*time.Second)
	id := ended(4, "dead_lettered")
	replay := func() {
		t.Helper()
		again, err := service.Replay(t.Context(), c.tenant, id)
		require.NoError(t, err)
		require.Equal(t, "pending", again.Status)
	}
	replay()
	pending(5, 220*time.Millisecond)
	ended(6, "delivered")
	replay()
	ended(7, "dead_lettered")
	replay()
	require.Equal(t, "pending", c.after(t, sub, 8).status)

	done, err := c.st.Sweep(t.Context(), time.Now().AddDate(0, 0, 31), store.DefaultRetention())
	require.NoError(t, err)
	require.Positive(t, done.WebhookDeliveries)
	_, err = service.Replay(t.Context(), c.tenant, id)
	require.ErrorIs(t, err, store.ErrNotFound)
	c.passes(t, time.Second)
	require.Eventually(t, func() bool { return storetest.Count(t, c.st, "SELECT count(*) FROM webhook_queue") == 0 }, 30*time.Second, 5*time.Millisecond)
	require.Len(t, r.requests(), 8, "it is gone with its event")
}

// A subscription that is disabled gets nothing from then on: what waits for it ends, and can be replayed once it is active again.
func TestDeliveriesOfADisabledSubscription(t *testing.T) {
	t.Parallel()
	c := newClocked(t)
	service, _ := c.subscriptions(t)
	r := newReceiver(t, 500)
	sub := c.subscribe(t, r.URL)
	c.emit(t, storetest.NewID(t), store.EventCallEnded)
	require.Equal(t, "pending", c.after(t, sub, 1).status)
	c.edit(t, sub, "is_active = false, disabled_at = now(), disabled_reason = 'x'")
	c.passes(t, time.Second)
	d := c.after(t, sub, 2)
	require.Equal(t, "dead_lettered", d.status)
	require.Contains(t, *d.attempts[1].Error, "not active")
	require.Len(t, r.requests(), 1)
	_, err := service.Replay(t.Context(), c.tenant, d.id)
	require.ErrorContains(t, err, "not active")
	c.edit(t, sub, "is_active = true, disabled_at = NULL, disabled_reason = NULL")
	_, err = service.Replay(t.Context(), c.tenant, d.id)
	require.NoError(t, err)
	require.Equal(t, "delivered", c.after(t, sub, 3).status)
}
