package recordings

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

const (
	// shortPart is a part that may end before the switch has written anything of it: FreeSWITCH holds the first 25 frames back
	// (RECORD_PRE_BUFFER_FRAMES), half a second, begins anew with a bridge, and drops what it holds when the recording ends.
	shortPart = time.Second
	// heldBack is what such a part is left with, at the most: a frame of silence for each time that the switch began to hold back.
	heldBack = 60 * time.Millisecond
)

// errNothing says that a recording ended before anything was recorded, which is no loss.
var errNothing = errors.New("nothing was recorded")

// tooShort tells whether a part is one that the switch wrote, and would have lasted less than shortPart. A part ends where the next one
// begins, or with the call. Our own recorder writes from the first frame on: what is missing there is lost.
func tooShort(row db.GetRecordingOfCallRow, parts []part, i int) bool {
	p := parts[i]
	if filepath.Base(p.Path) == row.Recording.CallID.String()+".wav" {
		return false
	}
	if i+1 < len(parts) {
		next := parts[i+1]
		return !p.AddedAt.IsZero() && !next.AddedAt.IsZero() && next.AddedAt.Sub(p.AddedAt) < shortPart
	}
	if row.AnswerTime == nil || row.EndTime == nil {
		return false
	}
	return row.EndTime.Sub(*row.AnswerTime)-time.Duration(p.OffsetMS)*time.Millisecond < shortPart
}

// drop makes a call whose recording holds nothing one that was never recorded.
func (l *Library) drop(ctx context.Context, tenantID, callID uuid.UUID, parts []part, done func(*store.Tx) error) error {
	for _, p := range parts {
		if err := removeIfThere(p.Path); err != nil {
			return fmt.Errorf("delete an empty recording: %w", err)
		}
	}
	err := l.store.InTenant(ctx, tenantID, func(tx *store.Tx) error {
		if err := tx.Q.DropRecording(ctx, tenantID, callID); err != nil {
			return err
		}
		if err := tx.RecordingSettled(ctx, tenantID, callID, false); err != nil {
			return err
		}
		return done(tx)
	})
	if err != nil {
		return fmt.Errorf("drop an empty recording: %w", err)
	}
	l.log.DebugContext(ctx, "call ended before anything was recorded", "call_id", callID, "tenant_id", tenantID)
	return nil
}
