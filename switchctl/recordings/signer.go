package recordings

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Signer makes and checks the URLs that give a recording to whoever holds them: HMAC-SHA256 over call, tenant and expiry.
type Signer struct {
	base string
	key  []byte
}

// NewSigner takes the address that customers reach us at, and a secret.
func NewSigner(publicURL string, key []byte) *Signer {
	return &Signer{base: strings.TrimRight(publicURL, "/"), key: key}
}

// Sign gives {public_url}/recordings/{call_id}?tenant=…&expires=…&sig=…, good until expires, in whole seconds.
func (s *Signer) Sign(callID, tenantID uuid.UUID, expires time.Time) string {
	until := strconv.FormatInt(expires.Unix(), 10)
	query := url.Values{
		"tenant": {tenantID.String()}, "expires": {until},
		"sig": {base64.RawURLEncoding.EncodeToString(s.mac(callID, tenantID, until))},
	}
	return s.base + "/recordings/" + callID.String() + "?" + query.Encode()
}

// Verify checks the parts of a URL that Sign made. The signature is compared in constant time and before the expiry, so
// that a forger learns nothing. Its errors are ErrSignature and ErrExpired.
func (s *Signer) Verify(callID, tenantID uuid.UUID, expires, sig string, now time.Time) error {
	given, err := base64.RawURLEncoding.Strict().DecodeString(sig)
	if err != nil || !hmac.Equal(given, s.mac(callID, tenantID, expires)) {
		return ErrSignature
	}
	until, err := strconv.ParseInt(expires, 10, 64)
	if err != nil {
		return ErrSignature
	}
	if !now.Before(time.Unix(until, 0)) {
		return ErrExpired
	}
	return nil
}

// VerifyURL is Verify for a path's call id and a query's members as they came, and gives whose recording it is.
func (s *Signer) VerifyURL(callID, tenant, expires, sig string, now time.Time) (tenantID, call uuid.UUID, err error) {
	if tenantID, err = uuid.Parse(tenant); err != nil {
		return uuid.Nil, uuid.Nil, ErrSignature
	}
	if call, err = uuid.Parse(callID); err != nil {
		return uuid.Nil, uuid.Nil, ErrSignature
	}
	return tenantID, call, s.Verify(call, tenantID, expires, sig, now)
}

// AudioURL is the endpoint that streams a call's recording to holders of a key. It never expires.
func (s *Signer) AudioURL(callID uuid.UUID) string {
	return s.base + "/api/v1/calls/" + callID.String() + "/recording/audio"
}

func (s *Signer) mac(callID, tenantID uuid.UUID, expires string) []byte {
	mac := hmac.New(sha256.New, s.key)
	// The purpose keeps a signature that was made for something else under the same secret from fitting here.
	_, _ = fmt.Fprintf(mac, "recording\n%s\n%s\n%s", tenantID, callID, expires)
	return mac.Sum(nil)
}
