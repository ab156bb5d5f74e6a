// Package supervisors keeps what voice agents ask supervisors for.
package supervisors

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
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

// Escalate writes a voice agent's request for a supervisor, with its event. One that is there already changes nothing.
func Escalate(ctx context.Context, tx *store.Tx, call db.Call, e switchctl.Escalation) error {
	row, err := tx.Q.EscalationInsert(ctx, db.EscalationInsertParams{
		TenantID: call.TenantID, ID: e.ID, CallID: call.ID, VoiceAgentID: e.VoiceAgentID, Reason: e.Reason, Urgency: e.Urgency, EscalatedAt: e.At,
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
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
