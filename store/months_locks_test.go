package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// What is done to one call touches its month and no other, however many there are.
func TestACallsMonthAloneIsLocked(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	now := time.Now().UTC()
	call := insertCallAt(t, st, tenant, now)
	old := insertCallAt(t, st, tenant, now.AddDate(-5, 0, 0))
	months := func(work func(tx *store.Tx) error) []string {
		var held []string
		require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
			if err := work(tx); err != nil {
				return err
			}
			rows, err := tx.Pgx().Query(t.Context(), `SELECT DISTINCT i.inhrelid::regclass::text FROM pg_locks l JOIN pg_inherits i ON i.inhrelid = l.relation
				WHERE l.pid = pg_backend_pid() AND i.inhparent = 'calls'::regclass`)
			if err != nil {
				return err
			}
			for rows.Next() {
				var name string
				if err := rows.Scan(&name); err != nil {
					return err
				}
				held = append(held, name)
			}
			return rows.Err()
		}))
		return held
	}
	this := []string{"calls_" + now.Format("2006_01")}
	require.Equal(t, this, months(func(tx *store.Tx) error {
		_, err := tx.Q.CallLockOpen(t.Context(), tenant, call)
		return err
	}))
	require.Equal(t, this, months(func(tx *store.Tx) error {
		return tx.Together(t.Context(), func(q *db.Queries) error {
			_, err := q.CallMarkAnswered(t.Context(), now, tenant, call)
			return err
		})
	}))
	require.Contains(t, months(func(tx *store.Tx) error {
		_, err := tx.Q.CallLock(t.Context(), tenant, old)
		return err
	}), "calls_default", "a call of before all months is found, too")
}
