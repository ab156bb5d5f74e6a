package store

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	listenOAuth = "LISTEN ringmaster_oauth"
	// oauthKeysChanged is what is told of instead of a revocation when the signing keys have changed.
	oauthKeysChanged = "keys"
)

// OAuthWatcher keeps in memory what has been revoked of OAuth's tokens. Its methods must return at once.
type OAuthWatcher interface {
	// Heard says that every revocation is told from now on; what was revoked before has to be read.
	Heard()
	// Lost says that revocations are not told any more. silent: there has been no sign of life for seconds.
	Lost(silent bool)
	// Revoked tells of a token, by its jti, or of a family, by its id.
	Revoked(what string, until time.Time)
	// KeysChanged tells of the signing keys.
	KeysChanged()
}

// WatchOAuth tells a watcher of each revocation of OAuth's tokens, whoever makes it, as soon as it is committed, until ctx ends. It has a connection
// of its own; when that is lost it connects again.
func (s *Store) WatchOAuth(ctx context.Context, w OAuthWatcher) {
	s.oauth.add(w)
	defer s.oauth.remove(w)
	listener{
		pool: s.pool, application: "ringmaster oauth", statement: listenOAuth, listening: w.Heard,
		told: func(payload string) {
			what, until, _ := strings.Cut(payload, " ")
			seconds, err := strconv.ParseInt(until, 10, 64)
			switch {
			case what == oauthKeysChanged:
				w.KeysChanged()
			case err != nil:
				w.Heard() // whatever it says, something was revoked
			default:
				w.Revoked(what, time.Unix(seconds, 0))
			}
		},
		lost: func(err error, retryIn time.Duration) {
			w.Lost(pgconn.Timeout(err))
			if ctx.Err() == nil {
				s.log.WarnContext(ctx, "watching revocations of OAuth tokens failed", "retry_in", retryIn, "error", err)
			}
		},
	}.keep(ctx)
}

// oauthWatchers are those of one store. The zero value is ready.
type oauthWatchers struct {
	mu   sync.Mutex // guards list
	list []OAuthWatcher
}

func (ws *oauthWatchers) add(w OAuthWatcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.list = append(ws.list, w)
}

func (ws *oauthWatchers) remove(w OAuthWatcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.list = slices.DeleteFunc(ws.list, func(other OAuthWatcher) bool { return other == w })
}

// revocation is of a token or a family.
type revocation struct {
	what  string
	until time.Time
}

func (ws *oauthWatchers) revoked(of []revocation) {
	if len(of) == 0 {
		return
	}
	ws.mu.Lock()
	list := slices.Clone(ws.list)
	ws.mu.Unlock()
	for _, w := range list {
		for _, r := range of {
			w.Revoked(r.what, r.until)
		}
	}
}

// RevokedOAuth says that this transaction revokes a token, by its jti, or a family, by its id. The database tells everybody so; this store's own
// watchers are told before the transaction's call returns.
func (t *Tx) RevokedOAuth(what string, until time.Time) {
	t.oauth = append(t.oauth, revocation{what, until})
}

// RevokedOAuthHere says the same of whatever this transaction has revoked up to now, be it by a trigger.
func (t *Tx) RevokedOAuthHere(ctx context.Context) error {
	rows, err := t.Q.OAuthRevokedHere(ctx)
	for _, r := range rows {
		t.RevokedOAuth(r.What, r.Until)
	}
	return err
}
