package acd

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
)

// TestKeptSeats: who is kept for a campaign is given to its callees alone, and to these before anybody else is.
func TestKeptSeats(t *testing.T) {
	t.Parallel()
	tenant, start := uuid.New(), time.Unix(1_800_000_000, 0)
	one, two := uuid.New(), uuid.New()
	d := newDesk()
	agent := func(idle time.Duration) uuid.UUID {
		since := start.Add(-idle)
		row := db.Agent{TenantID: tenant, ID: uuid.New(), Status: string(Available), IdleSince: &since}
		d.sit(row).phoneUp = true
		return row.ID
	}
	enter := func(campaign uuid.UUID, dialed bool) *caller {
		c := &caller{call: uuid.New(), tenant: tenant, campaign: campaign, dialed: dialed, wake: make(chan struct{}, 1)}
		d.enter(c)
		d.match()
		return c
	}
	short, long := agent(time.Second), agent(time.Hour)
	until := start.Add(time.Minute)
	require.Zero(t, d.keep(uuid.New(), one, []uuid.UUID{short}, until), "another tenant's")
	require.Equal(t, 1, d.keep(tenant, one, []uuid.UUID{short, uuid.New()}, until))
	require.Equal(t, 1, d.keep(tenant, two, []uuid.UUID{short, long}, until), "what is kept is nobody else's")
	inbound, preview := enter(uuid.Nil, false), enter(one, false)
	require.Nil(t, inbound.seat)
	require.Nil(t, preview.seat, "not one that the campaign has dialed for whoever is ready")
	require.False(t, inbound.hopeless)

	require.Zero(t, d.keep(tenant, two, nil, until))
	d.match()
	require.Equal(t, long, inbound.seat.row.ID)
	require.Nil(t, preview.seat)
	longest := agent(24 * time.Hour)
	d.agents[longest].kept = two
	callee := enter(one, true)
	require.Equal(t, short, callee.seat.row.ID)
	require.Equal(t, uuid.Nil, d.agents[short].kept, "for that call, which is here")
	d.free(callee)
	d.match()
	require.Equal(t, short, preview.seat.row.ID)

	d.lapse(d.agents[longest].keptUntil.Add(time.Hour))
	d.match()
	require.Equal(t, longest, callee.seat.row.ID)
	d.gone(callee)
	require.Equal(t, 1, d.keep(tenant, one, []uuid.UUID{longest}, until))
	d.lapse(until.Add(-time.Second))
	require.Equal(t, one, d.agents[longest].kept)
	d.lapse(until)
	require.Equal(t, uuid.Nil, d.agents[longest].kept)
	require.Equal(t, 1, d.keep(tenant, one, []uuid.UUID{longest}, until))
	row := d.agents[longest].row
	row.Status = string(Paused)
	d.sit(row)
	require.Equal(t, uuid.Nil, d.agents[longest].kept)
	require.Zero(t, d.keep(tenant, one, []uuid.UUID{longest}, until), "nobody who isn't ready")
}

// TestOwnSeatsFirst: a callee has the agent who is kept for the call, so that whoever isn't stays there for others.
func TestOwnSeatsFirst(t *testing.T) {
	t.Parallel()
	campaign, since := uuid.New(), time.Unix(1_800_000_000, 0)
	free, kept := &seat{row: db.Agent{IdleSince: &since}}, &seat{row: db.Agent{IdleSince: &since}, kept: campaign}
	ready := []*seat{free, kept}
	require.Equal(t, 1, choose(ready, &caller{campaign: campaign, dialed: true}))
	require.Equal(t, 0, choose(ready, &caller{campaign: uuid.New(), dialed: true}))
	require.Equal(t, 0, choose(ready, &caller{}))
	require.Negative(t, choose(ready[1:], &caller{}))
	require.Equal(t, 0, choose(ready[:1], &caller{campaign: campaign, dialed: true}))
}

// TestKeepEndsByItself: of an agent whom a pacer has kept that is gone, and who may pause at any time.
func TestKeepEndsByItself(t *testing.T) {
	t.Parallel()
	b := running(t)
	agent, campaign := b.online(t), storetest.Campaign(t, b.st, b.tenant, nil)
	keep := func() int { return b.svc.Keep(b.tenant, campaign, []uuid.UUID{agent}, b.clock.Now().Add(time.Minute)) }
	require.Equal(t, 1, keep())
	require.Equal(t, campaign, b.svc.Crew(b.tenant)[0].Kept)
	require.True(t, b.svc.Crew(b.tenant)[0].Ready)
	require.Equal(t, 1, b.svc.ReadyAgents(b.tenant))
	_, err := b.svc.SetStatus(t.Context(), b.tenant, agent, StatusInput{Status: string(Paused)})
	require.NoError(t, err)
	require.Equal(t, Paused, b.status(t, agent), "at once")
	_, err = b.svc.SetStatus(t.Context(), b.tenant, agent, StatusInput{Status: string(Available)})
	require.NoError(t, err)
	require.Equal(t, uuid.Nil, b.svc.Crew(b.tenant)[0].Kept)

	require.Equal(t, 1, keep())
	caller := b.serve(t, b.svc, b.call(t, nil), Request{})
	require.Eventually(t, func() bool { return len(b.svc.Waiting(b.tenant)) == 1 }, 10*time.Second, time.Millisecond)
	b.clock.Advance(59 * time.Second)
	b.svc.keeper(b.sw).look(t.Context())
	require.Len(t, b.svc.Waiting(b.tenant), 1)
	b.clock.Advance(time.Second)
	o := caller.offer(t)
	require.Equal(t, agent, o.req.Phone.AgentID)
	o.answer <- switchctl.AgentEnded
	caller.ends(t, Ended)
}
