package twilio

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // Twilio's signature is an HMAC-SHA1
	"encoding/base64"
	"encoding/hex"
)

// The prefixes of identifiers.
const (
	AccountPrefix = "AC"
	CallPrefix    = "CA"
	StreamPrefix  = "MZ"
)

// SID is an identifier in Twilio's form, a prefix and 32 hexadecimal digits: those of the UUID that it stands for.
func SID(prefix string, id [16]byte) string { return prefix + hex.EncodeToString(id[:]) }

// SignatureHeader is the header of the handshake that proves who dials.
const SignatureHeader = "X-Twilio-Signature"

// Signature is the header's value for a socket's address: a WebSocket's request has no parameters besides.
func Signature(url, authToken string) string {
	mac := hmac.New(sha1.New, []byte(authToken))
	mac.Write([]byte(url))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
