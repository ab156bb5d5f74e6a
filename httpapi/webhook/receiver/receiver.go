// Package receiver verifies Ringmaster's webhooks. Copy Verify, verify.py or verify.mjs into your own code: each needs its language's standard
// library alone. vectors.json has deliveries to try them with.
package receiver

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// tolerance is how far a delivery's time may be from now.
const tolerance = 5 * time.Minute

// Verify tells whether a delivery was signed with the secret, as it was shown, within five minutes of now. header is that of X-Service-Signature, body
// the request's as it came.
func Verify(secret, header string, body []byte, now time.Time) bool {
	stamp, signatures, _ := strings.Cut(strings.TrimPrefix(header, "t="), ",")
	sent, err := strconv.ParseInt(stamp, 10, 64)
	if age := now.Sub(time.Unix(sent, 0)); err != nil || age > tolerance || age < -tolerance {
		return false
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	want := "v0=" + hex.EncodeToString(mac.Sum(nil))
	fits := false
	for signature := range strings.SplitSeq(signatures, ",") { // several, while a secret is being replaced
		fits = fits || hmac.Equal([]byte(signature), []byte(want))
	}
	return fits
}
