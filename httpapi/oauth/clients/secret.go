package clients

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"time"

	"github.com/ringmaster/ringmaster/store/db"
)

// SecretPrefix is that of clients' secrets.
const SecretPrefix = "svc_oauth_"

// secretBytes is how many random bytes a secret has.
const secretBytes = 32

func newSecret() string {
	b := make([]byte, secretBytes)
	_, _ = rand.Read(b) // never fails
	return SecretPrefix + base64.RawURLEncoding.EncodeToString(b)
}

// hash is the form in which a secret is kept: SHA-256, since it is random and long.
func hash(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// SecretMatches tells, in constant time, whether a secret is the client's: the present one, or the one before while both are good.
func SecretMatches(c db.OauthClient, secret string, now time.Time) bool {
	sum := hash(secret)
	present := subtle.ConstantTimeCompare(sum, c.SecretHash)
	before := subtle.ConstantTimeCompare(sum, c.PreviousSecretHash)
	if c.PreviousSecretUntil == nil || !now.Before(*c.PreviousSecretUntil) {
		before = 0
	}
	return present|before == 1
}
