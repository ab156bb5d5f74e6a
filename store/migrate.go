package store

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/ringmaster/ringmaster/store/retry"
)

const (
	migrationTable = "ringmaster_migrations"
	// migrationLock is the advisory lock under which one process at a time migrates a database.
	migrationLock = 0x72696e676d617374 // "ringmast"
	// migrationPause is how long a process that waits for the lock leaves between two tries.
	migrationPause = 100 * time.Millisecond
	// monthsAhead is how far Migrate creates partitions.
	monthsAhead = 3
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migrations gives the embedded migration files.
func Migrations() (fs.FS, error) {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return nil, fmt.Errorf("open the embedded migrations: %w", err)
	}
	return files, nil
}

// Migrate brings the database to this version's schema: our migrations, River's, and the partitions of the next months. Of
// several callers one works while the others wait. It tries again while the database is down, and refuses a role (ErrRole), as Open does:
// what a superuser makes belongs to it. It needs no master key.
func Migrate(ctx context.Context, cfg Config) (err error) {
	poolCfg, err := poolConfig(cfg.URL, 0)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	log := cmp.Or(cfg.Logger, slog.Default())
	pool, err := connect(ctx, poolCfg, log)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	defer pool.Close()
	if err := checkRole(ctx, pool, cfg.AllowSuperuser, log); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if err := checkServer(ctx, pool); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	lock, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("migrate: %w", lostUnless(ctx, err))
	}
	defer lock.Release()
	if err := takeMigrationLock(ctx, lock); err != nil {
		return fmt.Errorf("migrate: take the migration lock: %w", lostUnless(ctx, err))
	}
	defer func() {
		_, unlockErr := lock.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", int64(migrationLock))
		err = errors.Join(err, unlockErr)
	}()
	return migrateLocked(ctx, pool, log)
}

// oldestServer is the oldest version of PostgreSQL, as server_version_num has it: migrations and queries use MERGE.
const oldestServer = 150000

func checkServer(ctx context.Context, pool *pgxpool.Pool) error {
	var number int
	var name string
	const query = "SELECT current_setting('server_version_num')::int, current_setting('server_version')"
	if err := pool.QueryRow(ctx, query).Scan(&number, &name); err != nil {
		return fmt.Errorf("read the server's version: %w", lostUnless(ctx, err))
	}
	return versionError(number, name)
}

func versionError(number int, name string) error {
	if number < oldestServer {
		return fmt.Errorf("the database server is PostgreSQL %s: %d or later is needed", name, oldestServer/10000)
	}
	return nil
}

// takeMigrationLock asks again and again. A statement that waited for the lock would hold a snapshot, and the one who has the lock waits
// for the end of all snapshots when it builds an index concurrently.
func takeMigrationLock(ctx context.Context, conn *pgxpool.Conn) error {
	for {
		var taken bool
		if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", int64(migrationLock)).Scan(&taken); err != nil || taken {
			return err
		}
		if err := retry.Pause(ctx, migrationPause); err != nil {
			return err
		}
	}
}

func migrateLocked(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) error {
	files, err := Migrations()
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	s := schema{files: files, conn: pool.Config().ConnConfig, lockTimeout: schemaLockTimeout, tries: schemaTries}
	if err := s.up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if err := completeIndexes(ctx, pool); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	jobs, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fmt.Errorf("migrate the job queue: %w", err)
	}
	if _, err := jobs.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("migrate the job queue: %w", translate(err))
	}
	if err := dropUnused(ctx, pool, log); err != nil {
		return fmt.Errorf("migrate the job queue: %w", err)
	}
	// Somebody who reads for long doesn't keep a controller from starting: it makes partitions, too.
	if _, err := ensurePartitions(ctx, pool, monthsAhead); err != nil && !errors.Is(err, ErrBusy) {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// schemaVersion gives the last migration that the database has; 0 for none.
func schemaVersion(ctx context.Context, pool *pgxpool.Pool) (int64, error) {
	var version int64
	err := pool.QueryRow(ctx, "SELECT COALESCE(max(version_id), 0) FROM "+migrationTable+" WHERE is_applied").Scan(&version)
	if hasCode(err, codeUndefinedTable) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the schema's version: %w", translate(err))
	}
	return version, nil
}

// latestMigration gives the number of this version's last migration.
func latestMigration() (int64, error) {
	files, err := Migrations()
	if err != nil {
		return 0, err
	}
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return 0, fmt.Errorf("list the embedded migrations: %w", err)
	}
	var latest int64
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return 0, fmt.Errorf("read the number of migration %s: %w", name, err)
		}
		latest = max(latest, version)
	}
	return latest, nil
}
