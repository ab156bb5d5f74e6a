package store_test

import (
	"context"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// firstCheap is the first migration that must not stop calls while it runs: those before it make the tables. Databases of development have
// had others by the numbers from 12 to 39, and would pass over a new one of these.
const tables, firstCheap = 11, 40

// waitsApart is the first migration that waits for no vacuum while others wait for it.
const waitsApart = 92

const unbound = "-- +goose NO TRANSACTION"

// countsOpenRows is the migration that counts, under its lock, the calls that go on and the leads in one, from indexes that hold no more than these:
// what is counted must not change before its triggers do. It gives up after two seconds.
const countsOpenRows = 80

// busyTables are those that calls write, and that grow with them.
const busyTables = `leads|calls|events|webhook_deliveries|ai_sessions|live_calls|callback_tokens|flow_runs`

var (
	comment = regexp.MustCompile(`(?m)--[^\n]*$`)
	// blockingIndex finds an index that is built while nobody may write. ONLY a partitioned parent has no rows to index.
	blockingIndex = regexp.MustCompile(`(?is)CREATE\s+(?:UNIQUE\s+)?INDEX\s+(?:IF\s+NOT\s+EXISTS\s+)?(?:\w+\s+)?ON\s+(?:public\.)?(?:` + busyTables + `)(?:_\w+)?\b`)
	// blockingUnique finds a constraint that builds its index itself.
	blockingUnique = regexp.MustCompile(`(?is)ALTER\s+TABLE\s+(?:IF\s+EXISTS\s+)?(?:` + busyTables + `)\b[^;]*\bADD\s+(?:CONSTRAINT\s+\w+\s+)?(?:UNIQUE|PRIMARY\s+KEY|EXCLUDE)\b\s*(?:USING\s+(?:gist|btree|spgist)|\()`)
	// scansLocked finds a constraint that has all rows read while nobody may write, unless it is NOT VALID until it is validated.
	scansLocked = regexp.MustCompile(`(?is)ALTER\s+TABLE\s+(?:IF\s+EXISTS\s+)?(?:` + busyTables + `)\b[^;]*\b(?:CHECK|REFERENCES|SET\s+NOT\s+NULL)\b[^;]*`)
	notValid    = regexp.MustCompile(`(?is)\bNOT\s+VALID\s*$`)
	// harmless is a statement that may wait for its lock without limit: nobody waits behind it.
	harmless     = regexp.MustCompile(`(?is)^\s*(?:(?:CREATE\s+(?:UNIQUE\s+)?|DROP\s+|RE)INDEX\s+CONCURRENTLY\b[^;]*|` + storage + `[^;)]*\))$`)
	functionBody = regexp.MustCompile(`(?is)CREATE\s+(?:OR\s+REPLACE\s+)?FUNCTION.*?\$\$.*?\$\$`)
	// writesLocked finds rows that are changed while everybody waits for a table that stood before.
	writesLocked = regexp.MustCompile(`(?is)\b(?:ALTER\s+TABLE|CREATE\s+TRIGGER|LOCK\s+TABLE|audit_changes\().*\b(?:UPDATE\s+\w+\s+(?:\w+\s+)?SET|DELETE\s+FROM|INSERT\s+INTO[^;]*\bSELECT)\b`)
)

// storage is how a table's storage parameters are set: who reads or writes it doesn't wait, but the one who sets them does, for who vacuums it.
const storage = `ALTER\s+TABLE\s+(\w+)\s+SET\s*\(`

var (
	setsStorage = regexp.MustCompile(`(?is)` + storage)
	// locksOut finds what has others wait.
	locksOut = regexp.MustCompile(`(?is)\b(?:ALTER\s+TABLE\s+\w+\s+(?:ADD|DROP|ALTER)\b|(?:CREATE|DROP)\s+(?:OR\s+REPLACE\s+)?TRIGGER\b|LOCK\s+TABLE\b)`)
)

// waitsLocked gives the tables whose vacuum a migration waits for while others wait for it.
func waitsLocked(text string) (tables []string) {
	outside := strings.Contains(text, unbound)
	text = functionBody.ReplaceAllString(comment.ReplaceAllString(text, ""), "")
	if outside || !locksOut.MatchString(text) {
		return nil
	}
	for _, found := range setsStorage.FindAllStringSubmatch(text, -1) {
		if !regexp.MustCompile(`(?i)\bCREATE\s+TABLE\s+` + found[1] + `\b`).MatchString(text) {
			tables = append(tables, found[1])
		}
	}
	return tables
}

// strengthensLock finds a lock that becomes a stronger one: who has read before waits for the lock, and the lock for who has read.
var strengthensLock = regexp.MustCompile(`(?is)\bLOCK\s+TABLE\b.*\b(?:DROP\s+TRIGGER|ALTER\s+TABLE)\b`)

// blocking tells what of a migration would have calls wait.
func blocking(text string) []string {
	outside := strings.Contains(text, unbound)
	text = functionBody.ReplaceAllString(comment.ReplaceAllString(text, ""), "")
	found := slices.Concat(blockingIndex.FindAllString(text, -1), blockingUnique.FindAllString(text, -1), writesLocked.FindAllString(text, -1))
	for _, statement := range scansLocked.FindAllString(text, -1) {
		if !notValid.MatchString(statement) {
			found = append(found, statement)
		}
	}
	if !outside {
		return found
	}
	for statement := range strings.SplitSeq(text, ";") {
		if strings.TrimSpace(statement) != "" && !harmless.MatchString(statement) {
			found = append(found, statement)
		}
	}
	return found
}

func TestBlockingStatementsAreFound(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]bool{
		"CREATE INDEX leads_x ON leads (tenant_id);":                                                                        true,
		"create unique index if not exists c on calls\n(id)":                                                                true,
		"CREATE INDEX ON events (id);":                                                                                      true,
		"EXECUTE format('CREATE INDEX %I ON calls (id)', n)":                                                                false, // not to be seen: leave such things
		"CREATE INDEX x ON calls_2026_11 (id);":                                                                             true,
		"ALTER TABLE leads ADD CONSTRAINT l UNIQUE (tenant_id, id);":                                                        true,
		"ALTER TABLE leads ADD COLUMN a int, ADD UNIQUE (a);":                                                               true,
		"CREATE INDEX CONCURRENTLY leads_x ON leads (tenant_id);":                                                           false,
		"CREATE INDEX CONCURRENTLY IF NOT EXISTS leads_x ON leads (tenant_id);":                                             false,
		"CREATE INDEX calls_x ON ONLY calls (tenant_id);":                                                                   false,
		"ALTER TABLE leads ADD CONSTRAINT l UNIQUE USING INDEX leads_x;":                                                    false,
		"ALTER TABLE leads ADD COLUMN a int; ALTER TABLE numbers ADD UNIQUE (e164);":                                        false,
		"-- CREATE INDEX x ON leads (id)\nSELECT 1;":                                                                        false,
		"CREATE INDEX callers_x ON callers (id);":                                                                           false,
		"-- +goose NO TRANSACTION\nALTER TABLE campaigns ADD COLUMN a int;":                                                 true,
		"-- +goose NO TRANSACTION\nDO $$ BEGIN DROP TRIGGER x ON campaigns; END $$;":                                        true,
		"-- +goose NO TRANSACTION\nDROP INDEX CONCURRENTLY IF EXISTS x;\nCREATE INDEX CONCURRENTLY x ON leads (tenant_id);": false,
		"ALTER TABLE users ADD COLUMN a int;\nDELETE FROM tokens WHERE ended;":                                              true,
		"CREATE TABLE a (id int); ALTER TABLE users ADD b int; INSERT INTO a SELECT id FROM users;":                         true,
		"-- +goose NO TRANSACTION\nALTER TABLE leads SET (fillfactor = 60);\nDROP INDEX CONCURRENTLY x;":                    false,
		"-- +goose NO TRANSACTION\nALTER TABLE leads SET (fillfactor = 60), ADD COLUMN a int;":                              true,
		"UPDATE tokens SET a = 1; ALTER TABLE users ADD COLUMN a int;":                                                      false,
		"CREATE FUNCTION f() AS $$ BEGIN UPDATE a SET b = 1; END $$; ALTER TABLE users ADD COLUMN a int;":                   false,
	} {
		require.Equal(t, want, len(blocking(sql)) > 0, sql)
	}
}

// filenodes gives the files of the busy tables and their partitions: one that is rewritten gets another.
func filenodes(t *testing.T, pool *pgxpool.Pool) map[string]int64 {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT c.relname::text, pg_relation_filenode(c.oid)::bigint FROM pg_class c
		WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace AND c.relname ~ $1`, "^("+busyTables+")(_default|_[0-9]{4}_[0-9]{2})?$")
	require.NoError(t, err)
	out := map[string]int64{}
	var name string
	var node int64
	_, err = pgx.ForEachRow(rows, []any{&name, &node}, func() error {
		out[name] = node
		return nil
	})
	require.NoError(t, err)
	return out
}

// A migration of a database in use rewrites no table that calls need, as a volatile default or another type would, and builds its indexes
// beside the writers.
func TestMigrationsStopNoCalls(t *testing.T) {
	t.Parallel()
	cfg, err := pgxpool.ParseConfig(storetest.NewEmptyURL(t))
	require.NoError(t, err)
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	files, err := store.Migrations()
	require.NoError(t, err)
	sqlDB := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { require.NoError(t, sqlDB.Close()) })
	provider, err := goose.NewProvider(goose.DialectPostgres, sqlDB, files)
	require.NoError(t, err)
	_, err = provider.UpTo(t.Context(), tables)
	require.NoError(t, err)
	before := filenodes(t, pool)
	require.Contains(t, before, "leads")
	require.Contains(t, before, "calls_default")
	for _, source := range provider.ListSources() {
		if source.Version < firstCheap {
			require.LessOrEqual(t, source.Version, int64(tables), "give %s a number from %d on", source.Path, firstCheap)
			continue
		}
		_, err := provider.UpByOne(t.Context())
		require.NoError(t, err)
		after := filenodes(t, pool)
		for table, node := range before {
			if now, there := after[table]; there {
				require.Equal(t, node, now, "%s rewrites %s: give the column no default, or a constant one", source.Path, table)
			}
		}
		before = after
		text, err := fs.ReadFile(files, source.Path)
		require.NoError(t, err)
		up, down, _ := strings.Cut(string(text), "-- +goose Down")
		for _, part := range []string{up, down} {
			require.NotRegexp(t, strengthensLock, functionBody.ReplaceAllString(comment.ReplaceAllString(part, ""), ""), "%s: CREATE OR REPLACE TRIGGER needs no stronger lock", source.Path)
		}
		if source.Version >= waitsApart {
			require.Empty(t, waitsLocked(up), "%s: set storage parameters outside of a transaction", source.Path)
		}
		if source.Version == countsOpenRows {
			continue
		}
		require.Empty(t, blocking(up), "%s: build the index CONCURRENTLY, on a partitioned table for each partition, and attach it; "+
			"change rows before anything is locked; outside of a transaction nothing but CONCURRENTLY", source.Path)
	}
}

// A rewrite is seen by the files.
func TestRewritesAreFound(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	before := filenodes(t, st.Pool())
	exec := func(sql string) {
		_, err := st.Pool().Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	exec("ALTER TABLE leads ADD COLUMN cheap int NOT NULL DEFAULT 1, ADD COLUMN at timestamptz DEFAULT now()")
	require.Equal(t, before, filenodes(t, st.Pool()))
	exec("ALTER TABLE leads ADD COLUMN dear timestamptz NOT NULL DEFAULT clock_timestamp()")
	exec("ALTER TABLE calls ADD COLUMN dear uuid DEFAULT gen_random_uuid()")
	after := filenodes(t, st.Pool())
	require.NotEqual(t, before["leads"], after["leads"])
	require.NotEqual(t, before["calls_default"], after["calls_default"])
}

// An autovacuum gives way to a migration that waits for a lock as long as deadlock_timeout, and a little longer.
func TestMigrationsWaitUntilAnAutovacuumGivesWay(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	require.Equal(t, []int64{1000}, storetest.Query[int64](t, st, storetest.Tenant(t, st),
		"SELECT reset_val::bigint FROM pg_settings WHERE name = 'deadlock_timeout' AND unit = 'ms'"))
	require.Greater(t, store.SchemaLockTimeout, 1100*time.Millisecond)
	require.Less(t, store.SchemaLockTimeout, 1500*time.Millisecond, "calls wait behind it")
}

const lockTimeoutOfTest = 50 * time.Millisecond

func migration(statements string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte("-- +goose Up\n" + statements + "\n")}
}

// reads holds a table as a long report would, until the function is called.
func reads(t *testing.T, url, table string) (end func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT * FROM "+table)
	require.NoError(t, err)
	return func() {
		t.Helper()
		require.NoError(t, tx.Rollback(t.Context()))
		require.NoError(t, conn.Close(t.Context()))
	}
}

// A migration that waits for a long reader lets those pass who come after it, and is done when the reader has ended.
func TestAMigrationDoesNotHoldOthersUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	url := storetest.NewEmptyURL(t)
	files := fstest.MapFS{"1_a.sql": migration("CREATE TABLE busy (id int);")}
	require.NoError(t, store.MigrateWith(ctx, url, files, lockTimeoutOfTest, 1))
	files["2_b.sql"] = migration("ALTER TABLE busy ADD COLUMN more int;")
	end := reads(t, url, "busy")
	require.ErrorIs(t, store.MigrateWith(ctx, url, files, lockTimeoutOfTest, 1), store.ErrBusy)

	done := make(chan error, 1)
	go func() { done <- store.MigrateWith(ctx, url, files, lockTimeoutOfTest, 100) }()
	other, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	waits := "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'busy'::regclass AND mode = 'AccessExclusiveLock' AND NOT granted)"
	require.Eventually(t, func() bool {
		var waiting bool
		require.NoError(t, other.QueryRow(t.Context(), waits).Scan(&waiting))
		return waiting
	}, 20*time.Second, time.Millisecond)
	_, err = other.Exec(ctx, "SELECT * FROM busy") // without a limit it would wait for the reader's end
	require.NoError(t, err)
	require.NoError(t, other.Close(t.Context()))
	select {
	case err := <-done:
		require.Fail(t, "the migration has ended", "%v", err)
	default:
	}
	end()
	require.NoError(t, <-done)
}

// An index that is built CONCURRENTLY waits for others as long as they last: cut off, it would be left invalid.
func TestAnIndexWaitsForOthers(t *testing.T) {
	t.Parallel()
	url := storetest.NewEmptyURL(t)
	files := fstest.MapFS{"1_a.sql": migration("CREATE TABLE busy (id int); CREATE TABLE other (id int);")}
	require.NoError(t, store.MigrateWith(t.Context(), url, files, lockTimeoutOfTest, 1))
	files["2_b.sql"] = &fstest.MapFile{Data: []byte("-- +goose NO TRANSACTION\n-- +goose Up\nCREATE INDEX CONCURRENTLY busy_by_id ON busy (id);\n")}
	files["3_c.sql"] = migration("CREATE TABLE last (id int);")
	end := reads(t, url, "busy")
	done := make(chan error, 1)
	go func() { done <- store.MigrateWith(t.Context(), url, files, lockTimeoutOfTest, 1) }()
	watcher, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		var waiting bool
		require.NoError(t, watcher.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks w JOIN pg_locks i ON i.pid = w.pid
			WHERE w.locktype = 'virtualxid' AND NOT w.granted AND w.waitstart < now() - $1::interval
			AND i.relation = 'busy'::regclass AND i.mode = 'ShareUpdateExclusiveLock')`, 10*lockTimeoutOfTest).Scan(&waiting))
		return waiting
	}, 20*time.Second, 10*time.Millisecond)
	require.NoError(t, watcher.Close(t.Context()))
	end()
	require.NoError(t, <-done)
	require.NoError(t, store.MigrateWith(t.Context(), url, files, lockTimeoutOfTest, 1), "there is nothing left to do")
}

var (
	changesRows = regexp.MustCompile(`(?m)^(UPDATE|DELETE|INSERT|WITH) `)
	inScope     = regexp.MustCompile(`set_config\('app\.system', 'on'`)
)

// Rows are changed in a scope, without which a migration sees none.
func TestMigrationsChangeRowsInAScope(t *testing.T) {
	t.Parallel()
	files, err := store.Migrations()
	require.NoError(t, err)
	names, err := fs.Glob(files, "*.sql")
	require.NoError(t, err)
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		require.NoError(t, err)
		for _, half := range strings.SplitN(string(text), "-- +goose Down", 2) {
			half = functionBody.ReplaceAllString(half, "")
			first := changesRows.FindStringIndex(half)
			if first == nil || strings.HasPrefix(name, "0063_") { // which 0071 does over
				continue
			}
			require.Regexp(t, inScope, half[:first[0]], "%s changes rows: SELECT set_config('app.system', 'on', true) comes first", name)
		}
	}
}
