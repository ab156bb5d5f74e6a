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

// A tenant that is deleted leaves no units nor held events, though these name it by no foreign key.
func TestUnitsGoWithTheirTenant(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant, other := storetest.Tenant(t, st), storetest.Tenant(t, st)
	for _, owner := range []uuid.UUID{tenant, other} {
		call := storetest.OpenCall(t, st, owner, nil, nil, nil)
		storetest.Exec(t, st, owner, "INSERT INTO held_events (tenant_id, id, type, call_id, data, created_at) VALUES ($1, $2, 'x', $2, '{}', now())", owner, call)
	}
	require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(t.Context(), "DELETE FROM tenants WHERE id = $1", tenant)
		return err
	}))
	for _, table := range []string{"live_calls", "held_events"} {
		require.Equal(t, 1, storetest.Count(t, st, "SELECT count(*) FROM "+table))
	}
}
