package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/httpapi/account"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

const (
	// decoyHash is verified for unknown users, so that an answer takes as long as for known ones. No password has it.
	decoyHash = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	// verifiers bounds how many passwords are verified at once, each of which takes 19 MiB and tens of milliseconds.
	verifiers = 2
)

// errWrongPassword is an unknown address, a wrong password, or a user who may not sign in.
var errWrongPassword = errors.New("wrong password")

// signIn checks passwords, and slows down who guesses them.
type signIn struct {
	store *store.Store
	now   func() time.Time
	// slots is a semaphore for the verification of passwords.
	slots chan struct{}
	guess *throttle
}

func newSignIn(st *store.Store, now func() time.Time) *signIn {
	return &signIn{store: st, now: now, slots: make(chan struct{}, verifiers), guess: newThrottle()}
}

// check finds the user whom an address and a password belong to. Errors: errWrongPassword, *apiError.
func (g *signIn) check(ctx context.Context, requestID, email, password, client string) (db.User, error) {
	email = strings.ToLower(email)
	ticket, wait := g.guess.enter(email, client, g.now())
	if wait > 0 {
		return db.User{}, &apiError{
			status: http.StatusTooManyRequests, code: codeTooManyLogins, retryAfter: wait,
			detail: "Too many failed attempts to sign in; try again later.",
		}
	}
	user, err := g.find(ctx, email)
	if err != nil {
		g.guess.leave(ticket)
		return db.User{}, err
	}
	good, err := g.matches(ctx, user.User.PasswordHash, password)
	if err != nil {
		g.guess.leave(ticket)
		return db.User{}, fmt.Errorf("verify the password of user %s: %w", user.User.ID, err)
	}
	if !good || !user.User.IsActive || user.Suspended {
		return db.User{}, errWrongPassword
	}
	g.guess.succeed(ticket)
	return user.User, nil
}

// find gives a user that no password opens when there is none.
func (g *signIn) find(ctx context.Context, email string) (db.FindUserByEmailRow, error) {
	var row db.FindUserByEmailRow
	err := g.store.InSystem(ctx, func(tx *store.Tx) error {
		var err error
		row, err = tx.Q.FindUserByEmail(ctx, email)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return db.FindUserByEmailRow{User: db.User{PasswordHash: decoyHash}}, nil
	}
	return row, err
}

// matches verifies a password, a few at a time.
func (g *signIn) matches(ctx context.Context, hash, password string) (bool, error) {
	select {
	case g.slots <- struct{}{}:
	case <-ctx.Done():
		return false, fmt.Errorf("wait to verify a password: %w", ctx.Err())
	}
	defer func() { <-g.slots }()
	return account.VerifyPassword(hash, password)
}
