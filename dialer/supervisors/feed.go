package supervisors

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/fault"
)

const (
	// floorEvery is how often a floor with listeners is read; floorShare is the part of the time that reading it may take.
	floorEvery = time.Second
	floorShare = 4
	// floorTimeout bounds one reading.
	floorTimeout = 5 * time.Second
	// linger is how long a feed without listeners goes on, so that one whose connection broke can resume.
	linger = 20 * time.Second
	// maxListeners bounds a tenant's listeners on one controller, listenersOfAll those of all tenants, listenersOfOne those of one user.
	maxListeners   = 50
	listenersOfAll = 500
	listenersOfOne = 10
	// keptBytes bounds the events kept for one tenant, besides their number.
	keptBytes = 8 << 20
	// eventsKept are for listeners who resume; eventsWaiting is how many may wait for a slow one, who is cut off then.
	eventsKept    = 256
	eventsWaiting = 64
)

// The names of a feed's events.
const (
	EventFloor  = "floor"
	EventChange = "change"
	// EventStale: the floor can't be read. The whole of it comes when it can again.
	EventStale = "stale"
)

// FloorEvent is one of the events of a live floor: the whole of it, or a [Change].
type FloorEvent struct {
	// ID is what a listener resumes after.
	ID   string
	Name string
	Data json.RawMessage
}

// Listener hears a live floor.
type Listener struct {
	// Events ends when the listener is too slow, or the service ends.
	Events <-chan FloorEvent
	events chan FloorEvent
	feed   *feed
	user   uuid.UUID
}

// feeds have one feed for each tenant with listeners. Whoever needs both locks takes this one before a feed's.
type feeds struct {
	s  *Service
	mu sync.Mutex
	// run starts a feed; nil before accept and after refuse.
	run      func(f *feed)
	byTenant map[uuid.UUID]*feed
}

// feed is a tenant's live floor. Its goroutine alone reads the floor.
type feed struct {
	tenant uuid.UUID
	// epoch tells the ids of this feed from those of others, which have other events.
	epoch string
	kick  chan struct{}

	mu        sync.Mutex
	listeners map[*Listener]bool // true until the listener has had a whole floor
	since     time.Time          // when the last listener left
	seq       uint64
	kept      []FloorEvent // the newest, the last of which is seq
	keptSize  int          // bytes of them
	floor     *Floor       // as it was told last; nil before the first reading
	told      time.Time    // when that was
	stale     bool         // the last reading failed
}

func newFeeds(s *Service) *feeds { return &feeds{s: s, byTenant: map[uuid.UUID]*feed{}} }

// accept lets feeds start until ctx ends, and gives a wait for their end.
func (fs *feeds) accept(ctx context.Context) (wait func()) {
	var running sync.WaitGroup
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.run = func(f *feed) {
		running.Go(func() {
			defer func() {
				if r := recover(); r != nil { // it costs that floor's listeners their streams, and nobody else anything
					fs.s.log.ErrorContext(ctx, "panic in a floor's feed", "tenant_id", f.tenant, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
				}
			}()
			fs.work(ctx, f)
		})
	}
	return func() {
		fs.mu.Lock()
		fs.run = nil
		fs.mu.Unlock()
		running.Wait()
	}
}

// listeners counts those of all tenants.
func (fs *feeds) listeners() int {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.count()
}

// count is listeners under the lock.
func (fs *feeds) count() (n int) {
	for _, f := range fs.byTenant {
		f.mu.Lock()
		n += len(f.listeners)
		f.mu.Unlock()
	}
	return n
}

// Listen gives the tenant's live floor: what came after the event with the id last, if that is known, else the whole floor first. Errors: a
// *fault.Error for a tenant or user who has as many listeners as they may, or for a controller that has. The caller calls Close.
func (s *Service) Listen(tenant, user uuid.UUID, last string) (*Listener, error) {
	fs := s.feeds
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.run == nil {
		return nil, errNoSwitch()
	}
	if fs.count() >= listenersOfAll {
		return nil, tooMany("The host has", listenersOfAll)
	}
	f := fs.byTenant[tenant]
	if f == nil {
		f = &feed{tenant: tenant, epoch: uuid.NewString()[:8], kick: make(chan struct{}, 1), listeners: map[*Listener]bool{}}
		fs.byTenant[tenant] = f
		fs.run(f)
	}
	return f.listen(user, last)
}

// tooMany refuses another listener.
func tooMany(whose string, most int) error {
	return &fault.Error{
		Kind: fault.Limit, Code: CodeTooManyListeners, RetryAfter: linger,
		Detail: whose + " " + strconv.Itoa(most) + " streams of the floor on this host, which is the most.",
	}
}

func (f *feed) listen(user uuid.UUID, last string) (*Listener, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	theirs := 0
	for l := range f.listeners {
		if l.user == user {
			theirs++
		}
	}
	switch {
	case len(f.listeners) >= maxListeners:
		return nil, tooMany("The tenant has", maxListeners)
	case theirs >= listenersOfOne:
		return nil, tooMany("The user has", listenersOfOne)
	}
	l := &Listener{events: make(chan FloorEvent, eventsKept+eventsWaiting), feed: f, user: user}
	l.Events = l.events
	if missed, ok := f.after(last); ok && !f.stale {
		for _, e := range missed {
			l.events <- e
		}
		f.listeners[l] = false
		return l, nil
	}
	if f.stale {
		l.events <- staleEvent()
	} else if f.floor != nil && (len(f.listeners) > 0 || time.Since(f.told) < floorEvery) {
		// What the others see: it is not read anew for each who comes.
		whole, err := f.event(EventFloor, *f.floor)
		if err != nil {
			return nil, err
		}
		l.events <- whole
		f.listeners[l] = false
		return l, nil
	}
	f.listeners[l] = true
	if f.stale {
		return l, nil // the next reading is due by itself
	}
	select {
	case f.kick <- struct{}{}:
	default:
	}
	return l, nil
}

// after gives the events after one that is known.
func (f *feed) after(last string) ([]FloorEvent, bool) {
	epoch, number, ok := strings.Cut(last, "-")
	seq, err := strconv.ParseUint(number, 10, 64)
	if !ok || err != nil || epoch != f.epoch || f.floor == nil || seq > f.seq || f.seq-seq > uint64(len(f.kept)) {
		return nil, false
	}
	return slices.Clone(f.kept[len(f.kept)-int(f.seq-seq):]), true
}

// Close ends the listening. It may be called more than once.
func (l *Listener) Close() {
	l.feed.mu.Lock()
	defer l.feed.mu.Unlock()
	l.feed.drop(l)
}

// drop takes a listener out.
func (f *feed) drop(l *Listener) {
	if _, here := f.listeners[l]; here {
		delete(f.listeners, l)
		close(l.events)
		f.since = time.Now()
	}
}

// work reads the floor and tells its changes until nobody has listened for a while, or ctx ends.
func (fs *feeds) work(ctx context.Context, f *feed) {
	defer fs.end(f)
	failing := false
	for {
		pause := floorEvery
		if began := time.Now(); f.heard() {
			now, err := fs.read(ctx, f.tenant)
			switch {
			case err == nil:
				failing = false
				if err := f.tell(now); err != nil {
					fs.s.log.ErrorContext(ctx, "sending floor changes failed", "tenant_id", f.tenant, "error", err)
				}
			case ctx.Err() == nil && !failing:
				failing = true
				f.tellStale()
				fs.s.log.WarnContext(ctx, "reading the floor failed", "tenant_id", f.tenant, "error", err)
			}
			pause = max(pause, floorShare*time.Since(began))
		}
		if fs.retire(f) {
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-f.kick:
			timer.Stop()
		}
	}
}

func (fs *feeds) read(ctx context.Context, tenant uuid.UUID) (Floor, error) {
	ctx, cancel := context.WithTimeout(ctx, floorTimeout)
	defer cancel()
	return fs.s.Floor(ctx, tenant)
}

// heard tells whether anybody listens.
func (f *feed) heard() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.listeners) > 0
}

// retire takes a feed out that nobody has listened to for a while.
func (fs *feeds) retire(f *feed) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.listeners) > 0 || f.since.IsZero() || time.Since(f.since) < linger {
		return false
	}
	delete(fs.byTenant, f.tenant)
	return true
}

// end takes a feed out and ends its listeners' streams.
func (fs *feeds) end(f *feed) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.byTenant[f.tenant] == f {
		delete(fs.byTenant, f.tenant)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for l := range f.listeners {
		f.drop(l)
	}
}

// staleEvent has no id: nobody resumes after it.
func staleEvent() FloorEvent { return FloorEvent{Name: EventStale, Data: json.RawMessage("{}")} }

// tellStale says that what listeners show is of before. They get the whole floor next.
func (f *feed) tellStale() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stale = true
	for l := range f.listeners {
		f.listeners[l] = true
		f.send(l, staleEvent())
	}
}

// tell gives each listener what is new to it.
func (f *feed) tell(now Floor) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.floor != nil {
		if err := f.tellChanges(now); err != nil {
			return err
		}
	}
	f.floor, f.told, f.stale = &now, time.Now(), false
	var whole FloorEvent
	for l, fresh := range f.listeners {
		if !fresh {
			continue
		}
		if whole.ID == "" {
			var err error
			if whole, err = f.event(EventFloor, now); err != nil {
				return err
			}
		}
		f.listeners[l] = false
		f.send(l, whole)
	}
	return nil
}

// tellChanges compares the floor with the one that was told last.
func (f *feed) tellChanges(now Floor) error {
	change, some := changes(*f.floor, now)
	if !some {
		return nil
	}
	f.seq++
	e, err := f.event(EventChange, change)
	if err != nil {
		return err
	}
	f.keep(e)
	for l, fresh := range f.listeners {
		if !fresh {
			f.send(l, e)
		}
	}
	return nil
}

// keep has an event at hand for who resumes, in place of the oldest.
func (f *feed) keep(e FloorEvent) {
	f.kept = append(f.kept, e)
	f.keptSize += len(e.Data)
	old := 0
	for len(f.kept)-old > eventsKept || f.keptSize > keptBytes {
		f.keptSize -= len(f.kept[old].Data)
		old++
	}
	f.kept = slices.Delete(f.kept, 0, old)
}

// event is one with the id of the newest.
func (f *feed) event(name string, data any) (FloorEvent, error) {
	text, err := json.Marshal(data)
	if err != nil {
		return FloorEvent{}, fmt.Errorf("encode the floor: %w", err)
	}
	return FloorEvent{ID: f.epoch + "-" + strconv.FormatUint(f.seq, 10), Name: name, Data: text}, nil
}

// send gives a listener an event, or cuts one off who reads too slowly.
func (f *feed) send(l *Listener, e FloorEvent) {
	select {
	case l.events <- e:
	default:
		f.drop(l)
	}
}
