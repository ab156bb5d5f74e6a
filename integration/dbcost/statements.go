package dbcost

import (
	"context"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
)

// StatementsLibrary is what a server must have loaded for WatchStatements (stack.Config.Preload).
const StatementsLibrary = "pg_stat_statements"

// WatchStatements begins to count what each statement costs.
func (m *Meter) WatchStatements(ctx context.Context) error {
	for _, command := range []string{
		"CREATE EXTENSION IF NOT EXISTS pg_stat_statements", "ALTER SYSTEM SET pg_stat_statements.track_planning = on", "SELECT pg_reload_conf()",
		"SELECT pg_stat_statements_reset()",
	} {
		if _, err := m.conn.Exec(ctx, command); err != nil {
			return fmt.Errorf("watch the database's statements: %w", err)
		}
	}
	return nil
}

// WriteStatements writes what each statement has cost since WatchStatements, the dearest first: how often it ran, its milliseconds in all, how often it was
// planned and in how many milliseconds, WAL in
// bytes, pages that it looked at, rows. What triggers do is in the statement that fires them; a COMMIT's share of WAL is in none.
func (m *Meter) WriteStatements(ctx context.Context, file string) error {
	rows, err := m.conn.Query(ctx, `SELECT calls, total_exec_time, plans, total_plan_time, wal_bytes::int8, shared_blks_hit + shared_blks_read, rows, query
		FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid WHERE d.datname = current_database()
		ORDER BY total_exec_time + total_plan_time DESC`)
	if err != nil {
		return fmt.Errorf("read the statements' costs: %w", err)
	}
	defer rows.Close()
	var text strings.Builder
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "calls\tms\tplans\tms\twal\tpages\trows\t statement")
	for rows.Next() {
		var calls, plans, wal, pages, touched int64
		var ms, planMS float64
		var query string
		if err := rows.Scan(&calls, &ms, &plans, &planMS, &wal, &pages, &touched, &query); err != nil {
			return fmt.Errorf("read the statements' costs: %w", err)
		}
		_, _ = fmt.Fprintf(t, "%d\t%.0f\t%d\t%.0f\t%d\t%d\t%d\t %s\n", calls, ms, plans, planMS, wal, pages, touched, strings.Join(strings.Fields(query), " "))
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the statements' costs: %w", err)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write the statements' costs: %w", err)
	}
	return os.WriteFile(file, []byte(text.String()), 0o600)
}
