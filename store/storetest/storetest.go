// Package storetest gives tests databases of their own: Main runs a private server for the test process, New clones a migrated
// template per test. With RINGMASTER_TEST_DATABASE_URL set (an administrator's URL) that server is used instead, by as many
// test processes at a time as there are.
package storetest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/devpg"
)

const (
	// URLVariable names the environment variable with an administrator's URL. Main sets it for its own process when it is unset.
	URLVariable = "RINGMASTER_TEST_DATABASE_URL"

	role         = "ringmaster_test"
	templateLock = 0x726d7465 // "rmte"
	setupTimeout = 2 * time.Minute
)

// Main is a package's TestMain: it runs the tests on a private server and fails when they leave goroutines behind.
func Main(m goleak.TestingM, options ...goleak.Option) {
	goleak.VerifyTestMain(patient{withServer{m}, options}, options...)
}

// patient gives connections that end by themselves, as pgx closes some, longer than goleak's two seconds: on a busy machine they take them.
type patient struct {
	m       goleak.TestingM
	options []goleak.Option
}

// Run implements goleak.TestingM.
func (p patient) Run() int {
	code := p.m.Run()
	theAdministrator.close()
	for limit := time.Now().Add(20 * time.Second); time.Now().Before(limit) && goleak.Find(p.options...) != nil; {
		continue // Find has waited for a while
	}
	return code
}

type withServer struct{ m goleak.TestingM }

// Run implements goleak.TestingM.
func (w withServer) Run() int {
	ctx := context.Background()
	if os.Getenv(URLVariable) != "" {
		return w.m.Run()
	}
	server, err := devpg.Start(ctx, devpg.Config{InMemory: true})
	if err == nil {
		err = os.Setenv(URLVariable, server.AdminURL())
	}
	if err != nil {
		slog.ErrorContext(ctx, "tests need a database", "error", err)
		return 1
	}
	code := w.m.Run()
	if err := server.Stop(ctx); err != nil {
		slog.ErrorContext(ctx, "private database did not stop", "error", err)
		return 1
	}
	return code
}

// MasterKey gives the key that test stores are opened with.
func MasterKey() [32]byte { return sha256.Sum256([]byte("master key of tests")) }

// New gives a store on a fresh, migrated database, which is dropped when the test ends.
func New(tb testing.TB) *store.Store {
	tb.Helper()
	return Open(tb, NewURL(tb))
}

// Open gives a store on a database of NewURL, for tests that need several on one.
func Open(tb testing.TB, databaseURL string) *store.Store {
	tb.Helper()
	st, err := store.Open(tb.Context(), store.Config{
		URL: databaseURL, MasterKey: MasterKey(), Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(tb, err)
	tb.Cleanup(st.Close)
	return st
}

// NewURL gives the URL of a fresh, migrated database, which is dropped when the test ends. Its role is no superuser.
func NewURL(tb testing.TB) string {
	tb.Helper()
	return newDatabase(tb, (*administrator).template)
}

// NewEmptyURL gives the URL of a database without a schema, for tests of migrations.
func NewEmptyURL(tb testing.TB) string {
	tb.Helper()
	return newDatabase(tb, func(a *administrator, ctx context.Context) (string, error) {
		_, err := a.template(ctx) // which creates the role
		return "template0", err
	})
}

func newDatabase(tb testing.TB, template func(*administrator, context.Context) (string, error)) string {
	tb.Helper()
	adminURL := os.Getenv(URLVariable)
	if adminURL == "" {
		tb.Fatal("no database for tests: the package's TestMain must call storetest.Main")
	}
	name := "rmtest_" + randomName()
	var databaseURL string
	require.NoError(tb, theAdministrator.do(tb.Context(), adminURL, func(ctx context.Context, admin *administrator) error {
		source, err := template(admin, ctx)
		if err != nil {
			return err
		}
		databaseURL = admin.url(name)
		return admin.create(ctx, name, source)
	}))
	// The test's own context has ended by then.
	tb.Cleanup(func() {
		require.NoError(tb, theAdministrator.do(context.Background(), adminURL, func(ctx context.Context, admin *administrator) error {
			_, err := admin.conn.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
			return err
		}))
	})
	return databaseURL
}

// theAdministrator is kept by all tests of a process, one at a time: the server starts a process for every connection.
//
//nolint:gochecknoglobals // tests have nothing else in common
var theAdministrator keptAdministrator

type keptAdministrator struct {
	mu    sync.Mutex
	admin *administrator // nil before the first test
}

func (k *keptAdministrator) do(ctx context.Context, adminURL string, what func(context.Context, *administrator) error) error {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.admin == nil || k.admin.conn.IsClosed() { // as it is when a test's context ended while it was asked
		admin, err := connectAdmin(ctx, adminURL)
		if err != nil {
			return err
		}
		k.admin = admin
	}
	return what(ctx, k.admin)
}

// close ends the connection: where a write on it took long, pgx still reads it in the background.
func (k *keptAdministrator) close() {
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.admin != nil {
		_ = k.admin.conn.Close(ctx) // the server may have ended before
	}
}

// Tenant creates a tenant with standard privacy.
func Tenant(tb testing.TB, st *store.Store) uuid.UUID {
	tb.Helper()
	return tenant(tb, st, store.PrivacyStandard)
}

// StrictTenant creates a tenant with strict privacy.
func StrictTenant(tb testing.TB, st *store.Store) uuid.UUID {
	tb.Helper()
	return tenant(tb, st, store.PrivacyStrict)
}

func tenant(tb testing.TB, st *store.Store, privacy store.PrivacyMode) uuid.UUID {
	tb.Helper()
	created, err := st.CreateTenant(tb.Context(), store.NewTenant{Name: "tenant-" + randomName(), Privacy: privacy})
	require.NoError(tb, err)
	return created.ID
}

func randomName() string {
	var raw [8]byte
	// crypto/rand never fails since Go 1.24.
	_, _ = rand.Read(raw[:])
	return hex.EncodeToString(raw[:])
}

// administrator is a connection that may create databases. A superuser's test databases belong to a role without rights, into
// which each of their connections changes at once; it needs no password and row-level security binds it.
type administrator struct {
	conn      *pgx.Conn
	base      *url.URL
	superuser bool
	version   int    // of the server, as server_version_num has it
	ready     string // the template's name, once it was seen ready
}

func connectAdmin(ctx context.Context, adminURL string) (*administrator, error) {
	base, err := url.Parse(adminURL)
	if err != nil {
		return nil, fmt.Errorf("read %s: it is no URL", URLVariable)
	}
	a := &administrator{base: base}
	if a.conn, err = pgx.Connect(ctx, adminURL); err != nil {
		return nil, fmt.Errorf("connect to the tests' database server: %w", err)
	}
	const query = "SELECT rolsuper, current_setting('server_version_num')::int FROM pg_roles WHERE rolname = current_user"
	if err := a.conn.QueryRow(ctx, query).Scan(&a.superuser, &a.version); err != nil {
		return nil, errors.Join(fmt.Errorf("read the administrator's rights: %w", err), a.conn.Close(ctx))
	}
	return a, nil
}

func (a *administrator) url(database string) string {
	u := *a.base
	u.Path = "/" + database
	if a.superuser {
		values := u.Query()
		values.Set("role", role)
		u.RawQuery = values.Encode()
	}
	return u.String()
}

func (a *administrator) create(ctx context.Context, name, template string) error {
	statement := "CREATE DATABASE " + name + " TEMPLATE " + template
	if a.superuser {
		statement += " OWNER " + role
	}
	if a.version >= 150000 {
		// Copying files costs a third of writing each block to the log, and brings the cache file of the system tables along.
		statement += " STRATEGY file_copy"
	}
	if _, err := a.conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("create test database %s: %w", name, err)
	}
	return nil
}

// template gives the name of the migrated template, which it creates when this set of migrations has none yet. Of several
// processes one builds it under an advisory lock; it counts as built once it is marked as a template.
func (a *administrator) template(ctx context.Context) (string, error) {
	if a.ready != "" {
		return a.ready, nil
	}
	hash, err := migrationsHash()
	if err != nil {
		return "", err
	}
	name := "rmtemplate_" + hash
	ready, err := a.templateReady(ctx, name)
	if err != nil {
		return "", err
	}
	if ready {
		a.ready = name
		return name, nil
	}
	if _, err := a.conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(templateLock)); err != nil {
		return "", fmt.Errorf("lock the test template: %w", err)
	}
	err = a.buildTemplate(ctx, name)
	_, unlockErr := a.conn.Exec(ctx, "SELECT pg_advisory_unlock($1)", int64(templateLock))
	return name, errors.Join(err, unlockErr)
}

func (a *administrator) templateReady(ctx context.Context, name string) (bool, error) {
	var ready bool
	const query = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)"
	if err := a.conn.QueryRow(ctx, query, name).Scan(&ready); err != nil {
		return false, fmt.Errorf("look for the test template: %w", err)
	}
	return ready, nil
}

func (a *administrator) buildTemplate(ctx context.Context, name string) error {
	if ready, err := a.templateReady(ctx, name); err != nil || ready {
		return err
	}
	statements := []string{"DROP DATABASE IF EXISTS " + name + " WITH (FORCE)"}
	if a.superuser {
		statements = append(statements, "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '"+role+
			"') THEN CREATE ROLE "+role+" NOLOGIN; END IF; END $$")
	}
	for _, statement := range statements {
		if _, err := a.conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("prepare the test template: %w", err)
		}
	}
	if err := a.create(ctx, name, "template0"); err != nil {
		return err
	}
	if err := store.Migrate(ctx, store.Config{URL: a.url(name)}); err != nil {
		return fmt.Errorf("migrate the test template: %w", err)
	}
	if _, err := a.conn.Exec(ctx, "ALTER DATABASE "+name+" IS_TEMPLATE true"); err != nil {
		return fmt.Errorf("mark the test template: %w", err)
	}
	return nil
}

// migrationsHash names a set of migrations and the month, on which its partitions depend.
func migrationsHash() (string, error) {
	files, err := store.Migrations()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	err = fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(sum, "%s %d\n%s", path, len(content), content)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("hash the migrations: %w", err)
	}
	return time.Now().UTC().Format("200601") + "_" + hex.EncodeToString(sum.Sum(nil)[:8]), nil
}
