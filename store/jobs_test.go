package store_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// note is a job that says its name; it sleeps and fails as often as it is told before it does.
type note struct {
	Name   string `json:"name"`
	Sleeps int32  `json:"sleeps"`
	Fails  int32  `json:"fails"`
}

func (note) Kind() string { return "note" }

type notes struct {
	river.WorkerDefaults[note]

	said          chan string
	slept, failed atomic.Int32
}

var errNote = errors.New("failed")

func (n *notes) NextRetry(*river.Job[note]) time.Time { return time.Now().Add(30 * time.Millisecond) }

func (n *notes) Work(_ context.Context, job *river.Job[note]) error {
	if n.slept.Load() < job.Args.Sleeps {
		n.slept.Add(1)
		return river.JobSnooze(30 * time.Millisecond)
	}
	if n.failed.Load() < job.Args.Fails {
		n.failed.Add(1)
		return errNote
	}
	n.said <- job.Args.Name
	return nil
}

// jobs works a queue that is never polled, longer than the context of its start lasts.
func jobs(t *testing.T, st *store.Store) *notes {
	t.Helper()
	n := &notes{said: make(chan string, 100)}
	workers := river.NewWorkers()
	require.NoError(t, river.AddWorkerSafely(workers, n))
	j, err := st.NewJobs(store.JobsConfig{Queues: map[string]int{"notes": 4}, Workers: workers, Poll: time.Hour})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, j.Start(ctx))
	cancel()
	t.Cleanup(func() { require.NoError(t, j.Stop(context.WithoutCancel(t.Context()))) })
	return n
}

func enqueue(t *testing.T, st *store.Store, n note) {
	t.Helper()
	require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) error {
		return tx.Enqueue(t.Context(), n, &river.InsertOpts{Queue: "notes"})
	}))
}

func (n *notes) next(t *testing.T) string {
	t.Helper()
	select {
	case name := <-n.said:
		return name
	case <-time.After(time.Minute):
		t.Fatal("no job was worked")
		return ""
	}
}

// TestJobsAreWorkedWhenTheyFallDue proves it without polls: for one job after the other, which finds no worker that looks for more,
// for many transactions on each other's heels, for jobs that sleep or fail, and for jobs of another process.
func TestJobsAreWorkedWhenTheyFallDue(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	st := storetest.Open(t, url)
	n := jobs(t, st)
	for range 5 {
		enqueue(t, st, note{Name: "alone"})
		require.Equal(t, "alone", n.next(t))
	}
	for range 50 {
		enqueue(t, st, note{Name: "awake"})
	}
	for range 50 {
		require.Equal(t, "awake", n.next(t))
	}
	enqueue(t, st, note{Name: "slept", Sleeps: 3})
	require.Equal(t, "slept", n.next(t))
	enqueue(t, st, note{Name: "failed", Fails: 2})
	require.Equal(t, "failed", n.next(t))
	other := storetest.Open(t, url)
	for range 3 {
		enqueue(t, other, note{Name: "another's"})
		require.Equal(t, "another's", n.next(t))
	}
}

// A database that is away while the workers start is waited for.
func TestJobsStartOnceTheDatabaseIsBack(t *testing.T) {
	t.Parallel()
	st, proxy := storetest.NewProxied(t)
	n := &notes{said: make(chan string, 1)}
	workers := river.NewWorkers()
	require.NoError(t, river.AddWorkerSafely(workers, n))
	j, err := st.NewJobs(store.JobsConfig{Queues: map[string]int{"notes": 1}, Workers: workers})
	require.NoError(t, err)
	proxy.Stop()
	ended, end := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer end()
	require.ErrorIs(t, j.Start(ended), store.ErrUnavailable)
	j, err = st.NewJobs(store.JobsConfig{Queues: map[string]int{"notes": 1}, Workers: workers})
	require.NoError(t, err)
	started := make(chan error, 1)
	go func() { started <- j.Start(t.Context()) }()
	proxy.Listen(t)
	require.NoError(t, <-started)
	tenant := storetest.Tenant(t, st)
	require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
		return tx.Enqueue(t.Context(), note{Name: "late"}, &river.InsertOpts{Queue: "notes"})
	}))
	require.Equal(t, "late", <-n.said)
	require.NoError(t, j.Stop(context.WithoutCancel(t.Context())))
}

// TestRolledBackJobsWakeNobody: what didn't commit is not worked.
func TestRolledBackJobsWakeNobody(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	n := jobs(t, st)
	require.ErrorIs(t, st.InSystem(t.Context(), func(tx *store.Tx) error {
		require.NoError(t, tx.Enqueue(t.Context(), note{Name: "rolled back"}, &river.InsertOpts{Queue: "notes"}))
		return errNote
	}), errNote)
	enqueue(t, st, note{Name: "committed"})
	require.Equal(t, "committed", n.next(t))
	require.Empty(t, n.said)
}
