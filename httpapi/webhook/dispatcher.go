package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store"
)

const (
	// poll is how often the queue is looked into though nobody has said that something is due: for what another controller, which is lost, had.
	poll = 2 * time.Second
	// pace is the shortest time between two looks: what is queued meanwhile is read together.
	pace = 5 * time.Millisecond
	// stepTimeout bounds the reading of the queue.
	stepTimeout = 10 * time.Second
	// atOnce is for how many endpoints deliveries are read by one query.
	atOnce = 32
	// idleFor is how long an endpoint without deliveries is remembered: how many requests it gets, and whether it is silent.
	idleFor = 10 * time.Minute
	// adoptEvery is how often deliveries that controllers of the version before have queued are taken over.
	adoptEvery = 15 * time.Second
	// aimEvery is how often it is looked where the endpoints with deliveries at hand are now.
	aimEvery = 250 * time.Millisecond
	// retrySlot is how exactly the times of retries are remembered.
	retrySlot = 20 * time.Millisecond
	// parkFor is how long a delivery waits of which the database refuses what came of it.
	parkFor = time.Minute
	// restAfterLook is how many times the length of a look the next one waits at least.
	restAfterLook = 4
	// mostOfTenant is how many requests the endpoints of one tenant get at a time.
	mostOfTenant = 256
	// mostLarge is how many large events are in memory.
	mostLarge = 64
	// disableAfter is how long all deliveries must have failed for a subscription to be disabled.
	disableAfter = 72 * time.Hour
)

// Config is what a Dispatcher needs.
type Config struct {
	Store *store.Store
	// Targets says which addresses may be delivered to.
	Targets netguard.Policy
	// SignRecording gives a signed URL of a call's recording for a call.recording_ready that is told again, and notes that it was handed out. nil
	// leaves the one that the event had, and so does store.ErrNotFound.
	SignRecording func(ctx context.Context, tenantID, callID, eventID uuid.UUID) (string, error)
	// Logger discards when nil.
	Logger *slog.Logger
	// Registerer takes the metrics; none when nil.
	Registerer prometheus.Registerer
	// Now is the clock; time.Now when nil.
	Now func() time.Time
	// Delays are the waits before each attempt; those of the interface document when all are zero.
	Delays [Attempts]time.Duration
	// Random lengthens the waits; math/rand when nil.
	Random func() float64
	// Timeout bounds one attempt; 10 s when zero.
	Timeout time.Duration
}

func (cfg *Config) fill() error {
	if cfg.Store == nil {
		return errors.New("make the webhook dispatcher: it needs a store")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Delays == ([Attempts]time.Duration{}) {
		cfg.Delays = delays()
	}
	if cfg.Random == nil {
		cfg.Random = rand.Float64
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = Timeout
	}
	return nil
}

// Dispatcher delivers events. One goroutine, its loop, owns the endpoints; each request runs in a goroutine of its own.
type Dispatcher struct {
	cfg      Config
	store    *store.Store
	log      *slog.Logger
	schedule schedule
	sender   *sender
	metrics  *metrics
	recorder *recorder
	replayer *replayer

	wake     chan struct{}
	answers  chan answer
	stopping chan struct{} // closed by Stop: no new requests
	ended    chan struct{} // closed when the loop has ended
	cut      context.CancelFunc
	requests sync.WaitGroup
	stop     sync.Once

	// The loop's.
	owner     *ownership
	endpoints map[uuid.UUID]*endpoint
	inFlight  int
	nextDue   time.Time // of the retries that wait in the queue
	// retries are when those are due that this controller has written, by slots of retrySlot.
	retries map[int64]bool
	aimed   time.Time
	parked  []parked
	tenants map[uuid.UUID]int // requests at work
	large   chan struct{}     // a place for each large event that is being sent
}

// parked is a delivery of which the database refuses what came of it.
type parked struct {
	endpoint uuid.UUID
	seq      int64
	until    time.Time
}

// answer is what came of one attempt.
type answer struct {
	endpoint *endpoint
	item     *item
	entry    Attempt
	result   result
	// cut tells that we broke it off.
	cut bool
}

// New makes a Dispatcher.
func New(cfg Config) (*Dispatcher, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	d := &Dispatcher{
		cfg: cfg, store: cfg.Store, log: cfg.Logger, schedule: schedule{delays: cfg.Delays, random: cfg.Random},
		sender: newSender(cfg.Targets, cfg.Timeout), metrics: newMetrics(),
		wake: make(chan struct{}, 1), answers: make(chan answer), stopping: make(chan struct{}), ended: make(chan struct{}),
		endpoints: map[uuid.UUID]*endpoint{}, retries: map[int64]bool{}, tenants: map[uuid.UUID]int{}, large: make(chan struct{}, mostLarge),
	}
	d.owner = newOwnership(cfg.Store)
	d.recorder = newRecorder(cfg.Store, cfg.Logger, cfg.Now)
	d.replayer = &replayer{store: cfg.Store, log: cfg.Logger, now: cfg.Now, poke: make(chan struct{}, 1)}
	if cfg.Registerer != nil {
		if err := d.metrics.register(cfg.Registerer, cfg.Store, cfg.Now); err != nil {
			return nil, fmt.Errorf("make the webhook dispatcher: %w", err)
		}
	}
	return d, nil
}

// Start begins to deliver, which lasts until Stop, whatever becomes of ctx. Call it once.
func (d *Dispatcher) Start(ctx context.Context) {
	ctx, d.cut = context.WithCancel(context.WithoutCancel(ctx))
	var helpers sync.WaitGroup
	watching, unwatch := context.WithCancel(ctx)
	helpers.Go(func() { d.store.WatchWebhooks(watching, d.wake) })
	helpers.Go(func() { d.recorder.run(ctx) })
	helpers.Go(func() { d.replayer.run(watching) })
	helpers.Go(func() { d.adopt(watching) })
	go func() {
		defer close(d.ended)
		d.loop(ctx)
		unwatch()
		d.recorder.close()
		helpers.Wait()
		d.owner.close(ctx)
	}()
}

// Stop lets the requests at work finish, and breaks them off when ctx ends first: they count as not made. It writes what came of the others.
func (d *Dispatcher) Stop(ctx context.Context) error {
	if d.cut == nil {
		return nil // never started
	}
	d.stop.Do(func() { close(d.stopping) })
	select {
	case <-d.ended:
	case <-ctx.Done():
		d.cut()
		<-d.ended
	}
	d.cut()
	return nil
}

// Close drops idle connections. Call it after Stop.
func (d *Dispatcher) Close() { d.sender.close() }

func (d *Dispatcher) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var looked time.Time
	due := time.Now() // when the queue is to be looked into
	sooner := func(at time.Time) {
		if at.Before(due) {
			due = at
		}
		timer.Reset(max(0, time.Until(due)))
	}
	for stopping := d.stopping; stopping != nil || d.inFlight > 0; {
		select {
		case <-stopping:
			stopping = nil
			timer.Stop()
			continue
		case a := <-d.answers:
			d.answered(ctx, a)
			if stopping != nil {
				d.sendFor(ctx, a.endpoint)
			}
			continue
		case done := <-d.recorder.done:
			if d.written(ctx, done) {
				sooner(looked.Add(pace))
			}
			continue
		case <-d.wake:
			select {
			case d.replayer.poke <- struct{}{}:
			default:
			}
			sooner(looked.Add(pace))
			continue
		case <-timer.C:
		}
		if stopping == nil {
			continue
		}
		looked = time.Now()
		wait := d.step(ctx)
		due = time.Now().Add(max(wait, min(poll, restAfterLook*time.Since(looked))))
		timer.Reset(max(0, time.Until(due)))
	}
}

// step reads what is due and sends it, and tells in how long to look again.
func (d *Dispatcher) step(ctx context.Context) time.Duration {
	reading, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	if err := d.read(reading); err != nil && ctx.Err() == nil {
		d.log.WarnContext(ctx, "reading the queue of webhook deliveries failed, it will be tried again", "error", err)
		return poll
	}
	now := d.cfg.Now()
	wait := min(poll, max(pace, time.Until(d.owner.next)))
	if !d.nextDue.IsZero() {
		wait = min(wait, max(pace, d.nextDue.Sub(now)))
	}
	for slot := range d.retries {
		if at := time.Unix(0, slot*int64(retrySlot)); at.After(now) {
			wait = min(wait, max(pace, at.Sub(now)))
		} else {
			delete(d.retries, slot)
		}
	}
	d.unpark(time.Now())
	for _, e := range d.endpoints {
		d.expire(e, now)
		d.send(ctx, e)
		if at, waits := e.wake(); waits {
			wait = min(wait, max(pace, at.Sub(now)))
		}
		if e.more && e.room() > 0 {
			wait = pace
		}
	}
	d.metrics.observe(d.endpoints)
	return wait
}

// unpark has deliveries read again whose outcome the database refused.
func (d *Dispatcher) unpark(now time.Time) {
	d.parked = slices.DeleteFunc(d.parked, func(p parked) bool {
		if p.until.After(now) {
			return false
		}
		if e := d.endpoints[p.endpoint]; e != nil {
			e.written(p.seq)
		}
		return true
	})
}
