package recordings

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/keyring"
)

// Signer makes and checks the URLs that give a recording to whoever holds them: HMAC-SHA256 over call, tenant, recipient and expiry.
type Signer struct {
	base string
	keys func() []keyring.Key
}

// NewSigner takes the address that customers reach us at, and what gives the keys at each use: the first signs, all verify.
func NewSigner(publicURL string, keys func() []keyring.Key) *Signer {
	return &Signer{base: strings.TrimRight(publicURL, "/"), keys: keys}
}

// Link is what a signed URL says.
type Link struct {
	CallID, TenantID uuid.UUID
	// Recipient is the credential that the URL was given to, such as "api_key:<id>": the audit names it when the URL is used. Empty
	// where it isn't known, as in an event.
	Recipient string
	// Expires is in whole seconds.
	Expires time.Time
}

// Sign gives {public_url}/recordings/{call_id}?tenant=…&to=…&expires=…&sig=…, good until l.Expires. It asks nobody and writes nothing.
func (s *Signer) Sign(l Link) string {
	until := strconv.FormatInt(l.Expires.Unix(), 10)
	var newest keyring.Key
	if keys := s.keys(); len(keys) > 0 {
		newest = keys[0]
	}
	query := "?expires=" + until + "&sig=" + base64.RawURLEncoding.EncodeToString(mac(newest, l, until)) + "&tenant=" + l.TenantID.String()
	if l.Recipient != "" {
		query += "&to=" + url.QueryEscape(l.Recipient)
	}
	return s.base + "/recordings/" + l.CallID.String() + query
}

// Verify reads the path's call id and the query of a URL that Sign made. The signature is compared in constant time and before the
// expiry, so that a forger learns nothing. Its errors are ErrSignature and ErrExpired.
func (s *Signer) Verify(callID string, query func(name string) string, now time.Time) (Link, error) {
	tenantID, err := uuid.Parse(query("tenant"))
	if err != nil {
		return Link{}, ErrSignature
	}
	call, err := uuid.Parse(callID)
	if err != nil {
		return Link{}, ErrSignature
	}
	l := Link{CallID: call, TenantID: tenantID, Recipient: query("to")}
	given, err := base64.RawURLEncoding.Strict().DecodeString(query("sig"))
	if err != nil || !s.signed(given, l, query("expires")) {
		return Link{}, ErrSignature
	}
	until, err := strconv.ParseInt(query("expires"), 10, 64)
	if err != nil {
		return Link{}, ErrSignature
	}
	l.Expires = time.Unix(until, 0)
	if !now.Before(l.Expires) {
		return Link{}, ErrExpired
	}
	return l, nil
}

// AudioURL is the endpoint that streams a call's recording to holders of a key. It never expires.
func (s *Signer) AudioURL(callID uuid.UUID) string {
	return s.base + "/api/v1/calls/" + callID.String() + "/recording/audio"
}

// signed tells whether one of the keys made a signature.
func (s *Signer) signed(given []byte, l Link, expires string) bool {
	for _, key := range s.keys() {
		if hmac.Equal(given, mac(key, l, expires)) {
			return true
		}
	}
	return false
}

func mac(key keyring.Key, l Link, expires string) []byte {
	// The purpose keeps a signature that was made for something else under the same secret from fitting here.
	text := "recording\n" + l.TenantID.String() + "\n" + l.CallID.String() + "\n" + expires
	if l.Recipient != "" {
		text += "\n" + l.Recipient
	}
	mac := hmac.New(sha256.New, key[:])
	_, _ = mac.Write([]byte(text))
	return mac.Sum(nil)
}
