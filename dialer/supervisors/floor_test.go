package supervisors

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// The day's figures are counted once, whoever asks at once; what was counted before is shown meanwhile, and when counting fails.
func TestFiguresAreCountedOnce(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := &Service{cfg: Config{Now: func() time.Time { return now }}}
	c := newFigureCache(s)
	var counts atomic.Int64
	going, goOn := make(chan struct{}, 40), make(chan struct{})
	var fail error
	c.count = func(context.Context, uuid.UUID, time.Time) (db.FloorFiguresRow, error) {
		n := counts.Add(1)
		going <- struct{}{}
		<-goOn
		return db.FloorFiguresRow{CallsToday: n}, fail
	}
	tenant := uuid.New()
	var asking sync.WaitGroup
	for range 40 {
		asking.Go(func() {
			kpis, err := c.figuresOf(t.Context(), tenant)
			if err != nil || kpis.CallsToday != 1 {
				t.Errorf("%v, %v", kpis, err)
			}
		})
	}
	<-going
	close(goOn)
	asking.Wait()
	require.Equal(t, int64(1), counts.Load())
	now, goOn = now.Add(time.Hour), make(chan struct{})
	fresh := make(chan KPIs)
	go func() {
		kpis, _ := c.figuresOf(t.Context(), tenant)
		fresh <- kpis
	}()
	<-going
	old, err := c.figuresOf(t.Context(), tenant)
	require.NoError(t, err)
	require.Equal(t, int64(1), old.CallsToday)
	close(goOn)
	require.Equal(t, int64(2), (<-fresh).CallsToday)
	now, fail = now.Add(time.Minute), errors.New("too slow")
	old, err = c.figuresOf(t.Context(), tenant)
	require.NoError(t, err)
	require.Equal(t, int64(2), old.CallsToday)
	now = now.Add(time.Hour)
	_, err = c.figuresOf(t.Context(), tenant)
	require.ErrorIs(t, err, fail)
}

// Listeners are told once that the floor can't be read, and get the whole of it afterwards; whoever comes gets what the others see.
func TestStaleFloor(t *testing.T) {
	t.Parallel()
	f := &feed{epoch: "e", kick: make(chan struct{}, 1), listeners: map[*Listener]bool{}}
	names := func(l *Listener) (out []string) {
		for len(l.events) > 0 {
			out = append(out, (<-l.events).Name)
		}
		return out
	}
	one, err := f.listen(uuid.New(), "")
	require.NoError(t, err)
	require.Len(t, f.kick, 1)
	<-f.kick
	require.NoError(t, f.tell(Floor{}))
	two, err := f.listen(uuid.New(), "")
	require.NoError(t, err)
	require.Empty(t, f.kick, "not read for each")
	require.Equal(t, []string{EventFloor}, names(two))
	f.tellStale()
	three, err := f.listen(uuid.New(), "e-0")
	require.NoError(t, err)
	require.NoError(t, f.tell(Floor{}))
	require.Equal(t, []string{EventFloor, EventStale, EventFloor}, names(one))
	require.Equal(t, []string{EventStale, EventFloor}, names(two))
	require.Equal(t, []string{EventStale, EventFloor}, names(three))
}

// The queue is that of all hosts in one order: a lost one's callers hear nobody, and this one's own are those that its service has.
func TestQueueOfAllHosts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := time.Now().Truncate(time.Millisecond)
	for node, lost := range map[string]*time.Time{"n1": nil, "n2": nil, "n3": &now} {
		storetest.Exec(t, b.st, b.tenant, "INSERT INTO nodes (id, lost_at) VALUES ($1, $2)", node, lost)
	}
	waits := func(node string, ago time.Duration, priority int) uuid.UUID {
		id := b.call(t)
		storetest.Exec(t, b.st, b.tenant, `INSERT INTO live_calls (tenant_id, unit_id, call_id, node, waits_since, wait_priority)
			VALUES ($1, $2, $2, $3, $4, $5)`, b.tenant, id, node, now.Add(-ago), priority)
		return id
	}
	here := acd.Waiter{Call: waits("n1", time.Minute, 0), Since: now.Add(-time.Minute)}
	waits("n1", time.Hour, 0) // the row is behind
	waits("n3", time.Hour, 0)
	longer, urgent, shorter := waits("n2", 2*time.Minute, 0), waits("n2", time.Second, 5), waits("n2", time.Second, 0)
	b.svc.cfg.Queue, b.svc.cfg.Now = fakeQueue{[]acd.Waiter{here}}, func() time.Time { return now }
	floor, err := b.svc.Floor(t.Context(), b.tenant)
	require.NoError(t, err)
	var order []uuid.UUID
	for i, q := range floor.Queue {
		order = append(order, q.CallID)
		require.Equal(t, i+1, q.Position)
	}
	require.Equal(t, []uuid.UUID{urgent, longer, here.Call, shorter}, order)
	require.Equal(t, 120, floor.Queue[1].WaitingS)
}
