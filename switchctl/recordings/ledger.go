package recordings

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

const (
	// queue is River's queue of recordings, before a host's own part.
	queue = "recordings"
	// MaxAttempts keeps a recording through about three days of trouble: retryDelay grows to an hour.
	MaxAttempts = 80
	// alertAttempts is how many failures in a row call somebody: some minutes of trouble.
	alertAttempts = 6
)

// ProcessArgs is the River job that processes one call's recording.
type ProcessArgs struct {
	TenantID uuid.UUID `json:"tenant_id"`
	CallID   uuid.UUID `json:"call_id"`
}

// Kind implements river.JobArgs.
func (ProcessArgs) Kind() string { return "recording_process" }

// InsertOpts implements river.JobArgsWithInsertOpts.
func (ProcessArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queue, MaxAttempts: MaxAttempts}
}

// part is one file of a recording, as the row's parts keep it.
type part struct {
	Path     string `json:"path"`
	OffsetMS int64  `json:"offset_ms"` // where its first sample lies, counted from answer
	// AddedAt is when the row was told of it, by the database's clock; zero in rows of earlier versions.
	AddedAt time.Time `json:"added_at,omitzero"`
}

// Begin writes that a call is being recorded to the file at path, from its answer on. For a call that has a recording
// already it changes nothing.
func Begin(ctx context.Context, tx *store.Tx, tenantID, callID uuid.UUID, path string, stereo bool) error {
	return BeginAt(ctx, tx, tenantID, callID, path, stereo, 0)
}

// BeginAt is Begin for a file whose first sample lies offset after the answer.
func BeginAt(
	ctx context.Context, tx *store.Tx, tenantID, callID uuid.UUID, path string, stereo bool, offset time.Duration,
) error {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("begin recording: %w", err)
	}
	err = tx.Q.BeginRecording(ctx, db.BeginRecordingParams{
		TenantID: tenantID, ID: id, CallID: callID, LocalPath: path, Stereo: stereo, OffsetMs: offset.Milliseconds(),
	})
	if err != nil {
		return fmt.Errorf("begin recording: %w", err)
	}
	return nil
}

// Continue is BeginAt, or AddPart for a call that has a recording that goes on. It is sent with the transaction's next statement.
func Continue(
	ctx context.Context, tx *store.Tx, tenantID, callID uuid.UUID, path string, stereo bool, offset time.Duration,
) error {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("begin recording: %w", err)
	}
	return tx.Later(ctx, func(q *db.Queries) error {
		return q.ContinueRecording(ctx, db.ContinueRecordingParams{
			TenantID: tenantID, ID: id, CallID: callID, LocalPath: path, Stereo: stereo, OffsetMs: offset.Milliseconds(),
		})
	})
}

// AddPart writes that the recording goes on in another file, whose first sample lies offset after the answer. A file that
// is known already is not added again. A call without a running recording gives store.ErrNotFound.
func AddPart(ctx context.Context, tx *store.Tx, tenantID, callID uuid.UUID, path string, offset time.Duration) error {
	changed, err := tx.Q.AddRecordingPart(ctx, db.AddRecordingPartParams{
		Path: path, OffsetMs: offset.Milliseconds(), TenantID: tenantID, CallID: callID,
	})
	if err != nil {
		return fmt.Errorf("add a part to the recording: %w", err)
	}
	if changed == 0 {
		return fmt.Errorf("add a part to the recording: %w", store.ErrNotFound)
	}
	return nil
}

// MovePart corrects where the first sample of a file lies, counted from the answer. A recording that doesn't run any more stays as it is.
func MovePart(ctx context.Context, tx *store.Tx, tenantID, callID uuid.UUID, path string, offset time.Duration) error {
	err := tx.Q.MoveRecordingPart(ctx, db.MoveRecordingPartParams{
		Path: path, OffsetMs: offset.Milliseconds(), TenantID: tenantID, CallID: callID,
	})
	if err != nil {
		return fmt.Errorf("move a part of the recording: %w", err)
	}
	return nil
}

// Queues are River's queues of the recordings whose files are on a node's disk. The second one is for jobs of versions that had one
// queue for all nodes.
func Queues(node string) [2]string { return [2]string{queueOf(node), queue} }

// queueOf names a node's queue: its own name may have what a queue's may not.
func queueOf(node string) string {
	sum := sha256.Sum256([]byte(node))
	return queue + "_" + hex.EncodeToString(sum[:8])
}

// Finish is MarkFinished and Process.
func Finish(ctx context.Context, tx *store.Tx, tenantID, callID uuid.UUID, node string) error {
	finished, err := MarkFinished(ctx, tx.Q, tenantID, callID)
	if err != nil || !finished {
		return err
	}
	return Process(ctx, tx, tenantID, callID, node)
}

// MarkFinished ends the recording of a call, whose processing is to be enqueued then; false for a call that was never recorded, or whose recording
// has been finished.
func MarkFinished(ctx context.Context, q *db.Queries, tenantID, callID uuid.UUID) (bool, error) {
	changed, err := q.FinishRecording(ctx, tenantID, callID)
	if err != nil {
		return false, fmt.Errorf("finish recording: %w", err)
	}
	return changed > 0, nil
}

// Process has a finished recording processed on the call's node, which has the files: at once if it is this process's (Library.Start), else by a job. They
// must be complete, unless the node is lost, which then finds them as they are when it is back.
func Process(ctx context.Context, tx *store.Tx, tenantID, callID uuid.UUID, node string) error {
	if due, err := tx.RecordingDue(ctx, tenantID, callID, node); err != nil || due {
		return err
	}
	if err := tx.Enqueue(ctx, ProcessArgs{TenantID: tenantID, CallID: callID}, &river.InsertOpts{Queue: queueOf(node)}); err != nil {
		return fmt.Errorf("process recording: %w", err)
	}
	return nil
}
