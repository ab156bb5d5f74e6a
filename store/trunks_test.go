package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// The clock of another controller is behind this one's by more than they may be apart: its calls count for the trunk's rate all the same.
func TestTrunksInUseCountsTheCallsOfASlowClock(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	trunk := storetest.Trunk(t, st, tenant, "127.0.0.1", 5060, 10)
	storetest.Exec(t, st, tenant, `INSERT INTO calls (tenant_id, id, trunk_id, node, fs_uuid, direction, from_number, to_number, created_at)
		VALUES ($1, $2, $3, 'n', 'f', 'outbound', '+918000000001', '+919876543210', now() + interval '1 hour')`,
		tenant, idAt(t, time.Now().Add(-20*time.Second)), trunk)
	require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
		trunks, err := store.TrunksInUse(t.Context(), tx.Q, tenant)
		require.NoError(t, err)
		require.EqualValues(t, 1, trunks[0].Recent)
		return nil
	}))
}
