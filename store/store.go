package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/keyring"
	"github.com/ringmaster/ringmaster/store/retry"
)

const (
	defaultMaxConns = 16
	firstRetryWait  = 200 * time.Millisecond
	maxRetryWait    = 5 * time.Second
	connectTimeout  = 5 * time.Second
	defaultKeyDelay = 15 * time.Second
	// defaultReadTimeout bounds a single read: who asks for more than can be read in that time is to ask for less.
	defaultReadTimeout = 5 * time.Second
	never              = 365 * 24 * time.Hour
)

// Config says how to reach the database.
type Config struct {
	// URL is a PostgreSQL connection string.
	URL string
	// MasterKey wraps the database's keys. It must not be zero.
	MasterKey [32]byte
	// KeyDelay is how long a new key is known before it seals and signs, 15 s when zero; RefreshKeys must be called more often.
	KeyDelay time.Duration
	// MaxConns bounds the pool; 16 when zero. Half as many more connections are for single reads.
	MaxConns int32
	// ReadTimeout bounds a single read, and the wait for another list's end; 5 s when zero.
	ReadTimeout time.Duration
	// AllowSuperuser accepts a role that has SUPERUSER or BYPASSRLS, for which row-level security doesn't hold. Without it such a role is
	// refused.
	AllowSuperuser bool
	// Logger defaults to slog.Default.
	Logger *slog.Logger
}

// Store is a pool of connections and the keys that go with the data. It is safe for concurrent use.
type Store struct {
	pool    *pgxpool.Pool
	readers *pgxpool.Pool // for single reads alone: see singles
	// conns and readConns are those of pool and of readers.
	conns, readConns *connections
	// lists bounds the lists that are read at once: they leave half of the readers to others.
	lists    *listTurns
	river    *river.Client[pgx.Tx]
	waker    *waker
	master   keyring.Key
	keyDelay time.Duration
	rings    atomic.Pointer[rings] // opened; replaced as a whole by openKeys and RefreshKeys
	dataKeys sync.Map              // tenant id → *dataKeys, unwrapped
	log      *slog.Logger

	watchers   watchers // of credentials
	oauth      oauthWatchers
	ended      endedTokens
	deliveries *deliverySignal
	reports    reportWatchers
	recordings recordingWorkers
	// shortEvents is written by ShortEvents.
	shortEvents atomic.Bool
}

// Open connects to the database. While that is down it tries again, with one log line per try, until ctx ends; a refusal that
// waiting can't fix (wrong password, unknown database), a role that row-level security doesn't bind (ErrRole), a schema without this
// version's migrations, and a master key that is not the database's (a *MasterKeyError) end it at once, and nothing is written.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.MasterKey == [32]byte{} {
		return nil, errors.New("open store: the master key is not set")
	}
	poolConfig, err := poolConfig(cfg.URL, cfg.MaxConns)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	log := cfg.Logger
	if log == nil {
		log = slog.Default()
	}
	pool, err := connect(ctx, poolConfig, log)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	readTimeout := cmp.Or(cfg.ReadTimeout, defaultReadTimeout)
	readers, err := readersOf(ctx, poolConfig, readTimeout)
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &Store{
		pool: pool, readers: readers, conns: newConnections(pool), readConns: newConnections(readers), lists: newListTurns(int(readers.Config().MaxConns/2), readTimeout), //nolint:mnd // half
		master: cfg.MasterKey, keyDelay: cmp.Or(cfg.KeyDelay, defaultKeyDelay), log: log, deliveries: newDeliverySignal(),
	}
	s.waker = newWaker(log, s.tellWorkers)
	// This client enqueues. Of its own notifications the first of each queue alone is sent: once says after a commit what was enqueued.
	s.river, err = river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: riverLogger(log), FetchCooldown: never, FetchPollInterval: never})
	if err == nil {
		err = checkRole(ctx, pool, cfg.AllowSuperuser, log)
	}
	if err == nil {
		err = checkSchema(ctx, pool)
	}
	if err == nil {
		err = s.openKeys(ctx)
	}
	if err != nil {
		s.closePools()
		return nil, fmt.Errorf("open store: %w", err)
	}
	return s, nil
}

func poolConfig(url string, maxConns int32) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		// The driver's message would show the URL, and with it the password.
		return nil, errors.New("parse the database URL: it is no PostgreSQL connection string")
	}
	cfg.MaxConns = defaultMaxConns
	if maxConns > 0 {
		cfg.MaxConns = maxConns
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = connectTimeout
	}
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = "ringmaster"
	}
	if cfg.ConnConfig.RuntimeParams["plan_cache_mode"] == "" {
		// A plan per statement and connection: planning anew costs the gate and the closing of a call a third more CPU.
		cfg.ConnConfig.RuntimeParams["plan_cache_mode"] = "force_generic_plan"
	}
	if cfg.ConnConfig.RuntimeParams["max_parallel_workers_per_gather"] == "" {
		// A plan for any values reckons with a third of all calls where it reads those of the last seconds, and would start processes for them each time.
		cfg.ConnConfig.RuntimeParams["max_parallel_workers_per_gather"] = "0"
	}
	liveness(cfg.ConnConfig)
	cfg.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		plainUUIDs(conn.TypeMap())
		return nil
	}
	return cfg, nil
}

// readersOf makes the pool of single reads, which connects when it is used. A server refuses whatever would write on it, and ends what
// takes longer than timeout.
func readersOf(ctx context.Context, cfg *pgxpool.Config, timeout time.Duration) (*pgxpool.Pool, error) {
	cfg = cfg.Copy()
	cfg.MaxConns = (cfg.MaxConns + 1) / 2 //nolint:mnd // half of them
	cfg.MinConns, cfg.MinIdleConns = 0, 0
	// Set once it is connected: what a URL asks of its server (target_session_attrs=read-write) is looked for before that.
	connected := cfg.AfterConnect
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if err := connected(ctx, conn); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, "SET default_transaction_read_only = on")
		return err //nolint:wrapcheck // pgx wraps it
	}
	cfg.ConnConfig.RuntimeParams["statement_timeout"] = strconv.FormatInt(timeout.Milliseconds(), 10)
	readers, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("create the connection pool of reads: %w", err)
	}
	return readers, nil
}

// connect makes a pool of which one connection has worked.
func connect(ctx context.Context, cfg *pgxpool.Config, log *slog.Logger) (*pgxpool.Pool, error) {
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("create the connection pool: %w", err)
	}
	addr := fmt.Sprintf("%s:%d", cfg.ConnConfig.Host, cfg.ConnConfig.Port)
	wait := firstRetryWait
	for try := 1; ; try++ {
		err := pool.Ping(ctx)
		if err == nil {
			return pool, nil
		}
		if permanent(err) {
			pool.Close()
			return nil, fmt.Errorf("connect to PostgreSQL at %s: %w", addr, lostUnless(ctx, err))
		}
		if ctx.Err() != nil {
			pool.Close()
			return nil, fmt.Errorf("connect to PostgreSQL at %s: %w: %w", addr, ErrUnavailable, err)
		}
		log.WarnContext(ctx, "database unavailable, retrying", "addr", addr, "attempt", try, "retry_in", wait,
			"error", err)
		if err := retry.Pause(ctx, wait); err != nil {
			pool.Close()
			return nil, fmt.Errorf("connect to PostgreSQL at %s: %w: %w", addr, ErrUnavailable, err)
		}
		wait = min(wait*2, maxRetryWait)
	}
}

// permanent tells refusals that waiting can't fix from a server that is starting, stopping or full.
func permanent(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && !serverGone(pgErr.Code)
}

// checkRole refuses a role that row-level security does not bind: a query that forgets its tenant would see all tenants' rows.
func checkRole(ctx context.Context, pool *pgxpool.Pool, allow bool, log *slog.Logger) error {
	var role, database string
	var exempt bool
	const query = "SELECT current_user, current_database(), rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
	if err := pool.QueryRow(ctx, query).Scan(&role, &database, &exempt); err != nil {
		return fmt.Errorf("read the database role: %w", lostUnless(ctx, err))
	}
	switch {
	case exempt && allow:
		log.WarnContext(ctx, "database role is exempt from row-level security, as the configuration allows", "role", role)
	case exempt:
		return fmt.Errorf("%w: %q has SUPERUSER or BYPASSRLS. Use a role without either (CREATE ROLE ringmaster LOGIN PASSWORD '…'; "+
			"ALTER DATABASE %q OWNER TO ringmaster; conf/systemd/README.md says how a database in use changes hands), or set "+
			"database.allow_superuser", ErrRole, role, database)
	}
	return nil
}

// checkSchema refuses a schema older than this version.
func checkSchema(ctx context.Context, pool *pgxpool.Pool) error {
	current, err := schemaVersion(ctx, pool)
	if err != nil {
		return err
	}
	wanted, err := latestMigration()
	if err != nil {
		return err
	}
	if current < wanted {
		return fmt.Errorf("%w (it is at %d, this version needs %d)", ErrOutdatedSchema, current, wanted)
	}
	return nil
}

// Close ends all connections; it waits for those in use.
func (s *Store) Close() {
	s.waker.close()
	s.closePools()
}

func (s *Store) closePools() {
	s.readers.Close()
	s.pool.Close()
}

// Pool gives the connections for what needs one of its own: advisory locks, River's workers.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// Ping asks the database for a sign of life. One that takes no writes is unavailable.
func (s *Store) Ping(ctx context.Context) error {
	var readOnly bool
	if err := s.pool.QueryRow(ctx, "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean").Scan(&readOnly); err != nil {
		return fmt.Errorf("ping the database: %w", lostUnless(ctx, err))
	}
	if readOnly {
		return fmt.Errorf("ping the database: %w: the server is read-only", ErrUnavailable)
	}
	return nil
}

// EnsurePartitions creates the monthly partitions that are missing up to monthsAhead, and tells how many those were. Call it at
// least monthly; Migrate does it for the next months. It gives way to whoever reads these tables for long; ErrBusy then, with the number of
// those that were made.
func (s *Store) EnsurePartitions(ctx context.Context, monthsAhead int) (int, error) {
	return ensurePartitions(ctx, s.pool, monthsAhead)
}

// NewTenant describes a tenant to create.
type NewTenant struct {
	Name    string
	Privacy PrivacyMode // standard when empty
}

// CreateTenant makes a tenant with a data key of its own. A name that is taken gives a *ConstraintError.
func (s *Store) CreateTenant(ctx context.Context, n NewTenant) (db.Tenant, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return db.Tenant{}, fmt.Errorf("create tenant: %w", err)
	}
	if n.Privacy == "" {
		n.Privacy = PrivacyStandard
	}
	wrapped, err := s.newDataKey(id)
	if err != nil {
		return db.Tenant{}, fmt.Errorf("create tenant: %w", err)
	}
	var tenant db.Tenant
	err = s.InTenant(ctx, id, func(tx *Tx) error {
		var err error
		tenant, err = tx.Q.CreateTenant(ctx, db.CreateTenantParams{
			ID: id, Name: n.Name, PrivacyMode: string(n.Privacy), DataKey: wrapped,
		})
		return err
	})
	if err != nil {
		return db.Tenant{}, fmt.Errorf("create tenant: %w", err)
	}
	return tenant, nil
}
