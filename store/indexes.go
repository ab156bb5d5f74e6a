package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringmaster/ringmaster/store/retry"
)

// lackingIndexes finds the partitions that lack an index of their table, which CREATE INDEX ... ON ONLY has made for the table alone.
const lackingIndexes = `
SELECT i.indexrelid::regclass::text, p.inhrelid::regclass::text, c.relname || '_' || replace(x.relname, t.relname || '_', ''),
  pg_get_indexdef(i.indexrelid)
FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
JOIN pg_inherits p ON p.inhparent = i.indrelid JOIN pg_class c ON c.oid = p.inhrelid
WHERE x.relkind = 'I' AND NOT i.indisvalid AND x.relnamespace = current_schema()::regnamespace
  AND NOT EXISTS (SELECT FROM pg_inherits h JOIN pg_index j ON j.indexrelid = h.inhrelid WHERE h.inhparent = i.indexrelid AND j.indrelid = p.inhrelid)
ORDER BY 1, 2`

// quietJobs has the table of jobs analyzed seldom: its few rows come and go, and statistics of each would be written every minute.
const quietJobs = "ALTER TABLE river_job SET (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000)"

// replaced are indexes of calls, and of events. Of calls: the one in whose place migration 0089 has put another, which is whole by now; those by channel and by lead, which no
// query reads; and the open ones', which are found by their units and of which each call's end was written to all indexes. Of events: the
// one by calls, for which migration 0099 has one of few events. One of a table with partitions can't be dropped CONCURRENTLY.
const (
	replaced       = "calls_by_direction, calls_open, calls_by_channel, calls_by_lead"
	replacedEvents = "events_by_call"
)

// needReplaced tells whether another controller runs that doesn't find open calls by their units: it reads the index of those, and would read all calls
// without it.
const needReplaced = "SELECT EXISTS (SELECT FROM nodes n WHERE n.id <> $1 AND n.lost_at IS NULL AND n.units_since IS DISTINCT FROM n.started_at)"

// dropReplaced drops the replaced indexes, once no controller but those of this version and the one of node's reads them. ErrBusy: somebody reads calls
// for long, a dump for one.
func dropReplaced(ctx context.Context, pool *pgxpool.Pool, node string) error {
	return errors.Join(dropIndexes(ctx, pool, node, replaced), dropIndexes(ctx, pool, node, replacedEvents)) // one table's lock at a time
}

func dropIndexes(ctx context.Context, pool *pgxpool.Pool, node, indexes string) error {
	for try := 1; ; try++ {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			var needed bool
			if err := tx.QueryRow(ctx, needReplaced, node).Scan(&needed); err != nil || needed {
				return err
			}
			if _, err := tx.Exec(ctx, partitionScope); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "DROP INDEX IF EXISTS "+indexes)
			return err
		})
		switch {
		case err == nil:
			return nil
		case !hasCode(err, codeLockTimeout, codeDeadlock):
			return lostUnless(ctx, translate(err))
		case try == partitionTries:
			return fmt.Errorf("drop indexes %s: %w, %d tries: %w", indexes, ErrBusy, try, err)
		}
		if ended := retry.Pause(ctx, retry.Jitter(partitionWait)); ended != nil {
			return ended
		}
	}
}

// DropReplacedIndexes drops indexes that this version has others for, or none, when no other controller needs them; node is the caller's own. Call it
// now and then, since the other controllers may be of the version before. ErrBusy: somebody reads their table for long.
func (s *Store) DropReplacedIndexes(ctx context.Context, node string) error {
	return dropReplaced(ctx, s.pool, node)
}

// dropUnused drops three indexes of River's, of jobs by their arguments, metadata and kinds, which nothing here asks for: of all that a job costs they
// were the largest part. River's own maintenance passes over indexes that aren't there. And it drops the replaced ones. One that somebody reads for
// long, a dump for one, is left to the next time.
func dropUnused(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) error {
	cfg := pool.Config().ConnConfig.Copy()
	cfg.RuntimeParams["lock_timeout"] = strconv.FormatInt(schemaLockTimeout.Milliseconds(), 10)
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return lostUnless(ctx, translate(err))
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing is left on it
	if _, err := conn.Exec(ctx, quietJobs); err != nil && !hasCode(err, codeLockTimeout, codeDeadlock) {
		return lostUnless(ctx, translate(err))
	}
	for _, name := range []string{"river_job_args_index", "river_job_metadata_index", "river_job_kind"} {
		_, err := conn.Exec(ctx, "DROP INDEX CONCURRENTLY IF EXISTS "+name)
		switch {
		case hasCode(err, codeLockTimeout, codeDeadlock):
			log.WarnContext(ctx, "dropping an unused index failed, the next migration tries again: a long query holds its table", "index", name, "error", err)
		case err != nil:
			return lostUnless(ctx, translate(err))
		}
	}
	if err := dropReplaced(ctx, pool, ""); err != nil {
		if !errors.Is(err, ErrBusy) {
			return err
		}
		log.WarnContext(ctx, "dropping replaced indexes failed, controllers try again each hour", "error", err)
	}
	return nil
}

type lackingIndex struct{ Parent, Table, Name, Definition string }

// completeIndexes builds the indexes that partitions lack, CONCURRENTLY: who writes goes on meanwhile. The table's own becomes valid with the last
// of them. What it leaves when it is cut off is an invalid index, which the next one builds anew.
func completeIndexes(ctx context.Context, pool *pgxpool.Pool) error {
	rows, err := pool.Query(ctx, lackingIndexes)
	if err != nil {
		return lostUnless(ctx, translate(err))
	}
	lacking, err := pgx.CollectRows(rows, pgx.RowToStructByPos[lackingIndex])
	if err != nil {
		return lostUnless(ctx, translate(err))
	}
	for _, index := range lacking {
		if err := index.build(ctx, pool); err != nil {
			return fmt.Errorf("build index %s: %w", index.Name, err)
		}
	}
	return nil
}

func (i lackingIndex) build(ctx context.Context, pool *pgxpool.Pool) error {
	name := pgx.Identifier{i.Name}.Sanitize()
	_, using, _ := strings.Cut(i.Definition, " USING ")
	for _, statement := range []string{
		"DROP INDEX CONCURRENTLY IF EXISTS " + name, "CREATE INDEX CONCURRENTLY " + name + " ON " + i.Table + " USING " + using,
	} {
		if _, err := pool.Exec(ctx, statement); err != nil {
			return lostUnless(ctx, translate(err))
		}
	}
	for try := 1; ; try++ {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			wait := strconv.FormatInt(schemaLockTimeout.Milliseconds(), 10)
			if _, err := tx.Exec(ctx, "SELECT set_config('lock_timeout', $1, true)", wait); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "ALTER INDEX "+i.Parent+" ATTACH PARTITION "+name)
			return err
		})
		switch {
		case err == nil:
			return nil
		case try == schemaTries, !hasCode(err, codeLockTimeout, codeDeadlock):
			return lostUnless(ctx, translate(err))
		}
		if err := retry.Pause(ctx, retry.Jitter(schemaWait)); err != nil {
			return err
		}
	}
}
