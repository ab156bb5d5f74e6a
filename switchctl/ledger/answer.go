package ledger

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/ringmaster/ringmaster/media/amd"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// Who answered, as call.answered says it.
const (
	AnsweredByHuman   = "human"
	AnsweredByMachine = "machine"
)

// Verdict keeps what machine detection said of a call, and commits call.answered when the call says by whom.
func (l *Ledger) Verdict(ctx context.Context, call db.Call) error {
	return l.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		if err := setVerdict(ctx, tx, call); err != nil {
			return err
		}
		if call.AnsweredByAmd == nil {
			return nil
		}
		var lead *LeadContext
		_, err := decideAnswer(ctx, tx, call, *call.AnsweredByAmd, &lead)
		return err
	})
}

// Quality keeps how the audio of a call that goes on has fared.
func (l *Ledger) Quality(ctx context.Context, call db.Call, quality json.RawMessage) error {
	return l.put(ctx, call.TenantID, func(q *db.Queries) error {
		_, err := q.CallSetQuality(ctx, quality, call.TenantID, call.ID)
		return err
	})
}

// setVerdict writes it with whatever the transaction sends next.
func setVerdict(ctx context.Context, tx *store.Tx, call db.Call) error {
	if call.AmdClass == nil || call.AmdConfidence == nil || call.AmdAfterMs == nil {
		return nil
	}
	return tx.Later(ctx, func(q *db.Queries) error {
		_, err := q.CallSetVerdict(ctx, db.CallSetVerdictParams{
			TenantID: call.TenantID, ID: call.ID, AmdClass: *call.AmdClass, AmdConfidence: *call.AmdConfidence,
			AmdAfterMs: *call.AmdAfterMs, AmdMachine: call.AmdMachine,
		})
		return err
	})
}

// decideAnswer commits call.answered with what was held behind it, and gives by whom it says so, which need not be what the call was said
// to be. It does nothing when no event waits. It reads the lead unless there is one.
func decideAnswer(ctx context.Context, tx *store.Tx, call db.Call, by string, lead **LeadContext) (string, error) {
	var row *db.Call
	var held []db.TakeHeldEventsRow
	reads := []func(*db.Queries) error{func(q *db.Queries) error {
		decided, err := q.CallDecideAnswer(ctx, by, call.TenantID, call.ID)
		if err == nil {
			row = &decided
		}
		return unlessNotFound(err)
	}, func(q *db.Queries) (err error) {
		held, err = q.TakeHeldEvents(ctx, call.TenantID, call.ID)
		return err
	}}
	if *lead == nil && call.LeadID != nil {
		reads = append(reads, readLead(ctx, call, lead))
	}
	if err := tx.Together(ctx, reads...); err != nil {
		return by, err
	}
	if row == nil {
		if len(held) > 0 {
			return by, errHeld
		}
		return by, nil
	}
	if err := emitAnswered(ctx, tx, *row, *row.AnswerTime, *row.AnsweredByAmd, *lead); err != nil {
		return by, err
	}
	return *row.AnsweredByAmd, tx.ReleaseEvents(ctx, row.TenantID, held)
}

// errHeld keeps events that are held from being lost: there are none but while a decision waits.
var errHeld = errors.New("switchctl: events are held of a call whose answer doesn't wait for a verdict")

// closeAnswer settles who answered before a call is closed: the hang-up ends the wait for a verdict, and an answer that
// nobody saw is told now. It gives what the closed row says. The verdict is kept before: who answered may depend on how sure it is.
func closeAnswer(ctx context.Context, tx *store.Tx, before db.Call, c Closing, lead *LeadContext) (*string, error) {
	by := AnsweredBy(c.Call)
	switch {
	case c.Record.AnswerTime == nil:
		return nil, nil //nolint:nilnil // nobody answered
	case before.AnswerTime == nil:
		return &by, emitAnswered(ctx, tx, before, *c.Record.AnswerTime, by, lead)
	case AwaitsVerdict(before):
		by, err := decideAnswer(ctx, tx, before, by, &lead)
		return &by, err
	}
	return before.AnsweredByAmd, nil
}

// AnsweredBy is what call.answered says of a call, as was decided: a machine when the verdict is that, else a person.
func AnsweredBy(call db.Call) string {
	if call.AnsweredByAmd != nil {
		return *call.AnsweredByAmd
	}
	if call.AmdClass != nil && *call.AmdClass == string(amd.ClassMachine) {
		return AnsweredByMachine
	}
	return AnsweredByHuman
}

// AwaitsVerdict reports whether an answered call's call.answered is still to be committed.
func AwaitsVerdict(call db.Call) bool {
	return call.Amd && call.AnswerTime != nil && call.AnsweredByAmd == nil
}
