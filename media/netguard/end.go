package netguard

import (
	"cmp"
	"net/url"
	"strings"
)

// SameEnd tells whether what is secret to the peer of one WebSocket address may be sent to the other: the same host and port, and no TLS given up.
func SameEnd(before, after string) bool {
	a, errA := url.Parse(before)
	b, errB := url.Parse(after)
	if errA != nil || errB != nil {
		return before == after
	}
	port := func(u *url.URL) string {
		if u.Scheme == "wss" {
			return cmp.Or(u.Port(), "443")
		}
		return cmp.Or(u.Port(), "80")
	}
	return strings.EqualFold(a.Hostname(), b.Hostname()) && (port(a) == port(b) || a.Port() == b.Port()) &&
		(b.Scheme == "wss" || a.Scheme == b.Scheme)
}
