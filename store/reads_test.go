package store_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// rowsRead counts the rows of tables (LIKE pattern) that a transaction has read so far, in whole tables and by indexes.
func rowsRead(t *testing.T, tx *store.Tx, tables string) (whole, indexed int) {
	t.Helper()
	require.NoError(t, tx.Pgx().QueryRow(t.Context(), `SELECT coalesce(sum(seq_tup_read), 0)::int, coalesce(sum(idx_tup_fetch), 0)::int
		FROM pg_stat_xact_user_tables WHERE relname LIKE $1`, tables).Scan(&whole, &indexed))
	return whole, indexed
}

// An idle campaign's question every second costs the same however many leads there are: those that were dialed, those of other
// campaigns, and those that were postponed.
func TestIdleCampaignReadsNoLeads(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenantID := storetest.Tenant(t, st)
	now := time.Now()
	done, busy := storetest.Campaign(t, st, tenantID, nil), storetest.Campaign(t, st, tenantID, nil)
	postponed := storetest.Campaign(t, st, tenantID, nil)
	const add = `INSERT INTO leads (tenant_id, id, campaign_id, phone_hash, phone_last4, dnd_checked, dnd_clean, status, next_attempt_at)
		SELECT $1, gen_random_uuid(), $2, sha256(n::text::bytea), '0000', true, true, $3, $4 FROM generate_series(1, 5000) n`
	storetest.Exec(t, st, tenantID, add, tenantID, done, "completed", nil)
	storetest.Exec(t, st, tenantID, add, tenantID, busy, "new", nil)
	storetest.Exec(t, st, tenantID, add, tenantID, postponed, "queued", now.Add(time.Hour))
	storetest.Exec(t, st, tenantID, "ANALYZE leads")
	require.NoError(t, st.InTenant(t.Context(), tenantID, func(tx *store.Tx) error {
		for _, campaign := range []struct {
			name         string
			id           uuid.UUID
			waiting, due bool
		}{{"done", done, false, false}, {"postponed", postponed, false, true}, {"busy", busy, true, false}} {
			whole, indexed := rowsRead(t, tx, "leads")
			wait, err := tx.Q.LeadsWait(t.Context(), tenantID, campaign.id, now)
			require.NoError(t, err)
			require.Equal(t, campaign.waiting, wait.Waiting, campaign.name)
			due, err := tx.Q.LeadsNextDue(t.Context(), tenantID, campaign.id)
			require.NoError(t, err)
			require.Equal(t, campaign.due, due.After(now), campaign.name)
			wholeNow, indexedNow := rowsRead(t, tx, "leads")
			require.Zero(t, wholeNow-whole, "%s: rows of the whole table", campaign.name)
			require.LessOrEqual(t, indexedNow-indexed, 4, "%s: rows by index", campaign.name)
		}
		return nil
	}))
}

// The look for SIP accounts that have ended, every second, costs the same however many agents have none.
func TestAccountsThatEndAreFoundAmongAccounts(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	storetest.Exec(t, st, tenant, `INSERT INTO users (tenant_id, id, email, password_hash, role) SELECT $1, gen_random_uuid(), g || '@example.com', '-', 'agent'
		FROM generate_series(1, 5000) g`, tenant)
	storetest.Exec(t, st, tenant, `INSERT INTO agents (tenant_id, id, node, last_status_at, sip_expires_at, sip_session_epoch)
		SELECT tenant_id, id, 'node-1', now(), CASE WHEN email LIKE '1_@%' THEN now() END, 0 FROM users WHERE tenant_id = $1`, tenant)
	_, err := st.Pool().Exec(t.Context(), "ANALYZE users, agents")
	require.NoError(t, err)
	require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) error {
		ended, err := tx.Q.AgentAccountsEnd(t.Context(), "node-1", time.Now())
		require.NoError(t, err)
		require.Len(t, ended, 10)
		whole, _ := rowsRead(t, tx, "agents")
		require.Zero(t, whole, "agents")
		whole, _ = rowsRead(t, tx, "users")
		require.Zero(t, whole, "users")
		return nil
	}))
}
