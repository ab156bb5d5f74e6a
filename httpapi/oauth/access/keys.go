package access

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

const (
	// PublishedFor is how long others may keep the document of the keys (JWKS).
	PublishedFor = 10 * time.Minute
	// rotateAfter is how long a key signs before the next one does.
	rotateAfter = 30 * 24 * time.Hour
	// reloadEvery is how often each host reads the keys, besides whenever it is told.
	reloadEvery = time.Minute
	// margin is for clocks that differ from host to host, and for reading that fails once.
	margin = 2 * time.Minute
	// publishedBefore is how long a key is known to everybody before it signs; endsAfter how long it verifies when the next one signs.
	publishedBefore = PublishedFor + reloadEvery + margin
	endsAfter       = Lifetime + margin
	keyBits         = 2048
)

var errNotStarted = errors.New("OAuth's signing keys were not read yet")

// Key is a signing key as administrators see it.
type Key struct {
	ID        uuid.UUID
	CreatedAt time.Time // when it was published
	SignsAt   time.Time // until the next one does
	EndsAt    *time.Time
	// Signs tells that it is the one that signs.
	Signs bool
}

// key is one that this host has read.
type key struct {
	kid      string
	verifies *rsa.PublicKey
	private  *rsa.PrivateKey // nil where it could not be decrypted
	signsAt  time.Time
	endsAt   time.Time // zero: of the newest
}

func (k *key) good(now time.Time) bool { return k.endsAt.IsZero() || now.Before(k.endsAt) }

// keySet is what this host has read, in the order in which the keys sign.
type keySet struct {
	keys []*key
	of   map[string]*key
}

// signing gives the key that signs at a time. Where this host's clock is behind that of the one that made the first key, it is that.
func (s *keySet) signing(now time.Time) (*key, error) {
	var found *key
	for _, k := range s.keys {
		if k.good(now) && (found == nil || !k.signsAt.After(now)) {
			found = k
		}
	}
	if found == nil {
		return nil, errors.New("there is no OAuth signing key")
	}
	if found.private == nil {
		return nil, fmt.Errorf("OAuth signing key %s can't be used; `ringmaster oauth-key rotate --now` makes another", found.kid)
	}
	return found, nil
}

// public gives a key whose signatures are good. One that doesn't sign here yet may do so by another host's clock.
func (s *keySet) public(kid string, now time.Time) (*rsa.PublicKey, bool) {
	k := s.of[kid]
	if k == nil || !k.good(now) {
		return nil, false
	}
	return k.verifies, true
}

// jwk is a key of the document (RFC 7517, RFC 7518 section 6.3.1).
type jwk struct {
	Type      string `json:"kty"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
	ID        string `json:"kid"`
	Modulus   string `json:"n"`
	Exponent  string `json:"e"`
}

func (s *keySet) document(now time.Time) []byte {
	doc := struct {
		Keys []jwk `json:"keys"`
	}{Keys: []jwk{}}
	for _, k := range s.keys {
		if k.good(now) {
			doc.Keys = append(doc.Keys, jwk{
				Type: "RSA", Use: "sig", Algorithm: "RS256", ID: k.kid, Modulus: base64.RawURLEncoding.EncodeToString(k.verifies.N.Bytes()),
				Exponent: base64.RawURLEncoding.EncodeToString(big.NewInt(int64(k.verifies.E)).Bytes()),
			})
		}
	}
	out, _ := json.Marshal(doc) // strings alone
	return out
}

// loadKeys reads the keys.
func (t *Tokens) loadKeys(ctx context.Context) error {
	rows, err := t.store.ReadSystem().ListOAuthKeys(ctx)
	if err != nil {
		return fmt.Errorf("read OAuth's signing keys: %w", err)
	}
	known := t.keys.Load()
	set := &keySet{of: map[string]*key{}}
	for _, row := range rows {
		k := &key{kid: row.ID.String(), signsAt: row.SignsAt}
		if row.EndsAt != nil {
			k.endsAt = *row.EndsAt
		}
		if known != nil && known.of[k.kid] != nil && known.of[k.kid].private != nil {
			k.verifies, k.private = known.of[k.kid].verifies, known.of[k.kid].private
		} else if err := t.openKey(row, k); err != nil {
			t.log.ErrorContext(ctx, "reading an OAuth signing key failed", "kid", k.kid, "error", err)
			if k.verifies == nil {
				continue
			}
		}
		set.keys = append(set.keys, k)
		set.of[k.kid] = k
	}
	t.keys.Store(set)
	return nil
}

// openKey decodes a key. One that can't be decrypted still verifies.
func (t *Tokens) openKey(row db.OauthSigningKey, into *key) error {
	public, err := x509.ParsePKIXPublicKey(row.PublicDer)
	if err != nil {
		return fmt.Errorf("parse the public key: %w", err)
	}
	rsaPublic, ok := public.(*rsa.PublicKey)
	if !ok {
		return errors.New("the public key is not RSA")
	}
	into.verifies = rsaPublic
	der, err := t.store.Unseal(store.OAuthKey(row.ID), row.PrivateSealed)
	if err != nil {
		return err //nolint:wrapcheck // says all
	}
	private, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return fmt.Errorf("parse the private key: %w", err)
	}
	rsaPrivate, ok := private.(*rsa.PrivateKey)
	if !ok || !rsaPrivate.PublicKey.Equal(crypto.PublicKey(rsaPublic)) {
		return errors.New("the private key is not the public one's")
	}
	into.private = rsaPrivate
	return nil
}

// refreshKeys reads the keys again, and makes the next one when it is time. What fails is tried again in reloadEvery.
func (t *Tokens) refreshKeys(ctx context.Context) {
	err := t.loadKeys(ctx)
	if err == nil && t.due() {
		_, err = rotate(ctx, t.store, t.now, rotation{unless: func(rows []db.OauthSigningKey) bool {
			return slices.ContainsFunc(rows, func(row db.OauthSigningKey) bool { return row.EndsAt == nil && !dueAfter(row.SignsAt, t.now()) })
		}})
		if err == nil {
			err = t.loadKeys(ctx)
		}
	}
	if err != nil && ctx.Err() == nil {
		t.log.WarnContext(ctx, "refreshing OAuth's signing keys failed", "retry_in", reloadEvery, "error", err)
	}
}

// due tells whether the next key is to be made: it signs when the present one has done so for rotateAfter.
func (t *Tokens) due() bool {
	return !slices.ContainsFunc(t.keys.Load().keys, func(k *key) bool { return k.endsAt.IsZero() && !dueAfter(k.signsAt, t.now()) })
}

func dueAfter(newest, now time.Time) bool {
	return !now.Before(newest.Add(rotateAfter - publishedBefore))
}

// makeFirst makes the first key of all, unless another host does.
func (t *Tokens) makeFirst(ctx context.Context) error {
	if _, err := rotate(ctx, t.store, t.now, rotation{
		atOnce: true, unless: func(rows []db.OauthSigningKey) bool { return len(rows) > 0 },
	}); err != nil {
		return err
	}
	return t.loadKeys(ctx)
}

// Rotate makes the next key, which signs as soon as everybody can have read it.
func (t *Tokens) Rotate(ctx context.Context) error {
	if _, err := RotateKeys(ctx, t.store, t.now, false); err != nil {
		return err
	}
	return t.loadKeys(ctx)
}

// RotateKeys makes the next signing key, which signs as soon as everybody can have read it. With atOnce, for a key that has leaked, it signs now, and what
// earlier ones signed is good for nothing: resource servers refuse tokens until they read the keys again.
func RotateKeys(ctx context.Context, st *store.Store, now func() time.Time, atOnce bool) (Key, error) {
	return rotate(ctx, st, now, rotation{atOnce: atOnce, endEarlier: atOnce})
}

// ListKeys gives the keys that sign, did so or will.
func ListKeys(ctx context.Context, st *store.Store, now time.Time) ([]Key, error) {
	rows, err := st.ReadSystem().ListOAuthKeys(ctx)
	if err != nil {
		return nil, fault.Wrap("list OAuth's signing keys", err)
	}
	out := make([]Key, len(rows))
	signs := -1
	for i, row := range rows {
		out[i] = Key{ID: row.ID, CreatedAt: row.CreatedAt, SignsAt: row.SignsAt, EndsAt: row.EndsAt}
		if !row.SignsAt.After(now) && (row.EndsAt == nil || now.Before(*row.EndsAt)) {
			signs = i
		}
	}
	if signs >= 0 {
		out[signs].Signs = true
	}
	return out, nil
}

// rotation says how the next key comes.
type rotation struct {
	atOnce, endEarlier bool
	// unless finds among the keys that there are, as soon as nobody else changes them, that no other is needed; nil never does.
	unless func([]db.OauthSigningKey) bool
}

// rotate adds a key. Of several hosts that do so at the same time one comes after the other.
func rotate(ctx context.Context, st *store.Store, now func() time.Time, how rotation) (made Key, err error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Key{}, fault.Wrap("make an OAuth signing key", err)
	}
	// Before the lock: it takes a while.
	private, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return Key{}, fault.Wrap("make an OAuth signing key", err)
	}
	row := db.AddOAuthKeyParams{ID: id}
	if row.PublicDer, err = x509.MarshalPKIXPublicKey(&private.PublicKey); err != nil {
		return Key{}, fault.Wrap("make an OAuth signing key", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return Key{}, fault.Wrap("make an OAuth signing key", err)
	}
	if row.PrivateSealed, err = st.Seal(store.OAuthKey(id), der); err != nil {
		return Key{}, fault.Wrap("make an OAuth signing key", err)
	}
	err = st.InSystem(ctx, func(tx *store.Tx) error {
		made = Key{}
		if err := tx.Q.LockOAuthKeys(ctx); err != nil {
			return err
		}
		rows, err := tx.Q.ListOAuthKeys(ctx)
		if err != nil {
			return err
		}
		if how.unless != nil && how.unless(rows) {
			return nil
		}
		row.CreatedAt, row.SignsAt = now(), now().Add(publishedBefore)
		if how.atOnce || len(rows) == 0 {
			row.SignsAt = row.CreatedAt
		}
		ends := row.SignsAt.Add(endsAfter)
		if how.endEarlier {
			ends = row.CreatedAt
		}
		if err := tx.Q.AddOAuthKey(ctx, row); err != nil {
			return err
		}
		if err := tx.Q.EndOAuthKeys(ctx, &ends, id); err != nil {
			return err
		}
		if err := tx.Q.ForgetOAuthKeys(ctx, new(row.CreatedAt.Add(-rotateAfter))); err != nil {
			return err
		}
		if err := tx.Q.TellOfOAuthKeys(ctx); err != nil {
			return err
		}
		made = Key{ID: id, CreatedAt: row.CreatedAt, SignsAt: row.SignsAt, Signs: !row.SignsAt.After(row.CreatedAt)}
		if store.ActorOf(ctx).Name == "" {
			return nil
		}
		return tx.Audit(ctx, store.AuditEntry{Action: "oauth_key.rotated", ObjectID: id.String(), Details: map[string]any{
			"signs_at": row.SignsAt.UTC(), "earlier_end_at": ends.UTC(),
		}})
	})
	return made, fault.Wrap("rotate OAuth's signing keys", err)
}
