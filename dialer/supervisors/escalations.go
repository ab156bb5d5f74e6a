package supervisors

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/switchctl"
)

// escalatedEvent is the data of ai_session.escalated; supervisor_id is null until somebody has claimed it.
type escalatedEvent struct {
	EscalationID uuid.UUID  `json:"escalation_id"`
	CallID       uuid.UUID  `json:"call_id"`
	VoiceAgentID uuid.UUID  `json:"voice_agent_id"`
	Reason       string     `json:"reason"`
	Urgency      string     `json:"urgency"`
	SupervisorID *uuid.UUID `json:"supervisor_id"`
	EscalatedAt  time.Time  `json:"escalated_at"`
}

// Escalate writes a voice agent's request for a supervisor, with its event, and gives the id that it has. While the call has one that nobody has
// claimed, that is the request: it gets the new reason, and the urgency if that is greater, which alone is told again. So a call that asks without
// end has one row, and as many events as there are urgencies. One that is there already changes nothing.
func Escalate(ctx context.Context, tx *store.Tx, call db.Call, e switchctl.Escalation) (uuid.UUID, error) {
	for {
		row, err := tx.Q.EscalationInsert(ctx, db.EscalationInsertParams{
			TenantID: call.TenantID, ID: e.ID, CallID: call.ID, VoiceAgentID: e.VoiceAgentID, Reason: e.Reason, Urgency: e.Urgency, EscalatedAt: e.At,
		})
		if err == nil {
			return row.ID, emitEscalated(ctx, tx, row, call.CampaignID, e.At)
		}
		if !errors.Is(err, store.ErrNotFound) {
			return uuid.Nil, err
		}
		if _, err := tx.Q.EscalationLock(ctx, call.TenantID, e.ID); !errors.Is(err, store.ErrNotFound) {
			return e.ID, err
		}
		row, err = tx.Q.EscalationOfCall(ctx, call.TenantID, call.ID)
		if errors.Is(err, store.ErrNotFound) {
			continue // somebody has claimed it in this moment
		}
		if err != nil {
			return uuid.Nil, err
		}
		return row.ID, escalateAgain(ctx, tx, call, row, e)
	}
}

// escalateAgain has an open request say what the voice agent says now; without a reason it keeps the one that it had.
func escalateAgain(ctx context.Context, tx *store.Tx, call db.Call, was db.Escalation, e switchctl.Escalation) error {
	row, err := tx.Q.EscalationAgain(ctx, db.EscalationAgainParams{TenantID: was.TenantID, ID: was.ID, Reason: cmp.Or(e.Reason, was.Reason), Urgency: e.Urgency})
	if err != nil || row.Urgency == was.Urgency {
		return err
	}
	return emitEscalated(ctx, tx, row, call.CampaignID, e.At)
}

func emitEscalated(ctx context.Context, tx *store.Tx, row db.Escalation, campaign *uuid.UUID, at time.Time) error {
	_, err := tx.Emit(ctx, store.Event{
		TenantID: row.TenantID, Type: store.EventAISessionEscalated, At: at, CallID: &row.CallID, CampaignID: campaign,
		Data: escalatedEvent{
			EscalationID: row.ID, CallID: row.CallID, VoiceAgentID: row.VoiceAgentID, Reason: row.Reason, Urgency: row.Urgency,
			SupervisorID: row.ClaimedBy, EscalatedAt: row.EscalatedAt.UTC(),
		},
	})
	return err
}

// Escalation is a voice agent's request for a supervisor as it is shown.
type Escalation struct {
	ID           uuid.UUID  `json:"id"`
	CallID       uuid.UUID  `json:"call_id"`
	VoiceAgentID uuid.UUID  `json:"voice_agent_id"`
	Reason       string     `json:"reason"`
	Urgency      string     `json:"urgency"`
	EscalatedAt  time.Time  `json:"escalated_at"`
	ClaimedBy    *uuid.UUID `json:"claimed_by"`
	ClaimedAt    *time.Time `json:"claimed_at"`
}

func escalationOf(row db.Escalation) Escalation {
	out := Escalation{
		ID: row.ID, CallID: row.CallID, VoiceAgentID: row.VoiceAgentID, Reason: row.Reason, Urgency: row.Urgency,
		EscalatedAt: row.EscalatedAt.UTC(), ClaimedBy: row.ClaimedBy,
	}
	if row.ClaimedAt != nil {
		at := row.ClaimedAt.UTC()
		out.ClaimedAt = &at
	}
	return out
}

// The statuses that escalations are listed by.
const (
	// EscalationsOpen are those that nobody has claimed, of calls that are live: the most urgent first, then the oldest.
	EscalationsOpen = "open"
	// EscalationsClaimed are those that somebody has claimed, the newest first.
	EscalationsClaimed = "claimed"
)

// EscalationFilter chooses a page of the escalations. Those of a status, or all when it is empty, are of [From, To); open ones are of any time.
type EscalationFilter struct {
	Status        string
	From, To      time.Time
	Limit, Offset int32
}

// Escalations lists what voice agents have asked supervisors for, and tells how many there are.
func (s *Service) Escalations(ctx context.Context, tenant uuid.UUID, f EscalationFilter) (items []Escalation, total int64, err error) {
	err = s.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		var rows []db.Escalation
		var err error
		if f.Status == EscalationsOpen {
			rows, total, err = openEscalations(ctx, tx, tenant, f)
		} else {
			rows, total, err = pastEscalations(ctx, tx, tenant, f)
		}
		items = make([]Escalation, len(rows))
		for i, r := range rows {
			items[i] = escalationOf(r)
		}
		return err
	})
	return items, total, fault.Wrap("list escalations", err)
}

func pastEscalations(ctx context.Context, tx *store.Tx, tenant uuid.UUID, f EscalationFilter) ([]db.Escalation, int64, error) {
	from, to, claimed := store.IDFloor(f.From.Add(-auditSkew)), store.IDFloor(f.To.Add(auditSkew)), f.Status == EscalationsClaimed
	total, err := tx.Q.EscalationCount(ctx, db.EscalationCountParams{
		TenantID: tenant, FromID: from, ToID: to, Since: f.From, Until: f.To, Claimed: claimed,
	})
	if err != nil {
		return nil, 0, err
	}
	rows, err := tx.Q.EscalationPage(ctx, db.EscalationPageParams{
		TenantID: tenant, FromID: from, ToID: to, Since: f.From, Until: f.To, Claimed: claimed, PageLimit: f.Limit, PageOffset: f.Offset,
	})
	return rows, total, err
}

func openEscalations(ctx context.Context, tx *store.Tx, tenant uuid.UUID, f EscalationFilter) ([]db.Escalation, int64, error) {
	total, err := tx.Q.EscalationsOpenCount(ctx, tenant)
	if err != nil {
		return nil, 0, err
	}
	rows, err := tx.Q.EscalationsOpen(ctx, tenant, f.Offset, f.Limit)
	return rows, total, err
}

// ClaimInput is the body of a claim; without a mode the supervisor takes part in the call.
type ClaimInput struct{ Mode input.Opt[string] }

// UnmarshalJSON takes the body.
func (in *ClaimInput) UnmarshalJSON(b []byte) error {
	*in = ClaimInput{}
	return input.Members(b, map[string]json.Unmarshaler{"mode": &in.Mode})
}

// ClaimEscalation begins the supervisor's session with the call that has asked for one. The escalation is claimed once the phone is at the
// call; while it rings nobody else can claim it, and if it doesn't answer others can again. Errors: those of StartSession, a *fault.Error for one
// that somebody has claimed.
func (s *Service) ClaimEscalation(ctx context.Context, by Supervisor, id uuid.UUID, in ClaimInput) (Session, error) {
	f := new(input.Form)
	mode := modeOf(f, in.Mode, switchctl.SupervisorBarges)
	if err := f.Err(); err != nil {
		return Session{}, err
	}
	return s.start(ctx, by, func(ctx context.Context, tx *store.Tx, st *started) error {
		row, err := tx.Q.EscalationLock(ctx, by.TenantID, id)
		if err != nil {
			return missing(err, "escalation")
		}
		if row.ClaimID != nil {
			refusal := conflict(CodeEscalationTaken, "The escalation is claimed already.")
			refusal.Members = map[string]any{"claimed_by": row.ClaimedBy}
			return refusal
		}
		call, err := liveCall(ctx, tx, by.TenantID, row.CallID)
		st.row.CallID, st.row.Mode, st.with, st.take = &row.CallID, string(mode), call.AgentID, &id
		return err
	})
}

// claimed writes that a session has what it was to take, with the event and the audit's row.
func (s *Service) claimed(ctx context.Context, tx *store.Tx, session db.SupervisorSession, id uuid.UUID) error {
	at := s.now()
	row, err := tx.Q.EscalationClaimed(ctx, db.EscalationClaimedParams{
		TenantID: session.TenantID, ID: id, SessionID: session.ID, ClaimedBy: session.SupervisorID, At: at,
	})
	if err != nil {
		return missing(err, "escalation")
	}
	call, err := tx.Q.GetCallView(ctx, row.TenantID, row.CallID)
	if err != nil {
		return missing(err, "call")
	}
	if err := s.audit(ctx, tx, ActionClaimed, session, map[string]any{"escalation_id": id}); err != nil {
		return err
	}
	return emitEscalated(ctx, tx, row, call.Call.CampaignID, at)
}

// reopen gives back what a lost session had claimed a moment ago, since nobody has come to the call, and tells so: the event names no supervisor.
// Older claims stand, as the supervisor has talked.
func reopen(ctx context.Context, tx *store.Tx, session db.SupervisorSession, at time.Time) error {
	row, err := tx.Q.EscalationReopen(ctx, db.EscalationReopenParams{
		TenantID: session.TenantID, CallID: *session.CallID, SessionID: session.ID, Since: at.Add(-reopenFor),
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	call, err := tx.Q.GetCallView(ctx, row.TenantID, row.CallID)
	if err != nil {
		return err
	}
	return emitEscalated(ctx, tx, row, call.Call.CampaignID, at)
}
