package twilio

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // Twilio's signature is an HMAC-SHA1
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
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

// Signature is the header's value for an address: a socket's, whose request has no parameters besides, or one of [WithBody].
func Signature(address, authToken string) string {
	mac := hmac.New(sha1.New, []byte(authToken))
	mac.Write([]byte(address))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// WithBody is the address to which a JSON body is posted: the body's SHA-256 is a parameter of the URL, as Twilio has it (Twilio, "Webhooks security"),
// so that the signature of the address holds for the body too.
func WithBody(address string, body []byte) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("address of a signed request: %w", err)
	}
	sum := sha256.Sum256(body)
	parameter := "bodySHA256=" + hex.EncodeToString(sum[:])
	if u.RawQuery != "" {
		parameter = u.RawQuery + "&" + parameter
	}
	u.RawQuery = parameter
	return u.String(), nil
}
