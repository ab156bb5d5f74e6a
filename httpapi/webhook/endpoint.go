package webhook

import (
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/db"
)

// Bounds of one endpoint. Each has its own: nobody waits for somebody else's.
const (
	// firstLimit is how many requests an endpoint gets at a time to begin with. Each success adds one, up to mostRequests; each request that is not
	// answered halves it.
	firstLimit   = 8
	mostRequests = 64
	// mostHeld is how many deliveries of an endpoint are in memory, and mostHeldBytes how many bytes of their events; mostBytes are those of all
	// endpoints, of which one gets a part of what is free. So many a delivery is expected to take before it is read.
	mostHeld      = 256
	mostHeldBytes = 4 << 20
	mostBytes     = 256 << 20
	partOfBytes   = 8
	expectedBytes = 2 << 10
	// openAfter is how many requests in a row must have got no answer for the breaker to open.
	openAfter = 20
	// While the breaker is open one request is made per cool-down, which doubles.
	firstCoolDown = time.Second
	mostCoolDown  = 15 * time.Second
	// holdFor is how long a delivery waits for an endpoint that doesn't answer; it has had no request meanwhile.
	holdFor = time.Hour
)

// item is a delivery in memory.
type item struct {
	db.TakeWebhookWorkRow
	// due is when its attempt may be made.
	due time.Time
	// made counts the attempts of this run.
	made int
	// busy tells that it was sent, and what came of it is not written yet.
	busy bool
	// released tells that its call's later events wait for it no more.
	released bool
	// aim is the endpoint's when it was sent.
	aim int
}

func itemOf(row db.TakeWebhookWorkRow) *item {
	it := &item{TakeWebhookWorkRow: row, due: row.QueuedAt, made: int(row.Made)}
	if row.DueAt != nil {
		it.due = *row.DueAt
	}
	return it
}

// first tells whether its call's later events wait for it.
func (it *item) first() bool { return it.DueAt == nil && it.CallID != nil }

// target is where an endpoint's deliveries go.
type target struct {
	row     db.WebhookTargetsRow
	secrets []string
	// fault says why nothing can be sent; empty when it can.
	fault string
	// failing tells that all deliveries have failed since row.FailingSince, or since now.
	failing *time.Time
}

// at is the target as of a time: the secret before the present one signs no more once its time is over, whenever the two were read.
func (t *target) at(now time.Time) *target {
	if until := t.row.PreviousSecretUntil; len(t.secrets) < 2 || until == nil || now.Before(*until) {
		return t
	}
	alone := *t
	alone.secrets = t.secrets[:1]
	return &alone
}

// memory is what the events of all endpoints take.
type memory struct{ used, most int }

// mark says how far an endpoint's queue was read, by seq or by the time when a retry is due. A transaction may commit late, with a place before
// top: what is read begins at low, which follows from one look at all to the next but one, and that look finds what was later still.
type mark struct{ low, middle, top int64 }

func (m *mark) read(to int64)  { m.top = max(m.top, to) }
func (m *mark) forward()       { m.low, m.middle = m.middle, m.top }
func (m *mark) back(low int64) { m.low, m.middle = min(m.low, low), min(m.middle, low) }

// endpoint is one subscription's state: what is in memory for it, how many requests it gets, and its breaker. It is the dispatcher's
// loop's alone, and asks no clock.
type endpoint struct {
	id     uuid.UUID
	tenant uuid.UUID // of its deliveries
	target *target
	memory *memory
	// held are all in memory, from being read until what came of them is written, and bytes what their events take.
	held  map[int64]*item
	bytes int
	// ready may be sent, in order.
	ready []*item
	// calls has, for each call of which a first attempt is at hand, the later events that wait for it.
	calls map[uuid.UUID][]*item

	aims     int // counts where it was
	sending  int // there
	limit    int
	silent   int       // requests without an answer, in a row
	failed   int       // attempts that failed, in a row
	open     bool      // the breaker
	opened   time.Time // since when it is
	openTill time.Time // when the next request may be made
	coolDown time.Duration
	blocked  bool // nothing can be sent, for a reason of ours
	// suspended tells that its tenant is: its deliveries wait in the queue.
	suspended bool
	// more tells that the queue may have more than was read.
	more         bool
	first, again mark
	// looking tells that a look at it is at work, and wanted what it is asked for. What a look has read counts if the epoch is still the same.
	looking bool
	wanted  want
	epoch   int
	asked   time.Time // when it was last read for
	aimed   time.Time // when it was looked where it is
	waits   bool      // for a slot
	alarm   time.Time // when it is to be looked at; zero for none
	idle    time.Time // since when nothing was found for it
}

func newEndpoint(id uuid.UUID, m *memory) *endpoint {
	return &endpoint{id: id, memory: m, held: map[int64]*item{}, calls: map[uuid.UUID][]*item{}, limit: firstLimit}
}

// room is how many more deliveries may be read for it; none until half of the places are free, and always one when it has none.
func (e *endpoint) room() int {
	free := mostHeld - len(e.held)
	if free < mostHeld/2 {
		return 0
	}
	bytes := min(mostHeldBytes-e.bytes, (e.memory.most-e.memory.used)/partOfBytes)
	if free = min(free, max(0, bytes/expectedBytes)); free == 0 && len(e.held) == 0 {
		return 1
	}
	return free
}

// add takes a delivery that was read, those of one call in the order of their events.
func (e *endpoint) add(it *item) {
	if _, known := e.held[it.Seq]; known {
		return
	}
	e.held[it.Seq], e.tenant = it, it.TenantID
	e.count(len(it.Data))
	if it.first() {
		if waiting, busy := e.calls[*it.CallID]; busy {
			e.calls[*it.CallID] = append(waiting, it)
			return
		}
		e.calls[*it.CallID] = nil
	}
	e.ready = append(e.ready, it)
}

// next gives a delivery to send, if one may be sent now.
func (e *endpoint) next(now time.Time) *item {
	if len(e.ready) == 0 || e.sending >= e.limit || e.blocked {
		return nil
	}
	if e.open && (e.sending > 0 || now.Before(e.openTill)) {
		return nil
	}
	it := e.ready[0]
	e.ready = e.ready[1:]
	e.sending++
	it.busy, it.aim = true, e.aims
	return it
}

// block has nothing sent while we can't, and unblock sends again.
func (e *endpoint) block(now time.Time) {
	if !e.blocked && !e.open {
		e.opened = now
	}
	e.blocked = true
}

func (e *endpoint) unblock() { e.blocked = false }

// expired gives those that have waited too long for one that is silent or blocked. They are at an end.
func (e *endpoint) expired(now time.Time) []*item {
	if !e.open && !e.blocked {
		return nil
	}
	var out, kept []*item
	for _, it := range e.ready {
		if now.Sub(e.opened) > holdFor && now.Sub(it.due) > holdFor {
			it.busy = true
			out = append(out, it)
		} else {
			kept = append(kept, it)
		}
	}
	e.ready = kept
	for _, it := range out {
		e.release(it)
	}
	return out
}

// answered notes what came of a request.
func (e *endpoint) answered(it *item, res result, now time.Time) {
	e.release(it)
	if it.aim != e.aims {
		return // it says nothing of where the endpoint is now
	}
	e.sending--
	if res.err == nil {
		e.failed = 0
	} else {
		e.failed++
	}
	switch {
	case res.code == 0 && !res.own:
		e.silent++
		e.limit = max(1, e.limit/2) //nolint:mnd // half
		if e.open || e.silent >= openAfter {
			e.coolDown = min(max(firstCoolDown, 2*e.coolDown), mostCoolDown) //nolint:mnd // twice
			if !e.open {
				e.opened = now
			}
			e.open, e.openTill = true, now.Add(e.coolDown)
		}
	case res.code != 0:
		e.silent, e.open, e.coolDown = 0, false, 0
		if res.err == nil {
			e.limit = min(e.limit+1, mostRequests)
		}
	}
}

// cutOff takes back a request that we broke off ourselves.
func (e *endpoint) cutOff(it *item) {
	if it.aim == e.aims {
		e.sending--
	}
	e.written(it.Seq)
}

// release has the next event of a call go when one has had its first attempt.
func (e *endpoint) release(it *item) {
	if !it.first() {
		return
	}
	it.released = true
	waiting, known := e.calls[*it.CallID]
	if !known {
		return
	}
	if len(waiting) == 0 {
		delete(e.calls, *it.CallID)
		return
	}
	e.calls[*it.CallID] = waiting[1:]
	e.ready = append(e.ready, waiting[0])
}

// dropQueued forgets what wasn't sent yet: the endpoint may be another controller's now. What is at work goes on.
func (e *endpoint) dropQueued() {
	e.ready, e.calls, e.more = nil, map[uuid.UUID][]*item{}, false
	e.rewind()
	for seq, it := range e.held {
		switch {
		case !it.busy:
			e.written(seq)
		case it.first() && !it.released:
			e.calls[*it.CallID] = nil
		}
	}
}

// suspend has deliveries wait while the tenant is suspended, and tells whether that begins. What has waited is given up no sooner for that.
func (e *endpoint) suspend(suspended bool, now time.Time) (begins bool) {
	switch {
	case suspended == e.suspended:
		return false
	case suspended:
		e.dropQueued()
	default:
		e.opened = now
	}
	e.suspended = suspended
	return suspended
}

// reset has a new target begin with a clean slate, whatever is at work where the endpoint was.
func (e *endpoint) reset() {
	e.aims++
	e.sending, e.limit, e.silent, e.failed, e.open, e.coolDown = 0, firstLimit, 0, 0, false, 0
}

// written forgets a delivery of which it was written what came of it, or which is to be read anew.
func (e *endpoint) written(seq int64) {
	if it := e.held[seq]; it != nil {
		e.count(-len(it.Data))
		delete(e.held, seq)
	}
}

// rewind has all of the queue read that isn't held.
func (e *endpoint) rewind() {
	e.first, e.again = mark{}, mark{}
	e.epoch++
}

// wasEdited has it looked up where it is.
func (e *endpoint) wasEdited() {
	e.aimed = time.Time{}
	e.epoch++
}

// lane is the one that it is looked at by.
func (e *endpoint) lane() int {
	if e.open || e.failed >= failingFrom {
		return troubled
	}
	return prompt
}

func (e *endpoint) count(bytes int) {
	e.bytes += bytes
	e.memory.used += bytes
}
