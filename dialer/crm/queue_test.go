package crm

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// slots tells how many slots a tenant gets now, and gives them back.
func (l *limits) slotsOf(tenant uuid.UUID, now time.Time) int {
	grants, _ := l.take([]uuid.UUID{tenant}, now)
	if len(grants) == 0 {
		return 0
	}
	l.claimed(grants[0], 0)
	return grants[0].slots
}

// One tenant's reports take four slots at most, fewer as its system is slow, and one that is away gets few attempts.
func TestLimitsOfATenant(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	l, a, b := newLimits(), uuid.New(), uuid.New()
	away := &result{err: errors.New("away"), away: true}
	attempt := func(took time.Duration, res *result) {
		t.Helper()
		grants, _ := l.take([]uuid.UUID{a}, now)
		require.Len(t, grants, 1)
		l.claimed(grants[0], 1)
		now = now.Add(took)
		l.leave(a, now, now.Add(-took), res, false)
	}
	grants, left := l.take([]uuid.UUID{a}, now)
	require.Equal(t, []grant{{a, tenantSlots}}, grants)
	require.Empty(t, left)
	l.claimed(grants[0], tenantSlots)
	grants, left = l.take([]uuid.UUID{a, b}, now)
	require.Equal(t, []grant{{b, tenantSlots}}, grants, "all of the other's are at work")
	require.Empty(t, left)
	l.claimed(grants[0], 0)
	for range tenantSlots {
		require.True(t, l.leave(a, now, now.Add(-10*time.Second), away, false), "there may be more")
	}
	require.Equal(t, 1, l.slotsOf(a, now), "a slow one gets one, and four failures are not yet a system that is away")
	attempt(10*time.Second, away)
	require.Equal(t, 1, l.broken(now))
	require.Zero(t, l.slotsOf(a, now))
	require.Equal(t, breakFirst, l.shutFor(a, now))
	now = now.Add(breakFirst)
	attempt(10*time.Second, away)
	require.Equal(t, 2*breakFirst, l.shutFor(a, now))
	for range 10 {
		now = now.Add(l.shutFor(a, now))
		attempt(10*time.Second, away)
	}
	require.Equal(t, breakMost, l.shutFor(a, now))
	now = now.Add(breakMost)
	attempt(5*time.Second, &result{})
	require.Zero(t, l.broken(now))
	require.Equal(t, 1, l.slotsOf(a, now), "it is back, though slow")
	for range 20 {
		attempt(3*time.Second, &result{})
	}
	require.Equal(t, tenantSlots/2, l.slotsOf(a, now))
	for range 20 {
		attempt(100*time.Millisecond, &result{})
	}
	require.Equal(t, tenantSlots, l.slotsOf(a, now), "all of them as it is quick")
	attempt(time.Second, &result{err: errors.New("busy"), away: true, retryAfter: 20 * time.Second})
	require.Equal(t, 20*time.Second, l.shutFor(a, now), "what it asks for holds for all")
	require.Zero(t, l.busy)
	l.take([]uuid.UUID{uuid.New()}, now.Add(2*idleAfter))
	require.Len(t, l.tenants, 1, "what is idle is forgotten")
}

// Tenants with much to do leave workers to those with none at work, and whoever finds none is served first when one comes free.
func TestWorkersAreLeftToOthers(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	l := newLimits()
	var tenants []uuid.UUID
	for range workers + 10 {
		tenants = append(tenants, uuid.New())
	}
	busy := func(grants []grant) (sum int) {
		for _, g := range grants {
			l.claimed(g, g.slots)
			sum += g.slots
		}
		return sum
	}
	grants, left := l.take(slices.Clone(tenants[:30]), now)
	require.Len(t, grants, 30)
	require.Empty(t, left)
	require.Equal(t, workers-keptWorkers, busy(grants), "each has one, and some have all")
	_, left = l.take(slices.Clone(tenants[:30]), now)
	require.NotEmpty(t, left, "who has one at work gets no more")
	grants, left = l.take(slices.Clone(tenants[30:]), now)
	require.Equal(t, keptWorkers, busy(grants))
	require.Len(t, grants, keptWorkers)
	require.Len(t, left, len(tenants)-30-keptWorkers)
	l.leave(tenants[0], now, now, &result{}, false)
	grants, _ = l.take(left, now)
	require.Len(t, grants, 1)
}

// What is due is leased once, to whoever looks first, by when it fell due; a lease of whoever died ends, and nothing has to sweep.
func TestReportsAreLeasedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := setupOn(t, b.st, b.clock)
	other.tenant = b.tenant
	b.configure(t, rest("http://127.0.0.1:1", nil))
	var calls []uuid.UUID
	for range 40 {
		calls = append(calls, b.end(t, nil))
	}
	storetest.Exec(t, b.st, b.tenant, "UPDATE call_reports SET next_attempt_at = next_attempt_at - interval '1 hour' WHERE call_id = $1", calls[39])
	rows, lease, err := b.queues[store.ReportCRM].lease(t.Context(), []grant{{b.tenant, 1}})
	require.NoError(t, err)
	require.Equal(t, calls[39], rows[0].CallID, "it has waited longest")
	var mu sync.Mutex
	seen := map[uuid.UUID]int{}
	var looks sync.WaitGroup
	for _, of := range []*bundle{b, other, b, other} {
		looks.Go(func() {
			for range 10 {
				rows, _, err := of.queues[store.ReportCRM].lease(t.Context(), []grant{{b.tenant, 3}})
				if err != nil {
					continue
				}
				mu.Lock()
				for _, row := range rows {
					seen[row.CallID]++
				}
				mu.Unlock()
			}
		})
	}
	looks.Wait()
	require.Len(t, seen, 39)
	for _, n := range seen {
		require.Equal(t, 1, n)
	}
	b.clock.Advance(claimTime)
	require.Equal(t, 40, b.claims(t, store.ReportCRM, 100))
	c, err := b.begin(t.Context(), store.ReportID{TenantID: b.tenant, CallID: calls[39], Purpose: store.ReportCRM}, lease)
	require.NoError(t, err)
	require.Equal(t, stepNothing, c.do, "whose lease is over begins nothing")
}

// A look finds each tenant once, however much it has to report, and one whose system is away costs no more than that.
func TestALookIsAStepForEachTenant(t *testing.T) {
	t.Parallel()
	b := setup(t)
	q := b.queues[store.ReportCRM]
	first := b.tenant
	due := func() []uuid.UUID {
		found, _ := q.look(t.Context())
		return found
	}
	require.Empty(t, due())
	b.configure(t, rest("http://127.0.0.1:1", nil))
	for range 5 {
		b.end(t, nil)
	}
	b.tenant = storetest.Tenant(t, b.st)
	b.configure(t, rest("http://127.0.0.1:1", nil))
	b.end(t, nil)
	require.ElementsMatch(t, []uuid.UUID{first, b.tenant}, due())
	for range breakAfter {
		q.limits.take([]uuid.UUID{first}, b.clock.Now())
		q.limits.leave(first, b.clock.Now(), b.clock.Now(), &result{away: true}, false)
	}
	grants, left := q.limits.take(due(), b.clock.Now())
	require.Equal(t, []grant{{b.tenant, tenantSlots}}, grants)
	require.Empty(t, left)
	storetest.Exec(t, b.st, first, "UPDATE call_reports SET next_attempt_at = now() + interval '1 s' WHERE tenant_id = $1", first)
	storetest.Exec(t, b.st, b.tenant, "UPDATE call_reports SET next_attempt_at = now() + interval '1 h' WHERE tenant_id = $1", b.tenant)
	found, wait := q.look(t.Context())
	require.Empty(t, found)
	require.LessOrEqual(t, wait, time.Second, "it looks again when the next one is due")
}

// Hosts whose clocks go wrong by a minute neither wait for what is due, nor take what another one is at work on.
func TestReportsGoByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]time.Duration{"behind": -time.Minute, "ahead": time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.now = func() time.Time { return time.Now().Add(wrong) }
			b.client.now = b.now
			crm := newStandIn(t, status(http.StatusServiceUnavailable))
			b.configure(t, rest(crm.URL, nil))
			others := b.end(t, nil)
			storetest.Exec(t, b.st, b.tenant, "UPDATE call_reports SET busy_until = now() + interval '30 s', next_attempt_at = now() + interval '30 s'")
			b.work(t)
			call := b.end(t, nil)
			require.Eventually(t, func() bool { return b.report(t, call).LastError != nil }, 20*time.Second, 5*time.Millisecond)
			row := b.row(t, call, store.ReportCRM)
			require.WithinDuration(t, time.Now(), *row.AttemptedAt, 20*time.Second)
			require.WithinDuration(t, time.Now().Add(time.Minute), row.NextAttemptAt, 20*time.Second)
			require.Zero(t, b.row(t, others, store.ReportCRM).Attempts)
			r, err := b.Retry(t.Context(), b.tenant, call)
			require.NoError(t, err)
			require.WithinDuration(t, time.Now(), *r.NextAttemptAt, 20*time.Second)
		})
	}
}

// A call that is not kept any more has nothing to report.
func TestReportOfACallThatIsGone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.configure(t, rest("http://127.0.0.1:1", nil))
	call := b.end(t, nil)
	storetest.Exec(t, b.st, b.tenant, "DELETE FROM calls WHERE id = $1", call)
	require.Nil(t, b.try(t, store.ReportCRM, call))
	require.Contains(t, *b.row(t, call, store.ReportCRM).LastError, "not kept")
}

// The queue is worked from Start to Stop: what falls due is written at once, what a controller of before has left too, and an attempt that is cut off
// is made again.
func TestStartAndStop(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.NoError(t, b.Stop(t.Context()), "it was never started")
	b.now, b.client.now = time.Now, time.Now
	hold := make(chan struct{})
	crm := newStandIn(t, func(http.ResponseWriter, got) {})
	b.configure(t, rest(crm.URL, nil))
	left := b.end(t, nil)
	b.work(t)
	require.Eventually(t, func() bool { return b.report(t, left).Status == StatusWritten }, 10*time.Second, 5*time.Millisecond)
	crm.say(func(http.ResponseWriter, got) { <-hold })
	cut := b.end(t, nil)
	require.Eventually(t, func() bool { return len(crm.requests()) == 2 }, 10*time.Second, time.Millisecond, "at once")
	b.halted(t)
	close(hold)
	r := b.report(t, cut)
	require.Equal(t, StatusPending, r.Status)
	require.WithinDuration(t, time.Now().Add(hubspotSettle), *r.NextAttemptAt, 5*time.Second)
	require.NoError(t, b.Stop(t.Context()), "again")
}

// panicking is a CRM whose writer has a defect.
type panicking struct{}

func (panicking) updates() bool { return true }

func (panicking) write(context.Context, write) (result, exchange) { panic("a defect") }

// A defect of ours fails the report that has it, and takes down nothing else.
func TestPanicsAreFailures(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.configure(t, rest("http://127.0.0.1:1", nil))
	call := b.end(t, nil)
	id := store.ReportID{TenantID: b.tenant, CallID: call, Purpose: store.ReportCRM}
	c, err := b.begin(t.Context(), id, b.leased(t, id))
	require.NoError(t, err)
	c.settings.writer = panicking{}
	_, err = b.keep(t.Context(), c, b.perform(t.Context(), &c), 0)
	require.NoError(t, err)
	r := b.report(t, call)
	require.Equal(t, "internal error", *r.LastError)
	require.GreaterOrEqual(t, r.NextAttemptAt.Sub(b.clock.Now()), time.Minute)

	b.links = func(uuid.UUID, uuid.UUID, store.ReportPurpose) string { panic("a defect") }
	call = b.end(t, nil)
	b.recorded(t, call, "ready")
	id.CallID = call
	q := b.queues[store.ReportCRM]
	grants, _ := q.limits.take([]uuid.UUID{b.tenant}, b.clock.Now())
	q.limits.claimed(grants[0], 1)
	q.work(t.Context(), id, b.leased(t, id))
	require.Zero(t, q.limits.busy)
	require.Equal(t, StatusPending, b.report(t, call).Status)
	require.InDelta(t, 2, testutil.ToFloat64(b.metrics.panics), 0)
}
