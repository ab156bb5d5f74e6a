package store_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// idAt makes the UUIDv7 of a moment.
func idAt(t *testing.T, at time.Time) uuid.UUID {
	t.Helper()
	id := storetest.NewID(t)
	ms := at.UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	return id
}

func partitionOf(t *testing.T, st *store.Store, id uuid.UUID) string {
	t.Helper()
	var table string
	require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(t.Context(), "SELECT tableoid::regclass::text FROM calls WHERE id = $1", id).Scan(&table)
	}))
	return table
}

func insertCallAt(t *testing.T, st *store.Store, tenantID uuid.UUID, at time.Time) uuid.UUID {
	t.Helper()
	id := idAt(t, at)
	storetest.Exec(t, st, tenantID, `INSERT INTO calls (tenant_id, id, node, fs_uuid, direction, from_number, to_number)
		VALUES ($1, $2, 'n', 'f', 'inbound', 'anonymous', '+918000000001')`, tenantID, id)
	return id
}

func TestRowsLieInTheMonthOfTheirID(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenantID := storetest.Tenant(t, st)
	now := time.Now().UTC()
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	for _, offset := range []int{-1, 0, 1, 2, 3} {
		first := month.AddDate(0, offset, 0)
		last := month.AddDate(0, offset+1, 0).Add(-time.Millisecond)
		want := "calls_" + first.Format("2006_01")
		require.Equal(t, want, partitionOf(t, st, insertCallAt(t, st, tenantID, first)))
		require.Equal(t, want, partitionOf(t, st, insertCallAt(t, st, tenantID, last)))
	}
	require.Equal(t, "calls_default", partitionOf(t, st, insertCallAt(t, st, tenantID, month.AddDate(0, 4, 0))))
	require.Equal(t, "calls_default", partitionOf(t, st, insertCallAt(t, st, tenantID, month.AddDate(-5, 0, 0))))
}

// A month in which calls are written has room for their updates, and isn't analyzed so often that each connection plans its statements anew all the time.
func TestStorageOfAMonth(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	for _, offset := range []int{0, 2} {
		child := "calls_" + time.Now().UTC().AddDate(0, 0, 1-time.Now().UTC().Day()).AddDate(0, offset, 0).Format("2006_01")
		var options []string
		require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) error {
			return tx.Pgx().QueryRow(t.Context(), "SELECT reloptions FROM pg_class WHERE oid = to_regclass($1)", child).Scan(&options)
		}))
		require.ElementsMatch(t, []string{
			"fillfactor=55", "autovacuum_vacuum_threshold=20000", "autovacuum_vacuum_scale_factor=0.02",
			"autovacuum_analyze_threshold=2000", "autovacuum_analyze_scale_factor=0.1",
		}, options, child)
	}
}

func TestEnsurePartitionsTakesRowsFromTheDefault(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenantID := storetest.Tenant(t, st)
	now := time.Now().UTC()
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	late := insertCallAt(t, st, tenantID, month.AddDate(0, 5, 9))
	far := insertCallAt(t, st, tenantID, month.AddDate(0, 6, 0))
	created, err := st.EnsurePartitions(t.Context(), 3)
	require.NoError(t, err)
	require.Zero(t, created, "migration made these")
	created, err = st.EnsurePartitions(t.Context(), 5)
	require.NoError(t, err)
	require.Equal(t, 6, created, "two months of three tables")
	require.Equal(t, "calls_"+month.AddDate(0, 5, 0).Format("2006_01"), partitionOf(t, st, late))
	require.Equal(t, "calls_default", partitionOf(t, st, far))
	for table, protected := range protectedTables(t, st) {
		require.True(t, protected, "partition %s", table)
	}
	// The call still takes its updates, and the constraints of its table hold in the new partition.
	err = storetest.TryExec(t, st, tenantID, "UPDATE calls SET status = 'failed' WHERE tenant_id = $1 AND id = $2", tenantID, late)
	require.True(t, store.IsConstraint(err, "calls_closed_has_end"))
	var duplicate *store.ConstraintError
	err = storetest.TryExec(t, st, tenantID, `INSERT INTO calls (tenant_id, id, node, fs_uuid, direction, from_number, to_number)
		VALUES ($1, $2, 'n', 'f', 'inbound', 'x', 'y')`, tenantID, late)
	require.ErrorAs(t, err, &duplicate)
	require.Equal(t, store.KindUnique, duplicate.Kind)
}

func TestEnsurePartitionsAtTheSameTime(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	const callers = 4
	type result struct {
		created int
		err     error
	}
	results := make(chan result, callers)
	for range callers {
		go func() {
			created, err := st.EnsurePartitions(t.Context(), 4)
			results <- result{created, err}
		}()
	}
	total := 0
	for range callers {
		r := <-results
		require.NoError(t, r.err)
		total += r.created
	}
	require.Equal(t, 3, total)
}

// A reader that takes hours (a dump, somebody's open transaction) keeps a partition from being attached, and nobody else from writing.
func TestEnsurePartitionsGivesWayToWriters(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenantID := storetest.Tenant(t, st)
	reader, err := st.Pool().Begin(t.Context())
	require.NoError(t, err)
	defer reader.Rollback(context.WithoutCancel(t.Context())) //nolint:errcheck // it is over by then
	_, err = reader.Exec(t.Context(), "SELECT count(*) FROM calls")
	require.NoError(t, err)
	type result struct {
		created int
		err     error
	}
	done := make(chan result, 1)
	go func() {
		created, err := st.EnsurePartitions(t.Context(), 4)
		done <- result{created, err}
	}()
	require.Eventually(t, func() bool {
		return storetest.Count(t, st, `SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) > 0
	}, 10*time.Second, 2*time.Millisecond, "the partition waits for the reader")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	require.NoError(t, st.InTenant(ctx, tenantID, func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(ctx, "UPDATE calls SET status = status WHERE fs_uuid = 'f'") // locks every partition
		return err
	}), "calls are written while the partition is awaited")
	next := "calls_" + monthsFrom(time.Now(), 4).Format("2006_01")
	indexes := func(table string) int {
		return storetest.Count(t, st, "SELECT count(*) FROM pg_indexes WHERE tablename = $1", table)
	}
	require.Equal(t, indexes("calls_default"), indexes(next), "all that takes time is done before")
	require.True(t, protectedTables(t, st)[next])
	require.NoError(t, reader.Rollback(t.Context()))
	r := <-done
	require.NoError(t, r.err)
	require.Equal(t, 3, r.created)
	require.Equal(t, indexes("calls_default"), indexes(next), "none is built again")
	require.Zero(t, storetest.Count(t, st, "SELECT count(*) FROM pg_constraint WHERE conname = 'of_its_month'"))
}

// monthsFrom is the first moment of a month so many after another's.
func monthsFrom(at time.Time, months int) time.Time {
	return time.Date(at.UTC().Year(), at.UTC().Month()+time.Month(months), 1, 0, 0, 0, 0, time.UTC)
}

// What a process that ended has prepared is attached by the next.
func TestEnsurePartitionsAttachesWhatWasPrepared(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	month := monthsFrom(time.Now(), 4)
	_, err := st.Pool().Exec(t.Context(), "SELECT prepare_partition('calls', $1)", month)
	require.NoError(t, err)
	created, err := st.EnsurePartitions(t.Context(), 4)
	require.NoError(t, err)
	require.Equal(t, 3, created)
	require.Equal(t, "calls_"+month.Format("2006_01"), partitionOf(t, st, insertCallAt(t, st, storetest.Tenant(t, st), month)))
}

// Its table has changed since: what was prepared is made anew. What somebody has detached isn't.
func TestEnsurePartitionsMakesAnewWhatIsOfAnOlderTable(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	month := monthsFrom(time.Now(), 4)
	kept, now := insertCallAt(t, st, storetest.Tenant(t, st), time.Now()), "calls_"+time.Now().UTC().Format("2006_01")
	for _, sql := range []string{
		"SELECT prepare_partition('calls', '" + month.Format(time.DateOnly) + "')",
		"ALTER TABLE calls DETACH PARTITION " + now,
		"ALTER TABLE calls ADD COLUMN later text NOT NULL DEFAULT ''",
		"ALTER TABLE " + now + " ADD COLUMN later text NOT NULL DEFAULT ''",
	} {
		_, err := st.Pool().Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	created, err := st.EnsurePartitions(t.Context(), 4)
	require.NoError(t, err)
	require.Equal(t, 4, created)
	require.Equal(t, now, partitionOf(t, st, kept), "what was detached has its rows")
	require.Equal(t, "calls_"+month.Format("2006_01"), partitionOf(t, st, insertCallAt(t, st, storetest.Tenant(t, st), month)))
}

func TestLookupByIDReadsOnePartition(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenantID := storetest.Tenant(t, st)
	id := insertCallAt(t, st, tenantID, time.Now())
	plan := explain(t, st, tenantID, "SELECT * FROM calls WHERE tenant_id = '"+tenantID.String()+"' AND id = '"+id.String()+"'")
	require.Contains(t, plan, "calls_"+time.Now().UTC().Format("2006_01"))
	require.Equal(t, 1, strings.Count(plan, "Scan"), plan)
}

func explain(t *testing.T, st *store.Store, tenantID uuid.UUID, query string) string {
	t.Helper()
	var lines []string
	require.NoError(t, st.InTenant(t.Context(), tenantID, func(tx *store.Tx) error {
		// Small tables would be read whole; the question is whether the index can serve.
		if _, err := tx.Pgx().Exec(t.Context(), "SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off"); err != nil {
			return err
		}
		rows, err := tx.Pgx().Query(t.Context(), "EXPLAIN (COSTS OFF) "+query)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				return err
			}
			lines = append(lines, line)
		}
		return rows.Err()
	}))
	return strings.Join(lines, "\n")
}

func TestClaimReadsOnlyDialableRows(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenantID := storetest.Tenant(t, st)
	campaign := storetest.Campaign(t, st, tenantID, nil)
	scope := "tenant_id = '" + tenantID.String() + "' AND campaign_id = '" + campaign.String() + "'"
	fresh := explain(t, st, tenantID, "SELECT id FROM leads WHERE "+scope+
		" AND status IN ('new', 'queued') AND dnd_clean ORDER BY priority DESC, id LIMIT 50 FOR UPDATE SKIP LOCKED")
	require.Contains(t, fresh, "Index Scan using leads_fresh")
	require.NotContains(t, fresh, "Sort")
	due := explain(t, st, tenantID, "SELECT id FROM leads WHERE "+scope+
		" AND status IN ('retry', 'callback') AND dnd_clean AND next_attempt_at <= now() ORDER BY next_attempt_at LIMIT 50 FOR UPDATE SKIP LOCKED")
	require.Contains(t, due, "Index Scan using leads_due")
	require.Regexp(t, `Index Cond:.*next_attempt_at <= now\(\)`, due)
	require.NotContains(t, due, "Sort")
}

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

// Much of a month lies in the default partition: what calls wait for while it is moved ends after two seconds, the month's rows stay where they are, and
// the other tables get their partitions all the same.
func TestAttachGivesUpWhereCallsWouldWait(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	month := monthsFrom(time.Now(), 5)
	call := insertCallAt(t, st, storetest.Tenant(t, st), month.AddDate(0, 0, 3))
	for _, sql := range []string{
		"CREATE FUNCTION many() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN OLD; END $$",
		"CREATE TRIGGER many BEFORE DELETE ON calls_default FOR EACH ROW EXECUTE FUNCTION many()",
	} {
		_, err := st.Pool().Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	created, err := st.EnsurePartitions(t.Context(), 5)
	require.ErrorIs(t, err, store.ErrBusy)
	require.Equal(t, 5, created, "of calls one, of the other tables two each")
	require.Equal(t, "calls_default", partitionOf(t, st, call))
}
