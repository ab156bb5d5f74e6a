package store

import (
	"context"
	"errors"
	"iter"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringmaster/ringmaster/store/db"
)

// ReadListByValues sends the queries of several reads together: one transaction, one round trip. Each read makes one query, and sets its results
// anew each time: it is run again after a connection that was lost. The first error is returned. It is for lists, whose queries are planned for the
// values at hand (see PlanByValues) and may take long. They take half of the connections at most, those of one tenant half of these: others wait for
// ReadTimeout. Errors: ErrListsBusy.
func (s *Store) ReadListByValues(ctx context.Context, tenantID uuid.UUID, reads ...func(*db.Queries) error) error {
	done, err := s.lists.turn(ctx, tenantID)
	if err != nil {
		return err
	}
	defer done()
	return (&singles{store: s, scope: scope{tenant: tenantID, byValues: true}, read: true}).together(ctx, reads)
}

// ReadTogether is ReadListByValues for reads that take next to nothing: they wait for no turn, and their plans are kept.
func (s *Store) ReadTogether(ctx context.Context, tenantID uuid.UUID, reads ...func(*db.Queries) error) error {
	return (&singles{store: s, scope: scope{tenant: tenantID}, read: true}).together(ctx, reads)
}

// together reads again where the connection is lost.
func (q *singles) together(ctx context.Context, reads []func(*db.Queries) error) error {
	for losses := 1; ; losses++ {
		err := q.readAll(ctx, reads)
		if !connectionLost(err) || losses >= maxLosses || ctx.Err() != nil {
			return err
		}
		// The pool may hold more connections to the same lost server.
		q.store.readers.Reset()
	}
}

// readAll runs each read up to its query, sends these, and then has each take its results, one after the other.
func (q *singles) readAll(ctx context.Context, reads []func(*db.Queries) error) (err error) {
	parts, err := partsOf(ctx, q.failed, reads)
	if err != nil {
		return err
	}
	defer func() { giveUp(parts) }()
	on, err := q.acquire(ctx)
	if err != nil {
		return err
	}
	batch := &pgx.Batch{}
	on.state(batch)
	for _, p := range parts {
		batch.Queue(p.sql, p.args...)
	}
	results := on.conn.SendBatch(ctx, batch)
	defer func() {
		ended := results.Close()
		if err == nil {
			err = q.failed(ctx, ended)
		}
		on.release(ended != nil)
	}()
	if !on.inScope {
		if _, err := results.Exec(); err != nil {
			return q.failed(ctx, err)
		}
	}
	for _, p := range parts {
		if err := p.take(results); err != nil {
			return err
		}
	}
	return nil
}

// partsOf runs each of several functions up to its query. failed translates errors of the driver. What is given is taken or given up.
func partsOf(ctx context.Context, failed func(context.Context, error) error, asks []func(*db.Queries) error) ([]*part, error) {
	parts := make([]*part, 0, len(asks))
	for _, ask := range asks {
		p := &part{failed: failed, ctx: ctx}
		p.resume, p.stop = iter.Pull(func(yield func(struct{}) bool) {
			growStack()
			p.await = func() bool { return yield(struct{}{}) }
			p.err = ask(db.New(p))
		})
		if _, waits := p.resume(); waits {
			parts = append(parts, p)
		} else if p.err != nil {
			giveUp(parts)
			return nil, p.err
		} // else it has nothing to ask
	}
	return parts, nil
}

// giveUp ends parts whose results won't come. It does nothing to those that have taken theirs.
func giveUp(parts []*part) {
	for _, p := range parts {
		p.stop()
	}
}

var (
	errTwoQueries = errors.New("one of several that are asked together asked for a second query")
	errAbandoned  = errors.New("one that was asked before this one failed")
)

// part is a function whose query is sent together with others.
type part struct {
	failed func(context.Context, error) error // translates errors of the driver
	ctx    context.Context                    //nolint:containedctx // of the query; it lives no longer
	err    error                              // what the function returned

	await  func() bool             // waits until results are there; false when they will not come
	resume func() (struct{}, bool) // lets the function go on
	stop   func()                  // ends it

	sql     string
	args    []any
	results pgx.BatchResults
}

// take has the function take its results, and gives what it returns.
func (p *part) take(results pgx.BatchResults) error {
	p.results = results
	defer p.stop()
	if _, again := p.resume(); again {
		return errTwoQueries
	}
	return p.err
}

// ask hands the query in and waits for its results.
func (p *part) ask(sql string, args []any) error {
	p.sql, p.args = inMonths(sql, args), args
	if !p.await() {
		return errAbandoned
	}
	return nil
}

// Exec implements db.DBTX.
func (p *part) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := p.ask(sql, args); err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := p.results.Exec()
	return tag, p.failed(p.ctx, err) //nolint:contextcheck // the batch's own
}

// Query implements db.DBTX.
func (p *part) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := p.ask(sql, args); err != nil {
		return nil, err
	}
	rows, err := p.results.Query()
	if err != nil {
		return nil, p.failed(p.ctx, err) //nolint:contextcheck // the batch's own
	}
	return partRows{rows, p}, nil
}

// QueryRow implements db.DBTX.
func (p *part) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	if err := p.ask(sql, args); err != nil {
		return failedRow{err}
	}
	return partRow{p}
}

type partRows struct {
	pgx.Rows
	of *part
}

func (r partRows) Err() error { return r.of.failed(r.of.ctx, r.Rows.Err()) }

func (r partRows) Scan(dest ...any) error { return translate(r.Rows.Scan(dest...)) }

type partRow struct{ of *part }

func (r partRow) Scan(dest ...any) error {
	return r.of.failed(r.of.ctx, r.of.results.QueryRow().Scan(dest...))
}

type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }
