package store

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"hash"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/keyring"
)

// newDataKey makes a tenant's data key and gives it wrapped.
func (s *Store) newDataKey(tenantID uuid.UUID) ([]byte, error) {
	key, wrap := keyring.Random(), s.newest(keyDataKeys)
	return wrap.Seal(dataKeyContext(tenantID), key[:])
}

// newest gives the key that seals; every ring has one.
func (s *Store) newest(p Purpose) keyring.Numbered {
	key, _ := s.keysOf(p).Newest(time.Now())
	return key
}

func dataKeyContext(tenantID uuid.UUID) string { return "data key of " + tenantID.String() }

func phoneContext(tenantID uuid.UUID) string { return "phone of " + tenantID.String() }

// Seal encrypts b with AES-256-GCM under the database's newest key, which the value names. The context (what the value is, and whose) must be given again to
// Unseal, so that a sealed value copied to another row does not open there.
func (s *Store) Seal(context string, b []byte) ([]byte, error) {
	return s.newest(keySecrets).Seal(context, b)
}

// Unseal opens what Seal made. Its error is ErrUnseal.
func (s *Store) Unseal(context string, sealed []byte) ([]byte, error) {
	plain, err := s.keysOf(keySecrets).Open(context, sealed)
	return plain, unsealError(err)
}

// Mask stands where a secret does that isn't shown.
const Mask = "••••"

// MaskSecret shows a secret as four bullets and its last four characters; all of a short one is hidden.
func MaskSecret(secret string) string {
	const shown = 4
	runes := []rune(secret)
	if len(runes) < 3*shown {
		return Mask
	}
	return Mask + string(runes[len(runes)-shown:])
}

// SecretName tells of the names of headers, and of URLs' parameters, that credentials stand in.
func SecretName(name string) bool {
	name = strings.ToLower(name)
	switch name {
	case "sig", "code", "pwd", "pass":
		return true
	}
	return slices.ContainsFunc([]string{"auth", "token", "key", "secret", "password", "cookie", "credential", "signature"}, func(word string) bool {
		return strings.Contains(name, word)
	})
}

// PhoneHash gives the keyed hash that stands for a number of that tenant: the blind index for de-duplication and the
// suppression list. It is the same for every privacy mode.
func (s *Store) PhoneHash(tenantID uuid.UUID, p Phone) []byte {
	return s.tenantHash(tenantID, []byte(p.E164()))
}

// PhoneHasher is PhoneHash for many numbers of a tenant. One goroutine at a time may use it.
func (s *Store) PhoneHasher(tenantID uuid.UUID) func(Phone) []byte {
	sum := s.tenantHasher(tenantID)
	return func(p Phone) []byte {
		sum.Reset()
		sum.Write([]byte(p.E164()))
		return sum.Sum(nil)
	}
}

// BodyHash gives the keyed hash of a request's body, by which a repetition is told from another request. A plain one would give away the numbers
// in short bodies to whoever tries them out.
func (s *Store) BodyHash(tenantID uuid.UUID, sum []byte) []byte {
	return s.tenantHash(tenantID, append([]byte("body "), sum...))
}

func (s *Store) tenantHash(tenantID uuid.UUID, of []byte) []byte {
	sum := s.tenantHasher(tenantID)
	sum.Write(of)
	return sum.Sum(nil)
}

func (s *Store) tenantHasher(tenantID uuid.UUID) hash.Hash {
	index := s.newest(keyPhones)
	tenantKey := hmac.New(sha256.New, index.Key[:])
	tenantKey.Write(tenantID[:])
	return hmac.New(sha256.New, tenantKey.Sum(nil))
}

// unsealError makes the keyring's error the store's.
func unsealError(err error) error {
	if err == nil || errors.Is(err, ErrUnseal) {
		return err
	}
	return errors.Join(ErrUnseal, err)
}
