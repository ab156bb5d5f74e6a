package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/keyring"
)

// dataKeys are a tenant's data keys, the newest first.
type dataKeys struct {
	ring keyring.Ring
	read time.Time
}

// SealPhone encrypts a number under the tenant's data key. Within a transaction use the Tx's method, which needs no second
// connection.
func (s *Store) SealPhone(ctx context.Context, tenantID uuid.UUID, p Phone) (sealed []byte, err error) {
	if key, ok := s.freshDataKey(tenantID); ok {
		return key.Seal(phoneContext(tenantID), []byte(p.National()))
	}
	err = s.InTenant(ctx, tenantID, func(tx *Tx) error {
		sealed, err = tx.SealPhone(ctx, tenantID, p)
		return err
	})
	return sealed, err
}

// OpenPhone decrypts what SealPhone made.
func (s *Store) OpenPhone(ctx context.Context, tenantID uuid.UUID, sealed []byte) (p Phone, err error) {
	if ring, ok := s.knownDataKeys(tenantID, sealed); ok {
		return openPhone(ring, tenantID, sealed)
	}
	err = s.InTenant(ctx, tenantID, func(tx *Tx) error {
		p, err = tx.OpenPhone(ctx, tenantID, sealed)
		return err
	})
	return p, err
}

// SealPhone is Store.SealPhone on the transaction's connection.
func (t *Tx) SealPhone(ctx context.Context, tenantID uuid.UUID, p Phone) ([]byte, error) {
	key, ok := t.store.freshDataKey(tenantID)
	if !ok {
		ring, err := t.readDataKeys(ctx, tenantID)
		if err != nil {
			return nil, fmt.Errorf("seal a phone number: %w", err)
		}
		key = ring[0]
	}
	return key.Seal(phoneContext(tenantID), []byte(p.National()))
}

// OpenPhone is Store.OpenPhone on the transaction's connection.
func (t *Tx) OpenPhone(ctx context.Context, tenantID uuid.UUID, sealed []byte) (Phone, error) {
	ring, ok := t.store.knownDataKeys(tenantID, sealed)
	if !ok {
		var err error
		if ring, err = t.readDataKeys(ctx, tenantID); err != nil {
			return Phone{}, fmt.Errorf("open a phone number: %w", err)
		}
	}
	return openPhone(ring, tenantID, sealed)
}

func openPhone(ring keyring.Ring, tenantID uuid.UUID, sealed []byte) (Phone, error) {
	digits, err := ring.Open(phoneContext(tenantID), sealed)
	if err != nil {
		return Phone{}, fmt.Errorf("open a phone number: %w", unsealError(err))
	}
	return ParsePhone(string(digits))
}

func (s *Store) cachedDataKeys(tenantID uuid.UUID) (*dataKeys, bool) {
	cached, ok := s.dataKeys.Load(tenantID)
	if !ok {
		return nil, false
	}
	keys, ok := cached.(*dataKeys)
	return keys, ok
}

// freshDataKey gives the key that numbers are sealed under, if it was read lately: a rotation waits for twice as long before its last sweep.
func (s *Store) freshDataKey(tenantID uuid.UUID) (keyring.Numbered, bool) {
	keys, ok := s.cachedDataKeys(tenantID)
	if !ok || time.Since(keys.read) > s.keyDelay/2 {
		return keyring.Numbered{}, false
	}
	return keys.ring[0], true
}

// knownDataKeys gives a tenant's keys if they are known up to the one that a value was sealed under, which a damaged value never was.
func (s *Store) knownDataKeys(tenantID uuid.UUID, sealed []byte) (keyring.Ring, bool) {
	keys, ok := s.cachedDataKeys(tenantID)
	if !ok {
		return nil, false
	}
	no, err := keyring.NumberOf(sealed)
	return keys.ring, err != nil || no <= keys.ring[0].No
}

// readDataKeys reads the tenant's keys from the database.
func (t *Tx) readDataKeys(ctx context.Context, tenantID uuid.UUID) (keyring.Ring, error) {
	row, err := t.Q.GetTenantDataKey(ctx, tenantID)
	if err != nil {
		return nil, fmt.Errorf("read the tenant's data key: %w", err)
	}
	ring, err := t.store.unwrapDataKeys(db.ListTenantDataKeysRow{
		ID: tenantID, DataKey: row.DataKey, DataKeyNo: row.DataKeyNo, OldDataKey: row.OldDataKey,
	})
	if err != nil {
		return nil, err
	}
	t.store.dataKeys.Store(tenantID, &dataKeys{ring: ring, read: time.Now()})
	return ring, nil
}

// unwrapDataKeys opens a tenant's keys, the newest first.
func (s *Store) unwrapDataKeys(row db.ListTenantDataKeysRow) (keyring.Ring, error) {
	wraps := s.keysOf(keyDataKeys)
	ring := make(keyring.Ring, 0, row.DataKeyNo)
	for no := int(row.DataKeyNo); no > 0; no-- {
		wrapped := row.DataKey
		if no < int(row.DataKeyNo) {
			wrapped = row.OldDataKey[no-1]
		}
		plain, err := wraps.Open(dataKeyContext(row.ID), wrapped)
		if err == nil && len(plain) != keyring.Size {
			err = ErrUnseal
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrMasterKey, unsealError(err))
		}
		ring = append(ring, keyring.Numbered{No: no, Key: keyring.Key(plain)})
	}
	return ring, nil
}
