package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// hot tells how many rows of a table a transaction has updated, and how many of these in no index.
func hot(t *testing.T, tx *store.Tx, table string) (updated, inNoIndex int) {
	t.Helper()
	require.NoError(t, tx.Pgx().QueryRow(t.Context(), `SELECT pg_stat_get_xact_tuples_updated($1::text::regclass), pg_stat_get_xact_tuples_hot_updated($1::text::regclass)`,
		table).Scan(&updated, &inNoIndex))
	return updated, inNoIndex
}

// What a pacer claims and gives back writes no index. What an agent reserves does, so that it is found.
func TestClaimsWriteNoIndex(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	campaign := storetest.Campaign(t, st, tenant, nil)
	ids := make([]uuid.UUID, 4)
	for i := range ids {
		ids[i] = storetest.Lead(t, st, tenant, campaign, fmt.Sprintf("98765432%02d", i))
	}
	now := time.Now()
	claim := func(tx *store.Tx, claimant string, n int32) {
		rows, err := tx.Q.LeadsClaimFresh(t.Context(), db.LeadsClaimFreshParams{
			TenantID: tenant, CampaignID: campaign, Now: now, Claimant: claimant, Until: now.Add(time.Minute), Batch: n,
		})
		require.NoError(t, err)
		require.Len(t, rows, int(n))
	}
	require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
		claim(tx, "pacer:1", 3)
		require.NoError(t, tx.Q.LeadsRelease(t.Context(), tenant, ids[:1], "pacer:1"))
		updated, inNoIndex := hot(t, tx, "leads")
		require.Equal(t, []int{4, 4}, []int{updated, inNoIndex})
		claim(tx, "agent:7", 1)
		updated, inNoIndex = hot(t, tx, "leads")
		require.Equal(t, []int{5, 4}, []int{updated, inNoIndex})
		held, err := tx.Q.LeadReservedFor(t.Context(), db.LeadReservedForParams{TenantID: tenant, CampaignID: campaign, Claimant: "agent:7", Now: now})
		require.NoError(t, err)
		require.Equal(t, ids[0], held.ID)
		// A controller of the version before gives it back, and a pacer of its claims it: it writes claimed_by alone.
		claimedBy := func(claimant *string) {
			_, err := tx.Pgx().Exec(t.Context(), "UPDATE leads SET claimed_by = $3 WHERE tenant_id = $1 AND id = $2", tenant, ids[0], claimant)
			require.NoError(t, err)
		}
		pacer, agent := "pacer:2", "agent:7"
		claimedBy(&pacer)
		_, err = tx.Q.LeadReservedFor(t.Context(), db.LeadReservedForParams{TenantID: tenant, CampaignID: campaign, Claimant: agent, Now: now})
		require.ErrorIs(t, err, store.ErrNotFound)
		require.NoError(t, tx.Q.LeadsReleaseOthers(t.Context(), tenant, agent, uuid.Nil))
		updated, inNoIndex = hot(t, tx, "leads")
		require.Equal(t, []int{6, 5}, []int{updated, inNoIndex}, "the pacer's stays")
		claimedBy(&agent)
		require.NoError(t, tx.Q.LeadsReleaseOthers(t.Context(), tenant, agent, uuid.Nil))
		_, err = tx.Q.LeadReservedFor(t.Context(), db.LeadReservedForParams{TenantID: tenant, CampaignID: campaign, Claimant: "agent:7", Now: now})
		require.ErrorIs(t, err, store.ErrNotFound)
		return nil
	}))
}

// What is noted of a call up to its end writes no index, but who has it; what is noted of its recording writes none.
func TestACallsEndWritesNoIndex(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	call := storetest.OpenCall(t, st, tenant, nil, nil, nil)
	storetest.Exec(t, st, tenant, "INSERT INTO recordings (tenant_id, id, call_id, local_path) VALUES ($1, $2, $2, '/a')", tenant, call)
	month := storetest.Query[string](t, st, tenant, "SELECT tableoid::regclass::text FROM calls")[0]
	now := time.Now()
	require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
		_, err := tx.Q.CallMarkRinging(t.Context(), now, tenant, call)
		require.NoError(t, err)
		_, err = tx.Q.CallMarkAnswered(t.Context(), now, tenant, call)
		require.NoError(t, err)
		_, err = tx.Q.CallClose(t.Context(), db.CallCloseParams{
			TenantID: tenant, ID: call, Status: "completed", AnswerTime: &now, EndTime: now, HangupCause: "NORMAL_CLEARING",
		})
		require.NoError(t, err)
		updated, inNoIndex := hot(t, tx, month)
		require.Equal(t, []int{3, 3}, []int{updated, inNoIndex})
		_, err = tx.Q.FinishRecording(t.Context(), tenant, call)
		require.NoError(t, err)
		_, err = tx.Q.MarkRecordingReady(t.Context(), db.MarkRecordingReadyParams{TenantID: tenant, CallID: call, ReadyAt: now, Sha256: strings.Repeat("0", 64)})
		require.NoError(t, err)
		require.NoError(t, tx.Q.ForgetRecordingFiles(t.Context(), tenant, call))
		updated, inNoIndex = hot(t, tx, "recordings")
		require.Equal(t, []int{3, 3}, []int{updated, inNoIndex})
		return nil
	}))
}

// Leads that were imported together are claimed together, and most of them in no index.
func TestLeadsOfAPageAreClaimedInPlace(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	campaign := storetest.Campaign(t, st, tenant, nil)
	storetest.Exec(t, st, tenant, `INSERT INTO leads (tenant_id, id, campaign_id, phone, phone_hash, phone_last4, dnd_checked, dnd_clean)
		SELECT $1, uuidv7_floor(now() + i * interval '1 ms'), $2, (9800000000 + i)::text, sha256(i::text::bytea), '0000', true, true
		FROM generate_series(1, 1000) i`, tenant, campaign)
	require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
		now := time.Now()
		claimed, err := tx.Q.LeadsClaimFresh(t.Context(), db.LeadsClaimFreshParams{
			TenantID: tenant, CampaignID: campaign, Now: now, Until: now.Add(time.Minute), Claimant: "pacer:1", Batch: 50,
		})
		require.NoError(t, err)
		require.Len(t, claimed, 50)
		updated, inNoIndex := hot(t, tx, "leads")
		require.Equal(t, 50, updated)
		require.Greater(t, inNoIndex, 25)
		return nil
	}))
}

// What is counted again and again is written in no index, nor is a session's start.
func TestCountsAreWrittenInPlace(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	campaign := storetest.Campaign(t, st, tenant, nil)
	for _, table := range []struct{ name, fill, change string }{
		{"campaign_counts", "(tenant_id, campaign_id, figure, n) SELECT $1, $2, 'f' || i, 1", "n = n + 1"},
		{"call_counts", "(tenant_id, campaign_id, agent_id, direction, status, disposition, n) SELECT $1, $2, gen_random_uuid(), 'd', 's', i::text, 1", "n = n + 1"},
		{"call_totals", "(tenant_id, campaign_id, agent_id, direction, status, n) SELECT $1, $2, gen_random_uuid(), 'd', i::text, 1", "n = n + 1"},
		{"ai_sessions", "(tenant_id, voice_agent_id, id, call_id, ws_url) SELECT $1, $2, gen_random_uuid(), gen_random_uuid(), 'ws://x' || i", "opened_at = now()"},
	} {
		storetest.Exec(t, st, tenant, "INSERT INTO "+table.name+" "+table.fill+" FROM generate_series(1, 400) i", tenant, campaign)
		require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
			_, err := tx.Pgx().Exec(t.Context(), "UPDATE "+table.name+" SET "+table.change+" WHERE tableoid = $1::text::regclass AND ctid IN (SELECT ctid FROM "+table.name+
				" WHERE tenant_id = $2 ORDER BY ctid LIMIT 40)", table.name, tenant)
			require.NoError(t, err)
			updated, inNoIndex := hot(t, tx, table.name)
			require.Equal(t, 40, updated)
			require.Greater(t, inNoIndex, 20, table.name)
			return nil
		}))
	}
}

// A tenant that is deleted leaves nothing of those of its tables that name it by no foreign key.
func TestUnitsGoWithTheirTenant(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant, other := storetest.Tenant(t, st), storetest.Tenant(t, st)
	for _, owner := range []uuid.UUID{tenant, other} {
		call := storetest.OpenCall(t, st, owner, nil, nil, nil)
		for _, row := range []string{
			"held_events (tenant_id, id, type, call_id, data, created_at) VALUES ($1, $2, 'x', $2, '{}', now())",
			"recordings (tenant_id, id, call_id) VALUES ($1, $2, $2)",
			"recordings_due (tenant_id, call_id, node) VALUES ($1, $2, 'n')",
			"ai_sessions (tenant_id, id, call_id, voice_agent_id, ws_url) VALUES ($1, $2, $2, $2, 'ws://x')",
			"ai_session_logs (tenant_id, session_id, id, at, source, type) VALUES ($1, $2, $2, now(), 's', 't')",
			"callback_tokens (tenant_id, jti_hash, call_id, session_id, jwt, scope, expires_at) VALUES ($1, $2::uuid::text, $2, $2, 'j', 's', now())",
		} {
			storetest.Exec(t, st, owner, "INSERT INTO "+row, owner, call)
		}
	}
	require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(t.Context(), "DELETE FROM tenants WHERE id = $1", tenant)
		return err
	}))
	for _, table := range []string{
		"live_calls", "held_events", "recordings", "recordings_due", "ai_sessions", "ai_session_logs", "callback_tokens",
	} {
		require.Equal(t, 1, storetest.Count(t, st, "SELECT count(*) FROM "+table), table)
	}
}
