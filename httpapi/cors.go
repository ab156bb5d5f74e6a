package httpapi

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"
)

// allowOrigin lets browsers read the answer. Whether the origin may ask at all is the credential's to say: a key holds the
// request to its allowed_origins (auth.go). No cookies are ever involved.
func (s *Server) allowOrigin(rc *fasthttp.RequestCtx) {
	origin := rc.Request.Header.Peek("Origin")
	if len(origin) == 0 {
		return
	}
	h := &rc.Response.Header
	h.SetBytesV("Access-Control-Allow-Origin", origin)
	h.Set("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", strings.Join([]string{
		headerRequestID, headerRateLimit, headerRateLeft, headerRetryAfter, headerReplayed,
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

// remoteAddr is the client's address: the connection's, or what a trusted proxy says of it. X-Forwarded-For is read from the
// right, for only what trusted proxies appended can be believed.
func (s *Server) remoteAddr(rc *fasthttp.RequestCtx) string {
	peer, err := netip.ParseAddrPort(rc.RemoteAddr().String())
	if err != nil {
		return rc.RemoteAddr().String()
	}
	client := peer.Addr().Unmap()
	if !s.trusted(client) {
		return client.String()
	}
	hops := strings.Split(string(rc.Request.Header.Peek("X-Forwarded-For")), ",")
	for _, hop := range slices.Backward(hops) {
		addr, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			break
		}
		client = addr.Unmap()
		if !s.trusted(client) {
			break
		}
	}
	return client.String()
}

func (s *Server) trusted(addr netip.Addr) bool {
	for _, p := range s.cfg.TrustedProxies {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
