package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringmaster/ringmaster/store/db"
)

// The scope of a single statement's transaction. Parameters, where it has one, are the tenant's id.
const (
	readScope     = "SELECT set_config('app.tenant_id', $1, true), set_config('app.system', '', true), set_config('transaction_read_only', 'on', true)"
	valuesScope   = readScope + ", set_config('plan_cache_mode', 'force_custom_plan', true)"
	everyoneScope = "SELECT set_config('app.tenant_id', '', true), set_config('app.system', 'on', true), set_config('transaction_read_only', 'on', true)"
	writeScope    = "SELECT set_config('app.tenant_id', $1, true), set_config('app.system', '', true)"
)

// Read gives queries of which each is a transaction of its own that reads rows of that tenant alone: scope, statement and end go to the
// database together, in one round trip. Two of them may see two states of the data; what must see one is one query, or InTenant. A query that
// locks or writes is refused.
func (s *Store) Read(tenantID uuid.UUID) *db.Queries {
	return db.New(&singles{store: s, scope: readScope, args: []any{tenantID.String()}, read: true})
}

// ReadByValues is Read for a query that must be planned for the values at hand (see PlanByValues).
func (s *Store) ReadByValues(tenantID uuid.UUID) *db.Queries {
	return db.New(&singles{store: s, scope: valuesScope, args: []any{tenantID.String()}, read: true})
}

// ReadSystem is Read over all tenants: see InSystem.
func (s *Store) ReadSystem() *db.Queries {
	return db.New(&singles{store: s, scope: everyoneScope, read: true})
}

// Write gives queries of which each is a transaction of its own in one round trip, and writes rows of that tenant alone. It has no actor, so
// that it is for tables that are not audited. A query whose connection broke is not repeated, since it may be done: ErrCommitUnknown.
func (s *Store) Write(tenantID uuid.UUID) *db.Queries {
	return db.New(&singles{store: s, scope: writeScope, args: []any{tenantID.String()}})
}

// singles runs each statement in a transaction of its own. What is sent up to one Sync of the protocol is one transaction (PostgreSQL's
// manual, 55.2.3), so that the scope ends with it.
type singles struct {
	store *Store
	scope string
	args  []any
	// read marks transactions that write nothing and may thus be repeated.
	read bool
}

// sent is a statement whose scope is stated and whose results are still to be read. close ends it, and gives its connection back.
type sent struct {
	conn    *pgxpool.Conn
	results pgx.BatchResults
}

func (s *sent) close() error {
	if s.conn == nil {
		return nil
	}
	err := s.results.Close()
	s.conn.Release()
	s.conn = nil
	return err
}

// send sends a statement with its scope. A pooled connection may be to a server that is gone, which shows here.
func (q *singles) send(ctx context.Context, sql string, args []any) (*sent, error) {
	for losses := 1; ; losses++ {
		out, err := q.try(ctx, sql, args)
		if err == nil || !q.read || !errors.Is(err, ErrUnavailable) || losses >= maxLosses || ctx.Err() != nil {
			return out, err
		}
		// The pool may hold more connections to the same lost server.
		q.store.pool.Reset()
	}
}

func (q *singles) try(ctx context.Context, sql string, args []any) (*sent, error) {
	conn, err := q.store.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("acquire a database connection: %w", lostUnless(ctx, err))
	}
	batch := &pgx.Batch{}
	batch.Queue(q.scope, q.args...)
	batch.Queue(sql, args...)
	out := &sent{conn: conn, results: conn.SendBatch(ctx, batch)}
	if _, err := out.results.Exec(); err != nil {
		_ = out.close()
		return nil, q.failed(ctx, err)
	}
	return out, nil
}

// failed translates an error of a statement that was sent.
func (q *singles) failed(ctx context.Context, err error) error {
	var server *pgconn.PgError
	if err == nil || errors.As(err, &server) || errors.Is(err, pgx.ErrNoRows) {
		return translate(err)
	}
	if !isConnectionLoss(err) {
		return err // of the context, or of a value that can't be scanned
	}
	if err = lostUnless(ctx, err); q.read {
		return err
	}
	return fmt.Errorf("%w: %w", ErrCommitUnknown, err)
}

// Exec implements db.DBTX.
func (q *singles) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	out, err := q.send(ctx, sql, args)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := out.results.Exec()
	if ended := out.close(); err == nil {
		err = ended
	}
	return tag, q.failed(ctx, err)
}

// Query implements db.DBTX.
func (q *singles) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	out, err := q.send(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	rows, err := out.results.Query()
	if err != nil {
		_ = out.close()
		return nil, q.failed(ctx, err)
	}
	return &singleRows{Rows: rows, of: q, ctx: ctx, sent: out}, nil
}

// QueryRow implements db.DBTX. Nothing is sent before the row is scanned.
func (q *singles) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return singleRow{of: q, ctx: ctx, sql: sql, args: args}
}

// singleRows are the rows of a single statement; Close ends its transaction.
type singleRows struct {
	pgx.Rows
	of   *singles
	ctx  context.Context //nolint:containedctx // of the statement; they live no longer
	sent *sent
	err  error
}

func (r *singleRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *singleRows) Close() {
	r.Rows.Close()
	if err := r.sent.close(); err != nil && r.err == nil {
		r.err = err
	}
}

func (r *singleRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return r.of.failed(r.ctx, err)
	}
	return r.of.failed(r.ctx, r.err)
}

func (r *singleRows) Scan(dest ...any) error { return translate(r.Rows.Scan(dest...)) }

type singleRow struct {
	of   *singles
	ctx  context.Context //nolint:containedctx // of the statement; it lives no longer
	sql  string
	args []any
}

func (r singleRow) Scan(dest ...any) error {
	out, err := r.of.send(r.ctx, r.sql, r.args)
	if err != nil {
		return err
	}
	err = out.results.QueryRow().Scan(dest...)
	if ended := out.close(); err == nil {
		err = ended
	}
	return r.of.failed(r.ctx, err)
}
