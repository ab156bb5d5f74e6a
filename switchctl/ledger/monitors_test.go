package ledger

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/storetest"
)

// A voice agent's monitor_scope bounds what its callback tokens monitor; keys monitor any call of the tenant.
func TestMonitorScope(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	other := storetest.VoiceAgent(t, b.st, b.tenant, "ws://127.0.0.1:9/other")
	same, another, person := b.open(t, nil, nil, &b.agent.ID), b.open(t, nil, nil, &other), b.open(t, nil, nil, nil)
	foreign := storetest.Tenant(t, b.st)
	session := storetest.NewID(t)
	permit := func(source string, target uuid.UUID) error {
		return b.l.PermitMonitor(t.Context(), MonitorStart{
			Call: b.call, Session: session, VoiceAgentID: b.agent.ID, Target: target, Mode: MonitorListen, Source: source,
			By: "api_key:k", At: time.Now().UTC(),
		})
	}
	for _, c := range []struct {
		scope  string
		target uuid.UUID
		want   error
	}{
		{"tenant", same.ID, nil},
		{"tenant", another.ID, nil},
		{"tenant", person.ID, nil},
		{"same_agent", same.ID, nil},
		{"same_agent", another.ID, ErrMonitorScope},
		{"same_agent", person.ID, ErrMonitorScope},
		{"none", same.ID, ErrMonitorScope},
		{"none", uuid.New(), ErrTargetNotFound},
	} {
		storetest.Exec(t, b.st, b.tenant, "UPDATE voice_agents SET monitor_scope = $2 WHERE id = $1", b.agent.ID, c.scope)
		before := monitorRows(t, b, c.target)
		require.ErrorIs(t, permit(SourceAI, c.target), c.want, "%s", c.scope)
		if c.want == nil {
			before++
		}
		require.Equal(t, before, monitorRows(t, b, c.target), "each start is one row of the audit, and a refusal none")
		if c.want == ErrMonitorScope { //nolint:errorlint // the table's own value
			require.NoError(t, permit("api", c.target), "a key may")
		}
	}
	// Another tenant's call is none.
	storetest.Exec(t, b.st, b.tenant, "UPDATE voice_agents SET monitor_scope = 'tenant'")
	b.tenant = foreign
	require.ErrorIs(t, permit("api", b.open(t, nil, nil, nil).ID), ErrTargetNotFound)
	// A voice agent that was deleted meanwhile allows nothing.
	storetest.Exec(t, b.st, b.call.TenantID, "UPDATE calls SET campaign_id = NULL")
	storetest.Exec(t, b.st, b.call.TenantID, "DELETE FROM campaigns")
	storetest.Exec(t, b.st, b.call.TenantID, "DELETE FROM voice_agents WHERE id = $1", b.agent.ID)
	require.ErrorIs(t, permit(SourceAI, same.ID), ErrMonitorScope)
}

// What makes a monitor heard is a row of its own, under the same rule.
func TestMonitorHeardIsAudited(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	target := b.open(t, nil, nil, &b.agent.ID)
	permit := func(act MonitorAct) error {
		return b.l.PermitMonitor(t.Context(), MonitorStart{
			Act: act, Call: b.call, Session: storetest.NewID(t), VoiceAgentID: b.agent.ID, Target: target.ID, Mode: MonitorListen, Source: SourceAI,
			By: "callback_token:k", At: time.Now().UTC(),
		})
	}
	rows := func(action, mode string) int {
		return storetest.Count(t, b.st, "SELECT count(*) FROM audit WHERE tenant_id = $1 AND action = $2 AND mode = $3 AND call_id = $4",
			b.tenant, action, mode, target.ID)
	}
	for act, row := range map[MonitorAct][2]string{
		MonitorStarts: {"monitor.started", "listen"}, MonitorWhispers: {"monitor.whispered", "whisper"}, MonitorBarges: {"monitor.barged", "barge"},
	} {
		require.NoError(t, permit(act))
		require.Equal(t, 1, rows(row[0], row[1]), row[0])
	}
	storetest.Exec(t, b.st, b.tenant, "UPDATE voice_agents SET monitor_scope = 'none'")
	require.ErrorIs(t, permit(MonitorBarges), ErrMonitorScope)
	require.Equal(t, 1, rows("monitor.barged", "barge"))
}

// A monitor's end is a row, with who wanted it; the service itself when nobody did.
func TestMonitorStopIsAudited(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	target := b.open(t, nil, nil, &b.agent.ID)
	stop := MonitorStop{
		Call: b.call, Session: storetest.NewID(t), VoiceAgentID: b.agent.ID, Target: target.ID, Mode: MonitorListen, Reason: "stopped",
		Source: "api", By: "api_key:k", At: time.Now().UTC(),
	}
	require.NoError(t, b.l.MonitorStopped(t.Context(), stop))
	stop.Reason, stop.Source, stop.By, stop.Barged = "target_ended", "system", "", true
	require.NoError(t, b.l.MonitorStopped(t.Context(), stop))
	require.Equal(t, []string{"api_key:k listen stopped api", "system barge target_ended system"}, storetest.Query[string](t, b.st, b.tenant,
		`SELECT concat_ws(' ', actor, mode, details ->> 'reason', details ->> 'source') FROM audit
		WHERE action = 'monitor.stopped' AND call_id = $1 AND details ->> 'by_call_id' = $2 ORDER BY id`, target.ID, b.call.ID.String()))
}

// monitorRows counts the audit's rows of monitors of a call.
func monitorRows(t *testing.T, b *pgBench, target uuid.UUID) int {
	t.Helper()
	return storetest.Count(t, b.st, `SELECT count(*) FROM audit WHERE tenant_id = $1 AND action = 'monitor.started' AND call_id = $2
		AND actor = 'api_key:k' AND mode = 'listen' AND details ->> 'by_call_id' = $3`, b.tenant, target, b.call.ID.String())
}
