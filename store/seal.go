package store

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

const (
	sealVersion = 1
	keySize     = 32
	nonceSize   = 12
)

// keyring derives one key per purpose from the master key, so that no bytes sealed for one purpose open for another.
type keyring struct {
	wrap  [keySize]byte // wraps the tenants' data keys
	seal  [keySize]byte // seals secrets
	index [keySize]byte // derives the tenants' blind-index keys
}

func newKeyring(master [keySize]byte) keyring {
	return keyring{
		wrap:  derive(master, "ringmaster data keys"),
		seal:  derive(master, "ringmaster secrets"),
		index: derive(master, "ringmaster phone index"),
	}
}

func derive(master [keySize]byte, purpose string) [keySize]byte {
	// Expand fails only for more than 255 blocks; one is asked for.
	key, _ := hkdf.Expand(sha256.New, master[:], purpose, keySize)
	return [keySize]byte(key)
}

// newDataKey makes a tenant's data key and gives it wrapped.
func (k keyring) newDataKey(tenantID uuid.UUID) ([]byte, error) {
	var key [keySize]byte
	// crypto/rand never fails since Go 1.24.
	_, _ = rand.Read(key[:])
	return sealUnder(k.wrap, dataKeyContext(tenantID), key[:])
}

func dataKeyContext(tenantID uuid.UUID) string { return "data key of " + tenantID.String() }

func phoneContext(tenantID uuid.UUID) string { return "phone of " + tenantID.String() }

// Seal encrypts b under the master key with AES-256-GCM. The context (what the value is, and whose) must be given again to
// Unseal, so that a sealed value copied to another row does not open there.
func (s *Store) Seal(context string, b []byte) ([]byte, error) {
	return sealUnder(s.keys.seal, context, b)
}

// Unseal opens what Seal made. Its error is ErrUnseal.
func (s *Store) Unseal(context string, sealed []byte) ([]byte, error) {
	return openUnder(s.keys.seal, context, sealed)
}

// PhoneHash gives the keyed hash that stands for a number of that tenant: the blind index for de-duplication and the
// suppression list. It is the same for every privacy mode.
func (s *Store) PhoneHash(tenantID uuid.UUID, p Phone) []byte {
	tenantKey := hmac.New(sha256.New, s.keys.index[:])
	tenantKey.Write(tenantID[:])
	sum := hmac.New(sha256.New, tenantKey.Sum(nil))
	sum.Write([]byte(p.E164()))
	return sum.Sum(nil)
}

// SealPhone encrypts a number under the tenant's data key. Within a transaction use the Tx's method, which needs no second
// connection.
func (s *Store) SealPhone(ctx context.Context, tenantID uuid.UUID, p Phone) ([]byte, error) {
	key, err := s.dataKey(ctx, tenantID)
	if err != nil {
		return nil, fmt.Errorf("seal a phone number: %w", err)
	}
	return sealUnder(*key, phoneContext(tenantID), []byte(p.National()))
}

// OpenPhone decrypts what SealPhone made.
func (s *Store) OpenPhone(ctx context.Context, tenantID uuid.UUID, sealed []byte) (Phone, error) {
	key, err := s.dataKey(ctx, tenantID)
	if err != nil {
		return Phone{}, fmt.Errorf("open a phone number: %w", err)
	}
	return openPhone(*key, tenantID, sealed)
}

// SealPhone is Store.SealPhone on the transaction's connection.
func (t *Tx) SealPhone(ctx context.Context, tenantID uuid.UUID, p Phone) ([]byte, error) {
	key, err := t.dataKey(ctx, tenantID)
	if err != nil {
		return nil, fmt.Errorf("seal a phone number: %w", err)
	}
	return sealUnder(*key, phoneContext(tenantID), []byte(p.National()))
}

// OpenPhone is Store.OpenPhone on the transaction's connection.
func (t *Tx) OpenPhone(ctx context.Context, tenantID uuid.UUID, sealed []byte) (Phone, error) {
	key, err := t.dataKey(ctx, tenantID)
	if err != nil {
		return Phone{}, fmt.Errorf("open a phone number: %w", err)
	}
	return openPhone(*key, tenantID, sealed)
}

func openPhone(key [keySize]byte, tenantID uuid.UUID, sealed []byte) (Phone, error) {
	digits, err := openUnder(key, phoneContext(tenantID), sealed)
	if err != nil {
		return Phone{}, fmt.Errorf("open a phone number: %w", err)
	}
	return ParsePhone(string(digits))
}

func (s *Store) cachedDataKey(tenantID uuid.UUID) (*[keySize]byte, bool) {
	cached, ok := s.dataKeys.Load(tenantID)
	if !ok {
		return nil, false
	}
	key, ok := cached.(*[keySize]byte)
	return key, ok
}

func (s *Store) dataKey(ctx context.Context, tenantID uuid.UUID) (*[keySize]byte, error) {
	if key, ok := s.cachedDataKey(tenantID); ok {
		return key, nil
	}
	var key *[keySize]byte
	err := s.InTenant(ctx, tenantID, func(tx *Tx) error {
		var err error
		key, err = tx.dataKey(ctx, tenantID)
		return err
	})
	return key, err
}

func (t *Tx) dataKey(ctx context.Context, tenantID uuid.UUID) (*[keySize]byte, error) {
	if key, ok := t.store.cachedDataKey(tenantID); ok {
		return key, nil
	}
	wrapped, err := t.Q.GetTenantDataKey(ctx, tenantID)
	if err != nil {
		return nil, fmt.Errorf("read the tenant's data key: %w", err)
	}
	plain, err := openUnder(t.store.keys.wrap, dataKeyContext(tenantID), wrapped)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMasterKey, err)
	}
	if len(plain) != keySize {
		return nil, fmt.Errorf("%w: %w", ErrMasterKey, ErrUnseal)
	}
	key := [keySize]byte(plain)
	t.store.dataKeys.Store(tenantID, &key)
	return &key, nil
}

// sealUnder gives version, nonce, ciphertext and tag. Nonces are random: 2^32 values under one key stay safe (NIST SP 800-38D,
// section 8.3).
func sealUnder(key [keySize]byte, context string, plain []byte) ([]byte, error) {
	aead, err := newAEAD(key)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 1+nonceSize, 1+nonceSize+len(plain)+aead.Overhead())
	out[0] = sealVersion
	// crypto/rand never fails since Go 1.24.
	_, _ = rand.Read(out[1:])
	return aead.Seal(out, out[1:], plain, []byte(context)), nil
}

func openUnder(key [keySize]byte, context string, sealed []byte) ([]byte, error) {
	aead, err := newAEAD(key)
	if err != nil {
		return nil, err
	}
	if len(sealed) < 1+nonceSize || sealed[0] != sealVersion {
		return nil, ErrUnseal
	}
	plain, err := aead.Open(nil, sealed[1:1+nonceSize], sealed[1+nonceSize:], []byte(context))
	if err != nil {
		return nil, errors.Join(ErrUnseal, err)
	}
	return plain, nil
}

func newAEAD(key [keySize]byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, fmt.Errorf("prepare the cipher: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("prepare the cipher: %w", err)
	}
	return aead, nil
}
