package store

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringmaster/ringmaster/store/db"
)

// pipeline is a transaction that sends what it can in one round trip: it begins with its first statement, and what was put off goes with the
// next one, or with the commit. Statements are carried out in the order in which they were asked for, each with a snapshot of its own. Before
// the next one is sent the results of the last are read to their end.
type pipeline struct {
	conn  *pgxpool.Conn
	scope txScope
	// tx is nil before the first statement is sent.
	tx pgx.Tx
	// off is what was put off, in its order.
	off []*part
	// taking: something of it is given its results. The commit may have been sent, so that nothing more can be put off.
	taking bool
	// failed is what something of it said; the transaction can't be committed then.
	failed error
}

// txScope says whose rows a transaction sees, and for whom it works.
type txScope struct{ tenant, system, actor string }

// queue begins a transaction in a batch, in two statements.
func (s txScope) queue(batch *pgx.Batch) {
	const scope = "SELECT set_config('app.tenant_id', $1, true), set_config('app.system', $2, true)"
	batch.BeginTx(pgx.TxOptions{})
	if s.actor == "" {
		batch.Queue(scope, s.tenant, s.system)
	} else {
		batch.Queue(scope+", set_config('app.actor', $3, true)", s.tenant, s.system, s.actor)
	}
}

// alone tells that a statement can be sent as it is.
func (p *pipeline) alone() bool { return p.tx != nil && len(p.off) == 0 }

// send sends what was put off, behind the beginning where there was none, and what more adds to it. The results of that are the next ones to be read.
func (p *pipeline) send(ctx context.Context, more func(*pgx.Batch)) (pgx.BatchResults, error) {
	if p.failed != nil {
		return nil, p.failed
	}
	batch := &pgx.Batch{}
	begins := p.tx == nil
	if begins {
		p.scope.queue(batch)
	}
	off := p.off
	p.off = nil
	for _, o := range off {
		batch.Queue(o.sql, o.args...)
	}
	more(batch)
	results := p.conn.SendBatch(ctx, batch)
	if begins {
		p.tx = results.Tx()
		for range 2 { // begin and scope
			if _, err := results.Exec(); err != nil {
				giveUp(off)
				_ = results.Close()
				return nil, err
			}
		}
	}
	for i, o := range off {
		p.taking = true
		err := o.take(results)
		p.taking = false
		if p.failed = cmp.Or(p.failed, err); p.failed != nil {
			giveUp(off[i+1:])
			_ = results.Close()
			return nil, p.failed
		}
	}
	return results, nil
}

// begin sends what there is to send before a statement that can't go along.
func (p *pipeline) begin(ctx context.Context) error {
	if p.alone() {
		return nil
	}
	results, err := p.send(ctx, func(*pgx.Batch) {})
	if err != nil {
		return err
	}
	return results.Close()
}

// goesAlong tells whether a statement can be part of a batch: one without arguments may be several, and there are no options for one of a batch.
func goesAlong(args []any) bool {
	if len(args) == 0 {
		return false
	}
	switch args[0].(type) {
	case pgx.QueryExecMode, pgx.QueryResultFormats, pgx.QueryResultFormatsByOID:
		return false
	default:
		return true
	}
}

// Exec implements pgx.Tx.
func (p *pipeline) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if !goesAlong(args) {
		if err := p.begin(ctx); err != nil {
			return pgconn.CommandTag{}, err
		}
	}
	if p.alone() {
		return p.tx.Exec(ctx, sql, args...)
	}
	results, err := p.send(ctx, func(b *pgx.Batch) { b.Queue(sql, args...) })
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := results.Exec()
	if ended := results.Close(); err == nil {
		err = ended
	}
	return tag, err
}

// Query implements pgx.Tx.
func (p *pipeline) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if !goesAlong(args) {
		if err := p.begin(ctx); err != nil {
			return pgx.FailedBatchResults(&pgx.Batch{}, err).Query()
		}
	}
	if p.alone() {
		return p.tx.Query(ctx, sql, args...)
	}
	results, err := p.send(ctx, func(b *pgx.Batch) { b.Queue(sql, args...) })
	if err != nil {
		return pgx.FailedBatchResults(&pgx.Batch{}, err).Query()
	}
	rows, err := results.Query()
	if err != nil {
		_ = results.Close()
		return rows, err
	}
	return &pipelineRows{Rows: rows, results: results}, nil
}

// QueryRow implements pgx.Tx. Nothing is sent before the row is scanned.
func (p *pipeline) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if goesAlong(args) && p.alone() {
		return p.tx.QueryRow(ctx, sql, args...)
	}
	return pipelineRow{of: p, ctx: ctx, sql: sql, args: args}
}

// CopyFrom implements pgx.Tx.
func (p *pipeline) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (int64, error) {
	if err := p.begin(ctx); err != nil {
		return 0, err
	}
	return p.tx.CopyFrom(ctx, table, columns, src)
}

// SendBatch implements pgx.Tx.
func (p *pipeline) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if err := p.begin(ctx); err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	return p.tx.SendBatch(ctx, b)
}

// Begin implements pgx.Tx.
func (p *pipeline) Begin(ctx context.Context) (pgx.Tx, error) {
	if err := p.begin(ctx); err != nil {
		return nil, err
	}
	return p.tx.Begin(ctx)
}

// Prepare implements pgx.Tx.
func (p *pipeline) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if err := p.begin(ctx); err != nil {
		return nil, err
	}
	return p.tx.Prepare(ctx, name, sql)
}

// LargeObjects implements pgx.Tx; there are none.
func (*pipeline) LargeObjects() pgx.LargeObjects { return pgx.LargeObjects{} }

// Conn implements pgx.Tx.
func (p *pipeline) Conn() *pgx.Conn { return p.conn.Conn() }

// Commit implements pgx.Tx. What was put off goes with it, in one round trip. A transaction that has sent nothing has nothing to commit.
func (p *pipeline) Commit(ctx context.Context) error {
	switch {
	case p.failed != nil:
		return p.failed
	case p.tx == nil && len(p.off) == 0:
		return nil
	}
	results, err := p.send(ctx, func(b *pgx.Batch) { b.Queue("commit") })
	if err != nil {
		return err
	}
	tag, err := results.Exec()
	// The answer to COMMIT is the truth: a server that is shut down between it and the end of the batch says so in place of that end, and the pool
	// destroys the connection. What was committed must not be taken for undone, and repeated.
	if ended := results.Close(); err != nil {
		return errors.Join(err, ended)
	}
	if tag.String() == "ROLLBACK" {
		return pgx.ErrTxCommitRollback
	}
	return nil
}

// Rollback implements pgx.Tx.
func (p *pipeline) Rollback(ctx context.Context) error {
	giveUp(p.off)
	p.off = nil
	if p.tx == nil || p.Conn().PgConn().TxStatus() == 'I' {
		return nil
	}
	return p.tx.Rollback(ctx)
}

// pipelineRows end their batch at their end.
type pipelineRows struct {
	pgx.Rows
	results pgx.BatchResults // nil once they are closed
	err     error
}

func (r *pipelineRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *pipelineRows) Close() {
	r.Rows.Close()
	if r.results == nil {
		return
	}
	r.err, r.results = r.results.Close(), nil
}

func (r *pipelineRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return err
	}
	return r.err
}

type pipelineRow struct {
	of   *pipeline
	ctx  context.Context //nolint:containedctx // of the statement; it lives no longer
	sql  string
	args []any
}

func (r pipelineRow) Scan(dest ...any) error {
	if !goesAlong(r.args) {
		if err := r.of.begin(r.ctx); err != nil {
			return err
		}
	}
	if r.of.alone() {
		return r.of.tx.QueryRow(r.ctx, r.sql, r.args...).Scan(dest...)
	}
	results, err := r.of.send(r.ctx, func(b *pgx.Batch) { b.Queue(r.sql, r.args...) })
	if err != nil {
		return err
	}
	err = results.QueryRow().Scan(dest...)
	if ended := results.Close(); err == nil {
		err = ended
	}
	return err
}

// Together sends the queries of several functions, each of which makes one, in one round trip. They are carried out in their order: each sees what
// those before it have written, and, behind one that waits for a lock, what others have committed by then. The first error is returned.
func (t *Tx) Together(ctx context.Context, asks ...func(*db.Queries) error) error {
	parts, err := partsOf(ctx, txFailed, asks)
	if err != nil || len(parts) == 0 {
		return err
	}
	results, err := t.tx.send(ctx, func(b *pgx.Batch) {
		for _, p := range parts {
			b.Queue(p.sql, p.args...)
		}
	})
	if err != nil {
		giveUp(parts)
		return translate(err)
	}
	for i, p := range parts {
		if err := p.take(results); err != nil {
			giveUp(parts[i+1:])
			_ = results.Close()
			return err
		}
	}
	return translate(results.Close())
}

var errPutOffTwice = errors.New("a function that was put off puts off another when it has its results")

// Later puts off the query of a function until the transaction sends its next one, or its commit, so that it costs no round trip. It is for what nothing
// in the transaction waits for. A refusal of the server undoes the transaction, and is its error. When the function gets the results the commit may
// have gone along: an error of its own, as for a row that isn't there, is returned by the transaction, but undoes nothing. For the same reason a function
// that has its results can put nothing off: that is the transaction's error.
func (t *Tx) Later(ctx context.Context, ask func(*db.Queries) error) error {
	if t.tx.taking {
		t.tx.failed = errPutOffTwice
		return errPutOffTwice
	}
	parts, err := partsOf(ctx, txFailed, []func(*db.Queries) error{ask})
	t.tx.off = append(t.tx.off, parts...)
	return err
}

func txFailed(_ context.Context, err error) error { return translate(err) }
