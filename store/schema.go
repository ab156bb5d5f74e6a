package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/ringmaster/ringmaster/store/retry"
)

const (
	// schemaLockTimeout bounds how long a migration waits for a lock: all who come later to the same table, calls for one, wait behind it. It is longer
	// than deadlock_timeout (1 s): then PostgreSQL ends an autovacuum that is in the way, which goes on for minutes otherwise (proc.c, ProcSleep: who is
	// at the end of both at once gives up first). schemaTries is how often one is tried.
	schemaLockTimeout = 1200 * time.Millisecond
	schemaTries       = 60
	schemaWait        = time.Second
	// unboundMark is the line by which a migration runs outside of a transaction.
	unboundMark = "-- +goose NO TRANSACTION"
)

// schema applies migrations, one at a time. One that runs in a transaction waits for locks no longer than lockTimeout, and is tried again:
// it leaves nothing behind. One that runs outside builds indexes CONCURRENTLY: that waits for the end of others' transactions, which holds nobody
// up, and what it leaves when it is cut off is an invalid index.
type schema struct {
	files       fs.FS
	conn        *pgx.ConnConfig
	lockTimeout time.Duration
	tries       int
}

func (s schema) up(ctx context.Context) (err error) {
	waiting, closeWaiting, err := s.provider(0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeWaiting()) }()
	bounded, closeBounded, err := s.provider(s.lockTimeout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeBounded()) }()
	for {
		found, outside, err := s.next(ctx, waiting)
		if err != nil {
			return err
		}
		switch {
		case !found: // it refuses numbers that were skipped
			_, err := waiting.Up(ctx)
			return translate(err)
		case outside:
			_, err = waiting.UpByOne(ctx)
			err = translate(err)
		default:
			err = s.try(ctx, bounded)
		}
		if err != nil {
			return err
		}
	}
}

// next tells whether there is a migration after the last that was applied, and whether it runs outside of a transaction.
func (s schema) next(ctx context.Context, p *goose.Provider) (found, outside bool, err error) {
	current, err := p.GetDBVersion(ctx)
	if err != nil {
		return false, false, translate(err)
	}
	for _, source := range p.ListSources() {
		if source.Version <= current {
			continue
		}
		text, err := fs.ReadFile(s.files, source.Path)
		if err != nil {
			return false, false, fmt.Errorf("read migration %s: %w", source.Path, err)
		}
		return true, strings.Contains(string(text), unboundMark), nil
	}
	return false, false, nil
}

func (s schema) try(ctx context.Context, p *goose.Provider) error {
	for try := 1; ; try++ {
		_, err := p.UpByOne(ctx)
		switch {
		case !hasCode(err, codeLockTimeout, codeDeadlock, codeCanceled):
			return translate(err)
		case try == s.tries:
			return fmt.Errorf("%w: others hold a lock that it needs, or keep it from being done in time, %d tries: end long transactions, dumps for one, and run it again: %w",
				ErrBusy, try, err)
		}
		if err := retry.Pause(ctx, retry.Jitter(schemaWait)); err != nil {
			return err
		}
	}
}

// provider applies migrations on connections that wait so long for a lock, for ever when zero.
func (s schema) provider(lockTimeout time.Duration) (*goose.Provider, func() error, error) {
	conn := s.conn.Copy()
	conn.RuntimeParams["lock_timeout"] = strconv.FormatInt(lockTimeout.Milliseconds(), 10)
	sqlDB := stdlib.OpenDB(*conn)
	versions, err := database.NewStore(goose.DialectPostgres, migrationTable)
	if err != nil {
		return nil, nil, errors.Join(err, sqlDB.Close())
	}
	provider, err := goose.NewProvider("", sqlDB, s.files, goose.WithStore(versions))
	if err != nil {
		return nil, nil, errors.Join(err, sqlDB.Close())
	}
	return provider, sqlDB.Close, nil
}
