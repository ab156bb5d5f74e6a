package supervisors

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

// What supervisors do, as the audit names it.
const (
	ActionStarted     = "supervision.started"
	ActionModeChanged = "supervision.mode_changed"
	ActionCallChanged = "supervision.call_changed"
	ActionEnded       = "supervision.ended"
	ActionTransferred = "call.force_transferred"
	ActionClaimed     = "escalation.claimed"
)

// auditedActions are the actions that the list shows: supervisors', and the monitors of voice agents and keys, who listen to calls as well.
func auditedActions() []string {
	return []string{
		ActionStarted, ActionModeChanged, ActionCallChanged, ActionEnded, ActionTransferred, ActionClaimed,
		"monitor.started", "monitor.stopped", "monitor.whispered", "monitor.barged",
	}
}

const (
	actorUser = "user:"
	// auditSkew is how far a row's id may be from the time of what it tells: it was written later, by another clock.
	auditSkew = time.Hour
	// auditCounted is how many rows of a list are counted.
	auditCounted = 10_000
)

// audit writes the row of something that happened in a session: by whoever the context works for, else by its supervisor, whose row it is in any case.
func (s *Service) audit(ctx context.Context, tx *store.Tx, action string, row db.SupervisorSession, details map[string]any) error {
	if details == nil {
		details = map[string]any{}
	}
	details["session_id"], details["supervisor_id"] = row.ID, row.SupervisorID
	e := store.AuditEntry{
		TenantID: row.TenantID, Action: action, ObjectID: row.ID.String(), CallID: row.CallID, AgentID: row.AgentID, Mode: row.Mode,
		Details: details, At: s.now(),
	}
	if store.ActorOf(ctx).Name == "" {
		e.Actor = actorUser + row.SupervisorID.String()
	}
	return tx.Audit(ctx, e)
}

// AuditFilter chooses a page of the audit: what happened in [From, To).
type AuditFilter struct {
	From, To     time.Time
	SupervisorID *uuid.UUID
	Mode         *string
	Limit        int32
	Offset       int32
}

// AuditItem is a row of the audit as it is shown.
type AuditItem struct {
	ID           uuid.UUID       `json:"id"`
	At           time.Time       `json:"at"`
	SupervisorID *uuid.UUID      `json:"supervisor_id"`
	Action       string          `json:"action"`
	Mode         *string         `json:"mode"`
	CallID       *uuid.UUID      `json:"call_id"`
	AgentID      *uuid.UUID      `json:"agent_id"`
	Actor        string          `json:"actor"`
	Details      json.RawMessage `json:"details"`
}

// Audit lists what supervisors did, and who else has listened to calls, the newest first, and tells how many such rows there are: up to auditCounted,
// or so many as tell that there is a next page.
func (s *Service) Audit(ctx context.Context, tenant uuid.UUID, f AuditFilter) (items []AuditItem, total int64, err error) {
	from, to := store.IDFloor(f.From.Add(-auditSkew)), store.IDFloor(f.To.Add(auditSkew))
	err = s.st.ReadListByValues(ctx, tenant, func(q *db.Queries) (err error) {
		total, err = q.SupervisorAuditCount(ctx, db.SupervisorAuditCountParams{
			TenantID: tenant, FromID: from, ToID: to, Since: f.From, Until: f.To, Actions: auditedActions(), SupervisorID: f.SupervisorID,
			Mode: f.Mode, Most: max(auditCounted, f.Offset+f.Limit+1),
		})
		return err
	}, func(q *db.Queries) error {
		rows, err := q.SupervisorAudit(ctx, db.SupervisorAuditParams{
			TenantID: tenant, FromID: from, ToID: to, Since: f.From, Until: f.To, Actions: auditedActions(), SupervisorID: f.SupervisorID,
			Mode: f.Mode, PageLimit: f.Limit, PageOffset: f.Offset,
		})
		items = make([]AuditItem, len(rows))
		for i, r := range rows {
			items[i] = auditItem(r)
		}
		return err
	})
	return items, total, fault.Wrap("list supervisors' audit", err)
}

func auditItem(r db.Audit) AuditItem {
	out := AuditItem{
		ID: r.ID, At: r.At.UTC(), Action: r.Action, Mode: r.Mode, CallID: r.CallID, AgentID: r.AgentID, Actor: r.Actor, Details: r.Details,
	}
	var of struct {
		SupervisorID *uuid.UUID `json:"supervisor_id"`
	}
	if err := json.Unmarshal(r.Details, &of); err == nil && of.SupervisorID != nil {
		out.SupervisorID = of.SupervisorID
	} else if text, ok := strings.CutPrefix(r.Actor, actorUser); ok {
		if id, err := uuid.Parse(text); err == nil {
			out.SupervisorID = &id
		}
	}
	if len(out.Details) == 0 {
		out.Details = json.RawMessage("null")
	}
	return out
}
