package store_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// audited lists the audit of a tenant, oldest first.
func audited(t *testing.T, st *store.Store, tenant uuid.UUID) []db.Audit {
	t.Helper()
	var rows []db.Audit
	require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) (err error) {
		rows, err = tx.Q.AuditList(t.Context(), db.AuditListParams{TenantID: tenant, Before: uuid.Max, PageLimit: 1000})
		return err
	}))
	for i, j := 0, len(rows)-1; i < j; i, j = i+1, j-1 {
		rows[i], rows[j] = rows[j], rows[i]
	}
	return rows
}

func as(ctx context.Context, name string) context.Context {
	return store.WithActor(ctx, store.Actor{Name: name, Role: "admin", RemoteAddr: "203.0.113.9", RequestID: "r'1"})
}

func execAs(t *testing.T, st *store.Store, tenant uuid.UUID, who, sql string, args ...any) {
	t.Helper()
	ctx := t.Context()
	if who != "" {
		ctx = as(ctx, who)
	}
	require.NoError(t, st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(ctx, sql, args...)
		return err
	}))
}

func TestChangesAreAudited(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	user := storetest.NewID(t)
	execAs(t, st, tenant, "operator:root@host'--", `INSERT INTO users (tenant_id, id, email, password_hash, role)
		VALUES ($1, $2, 'a@b.test', 'secret hash', 'agent')`, tenant, user)
	execAs(t, st, tenant, "user:1", `UPDATE users SET role = 'admin', password_hash = 'other hash', updated_at = now() WHERE id = $1`, user)
	execAs(t, st, tenant, "user:1", `UPDATE users SET role = 'admin', updated_at = now() WHERE id = $1`, user)
	execAs(t, st, tenant, "", `UPDATE users SET role = 'supervisor' WHERE id = $1`, user)
	execAs(t, st, tenant, "api_key:2", `DELETE FROM users WHERE id = $1`, user)

	rows := audited(t, st, tenant)
	require.Len(t, rows, 3, "no row of a change that changes nothing, or that is the service's own")
	require.Equal(t, "user.created", rows[0].Action)
	require.Equal(t, "operator:root@host'--", rows[0].Actor)
	require.Nil(t, rows[0].Before)
	require.NotContains(t, string(rows[0].After), "secret hash")
	require.Contains(t, string(rows[0].After), "a@b.test")
	require.Equal(t, "user.updated", rows[1].Action)
	require.Equal(t, user.String(), *rows[1].ObjectID)
	require.Equal(t, "203.0.113.9", *rows[1].RemoteAddr)
	require.Equal(t, "r'1", *rows[1].RequestID)
	require.Equal(t, "admin", *rows[1].Role)
	require.JSONEq(t, `{"role": "agent", "password_hash": "••••"}`, string(rows[1].Before))
	require.JSONEq(t, `{"role": "admin", "password_hash": "••••"}`, string(rows[1].After))
	require.Equal(t, "user.deleted", rows[2].Action)
	require.Nil(t, rows[2].After)
	require.WithinDuration(t, time.Now(), rows[2].At, time.Minute)
	require.Equal(t, uuid.Version(7), rows[2].ID.Version())
	sec, nsec := rows[2].ID.Time().UnixTime()
	require.WithinDuration(t, rows[2].At, time.Unix(sec, nsec), 2*time.Millisecond)
}

// A change that is undone has no row, since both are of one transaction.
func TestAuditIsOfTheChangesTransaction(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	ctx := as(t.Context(), "user:1")
	require.ErrorIs(t, st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(ctx, `UPDATE tenants SET pii_retention_days = 3 WHERE id = $1`, tenant)
		require.NoError(t, err)
		return context.Canceled
	}), context.Canceled)
	require.Empty(t, audited(t, st, tenant))
}

func TestAuditShowsNoSecrets(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	nodes := `[{"id": "1", "type": "http_request", "data": {"url": "https://me:pa\"ss@x.test/a?key=xyz-secret\"d#e", "headers": {"Authorization": "Bearer xyz-secret"},
		"body": "xyz-secret", "timeout_s": 3}}, {"id": "2", "type": "hangup"}]`
	flow := storetest.NewID(t)
	execAs(t, st, tenant, "user:1", `INSERT INTO flows (tenant_id, id, name, nodes) VALUES ($1, $2, 'why? http://a.test?x', $3)`, tenant, flow, nodes)
	execAs(t, st, tenant, "user:1", `INSERT INTO voice_agents (tenant_id, id, name, ws_url, auth_token_sealed)
		VALUES ($1, gen_random_uuid(), 'v', 'wss://u:xyz-secret@ai.test/x?token=xyz-secret', 'xyz-secret')`, tenant)
	execAs(t, st, tenant, "user:1", `UPDATE tenants SET data_key = 'xyz-secret' WHERE id = $1`, tenant)
	rows := audited(t, st, tenant)
	require.Len(t, rows, 3)
	for _, r := range rows {
		require.NotContains(t, string(r.After), "xyz-secret", r.Action)
		require.NotContains(t, string(r.After), "78797a2d736563726574", r.Action)
		require.True(t, json.Valid(r.After))
	}
	require.Contains(t, string(rows[0].After), `"timeout_s": 3`)
	require.Contains(t, string(rows[0].After), `https://••••@x.test/a?••••`)
	require.Contains(t, string(rows[1].After), `wss://••••@ai.test/x?••••`)
	require.JSONEq(t, `{"data_key": "••••"}`, string(rows[2].After))
}

// Every column of bytes in an audited table is a secret or a hash: its name must be one that the audit masks.
func TestAuditMasksEveryColumnOfBytes(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	var tables, unmasked int
	require.NoError(t, st.Pool().QueryRow(t.Context(), `SELECT count(DISTINCT g.tgrelid), count(*) FILTER (WHERE a.atttypid = 'bytea'::regtype
			AND audit_members(jsonb_build_object(a.attname, 'x')) -> a.attname::text <> '"••••"')
		FROM pg_trigger g JOIN pg_attribute a ON a.attrelid = g.tgrelid AND a.attnum > 0 WHERE g.tgname = 'audit_change'`).Scan(&tables, &unmasked))
	require.GreaterOrEqual(t, tables, 9)
	require.Zero(t, unmasked)
}

// Nobody rewrites the audit, and a tenant's transactions don't delete it.
func TestAuditStays(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	call := storetest.NewID(t)
	require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
		return tx.Audit(t.Context(), store.AuditEntry{
			TenantID: tenant, Action: "monitor.started", Actor: "ai_session:1", CallID: &call, Mode: "listen", Details: map[string]any{"source": "ai"},
		})
	}))
	for _, sql := range []string{"UPDATE audit SET actor = 'x'", "DELETE FROM audit"} {
		storetest.Exec(t, st, tenant, sql)
	}
	require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) error {
		tag, err := tx.Pgx().Exec(t.Context(), "UPDATE audit SET actor = 'x'")
		require.Zero(t, tag.RowsAffected())
		return err
	}))
	rows := audited(t, st, tenant)
	require.Len(t, rows, 1)
	require.Equal(t, "ai_session:1", rows[0].Actor)
	require.Equal(t, call, *rows[0].CallID)
	require.JSONEq(t, `{"source": "ai"}`, string(rows[0].Details))
}
