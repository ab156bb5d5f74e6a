package crm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// What claims step over is vacuumed by its number, however many reports are kept.
func TestDeadReportsAreVacuumedByTheirNumber(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) error {
		var options []string
		err := tx.Pgx().QueryRow(t.Context(), "SELECT reloptions FROM pg_class WHERE oid = 'call_reports'::regclass").Scan(&options)
		require.ElementsMatch(t, []string{"autovacuum_vacuum_scale_factor=0", "autovacuum_vacuum_threshold=50000"}, options)
		return err
	}))
}
