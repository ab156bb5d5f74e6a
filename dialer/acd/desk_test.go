package acd

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/db"
)

// floor plays agents, callers and a switch around a desk, on a clock of its own, as the service does with rows.
type floor struct {
	t       *testing.T
	d       *desk
	rng     *rand.Rand
	now     time.Time
	tenants []uuid.UUID
	agents  []uuid.UUID
	// campaigns keep agents, each for itself.
	campaigns []uuid.UUID
	rows      map[uuid.UUID]db.Agent // the database
	callers   []*caller
	talks     map[*caller]uuid.UUID // who talks with whom
}

func newFloor(t *testing.T, seed uint64) *floor {
	t.Helper()
	f := &floor{
		t: t, d: newDesk(), rng: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1_800_000_000, 0), //nolint:gosec // a seeded simulation
		rows: map[uuid.UUID]db.Agent{}, talks: map[*caller]uuid.UUID{}, tenants: []uuid.UUID{uuid.New(), uuid.New()},
		campaigns: []uuid.UUID{uuid.New(), uuid.New()},
	}
	for i := range 8 {
		id := uuid.New()
		f.agents = append(f.agents, id)
		f.rows[id] = db.Agent{TenantID: f.tenants[i%2], ID: id, Status: string(Offline)}
	}
	return f
}

// move is what a transaction does with an agent's row, and apply with the desk.
func (f *floor) move(id uuid.UUID, trigger Trigger, call *uuid.UUID) bool {
	row := f.rows[id]
	to, ok := next(Status(row.Status), trigger)
	if !ok {
		return false
	}
	row.Status, row.Version, row.CurrentCallID = string(to), row.Version+2, nil
	switch to {
	case OnCall:
		row.CurrentCallID = call
	case Available:
		if at := f.now; trigger != TriggerReturned {
			row.IdleSince = &at
		}
	case WrapUp, Paused, Offline:
	}
	f.rows[id] = row
	if to == Offline {
		f.d.leave(id)
	} else {
		seat := f.d.sit(row)
		seat.tags = f.tags(id)
	}
	return true
}

func (f *floor) tags(id uuid.UUID) []string {
	if slices.Index(f.agents, id) < 4 {
		return []string{"billing"}
	}
	return nil
}

// step lets one thing happen.
func (f *floor) step() {
	f.now = f.now.Add(time.Duration(f.rng.IntN(5000)) * time.Millisecond)
	id := f.agents[f.rng.IntN(len(f.agents))]
	switch f.rng.IntN(14) {
	case 0, 1:
		if f.move(id, TriggerLogin, nil) {
			f.d.phone(id, true, f.now)
		}
	case 2:
		f.move(id, TriggerLogout, nil)
	case 3:
		f.move(id, TriggerPause, nil)
	case 4, 5:
		f.move(id, TriggerReady, nil)
	case 6:
		f.d.phone(id, f.rng.IntN(2) == 0, f.now)
	case 7, 8:
		c := &caller{
			call: uuid.New(), tenant: f.tenants[f.rng.IntN(2)], since: f.now, priority: f.rng.IntN(2), wake: make(chan struct{}, 1),
		}
		if f.rng.IntN(2) == 0 {
			c.campaign, c.dialed = f.campaigns[f.rng.IntN(2)], true
		}
		if f.rng.IntN(3) == 0 {
			c.tags = []string{"billing"}
		}
		f.callers = append(f.callers, c)
		f.d.enter(c)
	case 9:
		f.move(id, TriggerDispose, nil)
	case 10:
		f.d.keep(f.tenants[f.rng.IntN(2)], f.campaigns[f.rng.IntN(2)], f.agents[:f.rng.IntN(len(f.agents))], f.now.Add(10*time.Second))
	case 11:
		f.d.lapse(f.now)
	default:
		if len(f.callers) > 0 {
			f.act(f.callers[f.rng.IntN(len(f.callers))])
		}
	}
	f.d.match()
}

// act goes on with one caller: the claim, and then any of the ways in which it can end.
func (f *floor) act(c *caller) {
	agent, talking := f.talks[c]
	switch {
	case c.seat == nil && (c.hopeless || f.rng.IntN(3) == 0): // nobody there, or the caller leaves
		f.remove(c)
	case c.seat != nil && !talking:
		id := c.seat.row.ID
		if !f.move(id, TriggerOffer, &c.call) { // the row said no
			f.d.free(c)
			return
		}
		f.talks[c] = id
	case talking:
		delete(f.talks, c)
		switch f.rng.IntN(4) {
		case 0: // the phone dies
			f.move(agent, TriggerPhoneLost, nil)
			f.d.phone(agent, false, f.now)
			f.d.free(c)
		case 1: // the caller leaves before the bridge
			f.move(agent, TriggerReturned, nil)
			f.remove(c)
		default:
			f.move(agent, TriggerEnded, nil)
			f.remove(c)
		}
	}
}

func (f *floor) remove(c *caller) {
	f.d.gone(c)
	f.callers = slices.DeleteFunc(f.callers, func(other *caller) bool { return other == c })
}

// check holds the desk against what must always be.
func (f *floor) check() {
	held := map[uuid.UUID]*caller{}
	for _, c := range f.callers {
		if c.seat == nil {
			continue
		}
		id := c.seat.row.ID
		require.Nil(f.t, held[id], "an agent has two callers")
		held[id] = c
		require.True(f.t, c.seat.fits(c), "an agent of another tenant, or without the skill")
	}
	agents, callers := 0, 0
	for tenant, r := range f.d.rooms {
		require.Positive(f.t, len(r.agents)+len(r.callers), "a room that nobody is in")
		agents, callers = agents+len(r.agents), callers+len(r.callers)
		for id, a := range r.agents {
			require.Same(f.t, f.d.agents[id], a)
			require.Equal(f.t, tenant, a.row.TenantID)
		}
		for id, c := range r.callers {
			require.Same(f.t, f.d.callers[id], c)
			require.Equal(f.t, tenant, c.tenant)
		}
	}
	require.Equal(f.t, []int{len(f.d.agents), len(f.d.callers)}, []int{agents, callers})
	for id, a := range f.d.agents {
		require.Equal(f.t, f.rows[id].Status, a.row.Status)
		require.True(f.t, a.row.Status != string(Offline) || a.offered != nil)
		if a.offered != nil {
			require.Same(f.t, a, a.offered.seat)
			require.Contains(f.t, f.callers, a.offered, "a caller who is gone holds an agent")
		}
		if a.row.Status == string(OnCall) {
			require.NotNil(f.t, a.offered, "an agent is on a call that nobody serves")
			require.Equal(f.t, a.offered.call, *a.row.CurrentCallID)
		}
	}
	for _, c := range f.callers {
		if c.seat != nil {
			continue
		}
		hope := false
		for _, a := range f.d.agents {
			require.False(f.t, a.ready() && a.fits(c) && (a.kept == uuid.Nil || a.kept == c.campaign), "a caller waits while an agent is ready")
			hope = hope || a.fits(c) && a.row.Status != string(Offline)
		}
		require.Equal(f.t, !hope, c.hopeless)
		require.Positive(f.t, f.d.position(c))
	}
}

func TestDeskUnderRandomEvents(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			f := newFloor(t, seed)
			for range 300 {
				f.step()
				f.check()
			}
			// Everybody hangs up: nobody is left over.
			for len(f.callers) > 0 {
				f.act(f.callers[0])
				f.d.match()
				f.check()
			}
			for id, row := range f.rows {
				require.NotEqual(t, string(OnCall), row.Status, id)
			}
		})
	}
}

func TestDeskOrder(t *testing.T) {
	t.Parallel()
	tenant, start := uuid.New(), time.Unix(1_800_000_000, 0)
	d := newDesk()
	agent := func(idle time.Duration) uuid.UUID {
		since := start.Add(-idle)
		row := db.Agent{TenantID: tenant, ID: uuid.New(), Status: string(Available), IdleSince: &since}
		d.sit(row).phoneUp = true
		return row.ID
	}
	enter := func(priority int, waits time.Duration) *caller {
		c := &caller{call: uuid.New(), tenant: tenant, priority: priority, since: start.Add(-waits), wake: make(chan struct{}, 1)}
		d.enter(c)
		return c
	}
	late, early, urgent := enter(0, time.Second), enter(0, time.Minute), enter(9, 0)
	d.match()
	require.True(t, late.hopeless)
	require.Equal(t, []int{3, 2, 1}, []int{d.position(late), d.position(early), d.position(urgent)})
	short, long := agent(time.Second), agent(time.Hour)
	d.match()
	require.Equal(t, long, urgent.seat.row.ID)
	require.Equal(t, short, early.seat.row.ID)
	require.Nil(t, late.seat)
	require.False(t, late.hopeless)
	require.Equal(t, 1, d.position(late))
	old := d.agents[short].row
	old.Status, old.Version = string(Offline), -1
	d.sit(old)
	require.Equal(t, string(Available), d.agents[short].row.Status, "an older row is old news")
}
