package dialer

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// claimWorld is a campaign of so many leads, half of them done, and who claims the others.
type claimWorld struct {
	leads.Claimer
	st *store.Store
}

func newClaimWorld(b *testing.B, list int) *claimWorld {
	b.Helper()
	url := storetest.NewURL(b)
	st := storetest.Open(b, url)
	tenant := storetest.Tenant(b, st)
	w := &claimWorld{st: st, Claimer: leads.Claimer{
		Tenant: tenant, Campaign: storetest.Campaign(b, st, tenant, nil), Claimant: "pacer:bench", Lease: claimLease,
	}}
	svc, err := New(Config{NodeID: "bench"}, st)
	require.NoError(b, err)
	w.Leads = svc.Leads
	remake := w.withoutIndexes(b)
	const chunk = 250_000
	for from := 1; from <= list; from += chunk {
		// The oldest half is done, the rest waits.
		storetest.Exec(b, st, tenant, `INSERT INTO leads (tenant_id, id, campaign_id, phone, phone_hash, phone_last4, dnd_checked, dnd_clean, status)
			SELECT $1, (lpad(to_hex(n), 12, '0') || '70008000000000000000')::uuid, $2, lpad(n::text, 10, '9'), sha256(n::text::bytea),
			'0000', true, true, CASE WHEN n < $3 / 2 THEN 'completed' ELSE 'new' END FROM generate_series($4::int, $5::int) n`,
			tenant, w.Campaign, list, from, min(list, from+chunk-1))
	}
	remake()
	_, err = st.Pool().Exec(b.Context(), "VACUUM ANALYZE leads")
	require.NoError(b, err)
	return w
}

// withoutIndexes takes the table's indexes away, all but its key: filling it is several times faster. It returns what puts
// them back.
func (w *claimWorld) withoutIndexes(b *testing.B) func() {
	b.Helper()
	rows, err := w.st.Pool().Query(b.Context(), `SELECT indexname::text, indexdef FROM pg_indexes WHERE tablename = 'leads'
		AND indexname NOT IN ('leads_pkey', 'leads_phone_once')`)
	require.NoError(b, err)
	indexes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) ([2]string, error) {
		var index [2]string
		err := row.Scan(&index[0], &index[1])
		return index, err
	})
	require.NoError(b, err)
	exec := func(sql string) {
		_, err := w.st.Pool().Exec(b.Context(), sql)
		require.NoError(b, err)
	}
	for _, index := range indexes {
		exec("DROP INDEX " + index[0])
	}
	exec("ALTER TABLE leads DROP CONSTRAINT leads_phone_once")
	return func() {
		exec("ALTER TABLE leads ADD CONSTRAINT leads_phone_once UNIQUE (tenant_id, phone_hash, campaign_id)")
		for _, index := range indexes {
			exec(index[1])
		}
	}
}

// round claims 50 leads and tells how long that took; then they are dialed and done.
func (w *claimWorld) round(b *testing.B) time.Duration {
	b.Helper()
	began := time.Now()
	list, taken, err := w.Claim(b.Context(), leads.ClaimBatch, began)
	took := time.Since(began)
	require.NoError(b, err)
	require.Equal(b, leads.ClaimBatch, taken)
	ids := make([]uuid.UUID, len(list))
	for i := range list {
		ids[i] = list[i].ID
	}
	for _, status := range []leads.Status{leads.StatusDialing, leads.StatusConnected, leads.StatusCompleted} {
		storetest.Exec(b, w.st, w.Tenant, "UPDATE leads SET status = $1, claimed_by = NULL, claimed_until = NULL WHERE tenant_id = $2 AND id = ANY($3)", string(status), w.Tenant, ids)
	}
	return took
}

// hold opens a snapshot that lasts until the returned function is called.
func (w *claimWorld) hold(b *testing.B) func() {
	b.Helper()
	conn, err := pgx.ConnectConfig(b.Context(), w.st.Pool().Config().ConnConfig.Copy())
	require.NoError(b, err)
	tx, err := conn.BeginTx(b.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(b, err)
	_, err = tx.Exec(b.Context(), "SELECT count(*) FROM tenants")
	require.NoError(b, err)
	return func() {
		require.NoError(b, tx.Rollback(b.Context()))
		require.NoError(b, conn.Close(context.WithoutCancel(b.Context())))
	}
}

func median(times []time.Duration) time.Duration {
	times = slices.Sorted(slices.Values(times))
	return times[len(times)/2]
}

// BenchmarkClaim claims 50 leads at a time in campaigns of 10 thousand and of 5 million leads, in turn, and then, in the large one, while
// another session holds an old snapshot, until 10,000 leads have been dialed since.
func BenchmarkClaim(b *testing.B) {
	small, large := newClaimWorld(b, 10_000), newClaimWorld(b, 5_000_000)
	for b.Loop() {
		var times [2][]time.Duration
		for range 90 {
			times[0] = append(times[0], small.round(b))
			times[1] = append(times[1], large.round(b))
		}
		var old []time.Duration
		release := large.hold(b)
		for range 200 {
			old = append(old, large.round(b))
		}
		release()
		late := old[len(old)-50:]
		few, many, held := median(times[0]), median(times[1]), median(late)
		b.ReportMetric(float64(few.Microseconds()), "µs/10k")
		b.ReportMetric(float64(many.Microseconds()), "µs/5M")
		b.ReportMetric(float64(held.Microseconds()), "µs/5M-old-snapshot")
		b.ReportMetric(float64(many)/float64(few), "x-size")
		b.ReportMetric(float64(held)/float64(many), "x-snapshot")
		b.ReportMetric(float64(slices.Max(late))/float64(many), "x-snapshot-worst")
	}
}
