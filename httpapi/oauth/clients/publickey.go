package clients

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
)

const (
	minKeyBits = 2048
	maxKeyBits = 8192
	// maxPEM is more than a certificate of the longest key has, in bytes.
	maxPEM = 16 << 10
)

// What is wrong with a public key. The texts go on with the sentence that the member's name begins.
var (
	errKeyPrivate  = errors.New("is a private key: it is known to others now, so make a new pair, use its private key alone, and register its public key")
	errKeyLong     = errors.New("must have at most 16384 characters")
	errKeyForm     = errors.New("must be one RSA public key in PEM: BEGIN PUBLIC KEY, BEGIN RSA PUBLIC KEY or BEGIN CERTIFICATE")
	errKeyRSA      = errors.New("must be an RSA key: assertions are signed with RS256")
	errKeyBits     = errors.New("must be an RSA key of 2048 to 8192 bits")
	errKeyExponent = errors.New("must be an RSA key with an odd modulus and exponent; the usual exponent is 65537")
)

// ParsePublicKey reads the key that a client's assertions are verified with. Of a certificate it is the key alone that counts, and not until when
// the certificate is valid.
func ParsePublicKey(text string) (*rsa.PublicKey, error) {
	if len(text) > maxPEM {
		return nil, errKeyLong
	}
	if strings.Contains(text, "PRIVATE KEY") {
		return nil, errKeyPrivate
	}
	text = strings.TrimSpace(text)
	block, rest := pem.Decode([]byte(text))
	if block == nil || len(block.Headers) > 0 || !strings.HasPrefix(text, "-----BEGIN ") || strings.TrimSpace(string(rest)) != "" {
		return nil, errKeyForm
	}
	var parsed any
	var err error
	switch block.Type {
	case "PUBLIC KEY":
		parsed, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		parsed, err = x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		var c *x509.Certificate
		if c, err = x509.ParseCertificate(block.Bytes); err == nil {
			parsed = c.PublicKey
		}
	default:
		return nil, errKeyForm
	}
	if err != nil {
		return nil, errKeyForm
	}
	key, ok := parsed.(*rsa.PublicKey)
	if !ok {
		return nil, errKeyRSA
	}
	if bits := key.N.BitLen(); bits < minKeyBits || bits > maxKeyBits {
		return nil, errKeyBits
	}
	if key.E < 3 || key.E%2 == 0 || key.N.Bit(0) == 0 {
		return nil, errKeyExponent
	}
	return key, nil
}
