package webhook

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// reader is a dispatcher whose loop the test does: it reads, and sends nothing.
type reader struct {
	*Dispatcher
	st     *store.Store
	tenant uuid.UUID
}

func newReader(t *testing.T) *reader {
	t.Helper()
	st := storetest.New(t)
	d, err := New(Config{Store: st})
	require.NoError(t, err)
	r := &reader{Dispatcher: d, st: st, tenant: storetest.Tenant(t, st)}
	t.Cleanup(func() { d.owner.close(context.WithoutCancel(t.Context())) })
	r.all(t)
	return r
}

// all looks at all of the queue.
func (r *reader) all(t *testing.T) {
	t.Helper()
	r.allAt, r.edited = time.Time{}, true
	r.read(t)
}

// asked looks at some endpoints alone.
func (r *reader) asked(t *testing.T, ids ...uuid.UUID) {
	t.Helper()
	r.allAt = time.Now().Add(time.Hour)
	for _, id := range ids {
		if e := r.endpoints[id]; e != nil {
			e.wasEdited()
		}
		r.want(id, deliveries)
	}
	r.read(t)
}

// read looks until there is nothing to look at.
func (r *reader) read(t *testing.T) {
	t.Helper()
	for {
		for i := range r.lanes {
			r.lanes[i].next = time.Time{}
		}
		if r.look(t.Context(), t.Context()); r.aside == 0 {
			return
		}
		for ; r.aside > 0; r.aside-- {
			(<-r.back)()
		}
	}
}

func (r *reader) seqs(id uuid.UUID) []int64 {
	out := []int64{}
	if e := r.endpoints[id]; e != nil {
		for seq := range e.held {
			out = append(out, seq)
		}
	}
	slices.Sort(out)
	return out
}

const queueOne = `WITH e AS (INSERT INTO events (tenant_id, id, type, data) VALUES ($1, gen_random_uuid(), 'call.started', $3) RETURNING id)
	INSERT INTO webhook_queue (tenant_id, subscription_id, delivery_id, event_id, due_at) SELECT $1, $2, gen_random_uuid(), e.id, $4 FROM e RETURNING seq`

// queue puts a delivery into the queue, of which nobody is told.
func (r *reader) queue(t *testing.T, sub uuid.UUID, due *time.Time) (seq int64) {
	t.Helper()
	require.NoError(t, r.st.InTenant(t.Context(), r.tenant, func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(t.Context(), queueOne, r.tenant, sub, `{"direction": "outbound", "to": "+919876543210"}`, due).Scan(&seq)
	}))
	return seq
}

func (r *reader) subscribe(t *testing.T) uuid.UUID {
	t.Helper()
	id := storetest.NewID(t)
	sealed, err := r.st.Seal(SecretContext(id), []byte(NewSecret()))
	require.NoError(t, err)
	storetest.Exec(t, r.st, r.tenant, `INSERT INTO webhook_subscriptions (tenant_id, id, url, event_types, secret_sealed)
		VALUES ($1, $2, 'https://127.0.0.1/', '{call.*}', $3)`, r.tenant, id, sealed)
	return id
}

// A look is for the endpoints that were told of; what nobody told of is found by a look at all.
func TestLooksAreForThoseThatWereTold(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	told, other := r.subscribe(t), r.subscribe(t)
	one, two := r.queue(t, told, nil), r.queue(t, other, nil)
	r.asked(t, told)
	require.Equal(t, []int64{one}, r.seqs(told))
	require.Empty(t, r.seqs(other))
	r.all(t)
	require.Equal(t, []int64{two}, r.seqs(other))
}

// A delivery that commits after later ones were read is read, at once when that was lately, and in any case by a look at all.
func TestLateCommits(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	sub := r.subscribe(t)
	begin := func() (tx pgx.Tx, seq int64) {
		t.Helper()
		tx, err := r.st.Pool().Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "SELECT set_config('app.tenant_id', $1, true)", r.tenant.String())
		require.NoError(t, err)
		require.NoError(t, tx.QueryRow(t.Context(), queueOne, r.tenant, sub, "{}", nil).Scan(&seq))
		return tx, seq
	}
	soon, first := begin()
	late, second := begin()
	third := r.queue(t, sub, nil)
	r.asked(t, sub)
	require.Equal(t, []int64{third}, r.seqs(sub))
	require.NoError(t, soon.Commit(t.Context()))
	r.asked(t, sub)
	require.Equal(t, []int64{first, third}, r.seqs(sub))
	for range 3 {
		r.all(t)
	}
	require.Equal(t, third, r.endpoints[sub].first.low, "what was delivered before is not stepped over")
	require.NoError(t, late.Commit(t.Context()))
	r.asked(t, sub)
	require.Equal(t, []int64{first, third}, r.seqs(sub))
	for _, seq := range []int64{first, third} { // they are delivered
		storetest.Exec(t, r.st, r.tenant, "DELETE FROM webhook_queue WHERE seq = $1", seq)
		r.endpoints[sub].written(seq)
	}
	r.all(t)
	require.Equal(t, []int64{second}, r.seqs(sub))
}

// Where many endpoints have many deliveries a look reads a few of each, and the rest when those are done.
func TestLooksAreShort(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	subs := make([]uuid.UUID, mostRows/leastRows)
	for i := range subs {
		subs[i] = storetest.NewID(t)
	}
	storetest.Exec(t, r.st, r.tenant, `WITH e AS (INSERT INTO events (tenant_id, id, type, data) VALUES ($1, gen_random_uuid(), 'call.started', '{}') RETURNING id)
		INSERT INTO webhook_queue (tenant_id, subscription_id, delivery_id, event_id) SELECT $1, s, gen_random_uuid(), e.id
		FROM e, unnest($2::uuid[]) s, generate_series(1, 20)`, r.tenant, subs)
	r.asked(t, subs...)
	for _, sub := range subs {
		require.Len(t, r.seqs(sub), leastRows)
		require.True(t, r.endpoints[sub].more)
	}
	one := r.endpoints[subs[0]]
	var done []record
	for _, it := range one.held {
		done = append(done, record{endpoint: one.id, item: it, status: StatusDelivered})
		storetest.Exec(t, r.st, r.tenant, "DELETE FROM webhook_queue WHERE seq = $1", it.Seq)
	}
	r.written(t.Context(), done)
	r.read(t)
	require.Len(t, r.seqs(one.id), 20-leastRows)
}

// A retry that is at work hides no other of its endpoint: the next that will be due has an alarm, and the one that is due is read.
func TestHangingRetryHidesNoOther(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	sub := r.subscribe(t)
	now := time.Now()
	hanging := r.queue(t, sub, new(now.Add(-time.Minute)))
	next := r.queue(t, sub, new(now.Add(time.Hour)))
	r.asked(t, sub)
	require.Equal(t, []int64{hanging}, r.seqs(sub))
	require.Equal(t, sub, r.alarms.byTime[0].of.id)
	require.WithinDuration(t, now.Add(time.Hour), r.endpoints[sub].alarm, time.Second)
	sooner := r.queue(t, sub, new(now.Add(time.Minute)))
	r.asked(t, sub)
	require.WithinDuration(t, now.Add(time.Minute), r.endpoints[sub].alarm, time.Second)
	storetest.Exec(t, r.st, r.tenant, "UPDATE webhook_queue SET due_at = now() - interval '1 minute' WHERE seq = $1", sooner) // the database's clock is known by half a round trip
	r.asked(t, sub)
	require.Equal(t, []int64{hanging, sooner}, r.seqs(sub))
	require.NotContains(t, r.seqs(sub), next)
}

// What is due is so by the database's clock.
func TestDueByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	require.Less(t, r.owner.ahead.Abs(), 10*time.Second)
	r.cfg.Now = func() time.Time { return time.Now().Add(-10 * time.Minute) } // this host's is late
	r.owner.clock, r.owner.next = r.cfg.Now, time.Time{}
	sub := r.subscribe(t)
	seq := r.queue(t, sub, new(time.Now().Add(-time.Minute)))
	r.all(t)
	require.WithinDuration(t, time.Now(), r.now(), 10*time.Second)
	require.Equal(t, []int64{seq}, r.seqs(sub))
}

// The age of the oldest is what the last look at all found, and unknown before.
func TestOldestIsKnownFromTheLook(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	r.metrics.age.Store(nil)
	require.Negative(t, testutil.ToFloat64(r.metrics.oldest))
	r.all(t)
	require.Zero(t, testutil.ToFloat64(r.metrics.oldest))
	seq := r.queue(t, r.subscribe(t), nil)
	storetest.Exec(t, r.st, r.tenant, "UPDATE webhook_queue SET queued_at = now() - interval '1 hour' WHERE seq = $1", seq)
	r.all(t)
	require.InDelta(t, 3600, testutil.ToFloat64(r.metrics.oldest), 60)
}

// A tenant that becomes strict has no number told any more of what is in memory, nor of events from before.
func TestTenantThatBecomesStrict(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	sub := r.subscribe(t)
	seq := r.queue(t, sub, nil)
	r.asked(t, sub)
	require.Contains(t, string(r.endpoints[sub].held[seq].Data), "+919876543210")
	storetest.Exec(t, r.st, r.tenant, "UPDATE tenants SET privacy_mode = 'strict'")
	r.all(t)
	require.Equal(t, []int64{seq}, r.seqs(sub))
	require.Contains(t, string(r.endpoints[sub].held[seq].Data), "••••3210")
	require.NotContains(t, string(r.endpoints[sub].held[seq].Data), "987654")
	data, err := r.st.ReadSystem().EventData(t.Context(), r.tenant, r.endpoints[sub].held[seq].EventID)
	require.NoError(t, err)
	require.NotContains(t, string(data), "987654")
}

// While a tenant is suspended its deliveries wait, and go on when it is active again, however long that was. They make no alert.
func TestSuspendedTenantsWait(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	sub := r.subscribe(t)
	first := r.queue(t, sub, nil)
	r.asked(t, sub)
	require.Equal(t, []int64{first}, r.seqs(sub))
	e := r.endpoints[sub]
	e.open, e.opened = true, r.now().Add(-2*holdFor)
	storetest.Exec(t, r.st, r.tenant, "UPDATE tenants SET suspended_at = now()")
	storetest.Exec(t, r.st, r.tenant, "UPDATE webhook_queue SET queued_at = now() - interval '2 hours' WHERE seq = $1", first)
	r.all(t)
	require.Empty(t, r.seqs(sub))
	require.InDelta(t, 0, testutil.ToFloat64(r.metrics.oldest), 60)
	second, again := r.queue(t, sub, nil), r.queue(t, sub, new(r.now().Add(-2*holdFor)))
	r.asked(t, sub)
	require.Empty(t, r.seqs(sub), "those that were told of, too")
	storetest.Exec(t, r.st, r.tenant, "UPDATE tenants SET suspended_at = NULL")
	r.all(t)
	require.Equal(t, []int64{first, second, again}, r.seqs(sub))
	require.Empty(t, e.expired(r.now()), "nothing is given up for it")
}

// While a secret can't be opened its events wait, and are sent when it can.
func TestSecretThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	sub := r.subscribe(t)
	sealed := storetest.Query[[]byte](t, r.st, r.tenant, "SELECT secret_sealed FROM webhook_subscriptions")[0]
	storetest.Exec(t, r.st, r.tenant, `UPDATE webhook_subscriptions SET secret_sealed = '\x00'`)
	seq := r.queue(t, sub, nil)
	r.asked(t, sub)
	e := r.endpoints[sub]
	require.Nil(t, e.next(r.now()))
	require.Empty(t, e.expired(r.now().Add(holdFor/2)))
	storetest.Exec(t, r.st, r.tenant, "UPDATE webhook_subscriptions SET secret_sealed = $1", sealed)
	r.all(t)
	it := e.next(r.now())
	require.NotNil(t, it)
	require.Equal(t, seq, it.Seq)
	e.cutOff(it)
	storetest.Exec(t, r.st, r.tenant, `UPDATE webhook_subscriptions SET secret_sealed = '\x00'`)
	r.asked(t, sub)
	require.Len(t, e.expired(r.now().Add(2*holdFor)), 1, "after an hour it is given up")
}

// The loop waits for no look, and one for endpoints in trouble keeps no other from being looked at.
func TestLooksAreBesideTheLoop(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	healthy, failing := r.subscribe(t), r.subscribe(t)
	first := r.queue(t, healthy, nil)
	r.asked(t, healthy, failing)
	r.endpoints[failing].failed = failingFrom
	second := r.queue(t, healthy, nil)
	lock, err := r.st.Pool().Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = lock.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = lock.Exec(t.Context(), "LOCK TABLE webhook_queue IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	r.allAt = time.Time{}
	for i := range r.lanes {
		r.lanes[i].next = time.Time{}
	}
	r.want(failing, deliveries)
	r.look(t.Context(), t.Context())
	require.True(t, r.lanes[troubled].atWork && r.readingAll)
	r.want(healthy, deliveries)
	r.look(t.Context(), t.Context())
	require.True(t, r.lanes[prompt].atWork)
	require.Equal(t, first, r.endpoints[healthy].next(r.now()).Seq, "what is in memory is sent meanwhile")
	require.NoError(t, lock.Rollback(t.Context()))
	r.read(t)
	require.Equal(t, []int64{first, second}, r.seqs(healthy))
}

// What was read of an endpoint that was edited meanwhile, or may be another controller's, is read again.
func TestLooksThatAreLate(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	sub := r.subscribe(t)
	seq := r.queue(t, sub, nil)
	r.asked(t, sub)
	second := r.queue(t, sub, nil)
	r.lanes[prompt].next = time.Time{}
	r.want(sub, deliveries)
	r.look(t.Context(), t.Context())
	require.True(t, r.lanes[prompt].atWork)
	then := <-r.back
	storetest.Exec(t, r.st, r.tenant, "UPDATE webhook_subscriptions SET url = 'https://127.0.0.1/new'")
	r.endpoints[sub].wasEdited()
	r.aside--
	then()
	require.NotContains(t, r.seqs(sub), second, "it is told of the subscription as it was")
	r.read(t)
	require.Equal(t, []int64{seq, second}, r.seqs(sub))
	require.Equal(t, "https://127.0.0.1/new", r.endpoints[sub].target.row.Url)
}
