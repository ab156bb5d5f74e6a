package switchctl

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// monitorPermitTimeout bounds the check of a monitor_start.
const monitorPermitTimeout = 5 * time.Second

// The values of a voice agent's monitor_scope: which other calls its callback tokens may monitor.
const (
	monitorScopeTenant    = "tenant"
	monitorScopeSameAgent = "same_agent"
)

// auditMonitorStarted is the audit's row of a monitor that may start, or that gets another mode.
const auditMonitorStarted = "monitor.started"

// ErrMonitorScope refuses a monitor that the voice agent's monitor_scope doesn't allow (403).
var ErrMonitorScope = errors.New("switchctl: the voice agent's monitor_scope does not allow this target")

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

// monitorMode ends the change of a running monitor's mode, once it is permitted.
type monitorMode struct {
	target uuid.UUID
	id     uuid.UUID
	mode   MonitorMode
	reply  chan<- controlResult
	err    error
}

func (monitorMode) Name() string    { return "monitor mode" }
func (monitorMode) Essential() bool { return true }

func (m monitorMode) refused(_ *core, err error) { m.reply <- controlResult{err: err} }

// permitMonitor asks whether a monitor may start, or change its mode, and has it audited.
func (ms *monitors) permitMonitor(ctx context.Context, start monitorStart) error {
	ctx, cancel := context.WithTimeout(ctx, monitorPermitTimeout)
	defer cancel()
	return ms.c.ledger.PermitMonitor(ctx, start)
}

// changeMonitorMode changes what a running monitor may do; the reply comes when it is permitted.
func (ms *monitors) changeMonitorMode(ctx context.Context, mon *monitor, start monitorStart, reply chan<- controlResult) {
	m := monitorMode{target: mon.target, id: mon.id, mode: start.mode, reply: reply}
	ms.beside(func() {
		m.err = ms.permitMonitor(ctx, start)
		ms.post(m)
	})
}

// monitorModeIsPermitted takes the new mode of a monitor that still runs.
func (ms *monitors) monitorModeIsPermitted(ctx context.Context, m monitorMode) {
	mon := ms.of[m.target]
	switch {
	case m.err != nil:
		ms.c.metrics.rejected.Inc()
		m.reply <- controlResult{err: m.err}
		return
	case mon == nil || mon.id != m.id || mon.phase != monitorActive:
		m.reply <- controlResult{err: &StateError{State: ms.state.String(), Event: VerbMonitorStart, Detail: "the monitor has ended"}}
		return
	}
	mon.mode = m.mode
	ms.monitorChanged(ctx, mon, changeMonitorStarted)
	m.reply <- controlResult{result: map[string]any{}}
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
