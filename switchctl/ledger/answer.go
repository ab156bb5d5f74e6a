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
		lead, err := leadOf(ctx, tx, call)
		if err != nil {
			return err
		}
		_, err = decideAnswer(ctx, tx, call, *call.AnsweredByAmd, lead)
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

func setVerdict(ctx context.Context, tx *store.Tx, call db.Call) error {
	if call.AmdClass == nil || call.AmdConfidence == nil || call.AmdAfterMs == nil {
		return nil
	}
	_, err := tx.Q.CallSetVerdict(ctx, db.CallSetVerdictParams{
		TenantID: call.TenantID, ID: call.ID, AmdClass: *call.AmdClass, AmdConfidence: *call.AmdConfidence,
		AmdAfterMs: *call.AmdAfterMs,
	})
	return err
}

// decideAnswer commits call.answered with what was held behind it, and gives by whom it says so, which need not be what the call was said
// to be. It does nothing when no event waits.
func decideAnswer(ctx context.Context, tx *store.Tx, call db.Call, by string, lead *LeadContext) (string, error) {
	row, err := tx.Q.CallDecideAnswer(ctx, by, call.TenantID, call.ID)
	if errors.Is(err, store.ErrNotFound) {
		return by, nil
	}
	if err != nil {
		return by, err
	}
	if err := emitAnswered(ctx, tx, row, *row.AnswerTime, *row.AnsweredByAmd, lead); err != nil {
		return by, err
	}
	return *row.AnsweredByAmd, tx.ReleaseEvents(ctx, row.TenantID, row.ID)
}

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
		by, err := decideAnswer(ctx, tx, before, by, lead)
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
