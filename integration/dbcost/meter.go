package dbcost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Application is the application_name of whoever watches a run: Meter counts the server's work for them apart.
const Application = "ringmaster-bench"

// ticksPerSecond is the unit of /proc's times (USER_HZ), the same on every Linux that Go runs on.
const ticksPerSecond = 100

// ErrProc says that a process's times could not be read.
var ErrProc = errors.New("unreadable process times")

// Meter reads what a PostgreSQL server on this machine has used.
type Meter struct {
	conn       *pgx.Conn
	postmaster int
}

// Used is what a server has used since its start, or between two readings.
type Used struct {
	// CPU is that of all its processes without Watching, which is that of the backends whose application_name is Application.
	CPU      time.Duration `json:"cpu"`
	Watching time.Duration `json:"watching"`
	// WAL in bytes, where pages are not written whole (full_page_writes=off): their number follows the checkpoints, not the work.
	WAL          int64 `json:"wal_bytes"`
	Transactions int64 `json:"transactions"`
	// Rows were inserted, updated or deleted; of the Updates those that were HOT touched no index.
	Rows    int64 `json:"rows"`
	Updates int64 `json:"updates"`
	HOT     int64 `json:"hot_updates"`
}

// Since is what was used between an earlier reading and this one.
func (u Used) Since(before Used) Used {
	return Used{
		CPU: u.CPU - before.CPU, Watching: u.Watching - before.Watching, WAL: u.WAL - before.WAL, Transactions: u.Transactions - before.Transactions,
		Rows: u.Rows - before.Rows, Updates: u.Updates - before.Updates, HOT: u.HOT - before.HOT,
	}
}

// NewMeter connects as superuser (stack.DatabaseAdminURL) to the database that is measured.
func NewMeter(ctx context.Context, adminURL string) (*Meter, error) {
	cfg, err := pgx.ParseConfig(adminURL)
	if err != nil {
		return nil, fmt.Errorf("read the database's address: %w", err)
	}
	cfg.RuntimeParams["application_name"] = Application
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect the meter to the database: %w", err)
	}
	m := &Meter{conn: conn}
	var pid int
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		return nil, errors.Join(fmt.Errorf("find the database's process: %w", err), conn.Close(ctx))
	}
	stat, err := readStat(pid)
	if err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	m.postmaster = stat.parent
	return m, nil
}

// Close ends the meter's connection.
func (m *Meter) Close(ctx context.Context) error { return m.conn.Close(ctx) }

// CountersLimit is when a backend that has nothing more to do has told its counters of rows and transactions at the latest (PGSTAT_IDLE_INTERVAL
// of PostgreSQL's postgres.c).
const CountersLimit = 10 * time.Second

// Tidy does what the server would do by itself in its own time for what was written before a measurement: vacuum, analyze, checkpoint. It does so in
// all databases: WAL is the server's, and a new server analyzes the catalogs of each, which is no call's.
func (m *Meter) Tidy(ctx context.Context) error {
	rows, err := m.conn.Query(ctx, "SELECT datname::text FROM pg_database WHERE datallowconn AND datname <> current_database()")
	if err != nil {
		return fmt.Errorf("list the databases: %w", err)
	}
	others, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("list the databases: %w", err)
	}
	for _, name := range others {
		if err := m.tidyOther(ctx, name); err != nil {
			return fmt.Errorf("tidy the database %s up: %w", name, err)
		}
	}
	for _, command := range []string{"VACUUM ANALYZE", "CHECKPOINT"} {
		if _, err := m.conn.Exec(ctx, command); err != nil {
			return fmt.Errorf("tidy the database up (%s): %w", command, err)
		}
	}
	return nil
}

func (m *Meter) tidyOther(ctx context.Context, name string) error {
	cfg := m.conn.Config().Copy()
	cfg.Database = name
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "VACUUM ANALYZE")
	return errors.Join(err, conn.Close(ctx))
}

// Read takes a reading. The counters of rows and transactions come from the backends within CountersLimit of their work: read them when all is
// at rest.
func (m *Meter) Read(ctx context.Context) (Used, error) {
	var u Used
	rows, err := m.conn.Query(ctx, "SELECT pid FROM pg_stat_activity WHERE application_name = $1", Application)
	if err != nil {
		return u, fmt.Errorf("find the connections of whoever watches: %w", err)
	}
	watching, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return u, fmt.Errorf("find the connections of whoever watches: %w", err)
	}
	if u.CPU, err = m.cpu(); err != nil {
		return u, err
	}
	for _, pid := range watching {
		stat, err := readStat(pid)
		if err != nil {
			continue // it has gone meanwhile
		}
		u.Watching += stat.own
	}
	u.CPU -= u.Watching
	err = m.conn.QueryRow(ctx, `SELECT (pg_current_wal_insert_lsn() - '0/0')::int8, d.xact_commit, t.rows, t.updates, t.hot FROM pg_stat_database d, (SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::int8 AS rows, coalesce(sum(n_tup_upd), 0)::int8 AS updates,
		coalesce(sum(n_tup_hot_upd), 0)::int8 AS hot FROM pg_stat_user_tables) t WHERE d.datname = current_database()`).
		Scan(&u.WAL, &u.Transactions, &u.Rows, &u.Updates, &u.HOT)
	if err != nil {
		return u, fmt.Errorf("read the database's counters: %w", err)
	}
	return u, nil
}

// cpu is the time of the postmaster, of its children, and of those that it has outlived.
func (m *Meter) cpu() (time.Duration, error) {
	root, err := readStat(m.postmaster)
	if err != nil {
		return 0, err
	}
	total := root.own + root.ended
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, fmt.Errorf("list processes: %w", err)
	}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		stat, err := readStat(pid)
		if err == nil && stat.parent == m.postmaster {
			total += stat.own
		}
	}
	return total, nil
}

// procStat is what /proc tells of a process (proc_pid_stat(5)): ended is the time of children that were waited for.
type procStat struct {
	parent     int
	own, ended time.Duration
}

// CPU is the time that a process has had. Errors: ErrProc.
func CPU(pid int) (time.Duration, error) {
	stat, err := readStat(pid)
	return stat.own, err
}

func readStat(pid int) (s procStat, err error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return s, fmt.Errorf("%w of %d: %w", ErrProc, pid, err)
	}
	// The name, in parentheses, may hold anything; what follows is counted from the state, the third field.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const parent, user, endedSystem = 1, 11, 14
	if len(fields) <= endedSystem {
		return s, fmt.Errorf("%w of %d", ErrProc, pid)
	}
	if s.parent, err = strconv.Atoi(fields[parent]); err != nil {
		return s, fmt.Errorf("%w of %d: %w", ErrProc, pid, err)
	}
	var times [endedSystem - user + 1]time.Duration
	for i := range times {
		ticks, err := strconv.ParseInt(fields[user+i], 10, 64)
		if err != nil {
			return s, fmt.Errorf("%w of %d: %w", ErrProc, pid, err)
		}
		times[i] = time.Duration(ticks) * time.Second / ticksPerSecond
	}
	s.own, s.ended = times[0]+times[1], times[2]+times[3]
	return s, nil
}
