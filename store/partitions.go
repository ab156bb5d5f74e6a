package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringmaster/ringmaster/store/retry"
)

const (
	// partitionTries is how often a partition is tried that others' locks keep from being attached, partitionWait the pause after each.
	partitionTries = 40
	partitionWait  = 250 * time.Millisecond
	// maxMonths bounds how far ahead partitions are made.
	maxMonths = 1200

	// partitionScope bounds the wait for locks: whoever comes later waits behind one who waits for an exclusive lock, and that is every
	// statement on the table. The rows that move belong to all tenants.
	partitionScope = "SELECT set_config('lock_timeout', '50ms', true), set_config('statement_timeout', '2s', true), set_config('app.system', 'on', true)"
)

// ensurePartitions makes the partitions from last month to monthsAhead from now, each in two transactions: it is made whole before it is attached,
// which all who write wait for.
func ensurePartitions(ctx context.Context, pool *pgxpool.Pool, monthsAhead int) (created int, failed error) {
	now := time.Now().UTC()
	for _, parent := range []string{"calls", "events", "webhook_deliveries"} {
		for offset := -1; offset <= min(monthsAhead, maxMonths); offset++ {
			month := time.Date(now.Year(), now.Month()+time.Month(offset), 1, 0, 0, 0, 0, time.UTC)
			made, err := ensurePartition(ctx, pool, parent, month)
			if err != nil { // the other tables' are made all the same
				failed = errors.Join(failed, fmt.Errorf("make partition of %s for %s: %w", parent, month.Format("2006-01"), err))
				break
			}
			if made {
				created++
			}
		}
	}
	return created, failed
}

func ensurePartition(ctx context.Context, pool *pgxpool.Pool, parent string, month time.Time) (made bool, err error) {
	lacking, err := partitionStep(ctx, pool, "SELECT prepare_partition($1::text::regclass, $2)", parent, month)
	if err != nil || !lacking {
		return false, err
	}
	return partitionStep(ctx, pool, "SELECT attach_partition($1::text::regclass, $2)", parent, month)
}

// partitionStep takes a step of several callers' in turn, and tries again while others' locks keep it from its own.
func partitionStep(ctx context.Context, pool *pgxpool.Pool, step, parent string, month time.Time) (done bool, err error) {
	for try := 1; ; try++ {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtext('ringmaster.ensure_partitions'))"); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, partitionScope); err != nil {
				return err
			}
			return tx.QueryRow(ctx, step, parent, month).Scan(&done)
		})
		switch {
		case err == nil:
			return done, nil
		case hasCode(err, codeCanceled) && ctx.Err() == nil: // there is too much to move while calls wait
			return false, fmt.Errorf("%w: %w", ErrBusy, err)
		case !hasCode(err, codeLockTimeout, codeDeadlock):
			return false, lostUnless(ctx, translate(err))
		case try == partitionTries:
			return false, fmt.Errorf("%w, %d tries: %w", ErrBusy, try, err)
		}
		if ended := retry.Pause(ctx, retry.Jitter(partitionWait)); ended != nil {
			return false, ended
		}
	}
}
