package store

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/ringmaster/ringmaster/store/db"
)

const (
	jobsPoll = 2 * time.Second
	// jobsCooldown is the least time between two looks into a queue.
	jobsCooldown = 20 * time.Millisecond
	// rescueAfter is when River looks for jobs whose process died; whether one is stuck is decided by the job's own time-out.
	rescueAfter = time.Minute

	// wakeEvery bounds how often a queue's workers are woken by one process.
	wakeEvery   = 20 * time.Millisecond
	wakeTimeout = 5 * time.Second
)

// Jobs works the jobs of some of River's queues. Its queues are looked into when a job in them falls due: a transaction that has
// enqueued one says so after its commit, and a job that sleeps has an alarm. So an idle controller asks the database for next to
// nothing.
type Jobs struct {
	client  *river.Client[pgx.Tx]
	store   *Store
	snoozed <-chan *river.Event
	silence func()
	waking  sync.WaitGroup
}

// JobsConfig says which jobs are worked.
type JobsConfig struct {
	// Queues has how many jobs of each queue are worked at once.
	Queues  map[string]int
	Workers *river.Workers
	// Poll is how often a queue is looked into though nobody has said that something is due: for jobs of a process that died before
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
		Queues: queues, Workers: cfg.Workers, Logger: cfg.Logger, RescueStuckJobsAfter: rescueAfter,
		FetchPollInterval: cmp.Or(cfg.Poll, jobsPoll), FetchCooldown: jobsCooldown,
	})
	if err != nil {
		return nil, fmt.Errorf("make the workers of the job queues: %w", err)
	}
	return &Jobs{client: client, store: s, silence: func() {}}, nil
}

// Start begins to work. It ends when Stop is called.
func (j *Jobs) Start(ctx context.Context) error {
	j.snoozed, j.silence = j.client.Subscribe(river.EventKindJobSnoozed)
	j.waking.Go(func() { //nolint:contextcheck // an alarm is the store's
		for e := range j.snoozed {
			j.store.wake(e.Job.Queue, e.Job.ScheduledAt)
		}
	})
	if err := j.client.Start(ctx); err != nil {
		j.silence()
		return fmt.Errorf("start the workers of the job queues: %w", err)
	}
	return nil
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
	mu     sync.Mutex
	closed bool
	// alarms has the slots (of wakeEvery) in which a queue is to be woken, and last the one of the latest call.
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

func newWaker() *waker {
	w := &waker{alarms: make(map[alarm]*time.Timer), last: make(map[string]int64)}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// wake has a queue looked into at a time, or now when that has passed.
func (s *Store) wake(queue string, at time.Time) {
	w := s.waker
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	now := time.Now()
	due := alarm{queue, slotOf(now)}
	if at.After(now) {
		due.slot = slotOf(at) + 1
	} else if due.slot <= w.last[queue] {
		due.slot = w.last[queue] + 1
	}
	if w.alarms[due] != nil {
		return
	}
	wait := max(0, time.Unix(0, due.slot*int64(wakeEvery)).Sub(now))
	if wait == 0 {
		w.last[queue] = due.slot
	}
	w.alarms[due] = time.AfterFunc(wait, func() { s.ring(due) })
}

func slotOf(t time.Time) int64 { return t.UnixNano() / int64(wakeEvery) }

func (s *Store) ring(due alarm) {
	w := s.waker
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
	err := db.New(s.pool).WakeQueue(ctx, due.queue)
	if err != nil && w.ctx.Err() == nil {
		s.log.WarnContext(ctx, "workers of a queue can't be woken, they will look by themselves", "queue", due.queue, "error", err)
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
