package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/retry"
)

const (
	jobsPoll = 2 * time.Second
	// jobsCooldown is the least time between two looks into a queue.
	jobsCooldown = 20 * time.Millisecond
	// completedKept is how long a job that is done stays in River's table: each call leaves one, and nobody reads them.
	completedKept = time.Minute
	// rescueAfter is the age at which River takes a running job for one whose process died, unless its own time-out is longer.
	rescueAfter = time.Minute

	// wakeEvery bounds how often a queue's workers are woken by one process.
	wakeEvery   = 20 * time.Millisecond
	wakeTimeout = 5 * time.Second
	// clocksApart is how far the database's clock, by which a job is due, may be behind ours for its alarm to find it due.
	clocksApart = 250 * time.Millisecond
)

// Jobs works the jobs of some of River's queues. Its queues are looked into when a job in them falls due: a transaction that has
// enqueued one says so after its commit, and a job that sleeps, or is to be tried again, has an alarm in the process that worked it.
// So an idle controller asks the database for next to nothing.
type Jobs struct {
	client  *river.Client[pgx.Tx]
	store   *Store
	silence func() // ends the alarms' source
	waking  sync.WaitGroup
}

// JobsConfig says which jobs are worked.
type JobsConfig struct {
	// Queues has how many jobs of each queue are worked at once.
	Queues  map[string]int
	Workers *river.Workers
	// Poll is how often a queue is looked into though nobody has said that something is due: for jobs of a process that ended before
	// it could say so, and where the way to the database passes no notifications on. 2 s when zero.
	Poll time.Duration
	// Logger discards when nil.
	Logger *slog.Logger
}

// NewJobs makes the workers of some queues.
func (s *Store) NewJobs(cfg JobsConfig) (*Jobs, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	queues := make(map[string]river.QueueConfig, len(cfg.Queues))
	for queue, n := range cfg.Queues {
		queues[queue] = river.QueueConfig{MaxWorkers: n}
	}
	client, err := river.NewClient(riverpgxv5.New(s.pool), &river.Config{
		Queues: queues, Workers: cfg.Workers, Logger: riverLogger(cfg.Logger), RescueStuckJobsAfter: rescueAfter,
		FetchPollInterval: cmp.Or(cfg.Poll, jobsPoll), FetchCooldown: jobsCooldown, CompletedJobRetentionPeriod: completedKept,
	})
	if err != nil {
		return nil, fmt.Errorf("make the workers of the job queues: %w", err)
	}
	return &Jobs{client: client, store: s, silence: func() {}}, nil
}

// Start begins to work, which lasts until Stop, whatever becomes of ctx.
func (j *Jobs) Start(ctx context.Context) error {
	events, silence := j.client.Subscribe(river.EventKindJobSnoozed, river.EventKindJobFailed, river.EventKindJobInterrupted)
	j.silence = silence
	j.waking.Go(func() { //nolint:contextcheck // an alarm is the store's
		for e := range events {
			if e.Job.FinalizedAt == nil {
				j.store.waker.wake(e.Job.Queue, e.Job.ScheduledAt)
				j.store.waker.wake(e.Job.Queue, e.Job.ScheduledAt.Add(clocksApart))
			}
		}
	})
	if err := j.start(ctx); err != nil {
		j.silence()
		return fmt.Errorf("start the workers of the job queues: %w", err)
	}
	return nil
}

// start waits for a database that is away, as Open does.
func (j *Jobs) start(ctx context.Context) error {
	for wait := firstRetryWait; ; wait = min(wait*2, maxRetryWait) { //nolint:mnd // doubled
		err := translate(j.client.Start(context.WithoutCancel(ctx)))
		if !errors.Is(err, ErrUnavailable) {
			return err
		}
		j.store.log.WarnContext(ctx, "starting the workers of the job queues failed, retrying", "retry_in", wait, "error", err)
		if ended := retry.Pause(ctx, wait); ended != nil {
			return fmt.Errorf("%w: %w", ended, err)
		}
	}
}

// Stop lets the jobs at work finish, and cancels them when ctx ends first.
func (j *Jobs) Stop(ctx context.Context) error {
	err := j.client.Stop(ctx)
	if ctx.Err() != nil {
		err = j.client.StopAndCancel(context.WithoutCancel(ctx))
	}
	j.silence()
	j.waking.Wait()
	if err != nil {
		return fmt.Errorf("stop the workers of the job queues: %w", err)
	}
	return nil
}

// waker tells the workers of all controllers that a job is due, at most once per wakeEvery and queue. It does so outside of the
// transactions that enqueue: a NOTIFY within them would have their commits wait for each other.
type waker struct {
	log    *slog.Logger
	tell   func(ctx context.Context, queue string) error
	began  time.Time
	mu     sync.Mutex
	closed bool
	// alarms has the slots (of wakeEvery, since it began) in which a queue is to be woken, and last the one of the latest call.
	alarms map[alarm]*time.Timer
	last   map[string]int64
	ctx    context.Context //nolint:containedctx // the life of the alarms, which is the store's
	cancel context.CancelFunc
	busy   sync.WaitGroup
}

type alarm struct {
	queue string
	slot  int64
}

func newWaker(log *slog.Logger, tell func(ctx context.Context, queue string) error) *waker {
	w := &waker{log: log, tell: tell, began: time.Now(), alarms: make(map[alarm]*time.Timer), last: make(map[string]int64)}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// wake has a queue looked into at a time, or now when that has passed.
func (w *waker) wake(queue string, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	now := time.Since(w.began) // a clock that is set doesn't move it
	due := alarm{queue, int64(now / wakeEvery)}
	if in := time.Until(at); in > 0 {
		due.slot = int64((now+in)/wakeEvery) + 1
	} else if last, rung := w.last[queue]; rung && due.slot <= last {
		due.slot = last + 1
	}
	if w.alarms[due] != nil {
		return
	}
	wait := max(0, time.Duration(due.slot)*wakeEvery-now)
	if wait == 0 {
		w.last[queue] = due.slot
	}
	w.alarms[due] = time.AfterFunc(wait, func() { w.ring(due) })
}

func (w *waker) ring(due alarm) {
	w.mu.Lock()
	delete(w.alarms, due)
	w.last[due.queue] = max(w.last[due.queue], due.slot)
	if w.closed {
		w.mu.Unlock()
		return
	}
	w.busy.Add(1)
	w.mu.Unlock()
	defer w.busy.Done()
	ctx, cancel := context.WithTimeout(w.ctx, wakeTimeout)
	defer cancel()
	if err := w.tell(ctx, due.queue); err != nil && w.ctx.Err() == nil {
		w.log.DebugContext(ctx, "waking a queue's workers failed, they poll", "queue", due.queue, "error", err)
	}
}

// tellWorkers tells all controllers that something is due in a queue.
func (s *Store) tellWorkers(ctx context.Context, queue string) error {
	q := db.New(s.pool)
	switch queue {
	case webhookQueue:
		return s.deliveries.ring(ctx, q)
	case tokenWord:
		return q.TellTokens(ctx, s.ended.take())
	default:
		return q.WakeQueue(ctx, queue)
	}
}

// close forgets the alarms.
func (w *waker) close() {
	w.mu.Lock()
	w.closed = true
	for _, t := range w.alarms {
		t.Stop()
	}
	w.mu.Unlock()
	w.cancel()
	w.busy.Wait()
}
