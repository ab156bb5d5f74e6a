// Package keyring seals values under numbered keys and keeps the keys of a process, by purpose. It knows no database: the store keeps
// its keys there, each wrapped under the master key.
//
// A sealed value is a version byte (2), the number of its key, a nonce of 12 bytes, and the ciphertext of AES-256-GCM with its tag.
// Values of version 1 have no number; their key is number 1.
package keyring

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	versionPlain    = 1 // without a key's number
	versionNumbered = 2

	// Size is the size of every key in bytes.
	Size      = 32
	nonceSize = 12
	// MaxNumber is the last number that a key may have: it is one byte of each sealed value.
	MaxNumber = 255
)

// ErrUnseal is the error of everything that can't be opened: damaged, sealed for another purpose, or under another key.
var ErrUnseal = errors.New("encrypted value can't be decrypted")

// Key is an AES-256 key, or a secret to sign with.
type Key [Size]byte

// Random makes a key.
func Random() (k Key) {
	_, _ = rand.Read(k[:]) // never fails since Go 1.24
	return k
}

// Expand derives the key of one purpose from a key (HKDF-Expand, RFC 5869 section 2.3).
func (k Key) Expand(purpose string) Key {
	out, _ := hkdf.Expand(sha256.New, k[:], purpose, Size) // fails only for more than 255 blocks
	return Key(out)
}

// Derive is Expand behind HKDF-Extract without a salt (RFC 5869 section 2.2).
func (k Key) Derive(purpose string) Key {
	out, _ := hkdf.Key(sha256.New, k[:], nil, purpose, Size) // fails only for more than 255 blocks
	return Key(out)
}

// ID is a key's fingerprint.
type ID [8]byte

// ID gives the fingerprint of a master key: it tells keys apart and nothing of the key.
func (k Key) ID() ID {
	sum := hmac.New(sha256.New, k[:])
	sum.Write([]byte("ringmaster master key"))
	return ID(sum.Sum(nil))
}

// String is the fingerprint in hex digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText is String.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// Numbered is a key with its number.
type Numbered struct {
	No  int
	Key Key
	// Since is when it begins to seal and sign: others have read it by then. Zero: from the start.
	Since time.Time
	// Ends is when its signatures end to be good; zero: never.
	Ends time.Time
}

// Seal encrypts plain. The context must be given again to open it. Nonces are random: 2^32 values under one key stay safe (NIST SP
// 800-38D, section 8.3).
func (n Numbered) Seal(context string, plain []byte) ([]byte, error) {
	aead, err := newAEAD(n.Key)
	if err != nil {
		return nil, err
	}
	const head = 2 + nonceSize
	out := make([]byte, head, head+len(plain)+aead.Overhead())
	out[0], out[1] = versionNumbered, byte(n.No)
	_, _ = rand.Read(out[2:]) // never fails since Go 1.24
	return aead.Seal(out, out[2:], plain, []byte(context)), nil
}

// NumberOf gives the number of the key that a value was sealed under. Its error is ErrUnseal.
func NumberOf(sealed []byte) (int, error) {
	switch {
	case len(sealed) >= 1+nonceSize && sealed[0] == versionPlain:
		return 1, nil
	case len(sealed) >= 2+nonceSize && sealed[0] == versionNumbered && sealed[1] != 0:
		return int(sealed[1]), nil
	default:
		return 0, ErrUnseal
	}
}

// Open decrypts what was sealed under the key. Its error is ErrUnseal.
func (k Key) Open(context string, sealed []byte) ([]byte, error) {
	if _, err := NumberOf(sealed); err != nil {
		return nil, err
	}
	aead, err := newAEAD(k)
	if err != nil {
		return nil, err
	}
	nonce := sealed[sealed[0]:] // version 1 has one byte before it, version 2 two
	plain, err := aead.Open(nil, nonce[:nonceSize], nonce[nonceSize:], []byte(context))
	if err != nil {
		return nil, errors.Join(ErrUnseal, err)
	}
	return plain, nil
}

func newAEAD(key Key) (cipher.AEAD, error) {
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

// Ring is the keys of one purpose, the newest first: that one seals and signs, the others open and verify.
type Ring []Numbered

// Newest gives the key that seals at a time: the newest one that has begun, or else the first there was.
func (r Ring) Newest(now time.Time) (Numbered, bool) {
	for _, n := range r {
		if !n.Since.After(now) {
			return n, true
		}
	}
	if len(r) == 0 {
		return Numbered{}, false
	}
	return r[len(r)-1], true
}

// Open finds the key of a sealed value and opens it. Its error is ErrUnseal.
func (r Ring) Open(context string, sealed []byte) ([]byte, error) {
	no, err := NumberOf(sealed)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(r, func(n Numbered) bool { return n.No == no })
	if i < 0 {
		return nil, fmt.Errorf("%w: key %d is not known here", ErrUnseal, no)
	}
	return r[i].Key.Open(context, sealed)
}

// Good gives the keys whose signatures are good at a time. The first of them signs: the newest one that has begun, or else the oldest, which
// most have read.
func (r Ring) Good(now time.Time) []Key {
	var begun, later []Key
	for _, n := range r {
		switch {
		case !n.Ends.IsZero() && !now.Before(n.Ends):
		case n.Since.After(now):
			later = slices.Insert(later, 0, n.Key)
		default:
			begun = append(begun, n.Key)
		}
	}
	return append(begun, later...)
}
