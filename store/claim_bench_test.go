package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// BenchmarkClaim claims 50 fresh leads and gives them back, in campaigns of growing size: the time must not grow with them.
func BenchmarkClaim(b *testing.B) {
	for _, leads := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("leads=%d", leads), func(b *testing.B) {
			st := storetest.New(b)
			tenantID := storetest.Tenant(b, st)
			campaign := storetest.Campaign(b, st, tenantID, nil)
			// The oldest half is done, the rest waits.
			storetest.Exec(b, st, tenantID, `INSERT INTO leads (tenant_id, id, campaign_id, phone_hash, phone_last4, dnd_checked,
				dnd_clean, status) SELECT $1, (lpad(to_hex(n), 12, '0') || '70008000000000000000')::uuid, $2, sha256(n::text::bytea),
				'0000', true, true, CASE WHEN n < $3 / 2 THEN 'completed' ELSE 'new' END FROM generate_series(1, $3::int) n`,
				tenantID, campaign, leads)
			_, err := st.Pool().Exec(b.Context(), "VACUUM ANALYZE leads")
			require.NoError(b, err)
			b.ResetTimer()
			for b.Loop() {
				claim(b, st, tenantID, campaign)
			}
		})
	}
}

func claim(b *testing.B, st *store.Store, tenantID, campaign uuid.UUID) {
	b.Helper()
	now := time.Now()
	require.NoError(b, st.InTenant(b.Context(), tenantID, func(tx *store.Tx) error {
		rows, err := tx.Q.LeadsClaimFresh(b.Context(), db.LeadsClaimFreshParams{
			TenantID: tenantID, CampaignID: campaign, Claimant: "pacer:bench", Until: now.Add(time.Minute), Now: now, Batch: 50,
		})
		if err != nil {
			return err
		}
		ids := make([]uuid.UUID, len(rows))
		for i := range rows {
			ids[i] = rows[i].ID
		}
		require.Len(b, ids, 50)
		return tx.Q.LeadsRelease(b.Context(), tenantID, ids, "pacer:bench")
	}))
}
