package webhook

import (
	"context"
	"encoding/json"
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
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/retry"
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
	// idleFor is how long an endpoint without deliveries stays this controller's.
	idleFor = 30 * time.Second
	// othersFor is how long an endpoint that another controller works isn't asked for again.
	othersFor = 500 * time.Millisecond
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
	wait := poll
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

// read takes deliveries that are due of the endpoints that are this controller's, or nobody's.
func (d *Dispatcher) read(ctx context.Context) error {
	now := d.cfg.Now()
	lost, err := d.owner.check(ctx)
	if lost {
		d.forget()
	}
	if err != nil {
		return err
	}
	work, err := d.store.ReadSystem().WebhookWork(ctx)
	if err != nil {
		return err
	}
	d.nextDue = time.Time{}
	var due []uuid.UUID
	for _, w := range work {
		switch {
		case w.DueAt == nil || !w.DueAt.After(now):
			due = append(due, w.SubscriptionID)
		case d.nextDue.IsZero() || w.DueAt.Before(d.nextDue):
			d.nextDue = *w.DueAt
		}
	}
	mine, err := d.owner.take(ctx, due)
	if err != nil {
		return err
	}
	d.idle(ctx, mine)
	var ask []*endpoint
	for id := range mine {
		e := d.endpoints[id]
		if e == nil {
			e = newEndpoint(id)
			d.endpoints[id] = e
		}
		e.more = true
		if e.room() > 0 {
			ask = append(ask, e)
		}
	}
	if err := d.aimAll(ctx); err != nil {
		return err
	}
	for len(ask) > 0 {
		n := min(atOnce, len(ask))
		if err := d.fetch(ctx, ask[:n], now); err != nil {
			if ctx.Err() != nil || errors.Is(err, store.ErrUnavailable) {
				return err
			}
			for _, e := range ask[:n] { // one of them keeps no other from its deliveries
				if err := d.fetch(ctx, []*endpoint{e}, now); err != nil {
					d.log.WarnContext(ctx, "reading a webhook endpoint's deliveries failed", "subscription_id", e.id, "error", err)
				}
			}
		}
		ask = ask[n:]
	}
	return nil
}

// aimAll looks where the endpoints with deliveries at hand are now: a subscription may have been edited, paused or removed meanwhile.
func (d *Dispatcher) aimAll(ctx context.Context) error {
	if time.Since(d.aimed) < aimEvery {
		return nil
	}
	var of []*endpoint
	var ids []uuid.UUID
	for id, e := range d.endpoints {
		if len(e.held) > 0 {
			of, ids = append(of, e), append(ids, id)
		}
	}
	if len(of) == 0 {
		return nil
	}
	d.aimed = time.Now()
	return d.aimAt(ctx, of, ids)
}

func (d *Dispatcher) aimAt(ctx context.Context, of []*endpoint, ids []uuid.UUID) error {
	targets, err := d.store.ReadSystem().WebhookTargets(ctx, ids)
	if err != nil {
		return err
	}
	byID := make(map[uuid.UUID]db.WebhookTargetsRow, len(targets))
	for _, t := range targets {
		byID[t.ID] = t
	}
	for _, e := range of {
		row, there := byID[e.id]
		d.aim(ctx, e, row, there)
	}
	return nil
}

// adopt takes over what controllers of the version before have queued, until ctx ends.
func (d *Dispatcher) adopt(ctx context.Context) {
	for {
		var n int64
		err := d.store.InSystem(ctx, func(tx *store.Tx) (err error) {
			n, err = tx.Q.AdoptWebhookJobs(ctx)
			if n > 0 {
				tx.WakeWebhooks()
			}
			return err
		})
		switch {
		case err != nil && ctx.Err() == nil:
			d.log.WarnContext(ctx, "taking over webhook deliveries of an earlier version failed", "error", err)
		case n > 0:
			d.log.InfoContext(ctx, "webhook deliveries of an earlier version taken over", "deliveries", n)
			continue
		}
		if retry.Pause(ctx, adoptEvery) != nil {
			return
		}
	}
}

// fetch reads deliveries of some endpoints.
func (d *Dispatcher) fetch(ctx context.Context, of []*endpoint, now time.Time) error {
	args := db.TakeWebhookWorkParams{Due: now, Held: []int64{}}
	counts := map[uuid.UUID]int{}
	for _, e := range of {
		args.Subscriptions, args.Rooms = append(args.Subscriptions, e.id), append(args.Rooms, int32(e.room())) //nolint:gosec // bounded by mostHeld
		for seq := range e.held {
			args.Held = append(args.Held, seq)
		}
		e.more = false
	}
	rows, err := d.store.ReadSystem().TakeWebhookWork(ctx, args)
	if err != nil {
		return err
	}
	if err := d.aimAt(ctx, of, args.Subscriptions); err != nil {
		return err
	}
	for i, e := range of {
		counts[e.id] = int(args.Rooms[i])
	}
	var orphans []int64
	var orphaned []uuid.UUID
	for _, row := range rows {
		if row.EventType == "" { // its event is no longer kept
			orphans, orphaned = append(orphans, row.Seq), append(orphaned, row.SubscriptionID)
			continue
		}
		e := d.endpoints[row.SubscriptionID]
		e.add(itemOf(row))
		if counts[e.id]--; counts[e.id] == 0 {
			e.more = true
		}
	}
	if len(orphans) == 0 {
		return nil
	}
	return d.store.InSystem(ctx, func(tx *store.Tx) error { return tx.Q.DropWebhookWork(ctx, orphaned, orphans) })
}

// aim sets where an endpoint's deliveries go.
func (d *Dispatcher) aim(ctx context.Context, e *endpoint, row db.WebhookTargetsRow, there bool) {
	t := &target{row: row, failing: row.FailingSince}
	switch {
	case !there:
		t.fault = "the subscription was removed"
	case !row.IsActive:
		t.fault = "the subscription is not active"
	default:
		secrets, err := secretsOf(d.store, row.ID, row.SecretSealed, row.PreviousSecretSealed, row.PreviousSecretUntil, d.cfg.Now())
		if err != nil {
			d.log.ErrorContext(ctx, "decrypting a subscription's signing secret failed", "subscription_id", row.ID, "error", err)
			t.fault = "the event could not be signed"
		}
		t.secrets = secrets
	}
	if e.target != nil && e.target.row.Url != row.Url {
		e.reset()
	}
	e.target = t
}

// secretsOf opens the secrets that sign at a time: the present one first.
func secretsOf(st *store.Store, id uuid.UUID, sealed, previous []byte, until *time.Time, now time.Time) ([]string, error) {
	all := [][]byte{sealed}
	if until != nil && now.Before(*until) {
		all = append(all, previous)
	}
	out := make([]string, len(all))
	for i, s := range all {
		secret, err := st.Unseal(SecretContext(id), s)
		if err != nil {
			return nil, fmt.Errorf("unseal a signing secret: %w", err)
		}
		out[i] = string(secret)
	}
	return out, nil
}

// send makes the requests to an endpoint that it may get.
func (d *Dispatcher) send(ctx context.Context, e *endpoint) {
	if d.endpoints[e.id] != e || e.target == nil {
		return // it was given up
	}
	for d.tenants[e.target.row.TenantID] < mostOfTenant {
		it := e.next(d.cfg.Now())
		if it == nil {
			return
		}
		d.inFlight++
		d.tenants[it.TenantID]++
		t := e.target
		d.requests.Go(func() { d.answers <- d.attempt(ctx, e, it, t) })
	}
}

// sendFor sends to an endpoint that has answered, and, where its tenant had as many requests as it may, to the tenant's others.
func (d *Dispatcher) sendFor(ctx context.Context, e *endpoint) {
	d.send(ctx, e)
	if e.target == nil || d.tenants[e.target.row.TenantID] != mostOfTenant-1 {
		return
	}
	for _, other := range d.endpoints {
		if other.target != nil && other.target.row.TenantID == e.target.row.TenantID {
			d.send(ctx, other)
		}
	}
}

// attempt makes one request.
func (d *Dispatcher) attempt(ctx context.Context, e *endpoint, it *item, t *target) answer {
	began, clock := d.cfg.Now(), time.Now()
	out := answer{endpoint: e, item: it}
	if t.fault != "" {
		out.result = result{err: errors.New(t.fault), final: true, own: true}
	} else {
		out.result = d.request(ctx, it, t, began)
	}
	out.cut = ctx.Err() != nil && out.result.code == 0
	out.entry = entryOf(out.result, began, time.Since(clock))
	return out
}

// entryOf is what a delivery's record says of an attempt.
func entryOf(res result, at time.Time, took time.Duration) Attempt {
	entry := Attempt{At: at.UTC(), LatencyMS: took.Milliseconds()}
	if res.code != 0 {
		entry.StatusCode = &res.code
	}
	if res.err != nil {
		text := clean(res.err.Error())
		entry.Error = &text
	}
	return entry
}

func (d *Dispatcher) request(ctx context.Context, it *item, t *target, at time.Time) result {
	if it.Large {
		d.large <- struct{}{}
		defer func() { <-d.large }()
		data, err := d.store.ReadSystem().EventData(ctx, it.TenantID, it.EventID)
		if err != nil {
			return result{err: errors.New("the event could not be read"), own: true}
		}
		it.Data = data
		defer func() { it.Data = nil }()
	}
	data := it.Data
	if it.replayed() && it.EventType == string(store.EventCallRecordingReady) && d.cfg.SignRecording != nil && it.CallID != nil {
		fresh, err := d.signAnew(ctx, it)
		if err != nil {
			return result{err: errors.New("the recording could not be signed anew"), own: true}
		}
		data = fresh
	}
	body, err := encodeEvent(it.EventID, it.EventType, it.EventAt, it.TenantID, data)
	if err != nil {
		return result{err: errors.New("the event could not be encoded"), final: true, own: true}
	}
	return d.sender.post(ctx, t.row.Url, headers(store.EventID(it.EventID), it.EventType, at, body, t.secrets), body)
}

// replayed tells whether the event is told again.
func (it *item) replayed() bool { return it.Replayed }

// signAnew gives the data of a call.recording_ready with a signed URL of now.
func (d *Dispatcher) signAnew(ctx context.Context, it *item) (json.RawMessage, error) {
	signed, err := d.cfg.SignRecording(ctx, it.TenantID, *it.CallID, it.EventID)
	if errors.Is(err, store.ErrNotFound) {
		return it.Data, nil // the recording is gone
	}
	if err != nil {
		d.log.WarnContext(ctx, "signing a recording anew failed", "call_id", *it.CallID, "error", err)
		return nil, err
	}
	var data map[string]json.RawMessage
	if err := json.Unmarshal(it.Data, &data); err != nil {
		return nil, fmt.Errorf("decode the data of an event: %w", err)
	}
	if data["signed_url"], err = json.Marshal(signed); err != nil {
		return nil, fmt.Errorf("encode a signed URL: %w", err)
	}
	return json.Marshal(data)
}

// answered notes what came of an attempt and has it written.
func (d *Dispatcher) answered(ctx context.Context, a answer) {
	d.inFlight--
	if d.tenants[a.item.TenantID]--; d.tenants[a.item.TenantID] == 0 {
		delete(d.tenants, a.item.TenantID)
	}
	if a.cut {
		a.endpoint.cutOff(a.item)
		return
	}
	now := d.cfg.Now()
	a.endpoint.answered(a.item, a.result, now)
	status, next := d.schedule.follow(a.result, a.item.made+1, now)
	d.metrics.attempt(a.result, a.entry)
	d.record(ctx, a.endpoint, a.item, a.entry, status, next)
}

// expire ends deliveries that have waited too long for a receiver that doesn't answer.
func (d *Dispatcher) expire(e *endpoint, now time.Time) {
	gone := e.expired(now)
	for _, it := range gone {
		d.recorder.add(record{endpoint: e.id, item: it, status: StatusDeadLettered, silent: true})
		d.metrics.deliveries.WithLabelValues(string(StatusDeadLettered)).Inc()
	}
	if len(gone) > 0 {
		d.log.Warn("webhook deliveries were given up unsent: their receiver has not answered for an hour", "subscription_id", e.id, "deliveries", len(gone))
	}
}

func (d *Dispatcher) record(ctx context.Context, e *endpoint, it *item, entry Attempt, status Status, next time.Time) {
	r := record{endpoint: e.id, item: it, entry: entry, status: status, next: next}
	if e.target.fault == "" {
		switch {
		case status == StatusDeadLettered && e.target.failing == nil:
			now := d.cfg.Now()
			e.target.failing, r.failing = &now, true
		case status == StatusDeadLettered && d.cfg.Now().Sub(*e.target.failing) >= disableAfter:
			r.disable = true
		case status == StatusDelivered && e.target.failing != nil:
			e.target.failing, r.recovered = nil, true
		}
	}
	d.recorder.add(r)
	if status != StatusPending {
		d.metrics.deliveries.WithLabelValues(string(status)).Inc()
	}
	level := slog.LevelDebug
	attrs := []slog.Attr{
		slog.String("delivery_id", it.DeliveryID.String()), slog.String("tenant_id", it.TenantID.String()),
		slog.String("event_type", it.EventType), slog.String("event_id", store.EventID(it.EventID)),
		slog.Int("attempt", it.made+1), slog.String("status", string(status)), slog.Int64("latency_ms", entry.LatencyMS),
	}
	if entry.Error != nil {
		level = slog.LevelWarn
		attrs = append(attrs, slog.String("error", *entry.Error))
	}
	d.log.LogAttrs(ctx, level, "webhook attempt", attrs...)
}

// written forgets deliveries of which was written what came of them, and tells whether the queue is to be looked into.
func (d *Dispatcher) written(ctx context.Context, done []record) (look bool) {
	for _, r := range done {
		e := d.endpoints[r.endpoint]
		if r.unwritten {
			d.log.ErrorContext(ctx, "the database refuses what came of a webhook attempt, the event is sent again", "delivery_id", r.item.DeliveryID, "retry_in", parkFor)
			d.parked = append(d.parked, parked{r.endpoint, r.item.Seq, time.Now().Add(parkFor)})
			continue
		}
		if r.status == StatusPending {
			d.retries[r.next.UnixNano()/int64(retrySlot)+1] = true
		}
		if e != nil && e.held[r.item.Seq] == r.item {
			e.written(r.item.Seq)
			look = look || (e.more && e.room() > 0)
		}
		look = look || r.status == StatusPending
	}
	return look
}

// idle gives up endpoints that have had nothing for long.
func (d *Dispatcher) idle(ctx context.Context, busy map[uuid.UUID]bool) {
	now := time.Now()
	for id, e := range d.endpoints {
		switch {
		case busy[id] || len(e.held) > 0:
			e.idle = time.Time{}
		case e.idle.IsZero():
			e.idle = now
		case now.Sub(e.idle) > idleFor && !e.open:
			if err := d.owner.give(ctx, id); err != nil {
				d.log.WarnContext(ctx, "giving up a webhook endpoint failed", "subscription_id", id, "error", err)
			}
			delete(d.endpoints, id)
		}
	}
}

// forget drops what was read: the endpoints may be another controller's now.
func (d *Dispatcher) forget() {
	d.log.Warn("the connection with the locks of webhook endpoints was lost, deliveries are read anew")
	for _, e := range d.endpoints {
		e.dropQueued()
	}
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
