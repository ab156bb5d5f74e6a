package netguard

import (
	"cmp"
	"net/url"
	"strings"
)

// SameEnd tells whether what is secret to the peer of one WebSocket or HTTP address may be sent to the other: the same host and port, and no TLS given up.
func SameEnd(before, after string) bool {
	a, errA := url.Parse(before)
	b, errB := url.Parse(after)
	if errA != nil || errB != nil {
		return before == after
	}
	secure := func(u *url.URL) bool { return u.Scheme == "wss" || u.Scheme == "https" }
	port := func(u *url.URL) string {
		if secure(u) {
			return cmp.Or(u.Port(), "443")
		}
		return cmp.Or(u.Port(), "80")
	}
	return strings.EqualFold(a.Hostname(), b.Hostname()) && (port(a) == port(b) || a.Port() == b.Port()) &&
		(secure(b) || a.Scheme == b.Scheme)
}
