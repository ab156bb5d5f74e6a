package dialer

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// claims is a campaign whose leads are known by names.
type claims struct {
	*bundle
	leads.Claimer
	campaign uuid.UUID
	ids      map[string]uuid.UUID
	names    map[uuid.UUID]string
}

func newClaims(t *testing.T) *claims {
	t.Helper()
	b := setup(t)
	campaign := b.aiCampaign(t).ID
	return &claims{
		bundle: b, campaign: campaign, ids: map[string]uuid.UUID{}, names: map[uuid.UUID]string{},
		Claimer: leads.Claimer{Leads: b.svc.Leads, Tenant: b.tenant, Campaign: campaign, Claimant: "pacer:one", Lease: claimLease},
	}
}

// add pushes leads, in this order.
func (c *claims) add(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		id := c.push(t, c.campaign, fmt.Sprintf("98765%05d", len(c.ids))).ID
		c.ids[name], c.names[id] = id, name
	}
}

func (c *claims) set(t *testing.T, name, assignments string, args ...any) {
	t.Helper()
	storetest.Exec(t, c.st, c.tenant, "UPDATE leads SET "+assignments+" WHERE id = $1", append([]any{c.ids[name]}, args...)...)
}

// due puts a lead into a status whose time came so long ago.
func (c *claims) due(t *testing.T, name string, status leads.Status, ago time.Duration) {
	t.Helper()
	c.set(t, name, "status = $2, attempts = 1, next_attempt_at = $3, claimed_by = NULL, claimed_until = NULL", string(status),
		c.clock.Now().Add(-ago))
}

// take claims up to n leads and names them.
func (c *claims) take(t *testing.T, n int) []string {
	t.Helper()
	leads, taken, err := c.Claim(t.Context(), n, c.clock.Now())
	require.NoError(t, err)
	require.Len(t, leads, taken)
	names := []string{}
	for _, lead := range leads {
		names = append(names, c.names[lead.ID])
	}
	return names
}

// stay has the claimer go on where it came to, whatever the time; head has it look from the head.
func (c *claims) stay() { c.At.Since = time.Now().Add(time.Hour) }
func (c *claims) head() { c.At.Since = time.Time{} }

// TestClaimOrderAtAnyPace: callbacks that were promised, then by priority: retries, those that wait longest first, then fresh leads in
// the order in which they came. It is the same whatever the size of a claim.
func TestClaimOrderAtAnyPace(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3, 50} {
		t.Run(fmt.Sprintf("%d at a time", n), func(t *testing.T) {
			t.Parallel()
			c := newClaims(t)
			c.add(t, "second", "low", "urgent", "third", "retry late", "retry early", "callback late", "callback early", "not yet", "promised later", "listed")
			c.set(t, "low", "priority = -1")
			c.set(t, "urgent", "priority = 7")
			c.due(t, "retry late", leads.StatusRetry, time.Minute)
			c.set(t, "retry late", "priority = 9")
			c.due(t, "retry early", leads.StatusRetry, time.Hour)
			c.due(t, "callback late", leads.StatusCallback, time.Second)
			c.due(t, "callback early", leads.StatusCallback, 2*time.Second)
			c.due(t, "not yet", leads.StatusRetry, -time.Second)
			c.due(t, "promised later", leads.StatusCallback, -time.Second)
			c.set(t, "listed", "dnd_clean = false")
			var order []string
			for {
				names := c.take(t, n)
				if order = append(order, names...); len(names) == 0 {
					break
				}
				require.LessOrEqual(t, len(names), n)
				c.stay()
			}
			require.Equal(t, []string{
				"callback early", "callback late", "retry late", "urgent", "retry early", "second", "third", "low",
			}, order)
			c.clock.Advance(time.Second)
			require.Equal(t, []string{"promised later", "not yet"}, c.take(t, 50), "their time has come")
		})
	}
}

// TestClaimGoesOnWhereItCameTo: while there are enough leads behind its position a claimer doesn't look before it, but for
// callbacks; it does when it looks from the head, which it does every headEvery, or when it runs dry.
func TestClaimGoesOnWhereItCameTo(t *testing.T) {
	t.Parallel()
	c := newClaims(t)
	c.add(t, "a", "b", "c", "d", "e", "f", "g", "h")
	require.Equal(t, []string{"a", "b"}, c.take(t, 2))
	require.WithinDuration(t, time.Now(), c.At.Since, leads.HeadEvery, "it looked from the head just now")
	c.stay()
	c.set(t, "a", "claimed_by = NULL, claimed_until = NULL") // given back
	c.set(t, "h", "priority = 5")
	c.due(t, "b", leads.StatusCallback, time.Second)
	require.Equal(t, []string{"b", "c"}, c.take(t, 2), "a callback is never behind")
	c.stay()
	require.Equal(t, []string{"d"}, c.take(t, 1))
	c.head()
	require.Equal(t, []string{"h", "a"}, c.take(t, 2), "from the head: the urgent one, then the one that was given back")
	c.stay()
	require.Equal(t, []string{"e", "f"}, c.take(t, 2))
	c.stay()
	c.set(t, "c", "claimed_by = NULL, claimed_until = NULL")
	require.Equal(t, []string{"g", "c"}, c.take(t, 3), "what is left, then round to the head; none twice")
	c.stay()
	require.Empty(t, c.take(t, 3))
}

// TestClaimOfRetriesGoesRound: retries go on from the last due time; one that was put before it waits for the next look from the head.
func TestClaimOfRetriesGoesRound(t *testing.T) {
	t.Parallel()
	c := newClaims(t)
	c.add(t, "a", "b", "c", "d", "fresh")
	for i, name := range []string{"a", "b", "c", "d"} {
		c.due(t, name, leads.StatusRetry, time.Duration(60-10*i)*time.Second)
	}
	require.Equal(t, []string{"a", "b"}, c.take(t, 2))
	c.stay()
	c.due(t, "a", leads.StatusRetry, time.Hour)
	require.Equal(t, []string{"c"}, c.take(t, 1))
	c.stay()
	require.Equal(t, []string{"d"}, c.take(t, 1))
	c.stay()
	require.Equal(t, []string{"fresh", "a"}, c.take(t, 2), "the one before its position when it goes round")
	c.due(t, "b", leads.StatusRetry, time.Hour)
	c.due(t, "c", leads.StatusRetry, time.Minute)
	c.add(t, "fresh too")
	c.head()
	require.Equal(t, []string{"b", "c", "fresh too"}, c.take(t, 3), "from the head retries come before fresh leads")
}

// TestClaimsGiveLittleBack: a claimer that dials retries and fresh leads by turns takes what it wants. Only the claim in which retries fall due after
// fresh leads alone has asked for both.
func TestClaimsGiveLittleBack(t *testing.T) {
	t.Parallel()
	const n = 10
	c := newClaims(t)
	var order []string
	for i := range 80 {
		order = append(order, fmt.Sprintf("fresh %02d", i))
	}
	c.add(t, order...)
	storetest.Exec(t, c.st, c.tenant, "CREATE SEQUENCE lead_updates")
	storetest.Exec(t, c.st, c.tenant, `CREATE FUNCTION count_update() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN PERFORM nextval('lead_updates'); RETURN NEW; END $$`)
	storetest.Exec(t, c.st, c.tenant, "CREATE TRIGGER count_update BEFORE UPDATE ON leads FOR EACH ROW EXECUTE FUNCTION count_update()")
	claim := func(names []string, extra int) {
		t.Helper()
		before := storetest.Count(t, c.st, "SELECT last_value FROM lead_updates")
		require.Equal(t, names, c.take(t, n))
		require.Equal(t, before+n+extra, storetest.Count(t, c.st, "SELECT last_value FROM lead_updates"), "updates of leads for %v", names)
		c.stay()
	}
	claim(order[:n], -1) // a sequence's first value and none look alike
	claim(order[n:2*n], 0)
	order = order[2*n:]
	var due []string
	for i := range 35 {
		due = append(due, fmt.Sprintf("retry %02d", i))
	}
	c.add(t, due...)
	for i, name := range due {
		c.due(t, name, leads.StatusRetry, time.Duration(1000-i)*time.Second)
	}
	claim(due[:n], 2*n) // as many fresh ones went back
	order = append(due[n:], order...)
	for ; len(order) > n; order = order[n:] {
		claim(order[:n], 0)
	}
}

// TestClaimsOfOthers: a campaign has one pacer, so that another pacer's claim is that of a dead one; an agent's counts while it lasts,
// and so does one's own.
func TestClaimsOfOthers(t *testing.T) {
	t.Parallel()
	c := newClaims(t)
	c.add(t, "dead pacer's", "agent's", "agent's, over", "own", "own, over", "dead pacer's retry")
	now := c.clock.Now()
	c.due(t, "dead pacer's retry", leads.StatusRetry, time.Second)
	hold := func(name, by string, until time.Duration) {
		c.set(t, name, "claimed_by = $2, claimed_until = $3", by, now.Add(until))
	}
	hold("dead pacer's", "pacer:two", time.Minute)
	hold("dead pacer's retry", "pacer:two", time.Minute)
	hold("agent's", "agent:ann", time.Minute)
	hold("agent's, over", "agent:ann", 0)
	hold("own", "pacer:one", time.Minute)
	hold("own, over", "pacer:one", -time.Second)
	require.Equal(t, []string{"dead pacer's retry", "dead pacer's", "agent's, over", "own, over"}, c.take(t, 50))
	row := c.lead(t, c.ids["agent's, over"])
	require.Equal(t, "pacer:one", *row.ClaimedBy)
	require.WithinDuration(t, now.Add(claimLease), *row.ClaimedUntil, time.Microsecond)
	c.clock.Advance(claimLease)
	require.Len(t, c.take(t, 50), 6, "all claims are over")
}
