package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
)

// Headers of a delivery.
const (
	HeaderSignature = "X-Service-Signature"
	HeaderEventID   = "X-Service-Event-Id"
	HeaderEventType = "X-Service-Event-Type"
)

// NewSecret makes a signing secret of 256 bits.
func NewSecret() string {
	var b [32]byte
	// crypto/rand never fails since Go 1.24.
	_, _ = rand.Read(b[:])
	return "whsec_" + hex.EncodeToString(b[:])
}

// Sign gives the signature header's value: the time of sending and the HMAC-SHA256, under the subscription's secret, of that
// time, a full stop and the body as it is sent.
func Sign(secret string, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(t))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return "t=" + t + ",v0=" + hex.EncodeToString(mac.Sum(nil))
}
