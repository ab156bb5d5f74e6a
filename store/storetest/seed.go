package storetest

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
)

// Campaign creates a running campaign that connects its voice agent, or the tenant's default when voiceAgent is nil.
func Campaign(tb testing.TB, st *store.Store, tenantID uuid.UUID, voiceAgent *uuid.UUID) uuid.UUID {
	tb.Helper()
	id := NewID(tb)
	Exec(tb, st, tenantID, `INSERT INTO campaigns (tenant_id, id, name, dial_mode, status, voice_agent_id, post_answer_action,
		started_at) VALUES ($1, $2, $3, 'progressive', 'running', $4, 'connect_voice_agent', now())`,
		tenantID, id, "campaign-"+randomName(), voiceAgent)
	return id
}

// VoiceAgent creates an active voice agent at a WebSocket address.
func VoiceAgent(tb testing.TB, st *store.Store, tenantID uuid.UUID, wsURL string) uuid.UUID {
	tb.Helper()
	id := NewID(tb)
	Exec(tb, st, tenantID, "INSERT INTO voice_agents (tenant_id, id, name, ws_url) VALUES ($1, $2, $3, $4)",
		tenantID, id, "agent-"+randomName(), wsURL)
	return id
}

// Lead adds a scrubbed lead with a number as a standard tenant keeps it.
func Lead(tb testing.TB, st *store.Store, tenantID, campaignID uuid.UUID, number string) uuid.UUID {
	tb.Helper()
	p, err := store.ParsePhone(number)
	require.NoError(tb, err)
	id := NewID(tb)
	Exec(tb, st, tenantID, `INSERT INTO leads (tenant_id, id, campaign_id, phone, phone_hash, phone_last4, dnd_checked, dnd_clean,
		dnd_checked_at) VALUES ($1, $2, $3, $4, $5, $6, true, true, now())`,
		tenantID, id, campaignID, p, st.PhoneHash(tenantID, p), p.Last4())
	return id
}

// Trunk creates an active trunk to a SIP address.
func Trunk(tb testing.TB, st *store.Store, tenantID uuid.UUID, host string, port, maxChannels int) uuid.UUID {
	tb.Helper()
	id := NewID(tb)
	Exec(tb, st, tenantID, `INSERT INTO trunks (tenant_id, id, name, host, port, max_channels) VALUES ($1, $2, $3, $4, $5, $6)`,
		tenantID, id, "trunk-"+randomName(), host, port, maxChannels)
	return id
}

// InboundNumber creates an active number that rings for the tenant.
func InboundNumber(tb testing.TB, st *store.Store, tenantID uuid.UUID, e164 string) uuid.UUID {
	tb.Helper()
	id := NewID(tb)
	Exec(tb, st, tenantID, "INSERT INTO numbers (tenant_id, id, e164) VALUES ($1, $2, $3)", tenantID, id, e164)
	return id
}

// OpenCall writes an outbound call of node-1 and its unit, as the gate does.
func OpenCall(tb testing.TB, st *store.Store, tenantID uuid.UUID, campaign, lead, voiceAgent *uuid.UUID) uuid.UUID {
	tb.Helper()
	id := NewID(tb)
	Exec(tb, st, tenantID, `INSERT INTO calls (tenant_id, id, campaign_id, lead_id, voice_agent_id, node, fs_uuid, direction,
		from_number, to_number, dial_time) VALUES ($1, $2, $3, $4, $5, 'node-1', $6, 'outbound', '+918000000001', '+919876543210', now())`,
		tenantID, id, campaign, lead, voiceAgent, id.String())
	Exec(tb, st, tenantID, `INSERT INTO live_calls (tenant_id, unit_id, call_id, voice_agent_id, node)
		VALUES ($1, $2, $2, $3, 'node-1')`, tenantID, id, voiceAgent)
	return id
}

// Subscription subscribes to event types, of one campaign when that isn't nil.
func Subscription(tb testing.TB, st *store.Store, tenantID uuid.UUID, campaignID *uuid.UUID, eventTypes ...string) uuid.UUID {
	tb.Helper()
	id := NewID(tb)
	sealed, err := st.Seal("signing secret of subscription "+id.String(), []byte("secret"))
	require.NoError(tb, err)
	Exec(tb, st, tenantID, `INSERT INTO webhook_subscriptions (tenant_id, id, url, event_types, campaign_id, secret_sealed)
		VALUES ($1, $2, 'http://127.0.0.1:1/hook', $3, $4, $5)`, tenantID, id, eventTypes, campaignID, sealed)
	return id
}

// Exec runs one statement in the tenant's scope.
func Exec(tb testing.TB, st *store.Store, tenantID uuid.UUID, sql string, args ...any) {
	tb.Helper()
	require.NoError(tb, TryExec(tb, st, tenantID, sql, args...))
}

// TryExec runs one statement in the tenant's scope and gives its error.
func TryExec(tb testing.TB, st *store.Store, tenantID uuid.UUID, sql string, args ...any) error {
	tb.Helper()
	return st.InTenant(tb.Context(), tenantID, func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(tb.Context(), sql, args...)
		return err
	})
}

// Count counts rows in the service's scope: a query "SELECT count(*) FROM …".
func Count(tb testing.TB, st *store.Store, sql string, args ...any) int {
	tb.Helper()
	var n int
	require.NoError(tb, st.InSystem(tb.Context(), func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(tb.Context(), sql, args...).Scan(&n)
	}))
	return n
}

// NewID makes a UUIDv7.
func NewID(tb testing.TB) uuid.UUID {
	tb.Helper()
	id, err := uuid.NewV7()
	require.NoError(tb, err)
	return id
}

// Query reads one column in a tenant's scope.
func Query[T any](tb testing.TB, st *store.Store, tenantID uuid.UUID, sql string, args ...any) []T {
	tb.Helper()
	var out []T
	require.NoError(tb, st.InTenant(tb.Context(), tenantID, func(tx *store.Tx) error {
		rows, err := tx.Pgx().Query(tb.Context(), sql, args...)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowTo[T])
		return err
	}))
	return out
}
