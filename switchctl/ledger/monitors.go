package ledger

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
	monitorScopeTenant = "tenant"
	// MonitorScopeSameAgent: calls that are with the same voice agent.
	MonitorScopeSameAgent = "same_agent"
)

// The audit's rows of a monitor: that it may start, or gets another mode; that it plays something to the target's other party; that it is heard by
// all; that it has ended.
const (
	auditMonitorStarted   = "monitor.started"
	auditMonitorWhispered = "monitor.whispered"
	auditMonitorBarged    = "monitor.barged"
	auditMonitorStopped   = "monitor.stopped"
)

// MonitorAct is what a monitor is about to do.
type MonitorAct int

// What monitors do.
const (
	// MonitorStarts listens, or does so in another mode.
	MonitorStarts MonitorAct = iota
	// MonitorWhispers plays audio to the target's other party.
	MonitorWhispers
	// MonitorBarges speaks to all.
	MonitorBarges
)

// audited is the audit's action, and its mode.
func (m MonitorStart) audited() (action, mode string) {
	switch m.Act {
	case MonitorWhispers:
		return auditMonitorWhispered, "whisper"
	case MonitorBarges:
		return auditMonitorBarged, "barge"
	case MonitorStarts:
	}
	return auditMonitorStarted, string(m.Mode)
}

// MonitorStart is a monitor before it starts, or before it is heard.
type MonitorStart struct {
	Act          MonitorAct
	Call         db.Call
	Session      uuid.UUID
	VoiceAgentID uuid.UUID
	Target       uuid.UUID
	Mode         MonitorMode
	// Source is "ai" for a callback token and for the session's socket, "api" for a key; by is the credential, as the audit names it.
	Source, By string
	At         time.Time
}

// PermitMonitor checks a monitor against the voice agent's monitor_scope, and writes its audit row: a monitor that can't be audited
// isn't heard. Keys with ai_sessions:control_admin monitor any call of their tenant.
func (l *Ledger) PermitMonitor(ctx context.Context, m MonitorStart) error {
	action, mode := m.audited()
	return l.st.InTenant(ctx, m.Call.TenantID, func(tx *store.Tx) error {
		facts, err := tx.Q.MonitorFacts(ctx, m.Call.TenantID, m.VoiceAgentID, m.Target)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return ErrTargetNotFound
		case err != nil:
			return err
		case m.Source != SourceAI, facts.MonitorScope == monitorScopeTenant:
		case facts.MonitorScope == MonitorScopeSameAgent && facts.TargetAgentID != nil && *facts.TargetAgentID == m.VoiceAgentID:
		default:
			return ErrMonitorScope
		}
		return tx.Audit(ctx, store.AuditEntry{
			TenantID: m.Call.TenantID, Action: action, Actor: m.By, ObjectID: m.Target.String(), CallID: &m.Target,
			AgentID: facts.TargetPersonID, Mode: mode, At: m.At,
			Details: map[string]any{
				"source": m.Source, "by_call_id": m.Call.ID, "session_id": m.Session, "voice_agent_id": m.VoiceAgentID,
				"target_voice_agent_id": facts.TargetAgentID,
			},
		})
	})
}

// MonitorStop is a monitor that has ended.
type MonitorStop struct {
	Call         db.Call
	Session      uuid.UUID
	VoiceAgentID uuid.UUID
	Target       uuid.UUID
	Mode         MonitorMode
	// Barged: all have heard it last.
	Barged bool
	// Reason is why, Source who wanted it as in MonitorStart, or "system"; By is the credential, empty for the service itself.
	Reason, Source, By string
	At                 time.Time
}

// MonitorStopped writes the audit row of a monitor's end.
func (l *Ledger) MonitorStopped(ctx context.Context, m MonitorStop) error {
	mode := string(m.Mode)
	if m.Barged {
		_, mode = MonitorStart{Act: MonitorBarges}.audited()
	}
	return l.st.InTenant(ctx, m.Call.TenantID, func(tx *store.Tx) error {
		facts, err := tx.Q.MonitorFacts(ctx, m.Call.TenantID, m.VoiceAgentID, m.Target)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		return tx.Audit(ctx, store.AuditEntry{
			TenantID: m.Call.TenantID, Action: auditMonitorStopped, Actor: m.By, ObjectID: m.Target.String(), CallID: &m.Target,
			AgentID: facts.TargetPersonID, Mode: mode, At: m.At,
			Details: map[string]any{
				"reason": m.Reason, "source": m.Source, "by_call_id": m.Call.ID, "session_id": m.Session, "voice_agent_id": m.VoiceAgentID,
				"target_voice_agent_id": facts.TargetAgentID,
			},
		})
	})
}
