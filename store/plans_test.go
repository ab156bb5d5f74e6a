package store_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// plannedByValues are the queries that run after PlanByValues, each with arguments that are explained. The words in braces are those of
// historyIDs.
func plannedByValues() map[string][]string {
	calls := []string{
		"{tenant}, {small}, NULL, NULL, NULL, NULL", "{tenant}, {small}, NULL, 'failed', NULL, NULL", "{tenant}, NULL, {agent}, NULL, NULL, NULL",
		"{tenant}, NULL, {agent}, NULL, 'sale', NULL", "{tenant}, NULL, NULL, 'ringing', NULL, NULL", "{tenant}, NULL, NULL, NULL, 'sale', NULL",
		"{tenant}, {worked off}, NULL, NULL, 'sale', NULL", "{tenant}, NULL, NULL, NULL, NULL, 'inbound'",
	}
	const last = ", 'ffffffff-ffff-ffff-ffff-ffffffffffff'"
	const anyTime = last + ", '00000000-0000-0000-0000-000000000000'" + last + ", NULL, NULL, 0, 50"
	const lately = ", uuidv7_floor(now() - interval '1 day'), uuidv7_floor(now()), now() - interval '1 day', now()"
	deliveries := []string{
		"{tenant}, NULL, {subscription}, NULL", "{tenant}, 'pending', NULL, NULL", "{tenant}, NULL, {subscription}, 'call.ended'",
	}
	const span = ", audit_id(now() - interval '1 day'), audit_id(now())"
	const someCall = "'0197a3f2-5d3e-7c41-9a39-3c1f0f2a7b10'"
	var events, counted []string
	for _, filter := range []string{"{tenant}, NULL, NULL", "{tenant}, " + someCall + ", NULL"} {
		events = append(events, filter+last+", '00000000-0000-0000-0000-000000000000'"+last+", NULL, NULL", filter+last+span+", now() - interval '1 day', now()")
		counted = append(counted, filter+span+", now() - interval '1 day', now()")
	}
	const hash = "{tenant}, sha256('')"
	const month = "audit_id(now() - interval '30 days'), audit_id(now()), now() - interval '30 days', now(), '{supervision.started,supervision.ended}', "
	audit := []string{"{tenant}, " + month + "NULL, NULL", "{tenant}, " + month + "{agent}, NULL", "{tenant}, " + month + "NULL, 'listen'"}
	const campaign = "'pacer:1', now(), {tenant}, {fresh}, "
	return map[string][]string{
		"LeadsClaimCallbacks": {campaign + "now(), 50"},
		"LeadsClaimRetries":   {campaign + "0, now(), now() - interval '1 hour', 50"},
		"LeadsClaimFresh":     {campaign + "0, '00000000-0000-0000-0000-000000000000', now(), 50"},
		"LeadPriorities":      {"{tenant}, {fresh}, now()", "{tenant}, {worked off}, now()"},
		"PaceHistory":         {"{tenant}, {small}, '00000000-0000-0000-0000-000000000000', 500"},
		"LeadPage": {
			"{tenant}, {worked off}, '00000000-0000-0000-0000-000000000000', 'exhausted', 0, 50",
			"{tenant}, {fresh}, '00000000-0000-0000-0000-000000000000', 'dialing', 0, 50",
		},
		"CountCalls":    {"NULL, {tenant}, NULL, {small}, 'failed', NULL", "'sale', {tenant}, {agent}, NULL, NULL, NULL", "NULL, {tenant}, NULL, NULL, 'ringing', NULL"},
		"ListCallViews": paged(calls, anyTime), "CountCallsBetween": paged(calls, lately+", 1000"),
		"CountWebhookDeliveries": deliveries, "ListWebhookDeliveries": paged(deliveries, ", 0, 50"),
		"ListEvents": paged(events, ", 0, 50"), "CountEvents": paged(counted, ", 10000"),
		"CountReplayEvents":    {"{subscription}, {tenant}" + span + ", '{call.1}', now() - interval '1 day', now(), NULL, 1000"},
		"ReplayEvents":         {"{subscription}, {tenant}, '00000000-0000-0000-0000-000000000000'" + span + ", '{call.1}', now() - interval '1 day', now(), NULL, 250"},
		"ReplayFailed":         {"{tenant}, '00000000-0000-0000-0000-000000000000'" + span + ", {subscription}, '{call.1}', now() - interval '1 day', now(), 250"},
		"CountReplayFailed":    {"{tenant}" + span + ", {subscription}, '{call.1}', now() - interval '1 day', now(), 1000"},
		"FloorFigures":         {"now() - interval '8 hours', now() - interval '1 day', {tenant}, audit_id(now() - interval '1 day')"},
		"SupervisorAuditCount": paged(audit, ", 1000"), "SupervisorAudit": paged(audit, ", 0, 50"),
		"RecordingDoneAt":  {"'(0,1)', {tenant}, " + someCall},
		"SuppressionCount": {hash}, "SuppressionList": {hash + ", 'ffffffff-ffff-ffff-ffff-ffffffffffff', 0, 50"},
	}
}

// recentOnly tells of a query that may read all of a tenant's calls from an id on, because it counts them: those of the last second in
// GateTrunks, those of the period that is asked for in Usage, those of the last day in FloorFigures.
func recentOnly(name string) bool {
	return name == "GateTrunks" || name == "Usage" || name == "FloorFigures"
}

func paged(argLists []string, page string) (out []string) {
	for _, args := range argLists {
		out = append(out, args+page)
	}
	return out
}

// Every query that is generated, and each that will be, is led by an index to its rows of the tables that grow: in an installation for
// many tenants as in one for a single tenant, whose rows are all that there are.
func TestNoQueryReadsAWholeTable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name             string
		tenants, without int
	}{{"one tenant", 1, 0}, {"several tenants", 12, 2000}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st := withHistory(t, c.tenants, c.without)
			testPlans(t, st)
			testReads(t, st)
		})
	}
}

func testPlans(t *testing.T, st *store.Store) {
	t.Helper()
	g := newPlanGuard(t, st)
	queries := generatedQueries(t)
	require.Greater(t, len(queries), 200)
	var found []string
	require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) error {
		for name, sql := range queries {
			found = append(found, slices.DeleteFunc(g.faults(t, tx, name, sql), func(fault string) bool {
				return recentOnly(name) && strings.Contains(fault, tenantsRows) ||
					strings.Contains(fault, " by events_") && strings.Contains(fault, "60000") || // a call's first minute (migration 0099)
					name == "LeadsReleaseOthers" && strings.Contains(fault, "claimed_by") || // an agent holds one lead at a time
					(name == "CountReplayFailed" || name == "ReplayFailed") && strings.Contains(fault, "status = 'dead_lettered'") // those of the tenant's other subscriptions are few
			})...)
		}
		return nil
	}))
	slices.Sort(found)
	require.Empty(t, strings.Join(slices.Compact(found), "\n"))
}

// testReads counts the rows that queries read in fact.
func testReads(t *testing.T, st *store.Store) {
	t.Helper()
	require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) error {
		var opener, open, big, workedOff, small uuid.UUID
		require.NoError(t, tx.Pgx().QueryRow(t.Context(), "SELECT tenant_id, id FROM calls WHERE end_time IS NULL LIMIT 1").Scan(&opener, &open))
		require.NoError(t, tx.Pgx().QueryRow(t.Context(), `SELECT s.tenant_id, s.id, w.id FROM campaigns s
			JOIN campaigns w ON w.tenant_id = s.tenant_id AND w.name = 'worked off' WHERE s.name = 'small'`).Scan(&big, &small, &workedOff))
		read := func(tables string) int {
			whole, indexed := rowsRead(t, tx, tables)
			return whole + indexed
		}
		var reset func()
		for _, c := range []struct {
			name, tables string
			most         int
			run          func() (rows int, err error)
		}{
			{"CallsOpenOfNode", "calls_%", 200, func() (int, error) {
				calls, err := tx.Q.CallsOpenOfNode(t.Context(), "node-1")
				return len(calls), err
			}},
			{"LiveUnitsDeleteLate", "calls_%", 200, func() (int, error) {
				_, err := tx.Pgx().Exec(t.Context(), `INSERT INTO live_calls (tenant_id, unit_id, call_id, kind, node)
					SELECT tenant_id, gen_random_uuid(), id, 'transfer', 'node-1' FROM calls WHERE end_time IS NOT NULL LIMIT 20`)
				require.NoError(t, err)
				reset()
				n, err := tx.Q.LiveUnitsDeleteLate(t.Context(), "node-1")
				return int(n), err
			}},
			{"TakeWebhookWork", "events_%", 40, func() (int, error) {
				rows, err := takeWork(t, tx)
				return len(rows), err
			}},
			{"RecordWebhookAttempts", "webhook_deliveries_%", 40, func() (int, error) {
				rows, err := takeWork(t, tx)
				require.NoError(t, err)
				var args db.RecordWebhookAttemptsParams
				for _, row := range rows {
					args.Subscriptions, args.Seqs = append(args.Subscriptions, row.SubscriptionID), append(args.Seqs, row.Seq)
					args.Tenants, args.Ids = append(args.Tenants, row.TenantID), append(args.Ids, row.DeliveryID)
					args.Attempts, args.Statuses = append(args.Attempts, "[{}]"), append(args.Statuses, "delivered")
					args.NextAt = append(args.NextAt, time.Time{})
				}
				reset()
				return len(rows), tx.Q.RecordWebhookAttempts(t.Context(), args)
			}},
			{"FindCallTenant", "calls_%", 2, func() (int, error) {
				_, err := tx.Q.FindCallTenant(t.Context(), storetest.NewID(t), storetest.NewID(t))
				require.ErrorIs(t, err, store.ErrNotFound)
				tenant, err := tx.Q.FindCallTenant(t.Context(), storetest.NewID(t), open)
				require.Equal(t, opener, tenant)
				return 1, err
			}},
			{"LeadCount", "leads", 0, func() (int, error) {
				n, err := tx.Q.LeadCount(t.Context(), big, workedOff, nil)
				require.Equal(t, int64(30000), n)
				return int(n), err
			}},
			{"ScrubCounts", "leads", 6000, func() (int, error) {
				n, err := tx.Q.ScrubCounts(t.Context(), big, workedOff)
				require.Equal(t, db.ScrubCountsRow{Total: 30000, Pending: 3000, Flagged: 3000}, n)
				return int(n.Total), err
			}},
			{"CampaignsWithLeads", "campaigns", 0, func() (int, error) {
				ids, err := tx.Q.CampaignsWithLeads(t.Context(), []uuid.UUID{big, big}, []uuid.UUID{small, workedOff}, time.Now())
				return len(ids), err
			}},
			{"LeadsCheckedBefore", "leads", 100, func() (int, error) {
				rows, err := tx.Q.LeadsCheckedBefore(t.Context(), db.LeadsCheckedBeforeParams{TenantID: big, CampaignID: small, Before: time.Now(), Batch: 1000})
				return len(rows), err
			}},
			{"LeadPage", "leads", 50, func() (int, error) {
				require.NoError(t, tx.Q.PlanByValues(t.Context()))
				rows, err := tx.Q.LeadPage(t.Context(), db.LeadPageParams{TenantID: big, CampaignID: workedOff, PageLimit: 50})
				return len(rows), err
			}},
			{"SupervisorAuditCount", "audit", 200, func() (int, error) {
				require.NoError(t, tx.Q.PlanByValues(t.Context()))
				n, err := tx.Q.SupervisorAuditCount(t.Context(), db.SupervisorAuditCountParams{
					TenantID: big, FromID: uuid.Nil, ToID: uuid.Max, Until: time.Now(), Actions: []string{"supervision.started", "supervision.ended"}, Most: 1000,
				})
				return int(n), err
			}},
			{"CountCalls of a status", "calls_%", 500, func() (int, error) {
				require.NoError(t, tx.Q.PlanByValues(t.Context()))
				status := "answered"
				n, err := tx.Q.CountCalls(t.Context(), db.CountCallsParams{TenantID: opener, Status: &status})
				return int(n), err
			}},
		} {
			var before int
			reset = func() { before = read(c.tables) }
			reset()
			rows, err := c.run()
			require.NoError(t, err, c.name)
			require.Positive(t, rows, c.name)
			require.LessOrEqual(t, read(c.tables)-before, c.most, c.name)
		}
		return nil
	}))
}

// A query that is planned by values has PlanByValues called in each file that runs it.
func TestPlannedByValues(t *testing.T) {
	t.Parallel()
	queries, seen := generatedQueries(t), map[string]bool{}
	for name := range plannedByValues() {
		require.Contains(t, queries, name)
		seen[name] = false
	}
	for _, dir := range []string{"../dialer", "../httpapi", "../switchctl", "."} {
		require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "db/") {
				return err
			}
			source, err := os.ReadFile(path)
			for name := range seen {
				// The detector makes regexps dear: few files hold the words at all.
				if strings.Contains(string(source), "."+name+"(") && regexp.MustCompile(`\b[qQ]\.`+name+`\(`).Match(source) {
					seen[name] = true
					require.Regexp(t, `\b([qQ]\.PlanByValues|Read(List)?ByValues)\(`, string(source), "%s runs %s", path, name)
				}
			}
			return err
		}))
	}
	for name, used := range seen {
		require.True(t, used, "%s is run nowhere", name)
	}
}

// generatedQueries gives the SQL of every generated query by its name.
func generatedQueries(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("db/*.sql.go")
	require.NoError(t, err)
	named := regexp.MustCompile(`^-- name: (\w+) :\w+\n`)
	out := map[string]string{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				sql, err := strconv.Unquote(lit.Value)
				require.NoError(t, err)
				if name := named.FindStringSubmatch(sql); name != nil {
					out[name[1]] = sql
				}
			}
			return true
		})
	}
	return out
}

// planGuard finds what a plan reads without need. It knows the rows of each table and partition, and the indexes.
type planGuard struct {
	rows    map[string]int
	indexes map[string]guardedIndex
	ids     *strings.Replacer
	// keyed is a condition that leaves few rows.
	keyed *regexp.Regexp
}

type guardedIndex struct {
	columns []string
	// partial: it holds a part of the rows; live: one that is no larger than what goes on at a moment.
	partial, live bool
}

func newPlanGuard(t *testing.T, st *store.Store) planGuard {
	t.Helper()
	g := planGuard{
		rows: map[string]int{}, indexes: map[string]guardedIndex{}, ids: historyIDs(t, st),
		keyed: regexp.MustCompile(`\b(id|\w+_id|\w+_hash|node|actor|claimed_by|fs_uuid|key|disposition) = |= (id|\w+_id|node)\)`),
	}
	rows, err := st.Pool().Query(t.Context(), `SELECT c.relname, c.reltuples::int, i.indexrelid::regclass::text,
		(SELECT array_agg(pg_get_indexdef(i.indexrelid, k, true) ORDER BY k) FROM generate_series(1, i.indnkeyatts) k),
		coalesce(pg_get_expr(i.indpred, i.indrelid), '')
		FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid LEFT JOIN pg_inherits h ON h.inhrelid = c.oid
		WHERE c.relkind = 'r' AND coalesce(h.inhparent::regclass::text, c.relname) = ANY($1)`, historyTables())
	require.NoError(t, err)
	live := regexp.MustCompile(`end_time IS NULL|ended_at IS NULL|status = 'active'`)
	var table, name, predicate string
	var columns []string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&table, &n, &name, &columns, &predicate}, func() error {
		g.rows[table] = n
		g.indexes[name] = guardedIndex{columns: columns, partial: predicate != "", live: live.MatchString(predicate)}
		return nil
	})
	require.NoError(t, err)
	return g
}

// faults explains a query, as it is planned once for whatever values or for some, and gives what its plans read without need.
func (g planGuard) faults(t *testing.T, tx *store.Tx, name, sql string) (found []string) {
	t.Helper()
	run := func(stmt string) {
		_, err := tx.Pgx().Exec(t.Context(), stmt)
		require.NoError(t, err, name)
	}
	run("PREPARE guarded AS " + sql)
	argLists, byValues := plannedByValues()[name]
	if byValues {
		run("SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL enable_partition_pruning = on")
	} else {
		// Whatever partitions are left out when the plan runs, all of them are explained.
		run("SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_partition_pruning = off")
		var params int
		require.NoError(t, tx.Pgx().QueryRow(t.Context(),
			"SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = 'guarded'").Scan(&params))
		argLists = []string{strings.TrimSuffix(strings.Repeat("NULL, ", params), ", ")}
	}
	for _, args := range argLists {
		var raw []byte
		explain := strings.TrimSuffix("EXPLAIN (FORMAT json, COSTS off) EXECUTE guarded ("+g.ids.Replace(args)+")", " ()")
		require.NoError(t, tx.Pgx().QueryRow(t.Context(), explain, pgx.QueryExecModeSimpleProtocol).Scan(&raw), name)
		var explained []struct{ Plan planNode }
		require.NoError(t, json.Unmarshal(raw, &explained))
		for _, e := range explained {
			e.Plan.walk(false, func(n planNode, limited bool) {
				if fault := g.fault(n, limited); fault != "" {
					found = append(found, fmt.Sprintf("%s(%s): %s", name, args, fault))
				}
			})
		}
	}
	run("DEALLOCATE guarded")
	return found
}

type planNode struct {
	Type      string     `json:"Node Type"`
	Relation  string     `json:"Relation Name"`
	Index     string     `json:"Index Name"`
	IndexCond string     `json:"Index Cond"`
	Filter    string     `json:"Filter"`
	Plans     []planNode `json:"Plans"`
}

// walk visits the nodes of a plan. Of those that are limited no more rows are fetched than are asked for.
func (n planNode) walk(limited bool, visit func(planNode, bool)) {
	visit(n, limited)
	switch n.Type {
	case "Limit":
		limited = true
	case "Append", "Merge Append", "Nested Loop", "LockRows", "Result", "Subquery Scan":
	default:
		limited = false
	}
	for _, child := range n.Plans {
		child.walk(limited, visit)
	}
}

const tenantsRows = "all of a tenant's rows"

// fault tells what a node reads without need: a whole table or index, rows of other keys than the wanted one, which it then drops, or all
// rows of a tenant without a limit. Of an index's condition that part counts which leads into the index: the first columns.
func (g planGuard) fault(n planNode, limited bool) string {
	if g.rows[n.Relation] == 0 {
		return ""
	}
	if n.Type == "Seq Scan" {
		return "sequential scan of " + n.Relation + ", filter " + n.Filter
	}
	for bitmap := n.Plans; n.Index == "" && len(bitmap) > 0; bitmap = bitmap[0].Plans {
		n.Index, n.IndexCond = bitmap[0].Index, bitmap[0].IndexCond
	}
	index, known := g.indexes[n.Index]
	if !known { // by the rows' places
		return ""
	}
	led := index.leads(n.IndexCond)
	byKey := slices.ContainsFunc(led, func(cond string) bool { return cond != "tenant_id = " && g.keyed.MatchString(cond) })
	var what string
	switch {
	case len(led) == 0 && !index.partial:
		what = "the whole index"
	case !byKey && !index.live && g.keyed.MatchString(regexp.MustCompile(`\btenant_id = `).ReplaceAllString(n.Filter, "")):
		what = "rows of other keys"
	case !byKey && !index.partial && !limited && (!strings.Contains(n.IndexCond, " <") || !strings.Contains(n.IndexCond, " >")):
		// Bounded on one side is not bounded: what is walked in batches would be read to its end each time.
		what = tenantsRows
	default:
		return ""
	}
	return fmt.Sprintf("%s: %s of %s by %s, condition %s, filter %s", what, n.Type, n.Relation, n.Index, n.IndexCond, n.Filter)
}

// leads gives the parts of a condition that lead into an index: "column = " for the first columns, and "column" for the one behind if it is
// compared otherwise.
func (i guardedIndex) leads(cond string) (led []string) {
	for _, column := range i.columns {
		switch {
		case strings.Contains(cond, "("+column+" = "):
			led = append(led, column+" = ")
		case strings.Contains(cond, "("+column+" "):
			return append(led, column)
		default:
			return led
		}
	}
	return led
}

// takeWork reads twenty deliveries of one subscription.
func takeWork(t *testing.T, tx *store.Tx) ([]db.TakeWebhookWorkRow, error) {
	t.Helper()
	work, err := tx.Q.WebhookWork(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, work)
	return tx.Q.TakeWebhookWork(t.Context(), db.TakeWebhookWorkParams{
		Subscriptions: []uuid.UUID{work[0].SubscriptionID}, Rooms: []int32{10}, Afters: []int64{0}, Since: []time.Time{{}}, Due: time.Now(), Held: []int64{},
	})
}
