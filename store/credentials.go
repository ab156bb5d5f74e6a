package store

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// listenCredentials asks for the word that triggers give of each change of a credential (migrations 0049 and 0066).
	listenCredentials = "LISTEN ringmaster_credentials"
	// toldOfToken stands before the hash of a callback token's jti, where the word is of one.
	toldOfToken = "callback "
	// A connection on which nothing was told for listenQuiet is asked for a sign of life, which must come in listenPing.
	listenQuiet = time.Second
	listenPing  = 2 * time.Second
)

// CredentialWatcher keeps in memory what it has read of keys, users and callback tokens. Its methods are called from one goroutine at a time and another, and
// must return at once.
type CredentialWatcher interface {
	// Watch tells whether every change is told from now on. What was read before that is worth nothing.
	Watch(on bool)
	// Forget tells that what is known of a tenant's credentials may have changed.
	Forget(tenant uuid.UUID)
	// ForgetToken tells the same of one callback token, by the hash of its jti.
	ForgetToken(hash string)
}

// WatchCredentials tells a watcher of each change to what a credential is good for, whoever makes it, as soon as it is committed, until ctx
// ends. It has a connection of its own; when that is lost it connects again.
func (s *Store) WatchCredentials(ctx context.Context, w CredentialWatcher) {
	s.watchers.add(w)
	defer s.watchers.remove(w)
	listener{
		pool: s.pool, application: "ringmaster credentials", statement: listenCredentials, listening: func() { w.Watch(true) },
		told: func(payload string) {
			if hash, ok := strings.CutPrefix(payload, toldOfToken); ok {
				w.ForgetToken(hash)
				return
			}
			tenant, err := uuid.Parse(payload)
			if err != nil {
				w.Watch(true) // whatever it says, what was known before may have changed
				return
			}
			w.Forget(tenant)
		},
		lost: func(err error, retryIn time.Duration) {
			w.Watch(false)
			if ctx.Err() == nil {
				s.log.WarnContext(ctx, "watching credentials failed, each is read from the database meanwhile", "retry_in", retryIn, "error", err)
			}
		},
	}.keep(ctx)
}

// watchers are those of one store. The zero value is ready.
type watchers struct {
	mu   sync.Mutex // guards list
	list []CredentialWatcher
}

func (ws *watchers) add(w CredentialWatcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.list = append(ws.list, w)
}

func (ws *watchers) remove(w CredentialWatcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.list = slices.DeleteFunc(ws.list, func(other CredentialWatcher) bool { return other == w })
}

// changed tells them without the way through the database, so that no request that begins after a change's answer finds what was before.
func (ws *watchers) changed(change func(CredentialWatcher)) {
	ws.mu.Lock()
	list := slices.Clone(ws.list)
	ws.mu.Unlock()
	for _, w := range list {
		change(w)
	}
}

// ForgetCredentials says that this transaction changes what credentials of a tenant are good for. The database tells everybody so; this
// store's own watchers are told before the transaction's call returns.
func (t *Tx) ForgetCredentials(tenant uuid.UUID) {
	t.credentials = append(t.credentials, func(w CredentialWatcher) { w.Forget(tenant) })
}

// ForgetTokenLater says the same of a callback token that ends with its session. Other controllers are told after the commit, together with what else
// ends meanwhile: a transaction that notifies commits alone.
func (t *Tx) ForgetTokenLater(hash string) {
	t.ForgetToken(hash)
	t.endedTokens = append(t.endedTokens, hash)
}

// tokenWord is what the waker knows the word of ended tokens by.
const tokenWord = "callback tokens"

// endedTokens are those that other controllers are to be told of. The zero value is ready.
type endedTokens struct {
	mu     sync.Mutex
	hashes []string
}

func (e *endedTokens) add(hashes []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hashes = append(e.hashes, hashes...)
}

func (e *endedTokens) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	hashes := e.hashes
	e.hashes = nil
	return hashes
}

// ForgetToken says the same of a callback token, by the hash of its jti.
func (t *Tx) ForgetToken(hash string) {
	t.credentials = append(t.credentials, func(w CredentialWatcher) { w.ForgetToken(hash) })
}
