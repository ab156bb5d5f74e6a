package dialer

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func TestRateQueueHasTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var q rateQueue
		tenant, began := uuid.New(), time.Now()
		free := q.turn(tenant, began)
		queued, err := free.enter(t.Context())
		require.NoError(t, err)
		require.False(t, queued, "nobody was refused")
		require.NoError(t, free.refused(t.Context(), began.Add(time.Second)))
		require.Equal(t, time.Second, time.Since(began))
		queued, err = q.turn(uuid.New(), began).enter(t.Context())
		require.NoError(t, err)
		require.False(t, queued, "tenants don't wait for one another")

		gone, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := q.turn(tenant, time.Time{}).enter(gone)
			left <- err
		}()
		var order []int
		for i := range 4 {
			go func() {
				turn := q.turn(tenant, began.Add(-time.Duration(i/2)*time.Minute))
				if _, err := turn.enter(t.Context()); err == nil {
					order = append(order, i)
					turn.waited = true
					turn.leave()
				}
			}()
			synctest.Wait()
		}
		cancel()
		require.ErrorIs(t, <-left, context.Canceled)
		require.Empty(t, order)
		free.leave()
		free.leave()
		synctest.Wait()
		require.Equal(t, []int{2, 3, 0, 1}, order, "who was served longest ago, then who came first")
		require.Empty(t, q.lines, "nothing is kept of a tenant for whom nobody waits")
	})
}

// fakeRate is a trunk's calls per second, and what an admission takes.
type fakeRate struct {
	mu      sync.Mutex
	cps     int
	takes   time.Duration
	begun   []time.Time
	refused int
}

// admit also tells how many calls may begin at once, or when the next.
func (r *fakeRate) admit(takes time.Duration) (room int64, next time.Time, ok bool) {
	time.Sleep(takes) //nolint:forbidigo // the clock is the bubble's
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if n := len(r.begun) - r.cps; n >= 0 && now.Sub(r.begun[n]) < time.Second {
		r.refused++
		return 0, r.begun[n].Add(time.Second), false
	}
	r.begun = append(r.begun, now)
	if n := len(r.begun) - r.cps; n >= 0 && now.Sub(r.begun[n]) < time.Second {
		return 0, r.begun[n].Add(time.Second), true
	}
	room = int64(r.cps)
	for i := len(r.begun) - 1; i >= 0 && now.Sub(r.begun[i]) < time.Second; i-- {
		room--
	}
	return room, time.Time{}, true
}

// pace dials as a pacer does, whose claims last so long and whose admissions take so long, until ctx ends; called is told of each call.
func (r *fakeRate) pace(ctx context.Context, q *rateQueue, tenant uuid.UUID, claim, takes time.Duration, called func()) {
	var served time.Time
	for ctx.Err() == nil {
		func() {
			held, cancel := context.WithTimeout(ctx, claim)
			defer cancel()
			turn := q.turn(tenant, served)
			defer turn.leave()
			_, err := turn.enter(held)
			for err == nil && ctx.Err() == nil {
				room, next, ok := r.admit(takes)
				if ok {
					turn.admitted(room, next)
					served = time.Now()
					called()
					return
				}
				err = turn.refused(held, next)
			}
		}()
	}
}

// rated runs so many campaigns behind a rate.
func (r *fakeRate) rated(ctx context.Context, campaigns int, claim time.Duration) (calls []int, stopped func()) {
	var q rateQueue
	var pacers sync.WaitGroup
	tenant := uuid.New()
	calls = make([]int, campaigns)
	for c := range campaigns {
		pacers.Go(func() { r.pace(ctx, &q, tenant, claim, r.takes, func() { calls[c]++ }) })
	}
	return calls, pacers.Wait
}

// More campaigns wait for a trunk than get their turn before their claims run out: they keep their places.
func TestRateQueueStarvesNoCampaign(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 96*time.Second+500*time.Millisecond)
		defer cancel()
		rate := &fakeRate{cps: 1, takes: time.Millisecond}
		calls, stopped := rate.rated(ctx, 24, 10*time.Second)
		stopped()
		require.GreaterOrEqual(t, slices.Min(calls), 3, "of four calls each: %v", calls)
		require.LessOrEqual(t, slices.Max(calls), 5, "%v", calls)
	})
}

// Hardly any ask in vain while the rate binds. Once it doesn't all go on side by side.
func TestRateQueueDissolves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		rate := &fakeRate{cps: 10, takes: 20 * time.Millisecond}
		_, stopped := rate.rated(ctx, 50, 10*time.Second)
		sum := func() int {
			rate.mu.Lock()
			defer rate.mu.Unlock()
			return len(rate.begun)
		}
		refusals := func() int {
			rate.mu.Lock()
			defer rate.mu.Unlock()
			return rate.refused
		}
		time.Sleep(2 * time.Second) //nolint:forbidigo // the clock is the bubble's
		called, refused := sum(), refusals()
		time.Sleep(20 * time.Second) //nolint:forbidigo // the clock is the bubble's
		require.InDelta(t, 200, sum()-called, 20)
		require.LessOrEqual(t, refusals()-refused, (sum()-called)/10, "each admission tells when the next may be")
		rate.mu.Lock()
		rate.cps = 1e6
		rate.mu.Unlock()
		time.Sleep(2 * time.Second) //nolint:forbidigo // the clock is the bubble's
		called = sum()
		time.Sleep(time.Second) //nolint:forbidigo // the clock is the bubble's
		require.GreaterOrEqual(t, sum()-called, 2400, "50 campaigns side by side, 50 admissions a second each")
		cancel()
		stopped()
	})
}

// A pacer asks the registry before its turn, and dials nothing by a plan that has grown old while it waited.
func TestPacerHoldsNoTurnForTheRegistry(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Now = time.Now }).trunkAndNumber(t)
	campaign := b.running(t)
	lead := b.push(t, campaign.ID, "9876543210")
	asked := func() int {
		b.registry.mu.Lock()
		defer b.registry.mu.Unlock()
		return b.registry.asked
	}
	sw := &fakeSwitch{}
	p := newPacer(b.svc.Pacers, sw, b.tenant, campaign.ID, nil)
	p.book = newCallBook("node-1", false)
	other := b.svc.Pacers.rates.turn(b.tenant, time.Time{})
	require.NoError(t, other.refused(t.Context(), time.Now()))
	dial := func(by plan) (inTime bool) {
		list, _, err := p.Claim(t.Context(), leads.ClaimBatch, time.Now())
		require.NoError(t, err)
		require.Len(t, list, 1)
		return p.dial(t.Context(), list, by)
	}
	require.False(t, dial(plan{holds: 50 * time.Millisecond}), "it is planned anew at once")
	require.Empty(t, sw.dialed())
	require.Nil(t, b.lead(t, lead.ID).ClaimedBy)

	before, done := asked(), make(chan bool)
	go func() { done <- dial(plan{}) }()
	require.Eventually(t, func() bool { return asked() > before }, waitFor, every, "while another has the turn")
	require.Empty(t, sw.dialed())
	other.leave()
	require.True(t, <-done)
	require.Len(t, sw.dialed(), 1)
	require.Equal(t, before+1, asked(), "once for each lead")
}

// Campaigns that wait for the same trunk don't ask the gate in vain for one another.
func TestPacersWaitForATrunksRateInTurn(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Now = time.Now }).trunkAndNumber(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE trunks SET cps = 4")
	const campaigns, each = 6, 2
	for c := range campaigns {
		campaign := b.running(t)
		for i := range each {
			b.push(t, campaign.ID, fmt.Sprintf("98765%02d%03d", c, i))
		}
	}
	sw := &fakeSwitch{}
	pace(t, b.svc, sw)
	require.Eventually(t, func() bool { return len(sw.dialed()) == campaigns*each }, waitFor, every)
	refused := testutil.ToFloat64(b.svc.Gate.RefusedTotal.WithLabelValues(string(gate.ReasonTrunkRate)))
	require.LessOrEqual(t, refused, float64(campaigns*each), "those who began together; when all tried each quarter of a second, it were five for each call")
	calls := sw.dialed()
	slices.SortFunc(calls, func(a, b db.Call) int { return a.CreatedAt.Compare(b.CreatedAt) }) // two may be dialed in another order than they were admitted
	for i := 4; i < len(calls); i++ {
		require.GreaterOrEqual(t, calls[i].CreatedAt.Sub(calls[i-4].CreatedAt).Seconds(), 1.0)
	}
}
