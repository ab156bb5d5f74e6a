package recordings

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/retry"
)

const (
	// dueEvery is how often a node looks for recordings that are due and of which it wasn't told, or whose processing failed without becoming a job.
	dueEvery = time.Minute
	// dueAgain is how soon it does so again while there are more than it takes at a time.
	dueAgain = time.Second
	// dueWaiting bounds those that wait for a worker; further ones are found by looking.
	dueWaiting = 1000
	// handOverTime bounds making a job of one.
	handOverTime = 10 * time.Second
)

// errTaken says that somebody else has a recording.
var errTaken = errors.New("recording is another's")

// errPanic says that processing a recording panicked.
var errPanic = errors.New("panic")

// due processes a node's recordings as their calls end. What has to be tried again is River's, with the pauses and the alerts of its worker.
type due struct {
	library *Library
	node    string
	work    chan store.DueRecording
	mu      sync.Mutex // guards known
	// known are those that wait or are being worked here, and those that were made jobs of at the start.
	known map[uuid.UUID]bool
	// begun: what is due by now has come since the start. It is look's.
	begun bool
	// troubled: making a job of one has failed since look looked last. worked: the database has taken the end of another.
	troubled, worked atomic.Bool
	// taking ends first, and then, should that take too long, working.
	taking, working         context.Context //nolint:containedctx // the lives of its goroutines
	stopTaking, stopWorking context.CancelFunc
	busy                    sync.WaitGroup
}

// Start has a node's recordings processed as their calls end, so many at a time, until Stop. Those that are due already become jobs. There is one Start.
func (l *Library) Start(ctx context.Context, node string, workers int) {
	d := l.newDue(ctx, node)
	unwatch := l.store.WorkRecordings(node, d.add)
	for range workers {
		d.busy.Go(d.run)
	}
	d.busy.Go(func() { //nolint:contextcheck // it ends with Stop
		defer unwatch()
		d.look()
	})
	l.due = d
}

func (l *Library) newDue(ctx context.Context, node string) *due {
	d := &due{library: l, node: node, work: make(chan store.DueRecording, dueWaiting), known: map[uuid.UUID]bool{}}
	ctx = context.WithoutCancel(ctx)
	d.taking, d.stopTaking = context.WithCancel(ctx)
	d.working, d.stopWorking = context.WithCancel(ctx)
	return d
}

// Stop lets those at work finish, and cancels them when ctx ends first. What is left is due at the next start.
func (l *Library) Stop(ctx context.Context) error {
	d := l.due
	if d == nil {
		return nil
	}
	d.stopTaking()
	done := make(chan struct{})
	go func() { defer close(done); d.busy.Wait() }()
	defer func() { d.stopWorking(); <-done }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop processing recordings: %w", context.Cause(ctx))
	}
}

// add has one processed that isn't waiting, nor being worked.
func (d *due) add(r store.DueRecording) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known[r.CallID] {
		return
	}
	select {
	case d.work <- r:
		d.known[r.CallID] = true
	default:
	}
}

func (d *due) run() {
	for {
		select {
		case <-d.taking.Done():
			return
		case r := <-d.work:
			d.process(r)
			d.mu.Lock()
			delete(d.known, r.CallID)
			d.mu.Unlock()
		}
	}
}

func (d *due) look() {
	for retry.Pause(d.taking, d.find()) == nil {
	}
}

// find finds what is due, and tells how long it takes until it is worth while to look again: where nothing can be made a job of, a database in trouble is to
// be left alone.
func (d *due) find() time.Duration {
	l := d.library
	var rows []db.RecordingsDueRow
	err := l.store.InSystem(d.taking, func(tx *store.Tx) (err error) {
		rows, err = tx.Q.RecordingsDue(d.taking, d.node, dueWaiting)
		return err
	})
	if err != nil && d.taking.Err() == nil {
		l.log.WarnContext(d.taking, "looking for recordings to process failed", "error", err)
	}
	for _, r := range rows {
		if d.begun {
			d.add(store.DueRecording(r))
		} else {
			d.leave(store.DueRecording(r))
		}
	}
	troubled := d.troubled.Swap(false)
	d.begun = d.begun || err == nil && !troubled && len(rows) < dueWaiting
	if worked := d.worked.Swap(false); troubled && !worked || len(rows) < dueWaiting {
		return dueEvery
	}
	return dueAgain
}

// leave makes a job of one that was due before the start, unless it came meanwhile: it may have ended the process that had it, and whoever tries it next. A
// job's tries are counted.
func (d *due) leave(r store.DueRecording) {
	d.mu.Lock()
	known := d.known[r.CallID]
	d.known[r.CallID] = true
	d.mu.Unlock()
	if known || d.taking.Err() != nil {
		return
	}
	if d.makeJob(r, true) {
		return // it stays known: word of it may still come
	}
	d.mu.Lock()
	delete(d.known, r.CallID)
	d.mu.Unlock()
}

func (d *due) process(r store.DueRecording) {
	l := d.library
	ctx, cancel := context.WithTimeout(d.working, attemptTime)
	defer cancel()
	err := d.attempt(ctx, r)
	if err == nil {
		d.worked.Store(true)
		return
	}
	if d.working.Err() != nil {
		return // it is due at the next start
	}
	if !permanent(err) {
		l.metrics.count(resultRetried)
		l.log.LogAttrs(ctx, slog.LevelWarn, "processing a recording failed, it will be tried again",
			slog.Any("call_id", r.CallID), slog.Any("tenant_id", r.TenantID), slog.Int("attempt", 1), slog.Any("error", err))
	}
	d.makeJob(r, permanent(err))
}

// makeJob is handOver that tells whether the recording is off our hands.
func (d *due) makeJob(r store.DueRecording, now bool) bool {
	err := d.handOver(r, now)
	if err == nil || errors.Is(err, errTaken) {
		d.worked.Store(true)
		return true
	}
	d.troubled.Store(true)
	d.library.log.WarnContext(d.working, "queueing a recording's job failed, it will be tried again", "call_id", r.CallID, "error", err)
	return false
}

// attempt processes one; what panics is River's, which knows how to.
func (d *due) attempt(ctx context.Context, r store.DueRecording) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errPanic, r)
		}
	}()
	return d.library.process(ctx, r.TenantID, r.CallID, func(tx *store.Tx) error {
		_, err := tx.RecordingDone(ctx, r)
		return err
	})
}

// handOver makes a job of one, which is tried again in a while, or at once to be given up.
func (d *due) handOver(r store.DueRecording, now bool) error {
	ctx, cancel := context.WithTimeout(d.working, handOverTime)
	defer cancel()
	opts := &river.InsertOpts{Queue: queueOf(d.node)}
	if !now {
		opts.ScheduledAt = d.library.now().Add(retryDelay(1, rand.Float64()))
	}
	return d.library.store.InTenant(ctx, r.TenantID, func(tx *store.Tx) error {
		first, err := tx.RecordingDone(ctx, r)
		if err != nil {
			return err
		}
		if !first {
			return errTaken
		}
		return tx.Enqueue(ctx, ProcessArgs{TenantID: r.TenantID, CallID: r.CallID}, opts)
	})
}
