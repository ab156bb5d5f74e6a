// Package devpg runs a private PostgreSQL server from the machine's own binaries, for development and tests. It touches no
// existing cluster: data, sockets and log lie in a directory of its own, and the server listens on loopback alone. Read Start
// first, then binaries.go (which server is taken) and proc_linux.go (as whom it runs, and that it ends with us).
package devpg

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	superuser = "postgres"
	// Role is the role that the service uses: no superuser, so that row-level security binds it.
	Role = "ringmaster"
	// Database is its database.
	Database = "ringmaster"

	startTimeout = 60 * time.Second
	stopTimeout  = 30 * time.Second
	// maxSocketDir leaves room for "/.s.PGSQL.65535" in the 107 bytes of a Unix socket's path.
	maxSocketDir = 90
	portTries    = 3

	// What a server's directory holds: its data, and the file with its password.
	dataName     = "pgdata"
	passwordName = "password"
)

var (
	// ErrNoBinaries says that no usable PostgreSQL server is installed.
	ErrNoBinaries = errors.New("no PostgreSQL server of version 14 or later found (initdb and postgres): " +
		"install it (Debian, Ubuntu: apt-get install postgresql) or put its bin directory on PATH")
	// ErrInUse says that another server runs on the data directory.
	ErrInUse = errors.New("data directory is in use by another server")

	errPortTaken = errors.New("port is taken")
	errSlow      = fmt.Errorf("not done within %v: is the machine overloaded?", startTimeout)
)

// Config says where the server keeps its data.
type Config struct {
	// Dir keeps the data between runs, durably; the server starts again on what is there. Empty: a temporary directory, removed at
	// Stop, where durability is given up for speed.
	Dir string
	// Volatile gives durability up in Dir too: for data that can be made anew.
	Volatile bool
	// From is the directory of another server, which has been stopped: a new one starts on a copy of its data, with its password, in place of
	// making a database.
	From string
	// InMemory puts the temporary directory into the memory's file system where that has 4 GiB of room and TMPDIR is not set: for tests.
	InMemory bool
	// SharedBuffers is the server's memory for data, as shared_buffers has it; PostgreSQL's default when empty.
	SharedBuffers string
	// Preload names libraries that the server loads at its start, as shared_preload_libraries has them.
	Preload string
	// Port to listen on at 127.0.0.1; a free one when zero.
	Port int
	// Also are further addresses of this machine to listen at, each with the network that may come.
	Also []netip.Prefix
	// Outlive leaves the server running when this process dies without Stop.
	Outlive bool
	// Logger defaults to slog.Default.
	Logger *slog.Logger
}

// Server is a running PostgreSQL.
type Server struct {
	dir       string
	temporary bool
	volatile  bool
	also      []netip.Prefix
	// sharedBuffers and preload are settings of the server; empty for the default.
	sharedBuffers, preload string

	port     int
	password string
	proc     *process
}

// Start creates the data directory when it is empty, starts the server, and returns when role and database are there. Errors
// are ErrNoBinaries, ErrInUse, or tell the end of the server's log.
func Start(ctx context.Context, cfg Config) (_ *Server, err error) {
	log := cfg.Logger
	if log == nil {
		log = slog.Default()
	}
	bin, err := findBinaries(ctx, searchPath())
	if err != nil {
		return nil, fmt.Errorf("start a private PostgreSQL: %w", err)
	}
	account, err := serverAccount()
	if err != nil {
		return nil, fmt.Errorf("start a private PostgreSQL: %w", err)
	}
	s := &Server{dir: cfg.Dir, volatile: cfg.Volatile || cfg.Dir == "", also: cfg.Also, sharedBuffers: cfg.SharedBuffers, preload: cfg.Preload}
	if err := s.prepareDir(account, cfg.InMemory); err != nil {
		return nil, fmt.Errorf("start a private PostgreSQL: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.removeTemporary())
		}
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errSlow)
	defer cancel()
	if err := s.initialize(ctx, bin, account, cfg.From); err != nil {
		return nil, fmt.Errorf("create a PostgreSQL data directory in %s: %w", s.dir, err)
	}
	if err := s.launch(ctx, bin, account, cfg); err != nil {
		return nil, fmt.Errorf("start a private PostgreSQL in %s: %w", s.dir, err)
	}
	log.DebugContext(ctx, "private database is up", "dir", s.dir, "port", s.port, "binaries", bin.dir)
	return s, nil
}

// URL connects as the service's role to its database.
func (s *Server) URL() string { return s.url(Role, Database) }

// AdminURL connects as superuser to the maintenance database, through the socket, which asks no password and so costs no key derivation.
// Its host and port are those of TCP.
func (s *Server) AdminURL() string {
	return s.url(superuser, "postgres") + "&host=" + url.QueryEscape(s.socketDir())
}

// Port tells the loopback port.
func (s *Server) Port() int { return s.port }

// Done is closed when the server has ended, by Stop or by itself.
func (s *Server) Done() <-chan struct{} { return s.proc.done }

// Stop shuts the server down, waits until it has ended, and removes a temporary directory. Sessions are cut off; when ctx ends
// first, the server is ended at once and recovers at its next start. Stop may be called again.
func (s *Server) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	s.proc.stop(ctx)
	return s.removeTemporary()
}

func (s *Server) url(role, database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(role, s.password),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

func (s *Server) dataDir() string   { return filepath.Join(s.dir, dataName) }
func (s *Server) socketDir() string { return filepath.Join(s.dir, "run") }
func (s *Server) logPath() string   { return filepath.Join(s.dir, "postgres.log") }

// prepareDir makes the directories. The server's account owns those that it writes and must only be able to enter the rest.
func (s *Server) prepareDir(account *account, inMemory bool) error {
	if s.dir == "" {
		dir, err := os.MkdirTemp(temporaryRoot(inMemory), "ringmaster-pg-")
		if err != nil {
			return fmt.Errorf("create a temporary directory: %w", err)
		}
		s.dir, s.temporary = dir, true
		if err := os.Chmod(dir, 0o711); err != nil {
			return fmt.Errorf("open the temporary directory to the server: %w", err)
		}
	}
	dir, err := filepath.Abs(s.dir)
	if err != nil {
		return fmt.Errorf("find the data directory: %w", err)
	}
	s.dir = dir
	if len(s.socketDir()) > maxSocketDir {
		return fmt.Errorf("data directory's path is too long for a Unix socket (%d bytes, at most %d)", len(dir), maxSocketDir-4)
	}
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return fmt.Errorf("create the data directory: %w", err)
	}
	if err := account.canEnter(dir); err != nil {
		return err
	}
	for _, sub := range []string{s.dataDir(), s.socketDir()} {
		if err := os.MkdirAll(sub, 0o700); err != nil {
			return fmt.Errorf("create the data directory: %w", err)
		}
		if err := account.own(sub); err != nil {
			return err
		}
	}
	return nil
}

// initialize runs initdb in an empty data directory, or copies another's data, and reads or makes the password.
func (s *Server) initialize(ctx context.Context, bin binaries, account *account, from string) error {
	if err := s.findPassword(from); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(s.dataDir(), "PG_VERSION")); err == nil {
		return nil
	}
	if from != "" {
		return s.copyData(ctx, account, filepath.Join(from, dataName))
	}
	args := []string{
		"--pgdata", s.dataDir(), "--username", superuser, "--encoding", "UTF8", "--locale", "C", "--no-instructions",
		// The socket lies in a directory that only the server's account and root enter; the password is set through it.
		"--auth-local", "trust", "--auth-host", "trust",
	}
	if s.volatile {
		args = append(args, "--no-sync")
	}
	cmd := account.command(ctx, bin.initdb, args...)
	cmd.Dir = s.dataDir()
	if out, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx) // it was ended then, and says nothing of why
		}
		return fmt.Errorf("initdb: %w: %s", err, lastLines(string(out)))
	}
	return s.writeAccess()
}

// findPassword reads the password of the data directory, or that of the one which is copied, or makes one.
func (s *Server) findPassword(from string) error {
	file := filepath.Join(s.dir, passwordName)
	stored, err := os.ReadFile(file)
	if err == nil {
		s.password = strings.TrimSpace(string(stored))
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) && from != "" {
		stored, err = os.ReadFile(filepath.Join(from, passwordName))
	} else if errors.Is(err, fs.ErrNotExist) {
		var raw [16]byte
		// crypto/rand never fails since Go 1.24.
		_, _ = rand.Read(raw[:])
		stored, err = []byte(hex.EncodeToString(raw[:])+"\n"), nil
	}
	if err != nil {
		return fmt.Errorf("read the password: %w", err)
	}
	s.password = strings.TrimSpace(string(stored))
	if err := os.WriteFile(file, stored, 0o600); err != nil {
		return fmt.Errorf("write the password: %w", err)
	}
	return nil
}

// copyData copies a data directory that no server is at work on; the copies are the account's own.
func (s *Server) copyData(ctx context.Context, account *account, from string) error {
	if _, err := os.Stat(filepath.Join(from, "postmaster.pid")); err == nil {
		return fmt.Errorf("copy %s: %w", from, ErrInUse)
	}
	if err := account.canEnter(from); err != nil {
		return err
	}
	cmd := account.command(ctx, "cp", "-Rp", from+"/.", s.dataDir())
	cmd.Dir = s.dataDir()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w: %s", from, err, lastLines(string(out)))
	}
	return s.writeAccess()
}

// writeAccess asks a password of whoever comes by TCP: other accounts of the machine reach the loopback port too.
func (s *Server) writeAccess() error {
	var rules strings.Builder
	rules.WriteString("local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
	for _, at := range s.also {
		rules.WriteString("host all all " + at.Masked().String() + " scram-sha-256\n")
	}
	// The file exists and belongs to the server's account; writing keeps its owner.
	if err := os.WriteFile(filepath.Join(s.dataDir(), "pg_hba.conf"), []byte(rules.String()), 0o600); err != nil {
		return fmt.Errorf("write the access rules: %w", err)
	}
	return nil
}

// launch starts the server and waits for it; a port that was snatched between choice and bind is chosen anew.
func (s *Server) launch(ctx context.Context, bin binaries, account *account, cfg Config) error {
	if err := s.clearStalePID(ctx); err != nil {
		return err
	}
	for try := 1; ; try++ {
		s.port = cfg.Port
		if s.port == 0 {
			port, err := freePort(ctx)
			if err != nil {
				return err
			}
			s.port = port
		}
		err := s.launchOnce(ctx, bin, account, cfg.Outlive)
		if !errors.Is(err, errPortTaken) || cfg.Port != 0 || try == portTries {
			return err
		}
	}
}

func (s *Server) launchOnce(ctx context.Context, bin binaries, account *account, outlive bool) error {
	logFile, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("open the server's log: %w", err)
	}
	defer func() { _ = logFile.Close() }() // the server holds its own descriptor
	// The server outlives ctx, which bounds only the start.
	cmd := account.command(context.WithoutCancel(ctx), bin.postgres, s.arguments()...)
	cmd.Dir = s.dataDir()
	cmd.Stdout, cmd.Stderr = logFile, logFile
	s.proc, err = startProcess(cmd, outlive)
	if err != nil {
		return fmt.Errorf("run %s: %w", bin.postgres, err)
	}
	if err := s.awaitReady(ctx); err != nil {
		s.proc.stop(ctx)
		tail, readErr := os.ReadFile(s.logPath())
		if readErr == nil && strings.Contains(string(tail), "could not bind IPv4") {
			err = fmt.Errorf("%w: %w", errPortTaken, err)
		}
		return fmt.Errorf("%w; its log ends: %s", err, lastLines(string(tail)))
	}
	return nil
}

func (s *Server) arguments() []string {
	addresses := []string{"127.0.0.1"}
	for _, at := range s.also {
		addresses = append(addresses, at.Addr().String())
	}
	settings := []string{
		"listen_addresses=" + strings.Join(addresses, ","), "port=" + strconv.Itoa(s.port), "unix_socket_directories=" + s.socketDir(),
		"max_connections=300", "timezone=UTC", "log_timezone=UTC", "jit=off",
	}
	if s.volatile {
		settings = append(settings, "fsync=off", "synchronous_commit=off", "full_page_writes=off")
	}
	if s.sharedBuffers != "" {
		settings = append(settings, "shared_buffers="+s.sharedBuffers)
	}
	if s.preload != "" {
		settings = append(settings, "shared_preload_libraries="+s.preload)
	}
	args := []string{"-D", s.dataDir()}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	return args
}

func (s *Server) removeTemporary() error {
	if !s.temporary {
		return nil
	}
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("remove the temporary data directory: %w", err)
	}
	return nil
}

func freePort(ctx context.Context) (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	addr, ok := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil || !ok {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return addr.Port, nil
}

func lastLines(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], " | ")
}
