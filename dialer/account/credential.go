package account

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"golang.org/x/crypto/argon2"
)

// The prefixes of API keys, by environment (interface section 2.7).
const (
	PrefixLive = "svc_live_"
	PrefixTest = "svc_test_"
)

// secretLength is the number of random characters of a key or password: 40 of 62 hold 238 bits.
const secretLength = 40

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Secret is a credential that is shown once.
type Secret struct {
	// Key is the whole secret; Prefix and LastFour are what may be shown later.
	Key      string
	Prefix   string
	LastFour string
	// Hash is what is stored.
	Hash []byte
}

// NewAPIKey makes a key of an environment, live or test.
func NewAPIKey(environment string) Secret {
	prefix := PrefixLive
	if environment == "test" {
		prefix = PrefixTest
	}
	key := prefix + Random(secretLength)
	return Secret{Key: key, Prefix: prefix, LastFour: key[len(key)-4:], Hash: HashAPIKey(key)}
}

// HashAPIKey is the form in which a key is stored and looked up: SHA-256, since a key is random and long.
func HashAPIKey(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}

// Random gives n random characters of [0-9A-Za-z].
func Random(n int) string {
	var b strings.Builder
	size := big.NewInt(int64(len(alphabet)))
	for range n {
		i, err := rand.Int(rand.Reader, size)
		if err != nil {
			return rand.Text() + rand.Text() // never: crypto/rand does not fail
		}
		b.WriteByte(alphabet[i.Int64()])
	}
	return b.String()
}

// The argon2id parameters that all new hashes share.
const (
	argonThreads = 1
	argonKey     = 32
	argonSalt    = 16
)

// PasswordCost is what a new hash takes: argon2id's memory and passes.
type PasswordCost struct{ MemoryKiB, Passes uint32 }

// DefaultPasswordCost is OWASP's minimum of 19 MiB and two passes.
func DefaultPasswordCost() PasswordCost { return PasswordCost{MemoryKiB: 19 * 1024, Passes: 2} }

// LeastPasswordCost is for the users of tests, whose passwords protect nothing.
func LeastPasswordCost() PasswordCost { return PasswordCost{MemoryKiB: 8, Passes: 1} }

// ErrHash says that a stored password hash can't be read.
var ErrHash = errors.New("malformed password hash")

// Hash gives the argon2id hash of a password in PHC string form.
func (c PasswordCost) Hash(password string) string {
	salt := make([]byte, argonSalt)
	_, _ = rand.Read(salt) // never fails
	sum := argon2.IDKey([]byte(password), salt, c.Passes, c.MemoryKiB, argonThreads, argonKey)
	enc := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, c.MemoryKiB, c.Passes, argonThreads,
		enc.EncodeToString(salt), enc.EncodeToString(sum))
}

// VerifyPassword compares in constant time. It returns ErrHash for a hash that is not in PHC form.
func VerifyPassword(hash, password string) (bool, error) {
	parts := strings.Split(hash, "$")
	if len(parts) != 6 || parts[1] != "argon2id" {
		return false, ErrHash
	}
	var memory, passes uint32
	var threads uint8
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &memory, &passes, &threads); err != nil {
		return false, fmt.Errorf("%w: %w", ErrHash, err)
	}
	salt, err := base64.RawStdEncoding.DecodeString(parts[4])
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrHash, err)
	}
	want, err := base64.RawStdEncoding.DecodeString(parts[5])
	if err != nil || len(want) == 0 || passes == 0 || threads == 0 {
		return false, ErrHash
	}
	got := argon2.IDKey([]byte(password), salt, passes, memory, threads, uint32(len(want)))
	return subtle.ConstantTimeCompare(got, want) == 1, nil
}

// Scopes are all scopes of API keys; a key without any has all but ai_sessions:control_admin (CONTRACT 1).
func Scopes() []string {
	return []string{
		"agents:read", "ai_sessions:control_admin", "api_keys:manage", "calls:read", "calls:write", "campaigns:read",
		"campaigns:write", "flows:read", "flows:write", "leads:read", "leads:write", "numbers:read", "numbers:write", "recordings:download",
		"settings:read", "settings:write", "trunks:read", "trunks:write", "voice_agents:admin", "voice_agents:read", "voice_agents:write",
		"webhooks:read", "webhooks:write",
	}
}
