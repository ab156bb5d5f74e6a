package crm

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
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

// What waits is counted up to a bound of each tenant, without those that are suspended, and a database that stalls is not waited for.
func TestCountOfWhatWaits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	count := func() (pending, oldest float64) {
		b.countBacklog(t.Context(), store.ReportCRM)
		of := func(g *prometheus.GaugeVec) float64 {
			return testutil.ToFloat64(g.WithLabelValues(string(store.ReportCRM)))
		}
		return of(b.metrics.backlog), of(b.metrics.oldest)
	}
	b.configure(t, rest("http://127.0.0.1:1", nil))
	b.tenants(t, 3, `INSERT INTO integrations (tenant_id, purpose, id, kind, host, config_sealed)
		SELECT id, 'crm', gen_random_uuid(), 'rest', 'crm.test', 'x' FROM tenants WHERE data_key = 'x'`)
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO call_reports (tenant_id, call_id, purpose, integration_id, give_up_at, created_at)
		SELECT $1, gen_random_uuid(), 'crm', gen_random_uuid(), now() + interval '1 day', now() - interval '2 hours' FROM generate_series(1, $2::int)`,
		b.tenant, 1005)
	pending, oldest := count()
	require.InDelta(t, 1003, pending, 0)
	require.InDelta(t, 7200, oldest, 60)

	require.NoError(t, b.st.InSystem(t.Context(), func(tx *store.Tx) error {
		if _, err := tx.Pgx().Exec(t.Context(), "LOCK TABLE call_reports"); err != nil {
			return err
		}
		began := time.Now()
		count()
		require.Less(t, time.Since(began), 2*backlogTime)
		return nil
	}))
}
