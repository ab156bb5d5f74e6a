package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringmaster/ringmaster/store/db"
)

// readScope puts a connection that reads into a scope, which it keeps. writeScope is that of one transaction.
const (
	readScope  = "SELECT set_config('app.tenant_id', $1, false), set_config('app.system', $2, false), set_config('plan_cache_mode', $3, false), set_config('enable_seqscan', $4, false)"
	writeScope = "SELECT set_config('app.tenant_id', $1, true), set_config('app.system', '', true)"
	// unlessLocked is writeScope with an end to the wait for locks.
	unlessLocked = "SELECT set_config('app.tenant_id', $1, true), set_config('app.system', '', true), set_config('lock_timeout', $2, true)"
)

// scope says whose rows a reader sees: those of one tenant, or, for the nil UUID, all.
type scope struct {
	tenant   uuid.UUID
	byValues bool
	// byIndex has no table read in order that has an index to step over.
	byIndex bool
	// locks bounds the wait for each lock; 0: as the server has it.
	locks time.Duration
}

// settings are the parameters of readScope.
func (s scope) settings() []any {
	tenant, system, plans, inOrder := s.tenant.String(), "", "force_generic_plan", "on"
	if s.tenant == uuid.Nil {
		tenant, system = "", "on"
	}
	if s.byValues {
		plans = "force_custom_plan"
	}
	if s.byIndex {
		inOrder = "off"
	}
	return []any{tenant, system, plans, inOrder}
}

// Read gives queries of which each is a transaction of its own that reads rows of that tenant alone, in one round trip. Two of them may see two
// states of the data; what must see one is one query, or InTenant. A query that locks or writes is refused.
func (s *Store) Read(tenantID uuid.UUID) *db.Queries {
	return db.New(&singles{store: s, scope: scope{tenant: tenantID}, read: true})
}

// ReadSystem is Read over all tenants: see InSystem.
func (s *Store) ReadSystem() *db.Queries {
	return db.New(&singles{store: s, read: true})
}

// ReadSystemByIndex is ReadSystem for a table that is empty again and again, as the queue of webhook deliveries is: a plan of then, which reads all of it,
// would be kept while it fills.
func (s *Store) ReadSystemByIndex() *db.Queries {
	return db.New(&singles{store: s, scope: scope{byIndex: true}, read: true})
}

// Write gives queries of which each is a transaction of its own in one round trip, and writes rows of that tenant alone. It has no actor, so
// that it is for tables that are not audited. A query whose connection broke is not repeated, since it may be done: ErrCommitUnknown.
func (s *Store) Write(tenantID uuid.UUID) *db.Queries {
	return db.New(&singles{store: s, scope: scope{tenant: tenantID}})
}

// WriteUnlessLocked is Write that waits for a lock that others have no longer than wait.
func (s *Store) WriteUnlessLocked(tenantID uuid.UUID, wait time.Duration) *db.Queries {
	return db.New(&singles{store: s, scope: scope{tenant: tenantID, locks: wait}})
}

// singles runs each statement in a transaction of its own. What is sent up to one Sync of the protocol is one transaction (PostgreSQL's
// manual, 55.2.3).
//
// Those that read have connections of their own (Store.readers), on which nothing else runs and nothing can be written. Each keeps the scope of
// the statement before: the next one goes without, when it has the same. A scope that was stated with a statement that failed is undone with it.
type singles struct {
	store *Store
	scope scope
	// read marks transactions that write nothing and may thus be repeated.
	read bool
}

// scopeKey is where a reader's connection notes the scope that it is in.
const scopeKey = "ringmaster.scope"

// scoped is a connection on which what is sent runs in a scope.
type scoped struct {
	of   *singles
	conn *pgxpool.Conn
	// inScope tells that the connection has the scope already.
	inScope bool
}

func (q *singles) acquire(ctx context.Context) (scoped, error) {
	conns := q.store.conns
	if q.read {
		conns = q.store.readConns
	}
	conn, err := conns.acquire(ctx)
	if err != nil {
		return scoped{}, fmt.Errorf("acquire a database connection: %w", lostUnless(ctx, err))
	}
	out := scoped{of: q, conn: conn}
	if q.read {
		out.inScope = conn.Conn().PgConn().CustomData()[scopeKey] == q.scope
	}
	return out, nil
}

// state puts the scope before what a batch has.
func (s scoped) state(batch *pgx.Batch) {
	switch {
	case s.inScope:
	case s.of.read:
		delete(s.conn.Conn().PgConn().CustomData(), scopeKey)
		batch.Queue(readScope, s.of.scope.settings()...)
	case s.of.scope.locks > 0:
		batch.Queue(unlessLocked, s.of.scope.tenant.String(), strconv.FormatInt(s.of.scope.locks.Milliseconds(), 10))
	default:
		batch.Queue(writeScope, s.of.scope.tenant.String())
	}
}

// release gives the connection back. What was sent may have failed.
func (s scoped) release(failed bool) {
	switch {
	case !s.of.read:
	case failed:
		delete(s.conn.Conn().PgConn().CustomData(), scopeKey)
	case !s.inScope:
		s.conn.Conn().PgConn().CustomData()[scopeKey] = s.of.scope
	}
	s.conn.Release()
}

// sent is a statement whose rows are still to be read. close ends it, and gives its connection back.
type sent struct {
	scoped
	rows    pgx.Rows
	results pgx.BatchResults // nil for a statement that went without a scope
	closed  bool
}

func (s *sent) close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	s.rows.Close()
	err := s.rows.Err()
	if s.results != nil {
		if ended := s.results.Close(); err == nil {
			err = ended
		}
	}
	s.release(err != nil)
	return err
}

// send sends a statement with its scope. A pooled connection may be to a server that is gone, which shows here.
func (q *singles) send(ctx context.Context, sql string, args []any) (*sent, error) {
	sql = inMonths(sql, args)
	for losses := 1; ; losses++ {
		out, err := q.try(ctx, sql, args)
		if !connectionLost(err) || !q.read || losses >= maxLosses || ctx.Err() != nil {
			return out, err
		}
		// The pool may hold more connections to the same lost server.
		q.store.readers.Reset()
	}
}

func (q *singles) try(ctx context.Context, sql string, args []any) (*sent, error) {
	on, err := q.acquire(ctx)
	if err != nil {
		return nil, err
	}
	out := &sent{scoped: on}
	if on.inScope {
		out.rows, err = on.conn.Query(ctx, sql, args...)
	} else {
		batch := &pgx.Batch{}
		on.state(batch)
		batch.Queue(sql, args...)
		out.results = on.conn.SendBatch(ctx, batch)
		if _, err = out.results.Exec(); err == nil {
			out.rows, err = out.results.Query()
		}
	}
	if err != nil {
		if out.results != nil {
			_ = out.results.Close()
		}
		on.release(true)
		return nil, q.failed(ctx, err)
	}
	return out, nil
}

// failed translates an error of a statement that was sent.
func (q *singles) failed(ctx context.Context, err error) error {
	var server *pgconn.PgError
	if q.read && hasCode(err, codeCanceled) && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", ErrTooLong, err) // the timeout of readersOf
	}
	if q.read && hasCode(err, codeReadOnly) {
		return err // a query that writes is no read
	}
	if err == nil || errors.As(err, &server) || errors.Is(err, pgx.ErrNoRows) {
		return translate(err)
	}
	switch {
	case isConnectionLoss(err):
	case !q.read && (endedByContext(err) || ctx.Err() != nil):
		return fmt.Errorf("%w: %w", ErrCommitUnknown, err)
	default:
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
	err = out.close()
	return out.rows.CommandTag(), q.failed(ctx, err)
}

// Query implements db.DBTX.
func (q *singles) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	out, err := q.send(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	return &singleRows{Rows: out.rows, of: q, ctx: ctx, sent: out}, nil
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
	if err := r.sent.close(); err != nil && r.err == nil {
		r.err = err
	}
}

func (r *singleRows) Err() error { return r.of.failed(r.ctx, r.err) }

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
	err = scanOne(out.rows, dest)
	if ended := out.close(); ended != nil {
		err = ended
	}
	return r.of.failed(r.ctx, err)
}

// scanOne reads the first row.
func scanOne(rows pgx.Rows, dest []any) error {
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	return rows.Scan(dest...)
}
