package devpg_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ringmaster/ringmaster/store/devpg"
)

// childDirVariable turns the test binary into a process that starts a server on that directory and waits to be killed.
const (
	childDirVariable     = "RINGMASTER_DEVPG_CHILD_DIR"
	childOutliveVariable = "RINGMASTER_DEVPG_CHILD_OUTLIVE"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDirVariable); dir != "" {
		os.Exit(child(dir))
	}
	goleak.VerifyTestMain(m)
}

func start(t *testing.T, cfg devpg.Config) *devpg.Server {
	t.Helper()
	server, err := devpg.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	return server
}

// dataDir makes a directory that the server's account can enter.
func dataDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	return filepath.Join(dir, "data")
}

func query[T any](t *testing.T, url, sql string) T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	var v T
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&v))
	return v
}

func TestTemporaryServer(t *testing.T) {
	t.Parallel()
	server := start(t, devpg.Config{})
	require.Equal(t, "ringmaster", query[string](t, server.URL(), "SELECT current_user::text"))
	require.False(t, query[bool](t, server.URL(), "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"))
	require.Equal(t, "ringmaster", query[string](t, server.URL(), "SELECT pg_get_userbyid(datdba)::text FROM pg_database WHERE datname = current_database()"))
	require.Equal(t, "off", query[string](t, server.URL(), "SHOW fsync"))
	require.Equal(t, "UTC", query[string](t, server.URL(), "SHOW timezone"))
	require.Equal(t, "UTF8", query[string](t, server.URL(), "SHOW server_encoding"))
	require.Equal(t, "127.0.0.1", query[string](t, server.URL(), "SHOW listen_addresses"))
	dir := query[string](t, server.AdminURL(), "SHOW data_directory")
	require.DirExists(t, dir)
	require.True(t, query[bool](t, server.AdminURL(), "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"))

	wrong := strings.Replace(server.URL(), "ringmaster:", "ringmaster:x", 1)
	_, err := pgx.Connect(t.Context(), wrong)
	require.ErrorContains(t, err, "password", "other accounts of the machine reach the port, too")

	require.NoError(t, server.Stop(t.Context()))
	require.NoError(t, server.Stop(t.Context()), "again")
	<-server.Done()
	require.NoDirExists(t, filepath.Dir(dir))
	_, err = pgx.Connect(t.Context(), server.URL())
	require.Error(t, err)
}

func TestDataSurvivesRestarts(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	server := start(t, devpg.Config{Dir: dir})
	require.Equal(t, "on", query[string](t, server.URL(), "SHOW fsync"))
	require.Equal(t, "on", query[string](t, server.URL(), "SHOW synchronous_commit"))
	query[int](t, server.URL(), "WITH made AS (SELECT 1) SELECT 1 FROM made")
	conn, err := pgx.Connect(t.Context(), server.URL())
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "CREATE TABLE kept AS SELECT 42 AS n")
	require.NoError(t, err)
	require.NoError(t, server.Stop(t.Context()), "a connection that is still open must not hold it up")
	_ = conn.Close(t.Context())

	port := freePort(t)
	again := start(t, devpg.Config{Dir: dir, Port: port})
	require.Equal(t, port, again.Port())
	require.Equal(t, 42, query[int](t, again.URL(), "SELECT n FROM kept"))
}

func TestServersStartOnCopies(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	server := start(t, devpg.Config{Dir: dir})
	count := func(of *devpg.Server, change string) int {
		query[int](t, of.AdminURL(), "WITH made AS ("+change+" RETURNING n) SELECT count(*) FROM made")
		return query[int](t, of.AdminURL(), "SELECT count(*) FROM kept")
	}
	conn, err := pgx.Connect(t.Context(), server.AdminURL())
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "CREATE TABLE kept AS SELECT 42 AS n")
	require.NoError(t, errors.Join(err, conn.Close(t.Context())))
	_, err = devpg.Start(t.Context(), devpg.Config{From: dir})
	require.ErrorIs(t, err, devpg.ErrInUse, "the other is still at work")
	require.NoError(t, server.Stop(t.Context()))

	one, other := start(t, devpg.Config{From: dir, InMemory: true}), start(t, devpg.Config{From: dir})
	require.Equal(t, 2, count(one, "INSERT INTO kept VALUES (7)"))
	require.Equal(t, 0, count(other, "DELETE FROM kept"))
	require.Equal(t, devpg.Role, query[string](t, one.URL(), "SELECT current_user::text"), "by the password")
	require.Equal(t, 1, query[int](t, start(t, devpg.Config{Dir: dir}).AdminURL(), "SELECT count(*) FROM kept"), "which nobody has changed")
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	addr, ok := l.Addr().(*net.TCPAddr)
	require.True(t, ok)
	return addr.Port
}

func TestDirectoryInUse(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	start(t, devpg.Config{Dir: dir})
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := devpg.Start(ctx, devpg.Config{Dir: dir})
	require.ErrorIs(t, err, devpg.ErrInUse)
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	addr, ok := l.Addr().(*net.TCPAddr)
	require.True(t, ok)
	dir := dataDir(t)
	_, err = devpg.Start(t.Context(), devpg.Config{Dir: dir, Port: addr.Port})
	require.ErrorContains(t, err, "could not bind", "the error shows the server's log")
}

func TestStaleLockFile(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	require.NoError(t, start(t, devpg.Config{Dir: dir}).Stop(t.Context()))
	lock := filepath.Join(dir, "pgdata", "postmaster.pid")
	for _, content := range []string{
		strconv.Itoa(os.Getpid()) + "\n" + filepath.Join(dir, "pgdata") + "\n1\n5432\n", // a process id that we have now
		"4194303\n",   // nobody's
		"gibberish\n", // a file cut off in a crash
	} {
		require.NoError(t, os.WriteFile(lock, []byte(content), 0o600))
		server := start(t, devpg.Config{Dir: dir})
		require.Equal(t, 1, query[int](t, server.URL(), "SELECT 1"))
		require.NoError(t, server.Stop(t.Context()))
	}
}

func TestServerEndsWithItsParent(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	startAndKill(t, dir, "")
	// Start waits for the orphan's end; what it had committed is there.
	server := start(t, devpg.Config{Dir: dir})
	require.Equal(t, 7, query[int](t, server.URL(), "SELECT n FROM made_by_child"))
}

func TestServerOutlivesItsParent(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	url := startAndKill(t, dir, "yes")
	require.Equal(t, 7, query[int](t, url, "SELECT n FROM made_by_child"))
	lock, err := os.ReadFile(filepath.Join(dir, "pgdata", "postmaster.pid"))
	require.NoError(t, err)
	first, _, _ := strings.Cut(string(lock), "\n")
	pid, err := strconv.Atoi(first)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGINT))
	server := start(t, devpg.Config{Dir: dir})
	require.Equal(t, 7, query[int](t, server.URL(), "SELECT n FROM made_by_child"))
}

// startAndKill has another process start a server on dir, kills that process, and gives the server's URL.
func startAndKill(t *testing.T, dir, outlive string) string {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childDirVariable+"="+dir, childOutliveVariable+"="+outlive)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	url, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	url = strings.TrimSpace(url)
	require.Equal(t, 1, query[int](t, url, "SELECT 1"))
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
	return url
}

func child(dir string) int {
	ctx := context.Background()
	server, err := devpg.Start(ctx, devpg.Config{Dir: dir, Outlive: os.Getenv(childOutliveVariable) != ""})
	if err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	conn, err := pgx.Connect(ctx, server.URL())
	if err == nil {
		_, err = conn.Exec(ctx, "CREATE TABLE made_by_child AS SELECT 7 AS n")
	}
	if err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	_, _ = os.Stdout.WriteString(server.URL() + "\n")
	<-server.Done()
	return 0
}

func TestDirectoryThatTheServerCannotEnter(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: a directory that the server's own account can't enter; run this as root")
	}
	closed := filepath.Join(filepath.Dir(dataDir(t)), "closed")
	require.NoError(t, os.Mkdir(closed, 0o700))
	_, err := devpg.Start(t.Context(), devpg.Config{Dir: filepath.Join(closed, "data")})
	require.ErrorContains(t, err, closed)
	require.ErrorContains(t, err, "choose another data directory")
}

func TestPathTooLongForASocket(t *testing.T) {
	t.Parallel()
	_, err := devpg.Start(t.Context(), devpg.Config{Dir: filepath.Join(dataDir(t), strings.Repeat("x", 90))})
	require.ErrorContains(t, err, "too long")
}

func TestStartEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := devpg.Start(ctx, devpg.Config{Dir: dataDir(t)})
	require.ErrorIs(t, err, context.Canceled)
}
