package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/keyring"
)

// Purpose says what a key of the database is for. Each has a ring of keys of its own, so that one can be replaced without the others.
type Purpose string

// The purposes. Those that seal are replaced by Rotate; the index of numbers never is, since hashes of numbers that were forgotten can't be
// made again; those that sign are replaced by Renew.
const (
	keySecrets  Purpose = "secrets"     // seals trunks' passwords, tokens, signing secrets
	keyDataKeys Purpose = "data keys"   // wraps the tenants' data keys
	keyPhones   Purpose = "phone index" // derives the tenants' blind-index keys

	KeySessions       Purpose = "sessions"
	KeyRecordingURLs  Purpose = "recording URLs"
	KeyCallbackTokens Purpose = "callback tokens"
	KeySIPAccounts    Purpose = "sip accounts"
	KeyDirectory      Purpose = "switch directory"
)

// rings are the keys of the database by purpose.
type rings map[Purpose]keyring.Ring

// firstKeys gives the first key of each purpose as it followed from the master key before keys were kept: what was sealed and signed
// until then stays good.
func firstKeys(master keyring.Key) map[Purpose]keyring.Key {
	return map[Purpose]keyring.Key{
		keySecrets:        master.Expand("ringmaster secrets"),
		keyDataKeys:       master.Expand("ringmaster data keys"),
		keyPhones:         master.Expand("ringmaster phone index"),
		KeySessions:       master.Derive("ringmaster sessions").Derive("ringmaster session tokens"),
		KeyRecordingURLs:  master.Derive("ringmaster recording URLs"),
		KeyCallbackTokens: master.Derive("ringmaster callback tokens"),
		KeySIPAccounts:    master.Derive("ringmaster sip accounts"),
		KeyDirectory:      master.Derive("ringmaster switch directory"),
	}
}

// MasterKeyError says that a master key is not the database's. Nothing was written.
type MasterKeyError struct {
	Given keyring.ID
	// Accepted are the fingerprints of the keys that open the database; empty when it was made before keys were kept.
	Accepted []keyring.ID
}

// Error implements error.
func (e *MasterKeyError) Error() string {
	if len(e.Accepted) == 0 {
		return fmt.Sprintf("the master key (fingerprint %s) is not the one that this database was made with; set security.master_key_file to that one", e.Given)
	}
	accepted := make([]string, len(e.Accepted))
	for i, id := range e.Accepted {
		accepted[i] = id.String()
	}
	return fmt.Sprintf("the master key (fingerprint %s) is not this database's, which opens with %s; set security.master_key_file to that one",
		e.Given, strings.Join(accepted, " or "))
}

// Is makes it an ErrMasterKey.
func (e *MasterKeyError) Is(target error) bool { return target == ErrMasterKey }

func wrapContext(p Purpose, no int) string { return fmt.Sprintf("key %d of %s", no, p) }

// openKeys reads the database's keys, and makes them when it has none. A wrong master key is a *MasterKeyError, and nothing is written.
func (s *Store) openKeys(ctx context.Context) error {
	rows, err := secretKeys(ctx, s)
	if err == nil && len(rows) == 0 {
		rows, err = s.makeKeys(ctx)
	}
	if err != nil {
		return fmt.Errorf("read the database's keys: %w", err)
	}
	opened, err := unwrapKeys(s.master, rows, s.keyDelay)
	if err != nil {
		return err
	}
	s.rings.Store(&opened)
	return nil
}

func secretKeys(ctx context.Context, s *Store) (rows []db.SecretKey, err error) {
	err = s.InSystem(ctx, func(tx *Tx) error {
		rows, err = tx.Q.ListSecretKeys(ctx)
		return err
	})
	return rows, err
}

// unwrapKeys opens the keys that are wrapped under a master key. They begin to seal and sign a while after they were made.
func unwrapKeys(master keyring.Key, rows []db.SecretKey, delay time.Duration) (rings, error) {
	id, out := master.ID(), rings{}
	refused := &MasterKeyError{Given: id}
	for _, row := range rows {
		if keyring.ID(row.MasterID) != id {
			if other := keyring.ID(row.MasterID); !slices.Contains(refused.Accepted, other) {
				refused.Accepted = append(refused.Accepted, other)
			}
			continue
		}
		p := Purpose(row.Purpose)
		raw, err := master.Open(wrapContext(p, int(row.No)), row.Wrapped)
		if err != nil || len(raw) != keyring.Size {
			return nil, fmt.Errorf("key %d of %s in the database is damaged; restore the table secret_keys: %w", row.No, p, ErrUnseal)
		}
		key := keyring.Numbered{No: int(row.No), Key: keyring.Key(raw)}
		key.Since = row.CreatedAt.Add(delay)
		if row.EndsAt != nil {
			key.Ends = *row.EndsAt
		}
		out[p] = append(out[p], key) // the rows come with the newest first
	}
	if len(out) == 0 {
		return nil, refused
	}
	for p := range firstKeys(master) {
		if len(out[p]) == 0 {
			return nil, fmt.Errorf("the database has no key of %s under this master key; restore the table secret_keys", p)
		}
	}
	return out, nil
}

// makeKeys gives a database its first keys. One that has tenants was made before keys were kept: the keys then follow from its master key, if
// this is it.
func (s *Store) makeKeys(ctx context.Context) (rows []db.SecretKey, err error) {
	err = s.InSystem(ctx, func(tx *Tx) error {
		if err := tx.Q.LockSecretKeys(ctx); err != nil {
			return err
		}
		if rows, err = tx.Q.ListSecretKeys(ctx); err != nil || len(rows) > 0 {
			return err
		}
		tenants, err := tx.Q.ListTenantDataKeys(ctx)
		if err != nil {
			return err
		}
		keys := firstKeys(s.master)
		if len(tenants) == 0 {
			for p := range keys {
				keys[p] = keyring.Random()
			}
		} else if !slices.ContainsFunc(tenants, func(t db.ListTenantDataKeysRow) bool {
			_, err := keys[keyDataKeys].Open(dataKeyContext(t.ID), t.DataKey)
			return err == nil
		}) {
			return &MasterKeyError{Given: s.master.ID()}
		}
		for p, key := range keys {
			if err := addKey(ctx, tx, s.master, p, keyring.Numbered{No: 1, Key: key}); err != nil {
				return err
			}
		}
		rows, err = tx.Q.ListSecretKeys(ctx)
		return err
	})
	return rows, err
}

// addKey keeps a key, wrapped under a master key.
func addKey(ctx context.Context, tx *Tx, master keyring.Key, p Purpose, key keyring.Numbered) error {
	// The number of the master key's own ring: it has one key.
	wrapped, err := keyring.Numbered{No: 1, Key: master}.Seal(wrapContext(p, key.No), key.Key[:])
	if err != nil {
		return err
	}
	id := master.ID()
	row := db.AddSecretKeyParams{Purpose: string(p), No: int16(key.No), MasterID: id[:], Wrapped: wrapped}
	if !key.Ends.IsZero() {
		row.EndsAt = &key.Ends
	}
	return tx.Q.AddSecretKey(ctx, row)
}

func (s *Store) keysOf(p Purpose) keyring.Ring { return (*s.rings.Load())[p] }

// SigningKeys gives the keys of a purpose whose signatures are good now, the newest first: it signs, all verify.
func (s *Store) SigningKeys(p Purpose) []keyring.Key { return s.keysOf(p).Good(time.Now()) }

// LatestKey gives the key that was made last, even if it doesn't sign yet: for what is handed out to be used later.
func (s *Store) LatestKey(p Purpose) keyring.Key { return s.keysOf(p)[0].Key }

// NewestKey gives the key that signs now, of 32 bytes: the first of SigningKeys.
func (s *Store) NewestKey(p Purpose) []byte {
	key := s.SigningKeys(p)[0] // the latest never ends
	return key[:]
}

// Keys binds SigningKeys to a purpose: it is asked at each use, since keys are replaced while everything serves.
func (s *Store) Keys(p Purpose) func() []keyring.Key {
	return func() []keyring.Key { return s.SigningKeys(p) }
}

// RefreshKeys reads the keys that another process has replaced since. Call it every few seconds. When the master key was withdrawn it
// keeps those that it has, and its error is a *MasterKeyError.
func (s *Store) RefreshKeys(ctx context.Context) error {
	rows, err := secretKeys(ctx, s)
	if err != nil {
		return fmt.Errorf("refresh the database's keys: %w", err)
	}
	opened, err := unwrapKeys(s.master, rows, s.keyDelay)
	if err != nil {
		return fmt.Errorf("refresh the database's keys: %w", err)
	}
	s.rings.Store(&opened)
	return nil
}
