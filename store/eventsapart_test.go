package store_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// All events of a call are found, those of its first minute by their ids and the others by their index: later ones, and those of a controller whose clock
// is behind.
func TestEventsOfACallAreFoundWheneverTheyWere(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	began := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	at := func(moment time.Time) (id uuid.UUID) {
		id = store.NewID()
		for i, ms := 5, moment.UnixMilli(); i >= 0; i, ms = i-1, ms>>8 {
			id[i] = byte(ms)
		}
		return id
	}
	call, other := at(began.Add(time.Millisecond/2)), at(began)
	var want []uuid.UUID
	for _, offset := range []time.Duration{-time.Second, 0, time.Minute - time.Millisecond, time.Minute, 50 * 24 * time.Hour} {
		id := at(began.Add(offset))
		want = append(want, id)
		for _, event := range []struct{ id, call uuid.UUID }{{id, call}, {at(began.Add(offset)), other}} {
			storetest.Exec(t, st, tenant, "INSERT INTO events (tenant_id, id, type, call_id, data) VALUES ($1, $2, 'x', $3, '{}')", tenant, event.id, event.call)
		}
	}
	require.Equal(t, 6, storetest.Count(t, st, "SELECT count(*) FROM events WHERE event_apart(call_id, id)"), "those that are in the index")
	require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
		events, err := tx.Q.ListEventsOfCall(t.Context(), tenant, call)
		require.NoError(t, err)
		require.NoError(t, tx.Q.PlanByValues(t.Context()))
		rows, err := tx.Q.ListEvents(t.Context(), db.ListEventsParams{TenantID: tenant, CallID: &call, Before: uuid.Max, UntilID: uuid.Max, PageLimit: 10})
		require.NoError(t, err)
		n, err := tx.Q.CountEvents(t.Context(), db.CountEventsParams{TenantID: tenant, CallID: &call, UntilID: uuid.Max, Most: 10})
		require.NoError(t, err)
		require.Equal(t, []int{len(want), len(want), len(want)}, []int{len(events), len(rows), int(n)})
		for i, id := range want {
			require.Equal(t, []uuid.UUID{id, id}, []uuid.UUID{events[i].ID, rows[len(rows)-1-i].ID})
		}
		return nil
	}))
}

// Autovacuum, a restored dump, and from PostgreSQL 17 on whoever builds an index have no search path: what indexes call is found without one.
func TestIndexesAreReadWithoutASearchPath(t *testing.T) {
	t.Parallel()
	conn, err := storetest.New(t).Pool().Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	for _, statement := range []string{"SET search_path = ''", "ANALYZE", "REINDEX TABLE public.events", "RESET search_path"} {
		_, err = conn.Exec(t.Context(), statement)
		require.NoError(t, err, statement)
	}
}
