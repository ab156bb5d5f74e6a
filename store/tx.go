package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/riverqueue/river"

	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/retry"
)

const (
	// A transaction is repeated this often after a conflict, and this often after a connection that broke before the commit:
	// after a restart of the server each pooled connection fails once.
	maxConflicts   = 8
	maxLosses      = 3
	conflictWait   = 5 * time.Millisecond
	maxPersistWait = 2 * time.Second
)

// Tx is one transaction, in the scope of a tenant or of the service. It belongs to the function that got it.
type Tx struct {
	// Q runs the generated queries. Their errors are the store's (ErrNotFound, *ConstraintError, …).
	Q     *db.Queries
	tx    *pipeline
	store *Store
	// closed is the call that it has closed.
	closed uuid.UUID
	// enqueued are the queues that got jobs.
	enqueued []string
	// webhooks tells that it queued deliveries: those of woken, or, as wokenAll says, of any subscription.
	webhooks, wokenAll bool
	woken              map[uuid.UUID]bool
	// reports are those of calls that it makes due.
	reports []DueReport
	// credentials tell of those that it changes.
	credentials []func(CredentialWatcher)
	// endedTokens are callback tokens of which others are told after the commit.
	endedTokens []string
	// committed are called once the commit is sure.
	committed []func()
	// oauth is what it revokes of OAuth's tokens.
	oauth []revocation
}

// Pgx gives the driver's transaction, for what the generated queries don't cover (COPY, batches). Its errors are the driver's;
// returned from the transaction's function they are translated.
func (t *Tx) Pgx() pgx.Tx { return t.tx }

// JobDone deletes a job that is being worked, with what the transaction makes of it: River, which says then that it is done, finds it gone, and has
// neither a row to change nor one to delete later.
func (t *Tx) JobDone(ctx context.Context, job int64) error {
	if _, err := t.tx.Exec(ctx, "DELETE FROM river_job WHERE id = $1 AND state = 'running'", job); err != nil {
		return fmt.Errorf("delete a job that is done: %w", translate(err))
	}
	return nil
}

// Enqueue adds a job to River's queue in this transaction.
func (t *Tx) Enqueue(ctx context.Context, args river.JobArgs, opts *river.InsertOpts) error {
	inserted, err := t.store.river.InsertTx(ctx, t.tx, args, opts)
	if err != nil {
		return fmt.Errorf("enqueue job %s: %w", args.Kind(), translate(err))
	}
	t.enqueued = append(t.enqueued, inserted.Job.Queue)
	return nil
}

// InTenant runs fn in one transaction that sees and writes rows of that tenant alone. It commits when fn returns nil. See the
// package's comment for what fn may do.
func (s *Store) InTenant(ctx context.Context, tenantID uuid.UUID, fn func(*Tx) error) error {
	return s.run(ctx, txScope{tenant: tenantID.String(), actor: actorScope(ctx)}, fn)
}

// InSystem runs fn in one transaction that sees all tenants: recovery, look-up of keys, the list of what to pace.
func (s *Store) InSystem(ctx context.Context, fn func(*Tx) error) error {
	return s.run(ctx, txScope{system: "on", actor: actorScope(ctx)}, fn)
}

// Persist is InTenant for work that must not be lost: while the database is unavailable it waits and runs fn again, until ctx
// ends. When the connection broke in the commit itself fn may thus have run to success before; it must be idempotent.
func (s *Store) Persist(ctx context.Context, tenantID uuid.UUID, fn func(*Tx) error) error {
	wait := firstRetryWait
	for try := 1; ; try++ {
		err := s.InTenant(ctx, tenantID, fn)
		if err == nil || !errors.Is(err, ErrUnavailable) {
			return err
		}
		s.log.WarnContext(ctx, "database unavailable, retrying the transaction", "tenant_id", tenantID, "attempt", try,
			"retry_in", wait, "error", err)
		if ended := retry.Pause(ctx, wait); ended != nil {
			return fmt.Errorf("%w: %w", ended, err)
		}
		wait = min(wait*2, maxPersistWait)
	}
}

func (s *Store) run(ctx context.Context, in txScope, fn func(*Tx) error) error {
	growStack()
	conflicts, losses := 0, 0
	for {
		err := s.once(ctx, in, fn)
		switch {
		case err == nil:
			return nil
		case hasCode(err, codeSerialization, codeDeadlock):
			warnOfDeadlock(ctx, s.log, err)
			if conflicts++; conflicts >= maxConflicts {
				return fmt.Errorf("%w, %d tries: %w", ErrBusy, conflicts, err)
			}
			if ended := retry.Pause(ctx, retry.Jitter(conflictWait<<conflicts)); ended != nil {
				return fmt.Errorf("%w: %w", ended, err)
			}
		case connectionLost(err) && !errors.Is(err, ErrCommitUnknown):
			if losses++; losses >= maxLosses || ctx.Err() != nil {
				return err
			}
			// The pool may hold more connections to the same lost server; none of them is worth a try.
			s.pool.Reset()
		default:
			return err
		}
	}
}

// warnOfDeadlock logs one: repeating the transaction mends it, but somebody has waited for PostgreSQL's deadlock_timeout.
func warnOfDeadlock(ctx context.Context, log *slog.Logger, err error) {
	if found, ok := errors.AsType[*pgconn.PgError](err); ok && found.Code == codeDeadlock {
		log.WarnContext(ctx, DeadlockMessage, "where", found.Where, "detail", found.Detail)
	}
}

// DeadlockMessage is what is logged of a deadlock that cost a transaction a second and a repetition.
const DeadlockMessage = "database found a deadlock, repeating the transaction"

func (s *Store) once(ctx context.Context, in txScope, fn func(*Tx) error) error {
	conn, err := s.conns.acquire(ctx)
	if err != nil {
		return fmt.Errorf("acquire a database connection: %w", lostUnless(ctx, err))
	}
	defer conn.Release()
	tx := &pipeline{conn: conn, scope: in}
	defer rollback(ctx, tx) // unless it is committed
	t := &Tx{Q: db.New(translating{tx}), tx: tx, store: s}
	if err := fn(t); err != nil {
		if conn.Conn().IsClosed() && !endedByContext(err) {
			return lostUnless(ctx, err)
		}
		// fn's own errors (an io.EOF of a decoder, say) are not the connection's.
		translated, _ := translateAnswer(err)
		return translated
	}
	if conn.Conn().IsClosed() {
		return fmt.Errorf("commit transaction: %w: the connection was lost before", ErrUnavailable)
	}
	err = tx.Commit(ctx)
	if t.webhooks {
		if t.wokenAll {
			t.woken = nil
		}
		s.deliveries.tell(t.woken)
	}
	for _, queue := range t.enqueued { // whatever became of the commit: to look in vain costs little
		s.waker.wake(queue, time.Time{}) //nolint:contextcheck // it outlives the transaction
	}
	s.reports.tell(t.reports)
	for _, change := range t.credentials { // as well
		s.watchers.changed(change)
	}
	s.oauth.revoked(t.oauth)
	if len(t.endedTokens) > 0 {
		s.ended.add(t.endedTokens)
		s.waker.wake(tokenWord, time.Time{}) //nolint:contextcheck // it outlives the transaction
	}
	switch {
	case err == nil:
		for _, fn := range t.committed {
			fn()
		}
		return nil
	case tx.failed != nil && !conn.Conn().IsClosed():
		return tx.failed // what was put off until the commit was refused
	default:
		return fmt.Errorf("commit transaction: %w", commitError(ctx, err))
	}
}

// rollback frees the connection for its next user, also when ctx has ended; a connection on which that fails is closed by the
// pool. It does nothing after a commit.
func rollback(ctx context.Context, tx *pipeline) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = tx.Rollback(ctx)
}

// commitError marks a commit whose answer never came. A server that answered with an error has not committed. (What
// pgconn.SafeToRetry says is no help: pgx v5.12 reports a connection that broke while it awaited the answer as one that was
// closed before.)
func commitError(ctx context.Context, err error) error {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) || errors.Is(err, pgx.ErrTxClosed) || errors.Is(err, pgx.ErrTxCommitRollback) {
		return translate(err)
	}
	return fmt.Errorf("%w: %w", ErrCommitUnknown, lostUnless(ctx, err))
}

// lostUnless translates an error of a connection: it was the database's loss, unless the caller's context ended it.
func lostUnless(ctx context.Context, err error) error {
	translated := translate(err)
	if ctx.Err() != nil || errors.Is(translated, ErrUnavailable) {
		return translated
	}
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && !serverGone(pgErr.Code) {
		return translated
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// translating gives the generated queries a transaction whose errors are the store's.
type translating struct{ tx *pipeline }

func (t translating) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	tag, err := t.tx.Exec(ctx, inMonths(sql, args), args...)
	return tag, translate(err)
}

func (t translating) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := t.tx.Query(ctx, inMonths(sql, args), args...)
	return translatingRows{rows}, translate(err)
}

func (t translating) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return translatingRow{t.tx.QueryRow(ctx, inMonths(sql, args), args...)}
}

func (t translating) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (int64, error) {
	n, err := t.tx.CopyFrom(ctx, table, columns, src)
	return n, translate(err)
}

func (t translating) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return t.tx.SendBatch(ctx, b)
}

type translatingRows struct{ pgx.Rows }

func (r translatingRows) Err() error { return translate(r.Rows.Err()) }

func (r translatingRows) Scan(dest ...any) error { return translate(r.Rows.Scan(dest...)) }

type translatingRow struct{ row pgx.Row }

func (r translatingRow) Scan(dest ...any) error { return translate(r.row.Scan(dest...)) }

// alone runs f while it holds an advisory lock, on a connection of its own. Where another process has the lock f doesn't run, which it
// tells by false.
func (s *Store) alone(ctx context.Context, lock int64, f func() error) (ran bool, err error) {
	conn, err := s.conns.acquire(ctx)
	if err != nil {
		return false, lostUnless(ctx, err)
	}
	defer conn.Release()
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", lock).Scan(&ran); err != nil {
		return false, lostUnless(ctx, err)
	}
	if !ran {
		return false, nil
	}
	defer func() {
		_, unlockErr := conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", lock)
		err = errors.Join(err, unlockErr)
	}()
	return true, f()
}
