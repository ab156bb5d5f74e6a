package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

const (
	// DecoyHash is verified for unknown users, so that an answer takes as long as for known ones. No password has it.
	DecoyHash = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	// verifiers bounds how many passwords are verified at once, each of which takes 19 MiB and tens of milliseconds; maxVerifying bounds
	// how many there are with those that wait, which is about a second's work. One client has at most clientFailures of them.
	verifiers    = 2
	maxVerifying = 64

	// accountFailures is how often signing in with one address may fail in accountWindow, from all clients and on all controllers together.
	// Networks from which its user has signed in within knownNetwork are exempt: a stranger locks nobody out.
	accountFailures = 100
	accountWindow   = 24 * time.Hour
	knownNetwork    = 30 * 24 * time.Hour
)

// The outcomes of an attempt to sign in, for the log and the metric.
const (
	signInSucceeded = "succeeded"
	signInFailed    = "failed"
	signInLimited   = "limited"
	signInBusy      = "busy"
)

// codeTooManyLogins is the code of attempts that are put off.
const codeTooManyLogins = "too_many_attempts"

// ErrWrongPassword is an unknown address, a wrong password, or a user who may not sign in.
var ErrWrongPassword = errors.New("wrong password")

// SignIn checks passwords, and slows down who guesses them.
type SignIn struct {
	store *store.Store
	now   func() time.Time
	log   *slog.Logger
	count *prometheus.CounterVec // by outcome
	guess *throttle
	// refused decides which attempts that no password was verified for are logged.
	Refused *RefusalLog
	// slots is a semaphore for the verification of passwords, verifying how many have or wait for one.
	slots     chan struct{}
	verifying atomic.Int64
}

// NewSignIn makes a SignIn; count counts attempts by outcome.
func NewSignIn(st *store.Store, now func() time.Time, log *slog.Logger, count *prometheus.CounterVec) *SignIn {
	return &SignIn{store: st, now: now, log: log, count: count, slots: make(chan struct{}, verifiers), guess: newThrottle(), Refused: &RefusalLog{log: log}}
}

// Attempt is one attempt, to sign in or to change one's own password.
type Attempt struct {
	RequestID, Email, Password string
	// client is the client's address.
	Client string
	// session is true where a session begins.
	Session bool
}

// network is what the client is counted by: an IPv4 address, or an IPv6 client's /64.
func (a Attempt) network() string {
	addr, err := netip.ParseAddr(a.Client)
	if err != nil {
		return a.Client
	}
	return NetworkOf(addr).String()
}

func (a Attempt) emailHash() []byte {
	sum := sha256.Sum256([]byte(a.Email))
	return sum[:]
}

// Check finds the user whom an address and a password belong to. Errors: ErrWrongPassword, *fault.Error.
func (g *SignIn) Check(ctx context.Context, a Attempt) (db.User, error) {
	a.Email = strings.ToLower(a.Email)
	ticket, wait := g.guess.enter(a.Email, a.network(), g.now())
	if wait > 0 {
		return db.User{}, g.refuse(ctx, a, db.User{}, signInLimited, "too many failures of the client", tooManyAttempts(wait))
	}
	found, wait, err := g.find(ctx, a)
	if err != nil {
		g.guess.leave(ticket)
		return db.User{}, err
	}
	user := found.User
	if wait > 0 {
		return db.User{}, g.refuse(ctx, a, user, signInLimited, "too many failures of the account", tooManyAttempts(wait))
	}
	good, err := g.matches(ctx, user.PasswordHash, a.Password)
	if err != nil {
		g.guess.leave(ticket)
		if busy, ok := fault.As(err, fault.Unavailable); ok {
			return db.User{}, g.refuse(ctx, a, user, signInBusy, "too many at once", busy)
		}
		return db.User{}, fmt.Errorf("verify the password of user %s: %w", user.ID, err)
	}
	if reason := refusal(found, good); reason != "" {
		g.note(ctx, a, user, signInFailed, reason)
		if err := g.failed(ctx, a, user); err != nil {
			return db.User{}, err
		}
		return db.User{}, ErrWrongPassword
	}
	g.guess.succeed(ticket)
	g.note(ctx, a, user, signInSucceeded, "")
	return user, g.succeeded(ctx, a, user)
}

// refusal says why a user may not sign in; empty when they may.
func refusal(found db.FindUserByEmailRow, good bool) string {
	switch {
	case !found.User.IsActive && found.User.Email == "":
		return "unknown address"
	case !good:
		return "wrong password"
	case !found.User.IsActive:
		return "user is not active"
	case found.Suspended:
		return "tenant is suspended"
	}
	return ""
}

func tooManyAttempts(wait time.Duration) *fault.Error {
	return &fault.Error{
		Kind: fault.Limit, Code: codeTooManyLogins, RetryAfter: wait,
		Detail: "Too many failed attempts to sign in; try again later.",
	}
}

// find gives a user that no password opens when there is none, and how long to wait when the address has failed too often.
func (g *SignIn) find(ctx context.Context, a Attempt) (row db.FindUserByEmailRow, wait time.Duration, err error) {
	now := g.now()
	err = g.store.InSystem(ctx, func(tx *store.Tx) error {
		var err error
		wait = 0
		row, err = tx.Q.FindUserByEmail(ctx, a.Email)
		if errors.Is(err, store.ErrNotFound) {
			row, err = db.FindUserByEmailRow{User: db.User{PasswordHash: DecoyHash}}, nil
		}
		if err != nil {
			return err
		}
		tally, err := tx.Q.SignInFailures(ctx, a.emailHash(), now.Add(-accountWindow))
		if errors.Is(err, store.ErrNotFound) || (err == nil && tally.Failures < accountFailures) {
			return nil
		}
		if err != nil {
			return err
		}
		known, err := tx.Q.SignedInFrom(ctx, db.SignedInFromParams{
			TenantID: row.User.TenantID, Actor: "user:" + row.User.ID.String(), Since: store.IDFloor(now.Add(-knownNetwork)), Network: a.network(),
		})
		if err == nil && !known {
			wait = tally.Since.Add(accountWindow).Sub(now)
		}
		return err
	})
	return row, wait, err
}

// failed counts a failure against the address. The audit of its user's tenant has the failure that reaches the limit.
func (g *SignIn) failed(ctx context.Context, a Attempt, user db.User) error {
	now := g.now()
	return g.store.InSystem(ctx, func(tx *store.Tx) error {
		n, err := tx.Q.SignInFailed(ctx, a.emailHash(), now, now.Add(-accountWindow))
		if err != nil || n != accountFailures || user.Email == "" {
			return err
		}
		ctx := store.WithActor(ctx, store.Actor{Name: "anonymous", RemoteAddr: a.Client, RequestID: a.RequestID})
		return tx.Audit(ctx, store.AuditEntry{
			TenantID: user.TenantID, Action: "user.sign_in_limited", ObjectID: user.ID.String(), At: now, Details: map[string]any{"failures": n},
		})
	})
}

// succeeded writes who has signed in, and from where.
func (g *SignIn) succeeded(ctx context.Context, a Attempt, user db.User) error {
	if !a.Session {
		return nil
	}
	ctx = store.WithActor(ctx, store.Actor{
		Name: "user:" + user.ID.String(), Role: user.Role, RemoteAddr: a.Client, RequestID: a.RequestID,
	})
	return g.store.InTenant(ctx, user.TenantID, func(tx *store.Tx) error {
		return tx.Audit(ctx, store.AuditEntry{
			TenantID: user.TenantID, Action: "user.signed_in", ObjectID: user.ID.String(), Details: map[string]any{"network": a.network()},
		})
	})
}

// refuse counts an attempt that no password is verified for, and logs it unless there are too many of them: then neither its own line nor
// the request's is written.
func (g *SignIn) refuse(ctx context.Context, a Attempt, user db.User, outcome, reason string, err *fault.Error) error {
	if g.Refused.take(ctx, g.now()) {
		g.note(ctx, a, user, outcome, reason)
		return err
	}
	g.count.WithLabelValues(outcome).Inc()
	return &UnloggedError{err}
}

// UnloggedError is a refusal whose request is not logged by itself: the sum of such is.
type UnloggedError struct{ refusal *fault.Error }

func (e *UnloggedError) Error() string { return e.refusal.Error() }

// Unwrap gives the refusal.
func (e *UnloggedError) Unwrap() error { return e.refusal }

// note logs and counts an attempt. The address stands there by the beginning of its SHA-256: it may be a password in the wrong field.
func (g *SignIn) note(ctx context.Context, a Attempt, user db.User, outcome, reason string) {
	g.count.WithLabelValues(outcome).Inc()
	attrs := []slog.Attr{
		slog.String("outcome", outcome), slog.String("email_hash", hex.EncodeToString(a.emailHash()[:6])),
		slog.String("remote_addr", a.Client), slog.String("request_id", a.RequestID),
	}
	level := slog.LevelInfo
	if reason != "" {
		level = slog.LevelWarn
		attrs = append(attrs, slog.String("reason", reason))
	}
	if user.Email != "" {
		attrs = append(attrs, slog.String("user_id", user.ID.String()), slog.String("tenant_id", user.TenantID.String()))
	}
	g.log.LogAttrs(ctx, level, "sign-in", attrs...)
}

// matches verifies a password, a few at a time. It is refused while too many wait.
func (g *SignIn) matches(ctx context.Context, hash, password string) (bool, error) {
	defer g.verifying.Add(-1)
	if g.verifying.Add(1) > maxVerifying {
		return false, &fault.Error{Kind: fault.Unavailable, Code: "service_unavailable", Detail: "Too many are signing in at once; try again."}
	}
	select {
	case g.slots <- struct{}{}:
	case <-ctx.Done():
		return false, fmt.Errorf("wait to verify a password: %w", ctx.Err())
	}
	defer func() { <-g.slots }()
	return account.VerifyPassword(hash, password)
}

// NetworkOf is what a client is counted by: its IPv4 address, or its IPv6 address's /64.
func NetworkOf(addr netip.Addr) netip.Prefix {
	ip := addr.Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	prefix, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}
