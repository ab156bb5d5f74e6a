package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"

	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

const (
	// maxSnooze is below River's scheduler interval of 5 s: a job that sleeps no longer stays available, and needs no leader of
	// River's clients to be fetched when its time has come.
	maxSnooze = 4 * time.Second
	// orderWait is how soon at the earliest an event looks again whether its predecessor has had its first attempt.
	orderWait = 50 * time.Millisecond
	// retryStore is how soon a delivery tries again that the database kept from being read.
	retryStore = time.Second
	// jobTimeout bounds one run of a job: an attempt and its record.
	jobTimeout = 45 * time.Second

	workers = 64
)

// Config is what a Worker needs.
type Config struct {
	Store *store.Store
	// Targets says which addresses may be delivered to.
	Targets netguard.Policy
	// Logger discards when nil.
	Logger *slog.Logger
	// Registerer takes the metrics; none when nil.
	Registerer prometheus.Registerer
	// Now is the clock; time.Now when nil.
	Now func() time.Time
	// Delays are the waits before each attempt; those of the interface document when all are zero.
	Delays [Attempts]time.Duration
	// Timeout bounds one attempt; 10 s when zero.
	Timeout time.Duration
}

// Worker delivers events. It is safe for concurrent use.
type Worker struct {
	river.WorkerDefaults[store.WebhookDeliveryArgs]

	store  *store.Store
	log    *slog.Logger
	now    func() time.Time
	delays [Attempts]time.Duration
	sender *sender

	attempts   *prometheus.CounterVec
	deliveries *prometheus.CounterVec
	latency    prometheus.Histogram
}

// New makes a Worker.
func New(cfg Config) (*Worker, error) {
	if cfg.Store == nil {
		return nil, errors.New("make the webhook worker: it needs a store")
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
	if cfg.Timeout == 0 {
		cfg.Timeout = Timeout
	}
	w := &Worker{
		store: cfg.Store, log: cfg.Logger, now: cfg.Now, delays: cfg.Delays, sender: newSender(cfg.Targets, cfg.Timeout),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ringmaster_webhook_attempts_total", Help: "Attempts to deliver an event, by result.",
		}, []string{"result"}),
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ringmaster_webhook_deliveries_total", Help: "Deliveries that came to an end, by their final status.",
		}, []string{"status"}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ringmaster_webhook_latency_seconds", Help: "Time from sending an event to the receiver's answer.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
	}
	if cfg.Registerer != nil {
		for _, c := range []prometheus.Collector{w.attempts, w.deliveries, w.latency} {
			if err := cfg.Registerer.Register(c); err != nil {
				return nil, fmt.Errorf("make the webhook worker: %w", err)
			}
		}
	}
	return w, nil
}

// AddWorker makes River's client deliver events.
func (w *Worker) AddWorker(all *river.Workers) error {
	if err := river.AddWorkerSafely(all, w); err != nil {
		return fmt.Errorf("add the webhook worker: %w", err)
	}
	return nil
}

// Queues is what the Worker works, with how many deliveries at once.
func Queues() map[string]int { return map[string]int{store.WebhookQueue: workers} }

// Close drops idle connections. Call it after the jobs have stopped.
func (w *Worker) Close() { w.sender.close() }

// Timeout implements river.Worker.
func (w *Worker) Timeout(*river.Job[store.WebhookDeliveryArgs]) time.Duration { return jobTimeout }

// NextRetry implements river.Worker, for jobs whose process died.
func (w *Worker) NextRetry(*river.Job[store.WebhookDeliveryArgs]) time.Time {
	return w.now().Add(retryStore)
}

// Work implements river.Worker: it makes the attempt that is due, or sleeps until it is.
func (w *Worker) Work(ctx context.Context, job *river.Job[store.WebhookDeliveryArgs]) error {
	d, err := w.load(ctx, job)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return river.JobCancel(fmt.Errorf("deliver event: its delivery is gone: %w", err))
	case err != nil:
		w.log.WarnContext(ctx, "webhook delivery could not be read, it will be tried again",
			"delivery_id", job.Args.DeliveryID, "error", err)
		return river.JobSnooze(retryStore)
	case d.row.Status != string(StatusPending):
		return nil
	}
	if due := d.row.NextAttemptAt; due != nil && d.made > 0 {
		if wait := due.Sub(w.now()); wait > 0 {
			return river.JobSnooze(min(wait, maxSnooze))
		}
	}
	if d.row.Waits && d.made == 0 {
		return river.JobSnooze(orderWait)
	}
	return w.attempt(ctx, job, d)
}

// delivery is a delivery's row with what has been made of it.
type delivery struct {
	row db.LoadWebhookDeliveryRow
	// made counts the attempts of this run.
	made int
}

func (w *Worker) load(ctx context.Context, job *river.Job[store.WebhookDeliveryArgs]) (delivery, error) {
	var d delivery
	err := w.store.InTenant(ctx, job.Args.TenantID, func(tx *store.Tx) error {
		var err error
		d.row, err = tx.Q.LoadWebhookDelivery(ctx, job.Args.TenantID, job.Args.DeliveryID)
		return err
	})
	if err != nil {
		return d, fmt.Errorf("load delivery: %w", err)
	}
	var made []Attempt
	if err := json.Unmarshal(d.row.Attempts, &made); err != nil {
		return d, fmt.Errorf("decode the attempts of a delivery: %w", err)
	}
	var meta jobMetadata
	if len(job.Metadata) > 0 {
		if err := json.Unmarshal(job.Metadata, &meta); err != nil {
			return d, fmt.Errorf("decode the metadata of a delivery's job: %w", err)
		}
	}
	d.made = max(0, len(made)-meta.Before)
	return d, nil
}

// attempt sends the event once, records what came of it and says what the job does next.
func (w *Worker) attempt(ctx context.Context, job *river.Job[store.WebhookDeliveryArgs], d delivery) error {
	began := w.now()
	clock := time.Now()
	res, err := w.send(ctx, job, d, began)
	if err != nil {
		return err
	}
	took := time.Since(clock)
	if ctx.Err() != nil && res.code == 0 {
		// The process is stopping: the request was cut off by us, which is no attempt of the receiver's.
		return river.JobSnooze(retryStore)
	}
	entry := Attempt{At: began.UTC(), LatencyMS: took.Milliseconds()}
	if res.code != 0 {
		entry.StatusCode = &res.code
		w.latency.Observe(took.Seconds())
	}
	if res.err != nil {
		text := res.err.Error()
		entry.Error = &text
	}
	status, next := w.follow(res, d.made+1)
	if err := w.record(ctx, job, entry, status, next); err != nil {
		w.log.ErrorContext(ctx, "writing a webhook attempt failed, the event is sent again",
			"delivery_id", job.Args.DeliveryID, "error", err)
		return river.JobSnooze(retryStore)
	}
	w.tell(ctx, job, d, entry, status)
	if next == nil {
		return nil
	}
	return river.JobSnooze(min(max(next.Sub(w.now()), 0), maxSnooze))
}

func (w *Worker) send(
	ctx context.Context, job *river.Job[store.WebhookDeliveryArgs], d delivery, at time.Time,
) (result, error) {
	switch {
	case d.row.Url == nil:
		return result{err: errors.New("the subscription was removed"), final: true}, nil
	case !d.row.IsActive:
		return result{err: errors.New("the subscription is not active"), final: true}, nil
	}
	secret, err := w.store.Unseal(SecretContext(d.row.SubscriptionID), d.row.SecretSealed)
	if err != nil {
		w.log.ErrorContext(ctx, "decrypting a subscription's signing secret failed", "subscription_id", d.row.SubscriptionID,
			"error", err)
		return result{err: errors.New("the event could not be signed"), final: true}, nil
	}
	body, err := json.Marshal(envelope{
		ID: store.EventID(d.row.EventID), Type: d.row.EventType, CreatedAt: d.row.EventAt.UTC(), TenantID: job.Args.TenantID,
		Data: d.row.Data,
	})
	if err != nil {
		return result{}, fmt.Errorf("encode event %s: %w", d.row.EventID, err)
	}
	return w.sender.post(ctx, *d.row.Url, http.Header{
		"Content-Type":  {"application/json"},
		"User-Agent":    {"Ringmaster-Webhooks/1"},
		HeaderSignature: {Sign(string(secret), at, body)},
		HeaderEventID:   {store.EventID(d.row.EventID)},
		HeaderEventType: {d.row.EventType},
	}, body), nil
}

// follow says what a result means for the delivery, after that many attempts of this run.
func (w *Worker) follow(res result, made int) (Status, *time.Time) {
	switch {
	case res.err == nil:
		return StatusDelivered, nil
	case res.final || made >= Attempts:
		return StatusDeadLettered, nil
	default:
		next := w.now().Add(w.delays[made])
		return StatusPending, &next
	}
}

// record appends the attempt to the delivery's row. It is written even when the process is stopping.
func (w *Worker) record(
	ctx context.Context, job *river.Job[store.WebhookDeliveryArgs], entry Attempt, status Status, next *time.Time,
) error {
	text, err := json.Marshal([]Attempt{entry})
	if err != nil {
		return fmt.Errorf("encode attempt: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), jobTimeout/2)
	defer cancel()
	return w.store.Persist(ctx, job.Args.TenantID, func(tx *store.Tx) error {
		_, err := tx.Q.RecordWebhookAttempt(ctx, db.RecordWebhookAttemptParams{
			TenantID: job.Args.TenantID, ID: job.Args.DeliveryID, Attempt: text, Status: string(status), NextAttemptAt: next,
		})
		return err
	})
}

func (w *Worker) tell(
	ctx context.Context, job *river.Job[store.WebhookDeliveryArgs], d delivery, entry Attempt, status Status,
) {
	label := "failed"
	if entry.Error == nil {
		label = "delivered"
	}
	w.attempts.WithLabelValues(label).Inc()
	if status != StatusPending {
		w.deliveries.WithLabelValues(string(status)).Inc()
	}
	attrs := []slog.Attr{
		slog.String("delivery_id", job.Args.DeliveryID.String()), slog.String("tenant_id", job.Args.TenantID.String()),
		slog.String("event_type", d.row.EventType), slog.String("event_id", store.EventID(d.row.EventID)),
		slog.Int("attempt", d.made+1), slog.String("status", string(status)), slog.Int64("latency_ms", entry.LatencyMS),
	}
	level := slog.LevelDebug
	if entry.Error != nil {
		level = slog.LevelWarn
		attrs = append(attrs, slog.String("error", *entry.Error))
	}
	w.log.LogAttrs(ctx, level, "webhook attempt", attrs...)
}
