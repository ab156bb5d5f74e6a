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

// note is a job that says its name; it sleeps as often as Sleeps says before it does.
type note struct {
	Name   string `json:"name"`
	Sleeps int    `json:"sleeps"`
}

func (note) Kind() string { return "note" }

type notes struct {
	river.WorkerDefaults[note]

	said  chan string
	slept atomic.Int32
}

func (n *notes) Work(_ context.Context, job *river.Job[note]) error {
	if int(n.slept.Load()) < job.Args.Sleeps {
		n.slept.Add(1)
		return river.JobSnooze(30 * time.Millisecond)
	}
	n.said <- job.Args.Name
	return nil
}

// jobs works a queue that is never polled.
func jobs(t *testing.T, st *store.Store) *notes {
	t.Helper()
	n := &notes{said: make(chan string, 100)}
	workers := river.NewWorkers()
	require.NoError(t, river.AddWorkerSafely(workers, n))
	j, err := st.NewJobs(store.JobsConfig{Queues: map[string]int{"notes": 4}, Workers: workers, Poll: time.Hour})
	require.NoError(t, err)
	require.NoError(t, j.Start(context.WithoutCancel(t.Context())))
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

// TestJobsAreWorkedWhenTheyFallDue proves it without polls: for many transactions on each other's heels, for jobs that sleep, and
// for jobs of another process.
func TestJobsAreWorkedWhenTheyFallDue(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	st := storetest.Open(t, url)
	n := jobs(t, st)
	for range 50 {
		enqueue(t, st, note{Name: "awake"})
	}
	for range 50 {
		require.Equal(t, "awake", n.next(t))
	}
	enqueue(t, st, note{Name: "slept", Sleeps: 3})
	require.Equal(t, "slept", n.next(t))
	enqueue(t, storetest.Open(t, url), note{Name: "another's"})
	require.Equal(t, "another's", n.next(t))
}

// TestRolledBackJobsWakeNobody: what didn't commit is not worked.
func TestRolledBackJobsWakeNobody(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	n := jobs(t, st)
	failed := errors.New("failed")
	require.ErrorIs(t, st.InSystem(t.Context(), func(tx *store.Tx) error {
		require.NoError(t, tx.Enqueue(t.Context(), note{Name: "rolled back"}, &river.InsertOpts{Queue: "notes"}))
		return failed
	}), failed)
	enqueue(t, st, note{Name: "committed"})
	require.Equal(t, "committed", n.next(t))
	require.Empty(t, n.said)
}
