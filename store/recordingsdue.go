package store

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/db"
)

// DueRecording is a finished recording that is to be processed, and where its row stands.
type DueRecording struct {
	TenantID, CallID uuid.UUID
	Place            string
}

// recordingWorkers are told of the recordings of their nodes that are due. The zero value is ready.
type recordingWorkers struct {
	mu   sync.Mutex // guards list
	list map[string]func(DueRecording)
}

// WorkRecordings has fn called for each recording that this process makes due at a node, after its commit, until the function that it gives is called. fn
// must return at once. What was made due by another process, or was so at the start, is found by looking for it from time to time.
func (s *Store) WorkRecordings(node string, fn func(DueRecording)) (stop func()) {
	w := &s.recordings
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.list == nil {
		w.list = map[string]func(DueRecording){}
	}
	w.list[node] = fn
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.list, node)
	}
}

func (w *recordingWorkers) of(node string) func(DueRecording) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.list[node]
}

// RecordingDue makes a finished recording due, with what the transaction sends next, where this process works those of its node. It tells whether it does.
func (t *Tx) RecordingDue(ctx context.Context, tenantID, callID uuid.UUID, node string) (bool, error) {
	tell := t.store.recordings.of(node)
	if tell == nil {
		return false, nil
	}
	due := DueRecording{TenantID: tenantID, CallID: callID}
	t.committed = append(t.committed, func() { tell(due) })
	return true, t.Later(ctx, func(q *db.Queries) (err error) {
		due.Place, err = q.RecordingDue(ctx, tenantID, callID, node)
		return err
	})
}

// RecordingDone tells that a recording is processed, or is to be by a job; false where somebody has told so before.
func (t *Tx) RecordingDone(ctx context.Context, r DueRecording) (bool, error) {
	var n int64
	// Planned each time: the table is empty again and again, and a plan of then, which reads all of it, would be kept while it fills.
	err := t.Together(ctx, func(q *db.Queries) error { return q.PlanByValues(ctx) }, func(q *db.Queries) (err error) {
		n, err = q.RecordingDoneAt(ctx, r.Place, r.TenantID, r.CallID)
		return err
	})
	if err == nil && n == 0 { // the table was written anew
		n, err = t.Q.RecordingDone(ctx, r.TenantID, r.CallID)
	}
	return n > 0, err
}
