package webhook

import (
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/db"
)

// crowd are endpoints of tenants that never answer.
type crowd struct {
	*slots
	memory memory
	now    *bench
}

func newCrowd(most int) *crowd {
	return &crowd{slots: newSlots(most), memory: memory{most: mostBytes}, now: newBench()}
}

// add has an endpoint of a tenant wait with some events.
func (c *crowd) add(tenant uuid.UUID, events int, large bool) *endpoint {
	e := newEndpoint(uuid.New(), &c.memory)
	e.limit = mostRequests
	for i := range events {
		e.add(itemOf(db.TakeWebhookWorkRow{Seq: int64(i), TenantID: tenant, Large: large}))
	}
	c.wait(e)
	return e
}

// serve starts what may be started, and tells of which endpoints, in order.
func (c *crowd) serve() (order []*endpoint) {
	for e := c.next(); e != nil; e = c.next() {
		if it := e.next(c.now.now); it != nil {
			c.take(it)
			c.wait(e)
			order = append(order, e)
		}
	}
	return order
}

// A tenant has 256 requests at a time, and a part of what is free where they are scarce: however many tenants hang, others get some.
func TestSlotsAreShared(t *testing.T) {
	t.Parallel()
	one := newCrowd(mostAtOnce)
	tenant := uuid.New()
	for range 10 {
		one.add(tenant, 100, false)
	}
	require.Len(t, one.serve(), mostOfTenant)

	many := newCrowd(mostAtOnce)
	for range 100 {
		hanging := uuid.New()
		for range 10 {
			many.add(hanging, 100, false)
		}
	}
	many.serve()
	require.Less(t, many.used, mostAtOnce)
	healthy := many.add(uuid.New(), 10, false)
	require.Equal(t, []*endpoint{healthy, healthy, healthy, healthy, healthy, healthy, healthy, healthy, healthy, healthy}, many.serve())

	few := newCrowd(2)
	tired := few.add(uuid.New(), 10, false)
	require.Equal(t, []*endpoint{tired}, few.serve(), "half of what is free")
	other := few.add(uuid.New(), 10, false)
	require.Equal(t, []*endpoint{other}, few.serve())
	require.Empty(t, few.serve())
}

// Whoever waits gets the next slot by turns: tenants, and the endpoints of a tenant.
func TestSlotsGoByTurns(t *testing.T) {
	t.Parallel()
	c := newCrowd(100)
	a, b := uuid.New(), uuid.New()
	c.ofTenant = 3
	first, second := c.add(a, 10, false), c.add(a, 10, false)
	third := c.add(b, 10, false)
	require.Equal(t, []*endpoint{first, third, second, third, first, third}, c.serve())
	for range 3 {
		c.release(&item{TakeWebhookWorkRow: db.TakeWebhookWorkRow{TenantID: a}})
	}
	require.Equal(t, []*endpoint{second, first, second}, c.serve())
}

// Large events are in memory while they are sent: there are few at a time, and others pass those that wait.
func TestLargeEventsAreFew(t *testing.T) {
	t.Parallel()
	c := newCrowd(mostAtOnce)
	for range 10 {
		c.add(uuid.New(), mostLarge, true)
	}
	c.serve()
	require.LessOrEqual(t, c.large, mostLarge)
	require.Greater(t, c.large, mostLarge/2)
	tenant := uuid.New()
	c.add(tenant, 3*mostLarge, true)
	c.serve()
	small := c.add(tenant, 2, false)
	require.Equal(t, []*endpoint{small, small}, c.serve())
}

// What is read for an endpoint is bounded by the bytes that its events and all others' take, and each gets something.
func TestBytesInMemory(t *testing.T) {
	t.Parallel()
	m := &memory{most: 10 * mostHeldBytes}
	big := func(e *endpoint, n int) {
		for i := range n {
			e.add(itemOf(db.TakeWebhookWorkRow{Seq: int64(len(e.held) + i), Data: make(json.RawMessage, mostHeldBytes/4)}))
		}
	}
	e := newEndpoint(uuid.New(), m)
	require.Equal(t, mostHeld, e.room())
	big(e, 4)
	require.Zero(t, e.room(), "4 MiB are enough for one")
	e.written(0)
	require.Equal(t, mostHeld-3, e.room())
	for range 8 {
		big(newEndpoint(uuid.New(), m), 4)
	}
	big(newEndpoint(uuid.New(), m), 3)
	require.Equal(t, mostHeldBytes/2/partOfBytes/expectedBytes, newEndpoint(uuid.New(), m).room(), "a part of what is free")
	big(newEndpoint(uuid.New(), m), 2)
	require.Zero(t, e.room())
	last := newEndpoint(uuid.New(), m)
	require.Equal(t, 1, last.room(), "which is never nothing")
	for seq := range e.held {
		e.written(seq)
	}
	require.Equal(t, 37*mostHeldBytes/4, m.used)
	e.add(itemOf(db.TakeWebhookWorkRow{Seq: 7, Data: make(json.RawMessage, 100)}))
	e.dropQueued()
	require.Zero(t, e.bytes)
}

// A large event is read once for all subscriptions that get it at a time.
func TestLargeEventsAreReadOnce(t *testing.T) {
	t.Parallel()
	all := &bodies{all: map[uuid.UUID]*body{}}
	event := uuid.New()
	var reads atomic.Int64
	read := func() (json.RawMessage, error) {
		reads.Add(1)
		return json.RawMessage("{}"), nil
	}
	data, done, err := all.get(event, read)
	require.NoError(t, err)
	require.Equal(t, "{}", string(data))
	var others sync.WaitGroup
	for range 10 {
		others.Go(func() {
			got, done, err := all.get(event, read)
			defer done()
			if err != nil || string(got) != "{}" {
				reads.Add(100)
			}
		})
	}
	others.Wait()
	require.EqualValues(t, 1, reads.Load())
	done()
	require.Empty(t, all.all)
	_, done, err = all.get(event, read)
	require.NoError(t, err)
	done()
	require.EqualValues(t, 2, reads.Load())
}
