// Package recordings carries a call's recording from the files on the switch's disk to an object that is kept, and hands
// it out again.
//
// ledger.go is for the transactions of the call: Begin when recording starts, AddPart when another file follows, Finish
// in the transaction that closes the call, which also says that there is something to process: to this process (due.go), or to another one, by a job.
// process.go does so: join, check, upload, verify, mark ready and tell the subscribers in one transaction, and only then delete the local files.
// library.go reads and signs for the API. sweep.go deletes what a tenant keeps no longer.
package recordings

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/db"
)

// How long signed URLs are good for (interface document, sections 2.6 and 6.2).
const (
	APIURLLifetime     = 7 * 24 * time.Hour
	WebhookURLLifetime = 15 * time.Minute
)

// ContentType is the format of every recording.
const ContentType = "audio/wav"

// Why a recording can't be handed out, besides store.ErrNotFound for a call that has none.
var (
	// ErrProcessing says that the call still runs, or that its recording is still being processed.
	ErrProcessing = errors.New("recording is not ready yet")
	// ErrFailed says that the recording was lost; the row's error tells why.
	ErrFailed = errors.New("recording failed")
	// ErrSignature says that a URL was not signed by us.
	ErrSignature = errors.New("recording URL has no valid signature")
	// ErrExpired says that a URL was signed by us, and that its time is over.
	ErrExpired = errors.New("recording URL has expired")
)

// Status is what became of a recording, as its row tells.
type Status string

// The statuses of a recording.
const (
	StatusRecording  Status = "recording"
	StatusProcessing Status = "processing"
	StatusReady      Status = "ready"
	StatusFailed     Status = "failed"
)

// Recording is one call's recording.
type Recording struct {
	ID       uuid.UUID
	TenantID uuid.UUID
	CallID   uuid.UUID
	Status   Status
	Duration time.Duration
	Bytes    int64
	Stereo   bool
	Format   string
	SHA256   string // lower-case hexadecimal
	Key      string // of the object
	ReadyAt  time.Time
}

// Err is nil for a recording that can be handed out, else ErrProcessing or ErrFailed.
func (r Recording) Err() error {
	switch r.Status {
	case StatusReady:
		return nil
	case StatusRecording, StatusProcessing:
		return ErrProcessing
	case StatusFailed:
		return ErrFailed
	}
	return fmt.Errorf("recording has the unknown status %q", r.Status)
}

// Seconds is the duration as the API and the events give it.
func (r Recording) Seconds() int64 { return int64(r.Duration.Round(time.Second) / time.Second) }

func fromRow(row db.Recording) Recording {
	return Recording{
		ID: row.ID, TenantID: row.TenantID, CallID: row.CallID, Status: Status(row.Status),
		Duration: time.Duration(deref(row.DurationMs)) * time.Millisecond, Bytes: deref(row.Bytes), Stereo: row.Stereo,
		Format: row.Format, SHA256: deref(row.Sha256), Key: deref(row.StorageKey), ReadyAt: deref(row.ReadyAt),
	}
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
