package devpg

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringmaster/ringmaster/store/retry"
)

const (
	pollInterval = 20 * time.Millisecond
	// inUseWait lets a server end whose owner was killed a moment ago.
	inUseWait = 10 * time.Second
)

var errServerEnded = errors.New("the server ended while starting")

// awaitReady waits until the server takes connections, then sees to role, password and database.
func (s *Server) awaitReady(ctx context.Context) error {
	for {
		conn, err := s.connectLocally(ctx)
		if err == nil {
			err = s.provision(ctx, conn)
			return errors.Join(err, conn.Close(ctx))
		}
		select {
		case <-s.proc.done:
			return errServerEnded
		case <-ctx.Done():
			return fmt.Errorf("wait for the server: %w: %w", ctx.Err(), err)
		case <-time.After(pollInterval):
		}
	}
}

func (s *Server) connectLocally(ctx context.Context) (*pgx.Conn, error) {
	dsn := fmt.Sprintf("host='%s' port=%d user=%s dbname=postgres", s.socketDir(), s.port, superuser)
	return pgx.Connect(ctx, dsn)
}

// provision is the same for a new data directory and for one that has all of it.
func (s *Server) provision(ctx context.Context, conn *pgx.Conn) error {
	verifier, err := scramVerifier(s.password)
	if err != nil {
		return err
	}
	statements := []string{
		"CREATE ROLE " + Role + " LOGIN NOSUPERUSER NOCREATEROLE",
		"ALTER ROLE " + Role + " PASSWORD '" + verifier + "'",
		"ALTER ROLE " + superuser + " PASSWORD '" + verifier + "'",
		"CREATE DATABASE " + Database + " OWNER " + Role,
	}
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil && !alreadyThere(err) {
			return fmt.Errorf("set up role and database: %w", err)
		}
	}
	return nil
}

// scramVerifier is what the server keeps of a password, as RFC 5803 has it, after one iteration: to stretch 128 random bits adds nothing, and
// would cost each connection's client the 4,096 HMACs that PostgreSQL asks for.
func scramVerifier(password string) (string, error) {
	const iterations, saltSize = 1, 16
	salt := make([]byte, saltSize)
	_, _ = rand.Read(salt) // never fails
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("derive the password's key: %w", err)
	}
	mac := func(text string) []byte {
		m := hmac.New(sha256.New, salted)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	stored, enc := sha256.Sum256(mac("Client Key")), base64.StdEncoding
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", iterations, enc.EncodeToString(salt), enc.EncodeToString(stored[:]),
		enc.EncodeToString(mac("Server Key"))), nil
}

func alreadyThere(err error) bool {
	const duplicateObject, duplicateDatabase = "42710", "42P04"
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && (pgErr.Code == duplicateObject || pgErr.Code == duplicateDatabase)
}

// clearStalePID removes the lock file of a server that died, when its process id meanwhile belongs to another program, which
// PostgreSQL can't tell from a running server. A server that still runs is given time to end.
func (s *Server) clearStalePID(ctx context.Context) error {
	path := filepath.Join(s.dataDir(), "postmaster.pid")
	deadline := time.Now().Add(inUseWait)
	for {
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the server's lock file: %w", err)
		}
		first, _, _ := strings.Cut(string(content), "\n")
		pid, err := strconv.Atoi(strings.TrimSpace(first))
		if err != nil || !isServerProcess(pid, s.dataDir()) {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove the stale lock file: %w", err)
			}
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w (process %d)", ErrInUse, pid)
		}
		if err := retry.Pause(ctx, pollInterval); err != nil {
			return fmt.Errorf("%w (process %d): %w", ErrInUse, pid, err)
		}
	}
}
