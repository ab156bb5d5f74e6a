package store_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// fill gives every table with a tenant id a row of the tenant.
func fill(t *testing.T, st *store.Store, tenantID uuid.UUID, number string) {
	t.Helper()
	agent := storetest.VoiceAgent(t, st, tenantID, "ws://127.0.0.1:1/")
	campaign := storetest.Campaign(t, st, tenantID, &agent)
	lead := storetest.Lead(t, st, tenantID, campaign, number)
	trunk := storetest.Trunk(t, st, tenantID, "127.0.0.1", 5060, 10)
	storetest.InboundNumber(t, st, tenantID, "+91"+number)
	storetest.Subscription(t, st, tenantID, nil, "call.*")
	call := insertCall(t, st, tenantID)
	session, hash := storetest.NewID(t), make([]byte, 32)
	copy(hash, tenantID[:])
	exec := func(sql string, args ...any) {
		t.Helper()
		storetest.Exec(t, st, tenantID, sql, append([]any{tenantID, storetest.NewID(t)}, args...)...)
	}
	exec(`INSERT INTO users (tenant_id, id, email, password_hash, role) VALUES ($1, $2, $3, 'x', 'agent')`,
		"a"+tenantID.String()+"@example.test")
	exec(`INSERT INTO api_keys (tenant_id, id, label, key_hash, key_prefix, last_four) VALUES ($1, $2, 'k', $3, 'svc_live_', 'abcd')`, hash)
	exec(`INSERT INTO flows (tenant_id, id, name) VALUES ($1, $2, 'f')`)
	exec(`INSERT INTO live_calls (tenant_id, unit_id, call_id, kind, trunk_id, node) VALUES ($1, $2, $3, 'transfer', $4, 'n')`, call, trunk)
	exec(`INSERT INTO held_events (tenant_id, id, type, call_id, data, created_at) VALUES ($1, $2, 'x', $3, '{}', now())`, call)
	exec(`INSERT INTO recordings (tenant_id, id, call_id) VALUES ($1, $2, $3)`, call)
	exec(`INSERT INTO recordings_due (tenant_id, call_id, node) VALUES ($1, $2, 'n')`)
	exec(`INSERT INTO recording_access (tenant_id, id, call_id, recording_id, accessor, method) VALUES ($1, $2, $3, $3, 'x', 'stream')`, call)
	exec(`INSERT INTO audit (tenant_id, id, at, actor, action) VALUES ($1, $2, now(), 'user:1', 'user.updated')`)
	exec(`INSERT INTO idempotent_requests (tenant_id, environment, key, scope) VALUES ($1, 'live', $2::uuid::text, 'call ' || $3::uuid)`, call)
	storetest.Exec(t, st, tenantID, `INSERT INTO ai_sessions (tenant_id, id, call_id, voice_agent_id, ws_url)
		VALUES ($1, $2, $3, $4, 'ws://x')`, tenantID, session, call, agent)
	exec(`INSERT INTO callback_tokens (tenant_id, jti_hash, call_id, session_id, jwt, scope, expires_at)
		VALUES ($1, $2::uuid::text, $3, $4, 'jwt', 'voice_agent:control', now())`, call, session)
	exec(`INSERT INTO supervisor_sessions (tenant_id, id, supervisor_id, call_id, mode, node, started_at) VALUES ($1, $2, $2, $3, 'listen', 'n', now())`, call)
	exec(`INSERT INTO escalations (tenant_id, id, call_id, voice_agent_id, reason, urgency, escalated_at) VALUES ($1, $2, $3, $4, 'r', 'high', now())`,
		call, agent)
	client, family, user := storetest.NewID(t), storetest.NewID(t), storetest.NewID(t)
	storetest.Exec(t, st, tenantID, `INSERT INTO users (tenant_id, id, email, password_hash, role) VALUES ($1, $2, $3, 'x', 'agent')`,
		tenantID, user, "o"+tenantID.String()+"@example.test")
	storetest.Exec(t, st, tenantID, `INSERT INTO oauth_clients (tenant_id, id, name, secret_hash, redirect_uris, allowed_scopes)
		VALUES ($1, $2, 'c', $3, '{}', '{openid}')`, tenantID, client, hash)
	exec(`INSERT INTO oauth_grants (tenant_id, id, user_id, client_id, scopes, granted_at) VALUES ($1, $2, $3, $4, '{openid}', now())`, user, client)
	storetest.Exec(t, st, tenantID, `INSERT INTO oauth_families (tenant_id, id, user_id, client_id, scopes, began_at, good_until)
		VALUES ($1, $2, $3, $4, '{openid}', now(), now())`, tenantID, family, user, client)
	exec(`INSERT INTO oauth_codes (tenant_id, hash, family_id, expires_at) VALUES ($1, sha256(uuid_send($2)), $3, now())`, family)
	exec(`INSERT INTO oauth_refresh_tokens (tenant_id, hash, family_id, issued_at, expires_at) VALUES ($1, sha256(uuid_send($2)), $3, now(), now())`, family)
	exec(`INSERT INTO suppressions (tenant_id, reason, phone_hash) VALUES ($1, $2::uuid::text, $3)`, hash)
	require.NoError(t, st.InTenant(t.Context(), tenantID, func(tx *store.Tx) error {
		_, err := tx.Emit(t.Context(), store.Event{
			TenantID: tenantID, Type: store.EventCallStarted, CallID: &call, CampaignID: &campaign, Data: map[string]any{"lead": lead},
		})
		return err
	}))
}

func insertCall(t *testing.T, st *store.Store, tenantID uuid.UUID) uuid.UUID {
	t.Helper()
	id := storetest.NewID(t)
	storetest.Exec(t, st, tenantID, `INSERT INTO calls (tenant_id, id, node, fs_uuid, direction, from_number, to_number)
		VALUES ($1, $2, 'n', $2::uuid::text, 'outbound', '+918000000001', '+919876543210')`, tenantID, id)
	return id
}

// protectedTables lists every table with a tenant id, partitions included.
func protectedTables(t *testing.T, st *store.Store) map[string]bool {
	t.Helper()
	rows, err := st.Pool().Query(t.Context(), `SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
		WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace`)
	require.NoError(t, err)
	tables := map[string]bool{}
	for rows.Next() {
		var name string
		var protected bool
		require.NoError(t, rows.Scan(&name, &protected))
		tables[name] = protected
	}
	require.NoError(t, rows.Err())
	return tables
}

func TestEveryTenantTableIsProtected(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tables := protectedTables(t, st)
	require.Greater(t, len(tables), 20)
	for table, protected := range tables {
		require.True(t, protected, "table %s lacks forced row-level security", table)
	}
}

func TestRowsOfOtherTenantsAreInvisible(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	mine, theirs, empty := storetest.Tenant(t, st), storetest.Tenant(t, st), storetest.Tenant(t, st)
	fill(t, st, mine, "9876543210")
	fill(t, st, theirs, "9876543211")
	filled := 0
	for table := range protectedTables(t, st) {
		count := "SELECT count(*) FROM " + table
		all := storetest.Count(t, st, count)
		own := storetest.Count(t, st, count+" WHERE tenant_id = $1", mine)
		require.Equal(t, all, 2*own, "table %s", table)
		if all > 0 {
			filled++
		}
		require.Equal(t, own, countIn(t, st, mine, count), "table %s seen by its tenant", table)
		require.Zero(t, countIn(t, st, mine, count+" WHERE tenant_id = $1", theirs), "table %s seen by another tenant", table)
		require.Zero(t, countIn(t, st, empty, count), "table %s seen by a tenant without rows", table)
		var outside int
		require.NoError(t, st.Pool().QueryRow(t.Context(), count).Scan(&outside))
		require.Zero(t, outside, "table %s seen outside of a scope", table)
	}
	require.GreaterOrEqual(t, filled, 18)
	require.Equal(t, 1, countIn(t, st, mine, "SELECT count(*) FROM tenants"))
	require.Equal(t, 3, storetest.Count(t, st, "SELECT count(*) FROM tenants"))
}

func TestWritesToOtherTenantsAreRefused(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	mine, theirs := storetest.Tenant(t, st), storetest.Tenant(t, st)
	fill(t, st, theirs, "9876543211")
	fill(t, st, mine, "9876543210")

	err := storetest.TryExec(t, st, mine, "INSERT INTO flows (tenant_id, id, name) VALUES ($1, $2, 'f')", theirs, storetest.NewID(t))
	requireScope(t, err)
	requireScope(t, storetest.TryExec(t, st, mine, "UPDATE flows SET tenant_id = $1", theirs))
	requireScope(t, storetest.TryExec(t, st, mine, "INSERT INTO tenants (id, name, data_key) VALUES ($1, 'x', 'x')", storetest.NewID(t)))

	before := storetest.Count(t, st, "SELECT count(*) FROM leads WHERE tenant_id = $1", theirs)
	storetest.Exec(t, st, mine, "DELETE FROM leads WHERE tenant_id = $1", theirs)
	storetest.Exec(t, st, mine, "UPDATE leads SET name = 'taken' WHERE tenant_id = $1", theirs)
	require.Equal(t, before, storetest.Count(t, st, "SELECT count(*) FROM leads WHERE tenant_id = $1 AND name IS NULL", theirs))

	_, err = st.Pool().Exec(t.Context(), "INSERT INTO flows (tenant_id, id, name) VALUES ($1, $2, 'f')", mine, storetest.NewID(t))
	require.ErrorContains(t, err, "row-level security", "a write outside of a scope")
}

func TestScopeEndsWithItsTransaction(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	st, err := store.Open(t.Context(), store.Config{URL: url, MasterKey: storetest.MasterKey(), MaxConns: 1})
	require.NoError(t, err)
	t.Cleanup(st.Close)
	mine, theirs := storetest.Tenant(t, st), storetest.Tenant(t, st)
	storetest.Exec(t, st, theirs, "INSERT INTO flows (tenant_id, id, name) VALUES ($1, $2, 'f')", theirs, storetest.NewID(t))
	// One connection serves them all: a scope that outlived its transaction would show.
	require.Equal(t, 1, storetest.Count(t, st, "SELECT count(*) FROM flows"))
	require.Zero(t, countIn(t, st, mine, "SELECT count(*) FROM flows"))
	require.Equal(t, 1, countIn(t, st, theirs, "SELECT count(*) FROM flows"))
	var outside int
	require.NoError(t, st.Pool().QueryRow(t.Context(), "SELECT count(*) FROM flows").Scan(&outside))
	require.Zero(t, outside)
}

func countIn(t *testing.T, st *store.Store, tenantID uuid.UUID, sql string, args ...any) int {
	t.Helper()
	var n int
	require.NoError(t, st.InTenant(t.Context(), tenantID, func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(t.Context(), sql, args...).Scan(&n)
	}))
	return n
}

func requireScope(t *testing.T, err error) {
	t.Helper()
	var refused *store.ConstraintError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, store.KindScope, refused.Kind)
}
