package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Headers of a delivery (interface section 6.1).
const (
	HeaderSignature = "X-Service-Signature"
	HeaderEventID   = "X-Service-Event-Id"
	HeaderEventType = "X-Service-Event-Type"
)

// Headers of a delivery by the Standard Webhooks specification 1.0, whose libraries verify it by them.
const (
	HeaderStandardID        = "Webhook-Id"
	HeaderStandardTimestamp = "Webhook-Timestamp"
	HeaderStandardSignature = "Webhook-Signature"
)

// secretPrefix begins every secret. What follows is base64: the key of Standard Webhooks. The key of X-Service-Signature is the whole text, so
// that one secret, as it was shown, does for both.
const secretPrefix = "whsec_"

// secretBytes is the length of the key of Standard Webhooks, which takes 24 to 64.
const secretBytes = 32

// NewSecret makes a signing secret of 256 bits.
func NewSecret() string {
	var b [secretBytes]byte
	// crypto/rand never fails since Go 1.24.
	_, _ = rand.Read(b[:])
	return secretPrefix + base64.StdEncoding.EncodeToString(b[:])
}

// Sign gives the value of X-Service-Signature: the time of sending and the HMAC-SHA256, under the secret, of that time, a full stop and the
// body as it is sent.
func Sign(secret string, at time.Time, body []byte) string { return SignAll(at, body, secret) }

// SignAll is Sign under several secrets, any of which a receiver may have.
func SignAll(at time.Time, body []byte, secrets ...string) string {
	t := strconv.FormatInt(at.Unix(), 10)
	var out strings.Builder
	out.WriteString("t=" + t)
	for _, secret := range secrets {
		out.WriteString(",v0=" + hex.EncodeToString(sum([]byte(secret), t, ".", string(body))))
	}
	return out.String()
}

// SignStandard gives the value of webhook-signature: for each secret the HMAC-SHA256 of id, time and body, joined by full stops.
func SignStandard(id string, at time.Time, body []byte, secrets ...string) string {
	t := strconv.FormatInt(at.Unix(), 10)
	all := make([]string, len(secrets))
	for i, secret := range secrets {
		all[i] = "v1," + base64.StdEncoding.EncodeToString(sum(standardKey(secret), id, ".", t, ".", string(body)))
	}
	return strings.Join(all, " ")
}

// standardKey reads a secret as the libraries of Standard Webhooks do. Secrets of earlier versions end in hexadecimal digits, which are base64
// as well.
func standardKey(secret string) []byte {
	text := strings.TrimPrefix(secret, secretPrefix)
	if key, err := base64.StdEncoding.DecodeString(text); err == nil {
		return key
	}
	return []byte(text)
}

func sum(key []byte, parts ...string) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range parts {
		mac.Write([]byte(part))
	}
	return mac.Sum(nil)
}

// Signed gives the headers of a request that is no delivery and is signed as one.
func Signed(secret, id, eventType string, at time.Time, body []byte) http.Header {
	return headers(id, eventType, at, body, []string{secret})
}

// headers are those of one attempt. The keys are in the form that net/http sends as they stand.
func headers(id, eventType string, at time.Time, body []byte, secrets []string) http.Header {
	return http.Header{
		"Content-Type":          {"application/json"},
		"User-Agent":            {"Ringmaster-Webhooks/1"},
		HeaderSignature:         {SignAll(at, body, secrets...)},
		HeaderEventID:           {id},
		HeaderEventType:         {eventType},
		HeaderStandardID:        {id},
		HeaderStandardTimestamp: {strconv.FormatInt(at.Unix(), 10)},
		HeaderStandardSignature: {SignStandard(id, at, body, secrets...)},
	}
}
