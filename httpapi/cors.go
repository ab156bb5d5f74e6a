package httpapi

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"
)

// allowOrigin lets browsers read the answer. Whether the origin may ask at all is the credential's to say: a key holds the
// request to its allowed_origins (package auth). Cookies, which the pages of OAuth have, are never sent along (Access-Control-Allow-Credentials is not set).
func allowOrigin(rc *fasthttp.RequestCtx) {
	h := &rc.Response.Header
	h.Set("Vary", "Origin") // also of what no origin asked for: a browser that has it in store must not show it to a page
	origin := rc.Request.Header.Peek("Origin")
	if len(origin) == 0 {
		return
	}
	h.SetBytesV("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", strings.Join([]string{
		headerRequestID, headerRateLimit, headerRateLeft, headerRetryAfter, headerReplayed,
		"Accept-Ranges", "Content-Disposition", "Content-Range", "ETag",
	}, ", "))
}

// answerPreflight answers OPTIONS on a known path; the router has set Allow. A preflight carries no key, so it is granted
// whatever the origin.
func answerPreflight(rc *fasthttp.RequestCtx) {
	rc.SetStatusCode(fasthttp.StatusNoContent)
	asked := rc.Request.Header.Peek("Access-Control-Request-Method")
	if len(asked) == 0 || len(rc.Request.Header.Peek("Origin")) == 0 {
		return
	}
	h := &rc.Response.Header
	h.SetBytesV("Access-Control-Allow-Methods", h.Peek("Allow"))
	headers := rc.Request.Header.Peek("Access-Control-Request-Headers")
	if len(headers) == 0 {
		headers = []byte("Authorization, Content-Type, Idempotency-Key, X-Request-Id")
	}
	h.SetBytesV("Access-Control-Allow-Headers", headers)
	h.Set("Access-Control-Max-Age", "600")
	h.Set("Vary", "Origin, Access-Control-Request-Method, Access-Control-Request-Headers")
}

// unknownClient is the address of a client of which a trusted proxy says what can't be read: it is in no network.
const unknownClient = "unknown"

// clientOf is the client's address: the connection's, or what a trusted proxy says of it. The lines of X-Forwarded-For are one list,
// which is read from the right, for only what trusted proxies appended can be believed.
func (n networks) clientOf(rc *fasthttp.RequestCtx) string {
	peer, err := netip.ParseAddrPort(rc.RemoteAddr().String())
	if err != nil {
		return rc.RemoteAddr().String()
	}
	client := peer.Addr().Unmap()
	if !n.contain(client) {
		return client.String()
	}
	lines := rc.Request.Header.PeekAll("X-Forwarded-For")
	hops := strings.Split(string(bytes.Join(lines, []byte(","))), ",")
	if len(lines) == 0 {
		return client.String() // the proxy's own request
	}
	for _, hop := range slices.Backward(hops) {
		addr, ok := hopAddr(strings.TrimSpace(hop))
		if !ok {
			return unknownClient
		}
		client = addr
		if !n.contain(client) {
			break
		}
	}
	return client.String()
}

// hopAddr reads an address of X-Forwarded-For, with or without a port.
func hopAddr(hop string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(hop)
	if err != nil {
		withPort, err := netip.ParseAddrPort(hop)
		if err != nil {
			return netip.Addr{}, false
		}
		addr = withPort.Addr()
	}
	return addr.Unmap().WithZone(""), true
}

// networks are some networks: of proxies that are trusted, or of the switch.
type networks []netip.Prefix

func (n networks) contain(addr netip.Addr) bool {
	return slices.ContainsFunc(n, func(p netip.Prefix) bool { return p.Contains(addr) })
}
