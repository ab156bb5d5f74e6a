package store

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// Locks are advisory locks on names, which this process holds on one connection of its own: when that breaks, all are free for others. A
// statement that takes longer than the timeout ends the connection. It is for one goroutine.
type Locks struct {
	conn    *pgx.Conn
	timeout time.Duration
}

const (
	// advisoryKeys are the keys of the advisory locks that anybody holds in this database.
	advisoryKey   = "(l.classid::bigint << 32) | l.objid::bigint"
	advisoryLocks = ` FROM pg_locks l WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
		AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())`
	advisoryKeys  = "SELECT " + advisoryKey + advisoryLocks
	nodesWithLock = `SELECT n.id FROM nodes n WHERE hashtextextended($1 || n.id, 0) IN (` + advisoryKeys + `) ORDER BY n.id`
	tryLocks      = "SELECT pg_try_advisory_lock(hashtextextended(u.name, 0)) FROM unnest($1::text[]) WITH ORDINALITY u (name, n) ORDER BY u.n"
	unlockAll     = "SELECT pg_advisory_unlock(hashtextextended(u.name, 0)) FROM unnest($1::text[]) u (name)"
	sharers       = "SELECT count(*), count(*) FILTER (WHERE l.pid < pg_backend_pid()), clock_timestamp()" + advisoryLocks +
		" AND " + advisoryKey + " = hashtextextended($1, 0)"
	heldLocks = `SELECT hashtextextended(u.name, 0) IN (` + advisoryKeys + `)
		FROM unnest($1::text[]) WITH ORDINALITY u (name, n) ORDER BY u.n`
)

// OpenLocks connects; application is shown in pg_stat_activity.
func (s *Store) OpenLocks(ctx context.Context, application string, timeout time.Duration) (*Locks, error) {
	cfg := s.pool.Config().ConnConfig.Copy()
	cfg.RuntimeParams["application_name"] = application
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect for advisory locks: %w", err)
	}
	return &Locks{conn: conn, timeout: timeout}, nil
}

// Ping tells whether the connection, and so the locks, are still there.
func (l *Locks) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	if err := l.conn.Ping(ctx); err != nil {
		return fmt.Errorf("ping the connection of advisory locks: %w", err)
	}
	return nil
}

// Share takes a lock that several may hold.
func (l *Locks) Share(ctx context.Context, name string) error {
	return l.exec(ctx, "SELECT pg_advisory_lock_shared(hashtextextended($1, 0))", name)
}

// Unshare gives up what Share took.
func (l *Locks) Unshare(ctx context.Context, name string) error {
	return l.exec(ctx, "SELECT pg_advisory_unlock_shared(hashtextextended($1, 0))", name)
}

// Sharers counts those who hold a lock that several may hold, and those of them who come before this one; and gives the database's time.
func (l *Locks) Sharers(ctx context.Context, name string) (n, before int, now time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	if err := l.conn.QueryRow(ctx, sharers, name).Scan(&n, &before, &now); err != nil {
		return 0, 0, now, fmt.Errorf("advisory locks: %w", err)
	}
	return n, before, now, nil
}

// EndWhenSilent has the server end the connection, and so free the locks, when nothing has come on it for some time: the process may have been
// stopped, or its host cut off.
func (l *Locks) EndWhenSilent(ctx context.Context, after time.Duration) error {
	return l.exec(ctx, "SELECT set_config('idle_session_timeout', $1, false)", strconv.FormatInt(after.Milliseconds(), 10))
}

// UnlockAll gives up what Try took.
func (l *Locks) UnlockAll(ctx context.Context, names []string) error {
	_, err := collect[bool](ctx, l, unlockAll, names)
	return err
}

// Unlock gives up what Try took.
func (l *Locks) Unlock(ctx context.Context, name string) error {
	return l.exec(ctx, "SELECT pg_advisory_unlock(hashtextextended($1, 0))", name)
}

// Try takes those of the locks that are free, and tells which, in order.
func (l *Locks) Try(ctx context.Context, names []string) ([]bool, error) {
	return collect[bool](ctx, l, tryLocks, names)
}

// Held tells which of the locks somebody holds, in order.
func (l *Locks) Held(ctx context.Context, names []string) ([]bool, error) {
	return collect[bool](ctx, l, heldLocks, names)
}

// Nodes are the controllers for whom somebody holds the lock of this prefix and their id.
func (l *Locks) Nodes(ctx context.Context, prefix string) ([]string, error) {
	return collect[string](ctx, l, nodesWithLock, prefix)
}

// Close ends the connection, which frees the locks.
func (l *Locks) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.timeout)
	defer cancel()
	if err := l.conn.Close(ctx); err != nil {
		return fmt.Errorf("close the connection of advisory locks: %w", err)
	}
	return nil
}

func (l *Locks) exec(ctx context.Context, query, name string) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	if _, err := l.conn.Exec(ctx, query, name); err != nil {
		return fmt.Errorf("advisory lock %s: %w", name, err)
	}
	return nil
}

func collect[T any](ctx context.Context, l *Locks, query string, arg any) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	rows, err := l.conn.Query(ctx, query, arg)
	if err != nil {
		return nil, fmt.Errorf("advisory locks: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		return nil, fmt.Errorf("advisory locks: %w", err)
	}
	return out, nil
}
