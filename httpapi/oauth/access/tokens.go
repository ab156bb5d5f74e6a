// Package access makes and checks the access tokens of OAuth: JWTs (RFC 9068) that are signed with RS256 by keys in the store. It knows no HTTP.
//
// How to read it: keys.go (which key signs and which verify, and when the next one comes), claims.go (what a token says), verify.go (who is let in),
// revoked.go (what is refused before its time), scopes.go (what a role leaves of a token's scopes).
//
// Verify asks the database for nothing: keys and revocations are in memory. Revocations are told by the database, of this host's own transactions
// before their calls return (store.Tx.RevokedOAuth), of others' as soon as they are committed. When the connection on which they are told is lost,
// tokens are taken for a second longer, in which it is there again as a rule. From then on, or at once if the connection was silent for seconds, every
// good token is answered with 503 until the connection is back and all revocations have been read again. So a token that was revoked elsewhere is
// taken for one second at most after the loss was noticed, and none is refused for good because of it.
package access

import (
	"context"
	"crypto/rsa"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/store"
)

// Lifetime is how long an access token is good.
const Lifetime = time.Hour

// Config is what Tokens need.
type Config struct {
	Store *store.Store
	// Issuer gives the iss of all tokens, a URL without a slash at its end. It is asked at each use.
	Issuer     func() string
	Now        func() time.Time
	Log        *slog.Logger
	Registerer prometheus.Registerer // may be nil
}

// Tokens are the access tokens of one controller. They are safe for concurrent use.
type Tokens struct {
	store   *store.Store
	issuer  func() string
	now     func() time.Time
	log     *slog.Logger
	metrics *metrics
	parser  *jwt.Parser
	keys    atomic.Pointer[keySet] // replaced as a whole; nil before Start
	revoked *revocations
	// They have word that the keys, or the revocations, are to be read.
	keysChanged, heard chan struct{}
}

// New makes Tokens. Nothing is read before Start.
func New(cfg Config) (*Tokens, error) {
	if cfg.Store == nil || cfg.Issuer == nil {
		return nil, errors.New("access tokens need a store and an issuer")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	t := &Tokens{
		store: cfg.Store, issuer: cfg.Issuer, now: cfg.Now, log: cfg.Log, revoked: newRevocations(cfg.Now),
		parser:      jwt.NewParser(jwt.WithValidMethods([]string{jwt.SigningMethodRS256.Alg()}), jwt.WithoutClaimsValidation(), jwt.WithStrictDecoding()),
		keysChanged: make(chan struct{}, 1), heard: make(chan struct{}, 1),
	}
	var err error
	if t.metrics, err = newMetrics(t, cfg.Registerer); err != nil {
		return nil, err
	}
	return t, nil
}

// Start reads the keys, of which the first host of all makes one, and the revocations. Run is to follow within a second.
func (t *Tokens) Start(ctx context.Context) error {
	if err := t.loadKeys(ctx); err != nil {
		return err
	}
	if len(t.keys.Load().keys) == 0 {
		if err := t.makeFirst(ctx); err != nil {
			return err
		}
	}
	if _, err := t.keys.Load().signing(t.now()); err != nil {
		return err
	}
	if err := t.readRevocations(ctx); err != nil {
		return err
	}
	t.revoked.started()
	return nil
}

// Run keeps keys and revocations current until ctx ends, and replaces the keys in time.
func (t *Tokens) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		t.store.WatchOAuth(ctx, t)
	}()
	defer func() { cancel(); <-watching }()
	tick := time.NewTicker(reloadEvery)
	defer tick.Stop()
	again := time.NewTimer(reloadEvery) // to read revocations after that has failed
	again.Stop()
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.heard:
			if err := t.readRevocations(ctx); err != nil && ctx.Err() == nil {
				t.log.WarnContext(ctx, "reading the revocations of OAuth tokens failed", "retry_in", readAgainIn, "error", err)
				again.Reset(readAgainIn)
			}
		case <-again.C:
			notify(t.heard)
		case <-t.keysChanged:
			t.refreshKeys(ctx)
		case <-tick.C:
			t.refreshKeys(ctx)
			t.revoked.sweep()
		}
	}
}

// Audience is the aud of access tokens: this service's API.
func (t *Tokens) Audience() string { return t.issuer() + "/api" }

// Signing gives the key that signs now, and its id.
func (t *Tokens) Signing() (kid string, key *rsa.PrivateKey, err error) {
	set := t.keys.Load()
	if set == nil {
		return "", nil, errNotStarted
	}
	k, err := set.signing(t.now())
	if err != nil {
		return "", nil, err
	}
	return k.kid, k.private, nil
}

// Public gives the key of an id if its signatures are good.
func (t *Tokens) Public(kid string) (*rsa.PublicKey, bool) {
	set := t.keys.Load()
	if set == nil {
		return nil, false
	}
	return set.public(kid, t.now())
}

// JWKS is the document of the keys whose signatures are good (RFC 7517), that of the next key among them. It may be cached for PublishedFor.
func (t *Tokens) JWKS() []byte {
	set := t.keys.Load()
	if set == nil {
		set = &keySet{}
	}
	return set.document(t.now())
}

// notify puts word into a channel of one place.
func notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Heard implements store.OAuthWatcher.
func (t *Tokens) Heard() {
	t.revoked.heard()
	notify(t.heard)
}

// Lost implements store.OAuthWatcher.
func (t *Tokens) Lost(silent bool) { t.revoked.lost(silent) }

// Revoked implements store.OAuthWatcher.
func (t *Tokens) Revoked(what string, until time.Time) { t.revoked.add(what, until) }

// KeysChanged implements store.OAuthWatcher.
func (t *Tokens) KeysChanged() { notify(t.keysChanged) }
