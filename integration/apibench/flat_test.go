package apibench

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/figures"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/wake"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

const (
	// envHistory says how many leads and calls there are in the end; 5 million when it is empty.
	envHistory = "RINGMASTER_BENCH_HISTORY"
	few, many  = 10_000, 5_000_000
	flatAim    = 1.3
	// flatRounds are those of which the least counts; each is held against a query that costs the same however many rows there are, since what else
	// runs on the machine makes all dearer.
	flatRounds = 5
	flatQuery  = "SELECT sum(i) FROM generate_series(1, 20000) i"
	flatTimes  = 40
)

// flat is a tenant whose campaign gets ever more leads and calls.
type flat struct {
	*testing.B
	st               *store.Store
	leads            *leads.Service
	postmaster       int
	tenant, campaign uuid.UUID
	pushed           int
}

// BenchmarkFlat prints what PostgreSQL's CPU time for pushes and pages is with 5 million leads and calls, beside that with 10 thousand.
func BenchmarkFlat(b *testing.B) {
	if os.Getenv(envBinary) == "" {
		b.Skip("set " + envBinary + "=/path/to/ringmaster to measure it")
	}
	end := many
	if text := os.Getenv(envHistory); text != "" {
		var err error
		end, err = strconv.Atoi(text)
		require.NoError(b, err)
	}
	for range b.N {
		st := storetest.New(b)
		f := &flat{B: b, st: st, tenant: storetest.Tenant(b, st)}
		f.campaign = storetest.Campaign(b, st, f.tenant, nil)
		f.postmaster = postmasterOf(b, st.Pool().Config().ConnString())
		f.leads = &leads.Service{
			Store: st, Log: slog.New(slog.DiscardHandler), Now: time.Now, Wake: wake.New(),
			Finished: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "finished_total", Help: "Leads that are done."}, []string{"status"}),
		}
		f.fill(0, few)
		before := f.costs()
		f.fill(few, end)
		after := f.costs()
		for i, c := range after {
			share := c.relative / before[i].relative
			b.ReportMetric(share, c.metric+"-growth")
			_, _ = fmt.Fprintf(os.Stderr, "%-40s %8.3f ms at %d, %8.3f ms at %d: %.2f times (aim %g)\n",
				c.name, milliseconds(before[i].each), few, milliseconds(c.each), end, share, flatAim)
		}
		b.ReportMetric(0, "ns/op")
	}
}

// fill adds leads and calls up to a number of them, and what is counted of them. Their indexes are built behind them, and no trigger looks at each
// row: a superuser does it.
func (f *flat) fill(from, to int) {
	f.Helper()
	ctx := context.Background()
	cfg := f.st.Pool().Config().ConnConfig.Copy()
	admin, err := pgx.ParseConfig(os.Getenv(storetest.URLVariable))
	require.NoError(f, err)
	admin.Database = cfg.Database
	conn, err := pgx.ConnectConfig(ctx, admin)
	require.NoError(f, err)
	exec := func(sql string, args ...any) {
		_, err := conn.Exec(ctx, sql, args...)
		require.NoError(f, err)
	}
	exec("SET session_replication_role = replica")
	exec("SET maintenance_work_mem = '512MB'")
	exec("UPDATE pg_index SET indisready = false WHERE " + filledTables)
	exec(fillLeads, f.tenant, f.campaign, from, to-1)
	exec(fillCalls, f.tenant, f.campaign, from, to-1)
	var tables []string
	require.NoError(f, conn.QueryRow(ctx, "SELECT array_agg(DISTINCT indrelid::regclass::text) FROM pg_index WHERE "+filledTables).Scan(&tables))
	for _, table := range tables {
		exec("REINDEX TABLE " + table)
		exec("VACUUM ANALYZE " + table)
	}
	exec(fillCounts, f.tenant, f.campaign)
	exec("SELECT recount_calls()")
	exec("CHECKPOINT") // what was written is not to be paid for by what is measured
	require.NoError(f, conn.Close(ctx))
	keeper := figures.Keeper{Store: f.st, Log: slog.New(slog.DiscardHandler), Now: time.Now}
	require.NoError(f, keeper.Fold(ctx))
	_, err = f.st.Pool().Exec(ctx, "VACUUM ANALYZE campaign_counts, campaign_deltas, call_counts, call_totals, call_deltas")
	require.NoError(f, err)
}

type flatCost struct {
	name, metric string
	each         time.Duration
	// relative is how many times that of flatQuery it is.
	relative float64
}

// each is PostgreSQL's CPU time of one of so many.
func (f *flat) each(times int, do func()) time.Duration {
	before := serverCPU(f, f.postmaster)
	for range times {
		do()
	}
	return max(serverCPU(f, f.postmaster)-before, tick) / time.Duration(times)
}

// costs measures PostgreSQL's CPU time of each operation.
func (f *flat) costs() (out []flatCost) {
	ctx := context.Background()
	push := func(n int) (rows []json.RawMessage) {
		for range n {
			f.pushed++
			text, err := json.Marshal(leadOf(9_900_000*50 + f.pushed))
			require.NoError(f, err)
			rows = append(rows, text)
		}
		return rows
	}
	calls := func(p db.ListCallViewsParams) {
		p.TenantID, p.Before, p.UntilID, p.PageLimit = f.tenant, uuid.Max, uuid.Max, 50
		require.NoError(f, f.st.ReadListByValues(ctx, f.tenant, func(q *db.Queries) error {
			_, err := q.CountCalls(ctx, db.CountCallsParams{TenantID: f.tenant, CampaignID: p.CampaignID, Status: p.Status, Disposition: p.Disposition})
			return err
		}, func(q *db.Queries) error {
			_, err := q.ListCallViews(ctx, p)
			return err
		}))
	}
	page := func(filter leads.Filter) {
		filter.Limit = 50
		_, _, err := f.leads.ListLeads(ctx, f.tenant, f.campaign, filter)
		require.NoError(f, err)
	}
	for _, op := range []struct {
		name, metric string
		times        int
		do           func()
	}{
		{"a lead", "lead", 1500, func() {
			var in leads.Input
			require.NoError(f, json.Unmarshal(push(1)[0], &in))
			_, err := f.leads.PushLead(ctx, f.tenant, f.campaign, in)
			require.NoError(f, err)
		}},
		{"a bulk of 500", "bulk", 30, func() {
			var in leads.BulkInput
			in.Leads.Set, in.Leads.Value = true, push(bulkSize)
			out, err := f.leads.PushLeads(ctx, f.tenant, f.campaign, in)
			require.NoError(f, err)
			require.Equal(f, bulkSize, out.Valid)
		}},
		{"a page of leads", "leads", 800, func() { page(leads.Filter{}) }},
		{"a page of leads by cursor", "leads-cursor", 800, func() { page(leads.Filter{After: store.NewID()}) }},
		{"a page of exhausted leads", "leads-status", 800, func() { page(leads.Filter{Status: new(string(leads.StatusExhausted))}) }},
		{"a page of calls", "calls", 800, func() { calls(db.ListCallViewsParams{}) }},
		{"a page of a campaign's calls", "campaign-calls", 800, func() { calls(db.ListCallViewsParams{CampaignID: &f.campaign}) }},
		{"a page of failed calls", "calls-status", 800, func() { calls(db.ListCallViewsParams{Status: new("failed")}) }},
		{"a page of calls of a disposition", "calls-disposition", 800, func() { calls(db.ListCallViewsParams{Disposition: new("sale")}) }},
		{"a page of calls of a rare disposition", "calls-rare-disposition", 800, func() { calls(db.ListCallViewsParams{Disposition: new("vip")}) }},
		{"a page of a campaign's calls of one", "campaign-calls-disposition", 800, func() {
			calls(db.ListCallViewsParams{CampaignID: &f.campaign, Disposition: new("vip")})
		}},
		{"a page of inbound calls", "calls-direction", 800, func() { calls(db.ListCallViewsParams{Direction: new("inbound")}) }},
	} {
		for range op.times/10 + 1 {
			op.do()
		}
		cost := flatCost{name: op.name, metric: op.metric, each: math.MaxInt64, relative: math.Inf(1)}
		for range flatRounds {
			query := f.each(flatTimes, func() {
				_, err := f.st.Pool().Exec(ctx, flatQuery)
				require.NoError(f, err)
			})
			each := f.each(op.times/flatRounds, op.do)
			cost.each, cost.relative = min(cost.each, each), min(cost.relative, float64(each)/float64(query))
		}
		out = append(out, cost)
	}
	return out
}

// The first hundred leads are exhausted; the first hundred calls have a rare disposition, and the next hundred came in: however many there are, a
// page of them is full, and lies behind all others. Ids are in the order of time, some calls a second.
const (
	filledTables = `indrelid::regclass::text ~ '^(leads|calls_.*|recordings)$'`
	fillLeads    = `INSERT INTO leads (tenant_id, id, campaign_id, phone, phone_hash, phone_last4, name, crm_lead_id, dnd_checked, dnd_clean,
  dnd_checked_at, status, attempts, completed_at)
SELECT $1, ` + filledID + `, $2, '8' || lpad(n::text, 9, '0'), sha256(int8send(n)), lpad((n % 10000)::text, 4, '0'), 'Lead ' || n, 'filled-' || n, true, true, now(),
  CASE WHEN n < 100 THEN 'exhausted' WHEN n % 2 = 0 THEN 'completed' ELSE 'new' END, (n % 2 = 0)::int, CASE WHEN n % 2 = 0 OR n < 100 THEN now() END
FROM generate_series($3::bigint, $4::bigint) n`
	fillCalls = `INSERT INTO calls (tenant_id, id, campaign_id, node, fs_uuid, direction, status, from_number, to_number, dial_time, answer_time,
  end_time, hangup_cause, disposition)
SELECT $1, ` + filledID + `, $2, 'n1', n::text, CASE WHEN n BETWEEN 100 AND 199 THEN 'inbound' ELSE 'outbound' END,
  CASE WHEN n % 3 = 0 THEN 'failed' ELSE 'completed' END, '+918000000001', '+91' || '8' || lpad(n::text, 9, '0'), now(), CASE WHEN n % 3 <> 0 THEN now() END, now(),
  'NORMAL_CLEARING', CASE WHEN n < 100 THEN 'vip' WHEN n % 100 = 1 THEN 'sale' WHEN n % 5 = 1 THEN 'no_interest' END
FROM generate_series($3::bigint, $4::bigint) n`
	fillCounts = `WITH gone AS (DELETE FROM campaign_counts), more AS (DELETE FROM campaign_deltas)
INSERT INTO campaign_deltas (tenant_id, campaign_id, figure, n)
SELECT $1::uuid, $2::uuid, 'lead:' || status, count(*) FROM leads WHERE tenant_id = $1 AND campaign_id = $2 GROUP BY status
UNION ALL
SELECT $1, $2, 'call:' || status, count(*) FROM calls WHERE tenant_id = $1 AND campaign_id = $2 GROUP BY status`
)

const filledID = `(substr(replace(uuidv7_floor(now() - interval '20 days' + n * interval '300 ms')::text, '-', ''), 1, 12) || '7' || lpad(to_hex(n % 4096), 3, '0') ||
  '8' || lpad(to_hex(n), 15, '0'))::uuid`
