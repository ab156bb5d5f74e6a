package ledger

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// The payloads of the events that a call emits (interface document 6.2, lead_metadata, and metadata, which is the call's own).
type (
	answeredPayload struct {
		CallID        uuid.UUID       `json:"call_id"`
		AnswerTime    time.Time       `json:"answer_time"`
		AnsweredByAMD string          `json:"answered_by_amd"`
		LeadMetadata  json.RawMessage `json:"lead_metadata"`
		Metadata      json.RawMessage `json:"metadata"`
	}
	endedPayload struct {
		CallID         uuid.UUID        `json:"call_id"`
		EndTime        time.Time        `json:"end_time"`
		HangupCause    *string          `json:"hangup_cause"`
		TotalDurationS *int             `json:"total_duration_s"`
		TalkDurationS  *int             `json:"talk_duration_s"`
		Disposition    *string          `json:"disposition"`
		CRMLeadID      *string          `json:"crm_lead_id"`
		Status         string           `json:"status"`
		Recording      recordingPayload `json:"recording"`
		LeadMetadata   json.RawMessage  `json:"lead_metadata"`
		Metadata       json.RawMessage  `json:"metadata"`
	}
	recordingPayload struct {
		Available bool `json:"available"`
	}
	sessionStartedPayload struct {
		CallID          uuid.UUID `json:"call_id"`
		VoiceAgentID    uuid.UUID `json:"voice_agent_id"`
		ExternalAgentID *string   `json:"external_agent_id"`
		WSURL           string    `json:"ws_url"`
		StartedAt       time.Time `json:"started_at"`
	}
	sessionEndedPayload struct {
		CallID       uuid.UUID       `json:"call_id"`
		VoiceAgentID uuid.UUID       `json:"voice_agent_id"`
		EndedAt      time.Time       `json:"ended_at"`
		Outcome      string          `json:"outcome"`
		Metadata     json.RawMessage `json:"metadata"`
	}
	sessionTransferredPayload struct {
		CallID          uuid.UUID       `json:"call_id"`
		VoiceAgentID    uuid.UUID       `json:"voice_agent_id"`
		DestinationType string          `json:"destination_type"`
		Destination     string          `json:"destination"`
		TransferredAt   time.Time       `json:"transferred_at"`
		Metadata        json.RawMessage `json:"metadata"`
	}
)

// conferencePayload is ai_session.conference_changed; target_call_id and mode are added for monitors.
type conferencePayload struct {
	CallID       uuid.UUID          `json:"call_id"`
	VoiceAgentID uuid.UUID          `json:"voice_agent_id"`
	ConferenceID *string            `json:"conference_id"`
	Change       string             `json:"change"`
	Actor        string             `json:"actor"`
	Participants []ConferenceMember `json:"participants"`
	ChangedAt    time.Time          `json:"changed_at"`
	TargetCallID *uuid.UUID         `json:"target_call_id,omitempty"`
	Mode         MonitorMode        `json:"mode,omitempty"`
}

// ConferenceChanged commits ai_session.conference_changed.
func (l *Ledger) ConferenceChanged(ctx context.Context, call db.Call, c ConferenceChange) error {
	return l.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		return emit(ctx, tx, call, store.EventAISessionConference, c.At, conferencePayload{
			CallID: call.ID, VoiceAgentID: c.VoiceAgentID, ConferenceID: c.ConferenceID, Change: c.Change, Actor: c.Actor, Participants: c.Members,
			ChangedAt: store.Moment(c.At), TargetCallID: c.Target, Mode: c.Mode,
		})
	})
}

func emit(ctx context.Context, tx *store.Tx, call db.Call, typ store.EventType, at time.Time, data any) error {
	_, err := tx.Emit(ctx, store.Event{
		TenantID: call.TenantID, Type: typ, At: at, CallID: &call.ID, CampaignID: call.CampaignID, Data: data,
	})
	return err
}

func leadMetadata(lead *LeadContext) json.RawMessage {
	if lead == nil {
		return OrNull(nil)
	}
	return lead.Metadata
}

func emitAnswered(ctx context.Context, tx *store.Tx, call db.Call, at time.Time, by string, lead *LeadContext) error {
	return emit(ctx, tx, call, store.EventCallAnswered, at, answeredPayload{
		CallID: call.ID, AnswerTime: at.UTC(), AnsweredByAMD: by, LeadMetadata: leadMetadata(lead), Metadata: OrNull(call.Metadata),
	})
}

func emitEnded(ctx context.Context, tx *store.Tx, call db.Call, lead *LeadContext) error {
	var crm *string
	if lead != nil {
		crm = lead.CRMLeadID
	}
	return emit(ctx, tx, call, store.EventCallEnded, *call.EndTime, endedPayload{
		CallID: call.ID, EndTime: call.EndTime.UTC(), HangupCause: call.HangupCause,
		TotalDurationS: DurationSeconds(call.DialTime, call.EndTime),
		TalkDurationS:  DurationSeconds(call.AnswerTime, call.EndTime),
		Disposition:    call.Disposition, CRMLeadID: crm, Status: call.Status, LeadMetadata: leadMetadata(lead),
		Metadata: OrNull(call.Metadata),
	})
}

func emitSessionStarted(ctx context.Context, tx *store.Tx, call db.Call, s db.AiSession) error {
	return emit(ctx, tx, call, store.EventAISessionStarted, s.StartedAt, sessionStartedPayload{
		CallID: call.ID, VoiceAgentID: s.VoiceAgentID, ExternalAgentID: s.ExternalAgentID, WSURL: store.MaskURL(s.WsUrl),
		StartedAt: s.StartedAt.UTC(),
	})
}

func emitSessionEnded(ctx context.Context, tx *store.Tx, call db.Call, s db.AiSession, end SessionEnd, logs []sessionLog) error {
	if end.Transfer != nil {
		err := emit(ctx, tx, call, store.EventAISessionTransferred, end.At, sessionTransferredPayload{
			CallID: call.ID, VoiceAgentID: s.VoiceAgentID, DestinationType: end.Transfer.DestinationType,
			Destination: end.Transfer.Destination, TransferredAt: store.Moment(end.At), Metadata: OrNull(end.Transfer.Metadata),
		})
		if err != nil {
			return err
		}
	}
	metadata, err := sessionMetadata(s, logs, end.LogsDropped)
	if err != nil {
		return err
	}
	return emit(ctx, tx, call, store.EventAISessionEnded, end.At, sessionEndedPayload{
		CallID: call.ID, VoiceAgentID: s.VoiceAgentID, EndedAt: store.Moment(end.At), Outcome: string(end.Outcome),
		Metadata: metadata,
	})
}

// MonitorMode says what a monitor may do.
type MonitorMode string

// The modes of monitor_start.
const (
	// MonitorListen hears the target call.
	MonitorListen MonitorMode = "listen"
	// MonitorWhisper hears it and may whisper into one of its legs.
	MonitorWhisper MonitorMode = "listen_and_whisper"
)

// ConferenceMember is one of the participants of ai_session.conference_changed.
type ConferenceMember struct {
	MemberID    string  `json:"member_id"`
	Role        string  `json:"role"`
	Destination *string `json:"destination"`
}

// ConferenceChange is what ai_session.conference_changed tells.
type ConferenceChange struct {
	Change  string
	Actor   string
	Members []ConferenceMember
	At      time.Time
	// ConferenceID is the conference's name; nil where there is none.
	ConferenceID *string
	// Target and mode are a monitor's.
	Target       *uuid.UUID
	Mode         MonitorMode
	VoiceAgentID uuid.UUID
}
