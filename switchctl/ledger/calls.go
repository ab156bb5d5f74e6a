package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/keyring"
	"github.com/ringmaster/ringmaster/switchctl/callbacktoken"
	"github.com/ringmaster/ringmaster/switchctl/recordings"
)

// Ledger writes calls to PostgreSQL.
type Ledger struct {
	st      *store.Store
	gate    Gate
	handler Handler
	log     *slog.Logger
	// keys are those of callback tokens.
	keys func() []keyring.Key
	// peer is how other controllers reach this one; nil where they don't.
	peer func() Peer
}

// Gate judges an admitted leg again before another route is tried; move runs in its transaction, under its lock, when the leg may
// still be dialed. A refusal is a [*ReadmissionError].
type Gate interface {
	Readmit(ctx context.Context, leg Readmission, move func(ctx context.Context, tx *store.Tx) error) error
}

// Handler does its part inside the transactions that answer and close a call.
type Handler interface {
	WasAnswered(ctx context.Context, tx *store.Tx, call db.Call) error
	Ended(ctx context.Context, tx *store.Tx, call db.Call) error
}

// New makes the ledger of a database.
func New(st *store.Store, gate Gate, handler Handler, log *slog.Logger, keys func() []keyring.Key) *Ledger {
	return &Ledger{st: st, gate: gate, handler: handler, log: log, keys: keys}
}

// Peer is how other controllers reach one: at Addr, empty where they can't, by the certificate whose SHA-256 is Key.
type Peer struct {
	Addr string
	Key  []byte
}

// ReachedBy has the node's row say how other controllers reach it, as peer gives it when the node starts.
func (l *Ledger) ReachedBy(peer func() Peer) { l.peer = peer }

// Ringing commits that the callee rings. It ends its trunk's rest.
func (l *Ledger) Ringing(ctx context.Context, call db.Call, at time.Time) error {
	var rested bool
	err := l.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		rested = false
		return errors.Join(tx.Later(ctx, func(q *db.Queries) error {
			_, err := q.CallMarkRinging(ctx, at, call.TenantID, call.ID)
			return err
		}), trunkHeard(ctx, tx, call, at, true, &rested))
	})
	l.tellRested(ctx, call, rested && err == nil)
	return err
}

// Answered commits the answer, with call.answered unless that waits for machine detection. It tells nothing of a call that is answered or closed.
func (l *Ledger) Answered(ctx context.Context, call db.Call, at time.Time) error {
	var rested bool
	err := l.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		rested = false
		var row *db.Call // nil where it is answered or closed already
		mark := func(q *db.Queries) error {
			marked, err := q.CallMarkAnswered(ctx, at, call.TenantID, call.ID)
			if errors.Is(err, store.ErrNotFound) {
				return nil
			}
			row = &marked
			return err
		}
		if call.Amd { // machine detection listens
			return errors.Join(tx.Later(ctx, mark), trunkHeard(ctx, tx, call, at, false, &rested), l.handler.WasAnswered(ctx, tx, call))
		}
		var lead *LeadContext
		asks := []func(*db.Queries) error{mark}
		if call.LeadID != nil {
			asks = append(asks, readLead(ctx, call, &lead))
		}
		if err := errors.Join(tx.Together(ctx, asks...), trunkHeard(ctx, tx, call, at, false, &rested),
			l.handler.WasAnswered(ctx, tx, call)); err != nil || row == nil {
			return err
		}
		return emitAnswered(ctx, tx, *row, at, *row.AnsweredByAmd, lead)
	})
	l.tellRested(ctx, call, rested && err == nil)
	return err
}

// AgentConnected commits that the caller and a voice agent, or call.AgentID, hear each other.
func (l *Ledger) AgentConnected(ctx context.Context, call db.Call, at time.Time) error {
	return l.put(ctx, call.TenantID, func(q *db.Queries) error {
		var err error
		if call.AgentID != nil {
			_, err = q.CallMarkPersonConnected(ctx, db.CallMarkPersonConnectedParams{
				TenantID: call.TenantID, ID: call.ID, AgentID: *call.AgentID, AgentConnectTime: at,
			})
		} else {
			_, err = q.CallMarkAgentConnected(ctx, at, call.TenantID, call.ID)
		}
		return err
	})
}

// Served commits that a campaign's callee has met a person who is no agent.
func (l *Ledger) Served(ctx context.Context, call db.Call, at time.Time) error {
	return l.put(ctx, call.TenantID, func(q *db.Queries) error { return q.CallServed(ctx, at, call.TenantID, call.ID) })
}

// put commits what one statement writes, in one round trip.
func (l *Ledger) put(ctx context.Context, tenant uuid.UUID, write func(*db.Queries) error) error {
	return l.st.InTenant(ctx, tenant, func(tx *store.Tx) error { return tx.Later(ctx, write) })
}

// trunkHeard notes that a trunk gives a sign of life: callees ring or answer. rested tells whether that ends its rest, once it is written.
func trunkHeard(ctx context.Context, tx *store.Tx, call db.Call, at time.Time, rang bool, rested *bool) error {
	if call.TrunkID == nil || call.Direction != DirectionOutbound {
		return nil
	}
	return tx.Later(ctx, func(q *db.Queries) (err error) {
		*rested, err = store.TrunkAlive(ctx, q, call.TenantID, *call.TrunkID, at, rang)
		return err
	})
}

func (l *Ledger) tellRested(ctx context.Context, call db.Call, rested bool) {
	if rested {
		l.log.InfoContext(ctx, "trunk resumed", "tenant_id", call.TenantID, "trunk_id", call.TrunkID, "call_id", call.ID)
	}
}

// Reroute counts under the gate's lock, as the gate does, which judges the leg again. A trunk that rests is none to go on with, but for a transfer.
func (l *Ledger) Reroute(
	ctx context.Context, leg Readmission, failed *FailedRoute, trunks []*uuid.UUID, at time.Time,
) (int, error) {
	chosen, call, unit := -1, leg.Call, leg.UnitID
	var until *time.Time
	err := l.gate.Readmit(ctx, leg, func(ctx context.Context, tx *store.Tx) error {
		chosen, until = -1, nil
		active, err := store.TrunksInUse(ctx, tx.Q, call.TenantID)
		if err != nil {
			return err
		}
		chosen = slices.IndexFunc(trunks, func(trunk *uuid.UUID) bool {
			return trunk == nil || slices.ContainsFunc(active, func(t db.GateTrunksRow) bool {
				return t.ID == *trunk && (t.RestsUntil == nil || unit != call.ID) && t.ChannelsUsed < int64(t.MaxChannels) && t.Recent < int64(t.Cps)
			})
		})
		if failed != nil && chosen >= 0 { // a call that ends there tells of its last trunk itself
			if until, err = l.trunkFailed(ctx, tx, call, unit, *failed, at); err != nil {
				return err
			}
		}
		if chosen < 0 {
			return nil
		}
		if unit == call.ID {
			if _, err := tx.Q.CallSetTrunk(ctx, trunks[chosen], call.TenantID, call.ID); err != nil {
				return err
			}
		}
		_, err = tx.Q.LiveUnitReroute(ctx, trunks[chosen], call.TenantID, unit)
		return err
	})
	if refused := (*ReadmissionError)(nil); errors.As(err, &refused) {
		l.log.InfoContext(ctx, "reroute failed", "tenant_id", call.TenantID, "call_id", call.ID, "reason", refused.Reason)
		return -1, nil
	}
	if err == nil && until != nil {
		l.log.WarnContext(ctx, "trunk suspended after consecutive failures", "tenant_id", call.TenantID,
			"trunk_id", failed.Trunk, "hangup_cause", failed.Cause, "call_id", call.ID, "tried_again_at", *until)
	}
	return chosen, err
}

// trunkFailed counts a call against the trunk that it goes on from; until is when that will be tried, if it rests from now on.
func (l *Ledger) trunkFailed(
	ctx context.Context, tx *store.Tx, call db.Call, unit uuid.UUID, failed FailedRoute, at time.Time,
) (until *time.Time, err error) {
	_, until, err = tx.TrunkFailed(ctx, store.TrunkFault{
		Tenant: call.TenantID, Trunk: failed.Trunk, Call: unit, Cause: failed.Cause, Silent: failed.Silent, At: at,
	})
	return until, err
}

// BypassFailed takes a trunk out of bypass media and keeps the reason.
func (l *Ledger) BypassFailed(ctx context.Context, tenant, trunk uuid.UUID, at time.Time, reason string) error {
	return l.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		_, err := tx.Q.TrunkBypassFailed(ctx, db.TrunkBypassFailedParams{TenantID: tenant, ID: trunk, At: at, Failure: reason})
		return err
	})
}

// ReleaseUnit gives a leg's unit back.
func (l *Ledger) ReleaseUnit(ctx context.Context, tenant, unit uuid.UUID) error {
	return l.put(ctx, tenant, func(q *db.Queries) error {
		_, err := q.LiveUnitDelete(ctx, tenant, unit)
		return err
	})
}

// CallState tells a call's status and disposition; store.ErrNotFound when the tenant has no such call.
func (l *Ledger) CallState(ctx context.Context, tenant, call uuid.UUID) (string, *string, error) {
	row, err := l.st.Read(tenant).CallStatusByID(ctx, tenant, call)
	return row.Status, row.Disposition, err
}

// Close commits the final record: row, units, AI session, events, recording and the handler's part in one transaction.
func (l *Ledger) Close(ctx context.Context, c Closing) error {
	return l.st.InTenant(ctx, c.Call.TenantID, func(tx *store.Tx) error {
		_, err := l.close(ctx, tx, c)
		return err
	})
}

// close tells whether it was this one that has closed the call.
func (l *Ledger) close(ctx context.Context, tx *store.Tx, c Closing) (bool, error) {
	f, err := l.readClosing(ctx, tx, c)
	if err != nil || f == nil {
		return false, err // or closed already
	}
	before, lead := f.call, f.lead
	if c.Record.AnswerTime == nil {
		c.Record.AnswerTime = before.AnswerTime // an answer that was committed is a fact
	}
	if at := c.Record.AnswerTime; at != nil && c.Record.EndTime.Before(*at) {
		c.Record.EndTime = *at // clocks differ: no call ends before it was answered
	}
	rec := c.Record
	if err := setVerdict(ctx, tx, c.Call); err != nil {
		return false, err
	}
	by, err := closeAnswer(ctx, tx, before, c, lead)
	if err != nil {
		return false, err
	}
	var row db.Call
	finished := false
	err = tx.Together(ctx, func(q *db.Queries) (err error) {
		row, err = q.CallClose(ctx, db.CallCloseParams{
			TenantID: before.TenantID, ID: before.ID, Status: rec.Status(), RingTime: rec.RingTime,
			AnswerTime: rec.AnswerTime, AnsweredByAmd: by, EndTime: rec.EndTime, HangupCause: rec.Cause,
			HangupDisposition: rec.Disposition, SipStatus: rec.SIPStatus, Quality: c.Quality,
		})
		return err
	}, func(q *db.Queries) error {
		_, err := q.LiveUnitsDeleteOfCall(ctx, before.TenantID, before.ID)
		return err
	}, func(q *db.Queries) (err error) {
		finished, err = recordings.MarkFinished(ctx, q, before.TenantID, before.ID)
		return err
	})
	if err != nil {
		return false, err
	}
	tx.CallClosed(row.ID)
	if err := endActiveSession(ctx, tx, row, c, f); err != nil {
		return false, err
	}
	if err := emitEnded(ctx, tx, row, lead); err != nil {
		return false, err
	}
	if finished {
		if err := recordings.Process(ctx, tx, row.TenantID, row.ID, row.Node); err != nil {
			return false, err
		}
	}
	return true, l.handler.Ended(ctx, tx, row)
}

// closingFacts are what a call's end needs to know.
type closingFacts struct {
	// call is the open row, which is locked.
	call db.Call
	lead *LeadContext
	// session is the one that is active, which is locked; nil for none.
	session *db.SessionToCloseRow
	logs    []db.SessionLogsOfCallRow
}

// readClosing locks the call and reads the facts; nil for one that is closed already.
func (l *Ledger) readClosing(ctx context.Context, tx *store.Tx, c Closing) (*closingFacts, error) {
	f, closed := &closingFacts{}, false
	reads := []func(*db.Queries) error{func(q *db.Queries) (err error) {
		f.call, err = q.CallLockOpen(ctx, c.Call.TenantID, c.Call.ID)
		closed = errors.Is(err, store.ErrNotFound)
		return unlessNotFound(err)
	}, func(q *db.Queries) error {
		session, err := q.SessionToClose(ctx, c.Call.TenantID, c.Call.ID)
		if err == nil {
			f.session = &session
		}
		return unlessNotFound(err)
	}, func(q *db.Queries) (err error) {
		f.logs, err = q.SessionLogsOfCall(ctx, c.Call.TenantID, c.Call.ID)
		return err
	}}
	if c.Call.LeadID != nil {
		reads = append(reads, readLead(ctx, c.Call, &f.lead))
	}
	if err := tx.Together(ctx, reads...); err != nil || closed {
		return nil, err
	}
	return f, nil
}

func unlessNotFound(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// endActiveSession ends the session that the call's end has ended.
func endActiveSession(ctx context.Context, tx *store.Tx, call db.Call, c Closing, f *closingFacts) error {
	if f.session == nil {
		return nil
	}
	session := f.session.AiSession
	at := call.EndTime.Add(c.Ahead)
	if at.Before(session.StartedAt) {
		at = session.StartedAt
	}
	end := SessionEnd{
		Session: session.ID, Outcome: SessionOutcome(cmp.Or(string(c.Outcome), string(SessionHangup))), At: at,
		Revoke: f.session.TokenLifetime == callbacktoken.LifetimeSocket, LogsDropped: c.LogsDropped,
	}
	err := tx.Later(ctx, func(q *db.Queries) error {
		_, err := q.SessionEnd(ctx, end.params(call.TenantID))
		return err
	})
	if err != nil {
		return err
	}
	if end.Revoke {
		if err := tx.Later(ctx, end.revoke(ctx, tx, call)); err != nil {
			return err
		}
	}
	logs := make([]sessionLog, len(f.logs))
	for i, r := range f.logs {
		logs[i] = sessionLog(r)
	}
	return emitSessionEnded(ctx, tx, call, session, end, logs)
}

// OpenCalls lists the node's calls that are not closed.
func (l *Ledger) OpenCalls(ctx context.Context, node string) ([]OpenCall, error) {
	var open []OpenCall
	err := l.st.InSystem(ctx, func(tx *store.Tx) error {
		open = nil
		if _, err := tx.Q.LiveUnitsDeleteLate(ctx, node); err != nil {
			return err
		}
		calls, err := tx.Q.CallsOpenOfNode(ctx, node)
		if err != nil {
			return err
		}
		for _, call := range calls {
			o := OpenCall{Call: call}
			session, err := tx.Q.SessionLastOfCall(ctx, call.TenantID, call.ID)
			if err == nil {
				o.Session = &session
			} else if !errors.Is(err, store.ErrNotFound) {
				return err
			}
			units, err := tx.Q.LiveUnitsOfCall(ctx, call.TenantID, call.ID)
			if err != nil {
				return err
			}
			for _, unit := range units {
				if unit.Kind == "transfer" {
					o.TransferUnit = &unit.UnitID
				}
			}
			if o.Session == nil || o.Session.OpenedAt == nil { // else it is the voice agent's
				if _, err := tx.Q.FlowRunOpen(ctx, call.TenantID, call.ID); err == nil {
					o.InFlow = true
				} else if !errors.Is(err, store.ErrNotFound) {
					return err
				}
			}
			open = append(open, o)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("switchctl: list open calls: %w", err)
	}
	return open, nil
}

// readLead reads the lead of a call that has one; it leaves nil for one that was deleted meanwhile.
func readLead(ctx context.Context, call db.Call, lead **LeadContext) func(q *db.Queries) error {
	return func(q *db.Queries) error {
		row, err := q.CallLeadContext(ctx, call.TenantID, *call.LeadID)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		*lead = &LeadContext{
			ID: row.ID, Name: row.Name, CRMLeadID: row.CrmLeadID, Metadata: OrNull(row.Metadata),
			CustomFields: OrNull(row.CustomFields),
		}
		return err
	}
}

// OrNull keeps an absent JSON value encodable.
func OrNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}
