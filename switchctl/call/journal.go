package call

import (
	"context"
	"errors"
	"time"

	"github.com/ringmaster/ringmaster/store"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// How long a write is tried again while PostgreSQL is away or refuses it.
const (
	// outageLimit is for what nothing later repairs: a call's record, its recordings, who talked with whom.
	outageLimit = 20 * time.Minute
	// decisionWait is for what a caller waits for, and for what is worth nothing later.
	decisionWait = 2 * time.Minute
	// journalTries bounds the tries of a write that fails for another reason than PostgreSQL's absence.
	journalTries    = 3
	journalMinPause = 50 * time.Millisecond
	journalMaxPause = 2 * time.Second
)

// journalEntry is a change of a call that is to be written.
type journalEntry struct {
	what  string
	limit time.Duration
	write func(ctx context.Context) error
}

// record queues a write of the call. done gets the last error; it may be nil.
func (k *core) record(ctx context.Context, what string, write func(context.Context) error, done func(error)) {
	k.recordFor(ctx, outageLimit, what, write, done)
}

func (k *core) recordFor(
	ctx context.Context, limit time.Duration, what string, write func(context.Context) error, done func(error),
) {
	k.inTurn(&k.journal, func() {
		err := k.writeEntry(ctx, journalEntry{what: what, limit: limit, write: write})
		if done != nil {
			k.c.guard(k.log, func() { done(err) })
		}
	})
}

// writeEntry tries until it is done, can't be done, or its time is over.
func (k *core) writeEntry(ctx context.Context, e journalEntry) error {
	deadline := k.c.clock.Now().Add(e.limit)
	wait := journalMinPause
	for tries := 1; ; tries++ {
		err := k.c.try(k.log, func() error { return e.write(ctx) })
		if err == nil || errors.Is(err, ledger.ErrAgentBusy) || errors.Is(err, ledger.ErrCallEnded) {
			return err
		}
		away := errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrBusy)
		if ctx.Err() != nil || (!away && tries >= journalTries) || k.c.clock.Now().After(deadline) {
			k.log.ErrorContext(ctx, "writing a call change failed", "change", e.what, "tries", tries, "error", err)
			k.c.metrics.lostWrites.Inc()
			return err
		}
		if tries == 1 || wait == journalMaxPause {
			k.log.WarnContext(ctx, "writing a call change failed, trying again", "change", e.what, "tries", tries, "error", err)
		}
		if rt.Pause(ctx, k.c.clock, wait) != nil {
			return err
		}
		wait = min(2*wait, journalMaxPause)
	}
}
