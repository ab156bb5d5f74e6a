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

// Of the calls that may be of the last second by their ids, those alone are read that are by their time.
func TestTrunksInUseReadsTheCallsOfOneSecond(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	trunk := storetest.Trunk(t, st, tenant, "127.0.0.1", 5060, 10)
	for _, c := range []struct {
		ago        string
		from, rows int
	}{{"10 seconds", 10_000, 3000}, {"-1 hour", 0, 100}} {
		storetest.Exec(t, st, tenant, `INSERT INTO calls (tenant_id, id, trunk_id, node, fs_uuid, direction, from_number, to_number, created_at)
			SELECT $1, overlay($2::text PLACING lpad(i::text, 12, '0') FROM 25)::uuid, $3, 'n', 'f', 'outbound', '+918000000001', '+919876543210', now() - $4::interval
			FROM generate_series($5::int + 1, $5::int + $6) i`, tenant, idAt(t, time.Now().Add(-10*time.Second)), trunk, c.ago, c.from, c.rows)
	}
	storetest.Exec(t, st, tenant, "ANALYZE calls")
	require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
		_, before := rowsRead(t, tx, "calls%")
		trunks, err := store.TrunksInUse(t.Context(), tx.Q, tenant)
		require.NoError(t, err)
		require.EqualValues(t, 100, trunks[0].Recent)
		_, after := rowsRead(t, tx, "calls%")
		require.LessOrEqual(t, after-before, 100)
		return nil
	}))
}
