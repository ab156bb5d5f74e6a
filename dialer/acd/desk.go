package acd

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/db"
)

// desk is what one controller knows of its agents and of the callers who wait for them, and chooses who talks to whom: the
// caller of the highest priority who waits longest gets the agent who has been idle longest, of those with the caller's tags who are
// not kept for others (reserve.go).
// It has no clock, no lock and no I/O; its owner calls match after each change.
type desk struct {
	agents  map[uuid.UUID]*seat
	callers map[uuid.UUID]*caller
	// rooms have the same by tenant: nobody is looked at for another tenant's sake.
	rooms   map[uuid.UUID]*room
	entered uint64
	changes uint64
}

// room is a tenant's part of the desk.
type room struct {
	agents  map[uuid.UUID]*seat
	callers map[uuid.UUID]*caller
}

// room is the tenant's, an empty one where there is none.
func (d *desk) room(tenant uuid.UUID) *room {
	if r := d.rooms[tenant]; r != nil {
		return r
	}
	return &room{}
}

// open is the tenant's room, to put somebody in.
func (d *desk) open(tenant uuid.UUID) *room {
	r := d.rooms[tenant]
	if r == nil {
		r = &room{agents: make(map[uuid.UUID]*seat), callers: make(map[uuid.UUID]*caller)}
		d.rooms[tenant] = r
	}
	return r
}

// shut drops a room that nobody is in.
func (d *desk) shut(tenant uuid.UUID) {
	if r := d.rooms[tenant]; r != nil && len(r.agents)+len(r.callers) == 0 {
		delete(d.rooms, tenant)
	}
}

// drop forgets an agent.
func (d *desk) drop(a *seat) {
	delete(d.agents, a.row.ID)
	delete(d.room(a.row.TenantID).agents, a.row.ID)
	d.shut(a.row.TenantID)
}

// seat is an agent as the desk sees one.
type seat struct {
	row       db.Agent
	extension string
	tags      []string
	onHook    bool
	// phoneUp: the held leg is there. downSince is when that was last otherwise, from the desk's first sight of the agent on.
	phoneUp   bool
	downSince time.Time
	// offered is the caller whom match chose and whose outcome the row doesn't show yet.
	offered *caller
	// unsure keeps an agent whose row could not be claimed from being chosen until it is read again.
	unsure bool
	// kept is the campaign for whose callees alone the agent is, until keptUntil; the zero id for none. It says nothing of one who isn't
	// ready.
	kept      uuid.UUID
	keptUntil time.Time
	// changed orders this seat's last change among all, against readings of the table that began before.
	changed uint64
}

// ready tells whether the agent can be given a caller.
func (a *seat) ready() bool {
	return a.row.Status == string(Available) && a.offered == nil && !a.unsure && (a.onHook || a.phoneUp)
}

func (a *seat) fits(c *caller) bool {
	return a.row.TenantID == c.tenant && Want{Agent: c.agent, Tags: c.tags}.fits(a.row.ID, a.tags)
}

// caller is a call that waits for an agent, or is with one.
type caller struct {
	call   uuid.UUID
	tenant uuid.UUID
	// campaign has dialed the call; the zero id for one of no campaign.
	campaign uuid.UUID
	// dialed: for whoever is ready.
	dialed bool
	// agent is the one who is wanted; nil for any.
	agent    *uuid.UUID
	tags     []string
	priority int
	since    time.Time
	order    uint64
	// seat is the agent whom the caller is offered to, or talks with.
	seat *seat
	// hopeless: nobody who could take the caller is logged in.
	hopeless bool
	// wake is told of a change of the two above.
	wake chan struct{}
}

func newDesk() *desk {
	return &desk{agents: make(map[uuid.UUID]*seat), callers: make(map[uuid.UUID]*caller), rooms: make(map[uuid.UUID]*room)}
}

// sit takes an agent's row, unless a newer one is known.
func (d *desk) sit(row db.Agent) *seat {
	a := d.agents[row.ID]
	if a == nil {
		a = &seat{downSince: row.LastStatusAt}
		d.agents[row.ID] = a
		d.open(row.TenantID).agents[row.ID] = a
	} else if row.Version < a.row.Version {
		return a
	}
	d.changes++
	a.row, a.changed, a.unsure = row, d.changes, false
	if row.Status != string(Available) {
		a.kept = uuid.Nil
	}
	return a
}

// leave forgets an agent who is logged out; the seat of one whom a caller was just offered stays until that is decided, so that a
// login in between finds it taken.
func (d *desk) leave(agent uuid.UUID) {
	d.changes++
	a := d.agents[agent]
	if a == nil {
		return
	}
	if a.offered == nil {
		d.drop(a)
		return
	}
	a.row.Status, a.row.CurrentCallID, a.changed = string(Offline), nil, d.changes
	a.row.Version++ // what was read before is old
}

// phone tells that an agent's held leg came or went.
func (d *desk) phone(agent uuid.UUID, up bool, at time.Time) {
	a := d.agents[agent]
	if a == nil {
		return
	}
	if a.phoneUp && !up {
		a.downSince = at
	}
	a.phoneUp = up
}

// enter puts a caller in the queue; one who was there keeps their place.
func (d *desk) enter(c *caller) {
	d.entered++
	c.order = d.entered
	d.callers[c.call] = c
	d.open(c.tenant).callers[c.call] = c
}

// gone takes a caller away; the agent, if one was chosen, is chosen for nobody.
func (d *desk) gone(c *caller) {
	d.free(c)
	if d.callers[c.call] == c {
		delete(d.callers, c.call)
		delete(d.room(c.tenant).callers, c.call)
		d.shut(c.tenant)
	}
}

// free parts a caller from the agent chosen: the caller waits again, in the old place.
func (d *desk) free(c *caller) {
	if a := c.seat; a != nil && a.offered == c {
		if a.offered = nil; a.row.Status == string(Offline) {
			d.drop(a)
		}
	}
	c.seat = nil
}

// match pairs waiting callers with ready agents in every room.
func (d *desk) match() {
	for tenant := range d.rooms {
		d.matchOf(tenant)
	}
}

// matchOf pairs a tenant's waiting callers with its ready agents, and tells those whom nobody can take.
func (d *desk) matchOf(tenant uuid.UUID) {
	here := d.room(tenant)
	waiting := make([]*caller, 0, len(here.callers))
	for _, c := range here.callers {
		if c.seat == nil {
			waiting = append(waiting, c)
		}
	}
	if len(waiting) == 0 {
		return
	}
	slices.SortFunc(waiting, byTurn)
	ready := make([]*seat, 0, len(here.agents))
	for _, a := range here.agents {
		if a.ready() {
			ready = append(ready, a)
		}
	}
	slices.SortFunc(ready, byIdleness)
	for _, c := range waiting {
		i := choose(ready, c)
		if i >= 0 {
			c.seat, ready[i].offered, ready[i].kept = ready[i], c, uuid.Nil
			ready = slices.Delete(ready, i, i+1)
		}
		hopeless := i < 0 && !d.hope(c)
		if i >= 0 || hopeless != c.hopeless {
			c.hopeless = hopeless
			notify(c.wake)
		}
	}
}

// hope tells whether anybody who is logged in could take the caller, sooner or later.
func (d *desk) hope(c *caller) bool {
	for _, a := range d.room(c.tenant).agents {
		if a.row.Status != string(Offline) && a.fits(c) {
			return true
		}
	}
	return false
}

// byTurn orders callers: priority, then the time of waiting.
func byTurn(a, b *caller) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), a.since.Compare(b.since), cmp.Compare(a.order, b.order))
}

// byIdleness orders agents: the longest idle first.
func byIdleness(a, b *seat) int {
	return cmp.Or(a.row.IdleSince.Compare(*b.row.IdleSince), slices.Compare(a.row.ID[:], b.row.ID[:]))
}

// position is a waiting caller's place among the tenant's, from 1; 0 for one who doesn't wait.
func (d *desk) position(c *caller) int {
	if c.seat != nil || d.callers[c.call] != c {
		return 0
	}
	place := 1
	for _, other := range d.room(c.tenant).callers {
		if other.seat == nil && byTurn(other, c) < 0 {
			place++
		}
	}
	return place
}

// readyAgents counts a tenant's agents who could take a call now.
func (d *desk) readyAgents(tenant uuid.UUID) int {
	n := 0
	for _, a := range d.room(tenant).agents {
		if a.ready() {
			n++
		}
	}
	return n
}

// onCall finds the tenant's agent whose row has the call.
func (d *desk) onCall(tenant, call uuid.UUID) *seat {
	for _, a := range d.room(tenant).agents {
		if a.row.CurrentCallID != nil && *a.row.CurrentCallID == call {
			return a
		}
	}
	return nil
}

func notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
