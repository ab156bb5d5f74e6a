package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// The operator attaches by hand what was prepared, since a reader kept the controller from it: its calls stay.
func TestEnsurePartitionsKeepsWhatWasAttachedByHand(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	month := monthsFrom(time.Now(), 4)
	for _, sql := range []string{
		"SELECT prepare_partition('calls', '" + month.Format(time.DateOnly) + "')",
		"DO $$ BEGIN EXECUTE format('ALTER TABLE calls ATTACH PARTITION calls_" + month.Format("2006_01") + " FOR VALUES FROM (%L) TO (%L)', uuidv7_floor('" +
			month.Format(time.RFC3339) + "'), uuidv7_floor('" + month.AddDate(0, 1, 0).Format(time.RFC3339) + "')); END $$",
	} {
		_, err := st.Pool().Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	call := insertCallAt(t, st, storetest.Tenant(t, st), month.AddDate(0, 0, 3))
	_, err := st.EnsurePartitions(t.Context(), 4)
	require.NoError(t, err)
	require.Equal(t, 1, storetest.Count(t, st, "SELECT count(*) FROM calls WHERE id = '"+call.String()+"'"))
}

// Many rows of a month lie in the default partition: calls wait for two seconds at most while it is attached.
func TestAttachGivesUpWhereCallsWouldWait(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenantID := storetest.Tenant(t, st)
	month := monthsFrom(time.Now(), 5)
	storetest.Exec(t, st, tenantID, `INSERT INTO calls (tenant_id, id, node, fs_uuid, direction, from_number, to_number)
		SELECT $1, (lpad(to_hex((extract(epoch FROM $3::timestamptz) * 1000)::bigint + i), 12, '0') || '70008000' || lpad(to_hex(i), 12, '0'))::uuid,
		'n', 'f' || i, 'inbound', '+911', '+912' FROM generate_series(1, $2::int) i`, tenantID, 250_000, month)
	ctx, cancel := context.WithCancel(t.Context())
	worst := make(chan time.Duration, 1)
	go func() {
		var longest time.Duration
		for ctx.Err() == nil {
			at := time.Now()
			_ = st.InTenant(ctx, tenantID, func(tx *store.Tx) error { // its end is seen by the time that it takes
				_, err := tx.Pgx().Exec(ctx, "UPDATE calls SET status = status WHERE fs_uuid = 'none' AND tenant_id = $1", tenantID)
				return err
			})
			if ctx.Err() == nil {
				longest = max(longest, time.Since(at))
			}
		}
		worst <- longest
	}()
	created, err := st.EnsurePartitions(t.Context(), 5)
	cancel()
	longest := <-worst
	t.Logf("%d partitions, %v; a call's write waited %s at worst", created, err, longest)
	require.Less(t, longest, 3*time.Second)
	require.Equal(t, 5, created, "calls of the month before, and the other tables' partitions are made all the same")
	require.ErrorIs(t, err, store.ErrBusy)
}
