package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store"
)

const (
	// allEvery is how often all of the queue is looked at though nobody has said that something is due: for what another controller, which is lost,
	// had. Where that takes long it is a part of the time, and at least every allAtLeast; a small part even when somebody asks for it.
	allEvery    = time.Second
	partOfAll   = 20
	partOfAsked = 4
	allAtLeast  = 10 * time.Second
	// lookTimeout bounds a look, and retryLook is how soon it is tried again when it failed.
	lookTimeout = 10 * time.Second
	retryLook   = time.Second
	// aimedFor is how long it is known where an endpoint is that has deliveries at hand; edits are told of.
	aimedFor = time.Second
	// askedFor is how long an endpoint isn't asked for again by itself while it has what is next in its queue.
	askedFor = 30 * time.Second
	// idleFor is how long an endpoint without deliveries is remembered: how many requests it gets, and whether it is silent.
	idleFor = 10 * time.Minute
	// adoptEvery is how often deliveries that controllers of the version before have queued are taken over.
	adoptEvery = 15 * time.Second
	// parkFor is how long a delivery waits of which the database refuses what came of it.
	parkFor = time.Minute
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
	// Now is the clock. When it is nil it is this host's, and for what is compared with times that are written the database's.
	Now func() time.Time
	// Delays are the waits before each attempt; those of the interface document when all are zero.
	Delays [Attempts]time.Duration
	// Random lengthens the waits; math/rand when nil.
	Random func() float64
	// Timeout bounds one attempt; 10 s when zero.
	Timeout time.Duration
	// Requests is how many are made at a time; when zero 4,096, or a quarter of the files that the process may open if those are fewer.
	Requests int

	// hostsClock tells that Now is this host's.
	hostsClock bool
}

func (cfg *Config) fill() error {
	if cfg.Store == nil {
		return errors.New("make the webhook dispatcher: it needs a store")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now, cfg.hostsClock = time.Now, true
	}
	if cfg.Requests == 0 {
		cfg.Requests = mostAtOnce
		var files syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil {
			cfg.Requests = int(min(mostAtOnce, max(1, files.Cur/fileShare)))
		}
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

// Dispatcher delivers events. One goroutine, its loop, owns the endpoints, and waits for nothing: each request, and whatever asks the database,
// runs in a goroutine of its own.
type Dispatcher struct {
	cfg      Config
	store    *store.Store
	log      *slog.Logger
	schedule schedule
	sender   *sender
	metrics  *metrics
	replayer *replayer
	// successes writes what came of most attempts, and troubles what more hangs on: neither waits for the other.
	successes, troubles *recorder

	woken    *store.Woken
	answers  chan answer
	recorded chan []record
	back     chan func()   // what follows from work beside the loop
	stopping chan struct{} // closed by Stop: no new requests
	ended    chan struct{} // closed when the loop has ended
	cut      context.CancelFunc
	requests sync.WaitGroup
	stop     sync.Once
	bodies   *bodies

	// The loop's.
	owner      *ownership
	endpoints  map[uuid.UUID]*endpoint
	slots      *slots
	memory     *memory
	lanes      [lanes]lane
	alarms     alarms
	aside      int       // what is at work beside the loop, but for requests
	sharing    bool      // ownership is looked after
	readingAll bool      // all of the queue is looked at
	allAt      time.Time // when it is to be
	allAgain   time.Time // when it may be because somebody asks
	edited     bool      // any subscription, or its tenant, may have been edited
	parked     []parked
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
		woken: store.NewWoken(), answers: make(chan answer), recorded: make(chan []record), back: make(chan func()),
		stopping: make(chan struct{}), ended: make(chan struct{}),
		bodies: &bodies{all: map[uuid.UUID]*body{}}, owner: newOwnership(cfg.Store, cfg.Now), endpoints: map[uuid.UUID]*endpoint{},
		slots: newSlots(cfg.Requests), memory: &memory{most: mostBytes}, lanes: [lanes]lane{prompt: {pace: promptPace}, troubled: {pace: troubledPace}},
	}
	d.successes, d.troubles = newRecorder(cfg.Store, cfg.Logger, promptPace, d.recorded), newRecorder(cfg.Store, cfg.Logger, troubledPace, d.recorded)
	d.replayer = &replayer{store: cfg.Store, log: cfg.Logger, now: cfg.Now, poke: make(chan struct{}, 1)}
	if cfg.Registerer != nil {
		if err := d.metrics.register(cfg.Registerer); err != nil {
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
	helpers.Go(func() { d.store.WatchWebhooks(watching, d.woken) })
	helpers.Go(func() { d.successes.run(ctx) })
	helpers.Go(func() { d.troubles.run(ctx) })
	helpers.Go(func() { d.replayer.run(watching) })
	helpers.Go(func() { d.adopt(watching) })
	go func() {
		defer close(d.ended)
		d.loop(ctx)
		unwatch()
		d.successes.close()
		d.troubles.close()
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
	reading, endReading := context.WithCancel(ctx)
	defer endReading()
	for stopping := d.stopping; stopping != nil || d.slots.used > 0 || d.aside > 0; {
		select {
		case <-stopping:
			stopping = nil
			timer.Stop()
			endReading()
		case a := <-d.answers:
			d.answered(ctx, a)
		case done := <-d.recorded:
			d.written(ctx, done)
		case <-d.woken.C:
			d.hear()
		case then := <-d.back:
			d.aside--
			select { // an edit that was told of before a look's end counts for what it has read
			case <-d.woken.C:
				d.hear()
			default:
			}
			then()
		case <-timer.C:
		}
		if stopping != nil {
			d.look(ctx, reading)
			d.serve(ctx)
			timer.Reset(time.Until(d.nextLook()))
		}
	}
}

// beside has work done beside the loop, and the loop do what follows from it.
func (d *Dispatcher) beside(work func() (then func())) {
	d.aside++
	go func() { d.back <- work() }()
}

// hear notes what was queued.
func (d *Dispatcher) hear() {
	select {
	case d.replayer.poke <- struct{}{}:
	default:
	}
	ids, all := d.woken.Take()
	if all {
		d.allAt, d.edited = earlier(d.allAt, d.allAgain), true
	}
	for id, edited := range ids {
		if e := d.endpoints[id]; edited && e != nil {
			e.wasEdited()
		}
		d.want(id, deliveries)
	}
}

// look begins the looks whose time has come. Those that read end with reading.
func (d *Dispatcher) look(ctx, reading context.Context) {
	now := time.Now()
	if d.owner.due() && !d.sharing {
		d.share(ctx)
	}
	if !d.readingAll && !now.Before(d.allAt) {
		d.lookAtAll(reading)
	}
	for _, e := range d.alarms.rung(d.now()) {
		d.want(e.id, deliveries)
	}
	d.unpark(now)
	for i := range d.lanes {
		if l := &d.lanes[i]; l.due(now) {
			d.lookAt(reading, l)
		}
	}
}

// nextLook is when there is something to look at; what is looked at now is asked for again when that is done.
func (d *Dispatcher) nextLook() time.Time {
	next := time.Now().Add(allAtLeast)
	if !d.sharing {
		next = earlier(next, d.owner.next)
	}
	if !d.readingAll {
		next = earlier(next, d.allAt)
	}
	for i := range d.lanes {
		if l := &d.lanes[i]; len(l.waiting) > 0 && !l.atWork {
			next = earlier(next, l.next)
		}
	}
	if at, set := d.alarms.next(); set {
		next = earlier(next, time.Now().Add(at.Sub(d.now())))
	}
	return next
}

// now is the time that written ones are compared with: the database's, unless a clock was given.
func (d *Dispatcher) now() time.Time {
	now := d.cfg.Now()
	if d.cfg.hostsClock {
		now = now.Add(d.owner.ahead)
	}
	return now
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
