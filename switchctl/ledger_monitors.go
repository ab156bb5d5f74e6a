package switchctl

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// The values of a voice agent's monitor_scope: which other calls its callback tokens may monitor.
const (
	monitorScopeTenant    = "tenant"
	monitorScopeSameAgent = "same_agent"
)

// auditMonitorStarted is the audit's row of a monitor that may start, or that gets another mode.
const auditMonitorStarted = "monitor.started"

// monitorStart is a monitor before it starts.
type monitorStart struct {
	call         db.Call
	session      uuid.UUID
	voiceAgentID uuid.UUID
	target       uuid.UUID
	mode         MonitorMode
	// source is "ai" for a callback token and for the session's socket, "api" for a key; by is the credential, as the audit names it.
	source, by string
	at         time.Time
}

// PermitMonitor checks a monitor against the voice agent's monitor_scope, and writes its audit row: a monitor that can't be audited
// doesn't start. Keys with ai_sessions:control_admin monitor any call of their tenant.
func (l *pgLedger) PermitMonitor(ctx context.Context, m monitorStart) error {
	return l.st.InTenant(ctx, m.call.TenantID, func(tx *store.Tx) error {
		facts, err := tx.Q.MonitorFacts(ctx, m.call.TenantID, m.voiceAgentID, m.target)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return ErrTargetNotFound
		case err != nil:
			return err
		case m.source != sourceAI, facts.MonitorScope == monitorScopeTenant:
		case facts.MonitorScope == monitorScopeSameAgent && facts.TargetAgentID != nil && *facts.TargetAgentID == m.voiceAgentID:
		default:
			return ErrMonitorScope
		}
		return tx.Audit(ctx, store.AuditEntry{
			TenantID: m.call.TenantID, Action: auditMonitorStarted, Actor: m.by, ObjectID: m.target.String(), CallID: &m.target,
			AgentID: facts.TargetPersonID, Mode: string(m.mode), At: m.at,
			Details: map[string]any{
				"source": m.source, "by_call_id": m.call.ID, "session_id": m.session, "voice_agent_id": m.voiceAgentID,
				"target_voice_agent_id": facts.TargetAgentID,
			},
		})
	})
}
