package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/keyring"
)

// NewerMasterError refuses to withdraw the master key that the last rotation moved to: it is in place on no host yet, or the command was run
// with an earlier one.
type NewerMasterError struct{ Mine, Newer keyring.ID }

func (e *NewerMasterError) Error() string {
	return fmt.Sprintf("the last rotation moved to the master key %s, and the configured one, %s, is older: configure the newer one first", e.Newer, e.Mine)
}

// WithdrawMasters takes the database from every master key but the one that this Store was opened with, and gives their fingerprints; the
// one that the last rotation moved to only with evenNewer, otherwise it is a [*NewerMasterError]. Controllers that run under another go on
// with the keys that they have read, and don't start again.
func (s *Store) WithdrawMasters(ctx context.Context, evenNewer bool) (withdrawn []keyring.ID, err error) {
	mine := s.master.ID()
	err = s.InSystem(ctx, func(tx *Tx) error {
		withdrawn = nil
		if err := tx.Q.LockSecretKeys(ctx); err != nil {
			return err
		}
		switch _, err := tx.Q.GetOpenRotation(ctx); {
		case err == nil:
			return fmt.Errorf("%w: finish it first (ringmaster secret rotate)", ErrRotating)
		case !errors.Is(err, ErrNotFound):
			return err
		}
		rows, err := tx.Q.ListSecretKeys(ctx)
		if err != nil {
			return err
		}
		opened, err := unwrapKeys(s.master, rows, s.keyDelay)
		if err != nil {
			return err
		}
		for _, row := range rows {
			p, no, id := Purpose(row.Purpose), int(row.No), keyring.ID(row.MasterID)
			if !slices.ContainsFunc(opened[p], func(k keyring.Numbered) bool { return k.No == no }) {
				return fmt.Errorf("key %d of %s is encrypted with the master key %s only; rotate to the configured one first", no, p, id)
			}
			if id != mine && !slices.Contains(withdrawn, id) {
				withdrawn = append(withdrawn, id)
			}
		}
		if !evenNewer {
			if err := s.newestMaster(ctx, tx, withdrawn); err != nil {
				return err
			}
		}
		if _, err = tx.Q.WithdrawMasterKeys(ctx, mine[:]); err != nil || len(withdrawn) == 0 {
			return err
		}
		return auditKeys(ctx, tx, "master_key.withdrawn", map[string]any{"withdrawn": withdrawn, "stays": mine})
	})
	if err != nil {
		return nil, fmt.Errorf("withdraw master keys: %w", err)
	}
	return withdrawn, nil
}

// newestMaster is a [*NewerMasterError] if one of others is the master key that the last rotation moved to.
func (s *Store) newestMaster(ctx context.Context, tx *Tx, others []keyring.ID) error {
	last, err := tx.Q.LastRotation(ctx)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if newer := keyring.ID(last.MasterID); slices.Contains(others, newer) {
		return &NewerMasterError{Mine: s.master.ID(), Newer: newer}
	}
	return nil
}

// Renew gives a purpose that signs a new key. What the earlier ones signed stays good for keep longer, for none when that is zero; the
// other purposes' keys stay as they are. The controllers take it over while they run.
func (s *Store) Renew(ctx context.Context, p Purpose, keep time.Duration) (no int, err error) {
	err = s.InSystem(ctx, func(tx *Tx) error {
		if err := tx.Q.LockSecretKeys(ctx); err != nil {
			return err
		}
		rows, err := tx.Q.ListSecretKeys(ctx)
		if err != nil {
			return err
		}
		if err := knowsMasters([]keyring.Key{s.master}, rows); err != nil {
			return err
		}
		opened, err := unwrapKeys(s.master, rows, s.keyDelay)
		if err != nil {
			return err
		}
		if no = opened[p][0].No + 1; no > keyring.MaxNumber {
			return fmt.Errorf("it has been replaced %d times, which is all that there are numbers for", no-1)
		}
		if err := addKey(ctx, tx, s.master, p, keyring.Numbered{No: no, Key: keyring.Random()}); err != nil {
			return err
		}
		ends := time.Now().Add(keep)
		if keep > 0 {
			ends = ends.Add(s.keyDelay) // for as long the earlier one still signs
		}
		if err := tx.Q.EndSecretKeys(ctx, &ends, string(p), int16(no)); err != nil {
			return err
		}
		return auditKeys(ctx, tx, "secret_key.renewed", map[string]any{"purpose": p, "no": no, "earlier_end_at": ends.UTC()})
	})
	if err == nil {
		err = s.RefreshKeys(ctx)
	}
	if err != nil {
		return 0, fmt.Errorf("renew the key of %s: %w", p, err)
	}
	return no, nil
}

// auditKeys writes an entry of a change of the installation's keys, if somebody made it.
func auditKeys(ctx context.Context, tx *Tx, action string, details any) error {
	if ActorOf(ctx).Name == "" {
		return nil
	}
	return tx.Audit(ctx, AuditEntry{Action: action, Details: details})
}

// KeyInfo is one key of the database, without the key.
type KeyInfo struct {
	Purpose Purpose
	No      int
	// Masters are the fingerprints of the master keys that it is wrapped under.
	Masters   []keyring.ID
	CreatedAt time.Time
	EndsAt    *time.Time
}

// KeyStatus tells which keys the database has, and the last rotation; nil when there was none.
func (s *Store) KeyStatus(ctx context.Context) (keys []KeyInfo, last *db.SecretRotation, err error) {
	err = s.InSystem(ctx, func(tx *Tx) error {
		keys, last = nil, nil
		rows, err := tx.Q.ListSecretKeys(ctx)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if n := len(keys); n == 0 || keys[n-1].Purpose != Purpose(row.Purpose) || keys[n-1].No != int(row.No) {
				keys = append(keys, KeyInfo{Purpose: Purpose(row.Purpose), No: int(row.No), CreatedAt: row.CreatedAt, EndsAt: row.EndsAt})
			}
			key := &keys[len(keys)-1]
			key.Masters = append(key.Masters, keyring.ID(row.MasterID))
		}
		rotation, err := tx.Q.LastRotation(ctx)
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		last = &rotation
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read the status of the keys: %w", err)
	}
	return keys, last, nil
}

// Master gives the fingerprint of the master key that the Store was opened with.
func (s *Store) Master() keyring.ID { return s.master.ID() }
