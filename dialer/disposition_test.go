package dialer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// A disposition that was said before, with all of it, is no correction: nobody is told of it again.
func TestSameDispositionIsNoCorrection(t *testing.T) {
	t.Parallel()
	b := setup(t)
	call := storetest.NewID(t)
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO calls (tenant_id, id, node, fs_uuid, direction, from_number, to_number, status, dial_time)
		VALUES ($1, $2, 'node-1', gen_random_uuid(), 'outbound', '1', '2', 'answered', now())`, b.tenant, call)
	said, better := "yes", "no, tomorrow"
	for i, d := range []struct {
		disposition, source string
		notes               *string
		told                int
	}{
		{"interested", "ai", nil, 1},
		{"interested", "ai", nil, 1},
		{"interested", "ai", &said, 2},
		{"interested", "ai", &said, 2},
		{"interested", "ai", nil, 2},
		{"interested", "agent", nil, 3},
		{"later", "agent", nil, 4},
		{"later", "agent", &better, 5},
	} {
		require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
			row, err := tx.Q.CallLock(t.Context(), b.tenant, call)
			require.NoError(t, err)
			_, err = leads.SetDisposition(t.Context(), tx, row, leads.Disposing{Disposition: d.disposition, Source: d.source, Notes: d.notes, At: time.Now()})
			return err
		}))
		require.Equal(t, d.told, storetest.Count(t, b.st, "SELECT count(*) FROM events WHERE type = 'call.disposition_set'"), i)
	}
}
