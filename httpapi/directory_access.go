package httpapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/ringmaster/ringmaster/httpapi/auth"
)

// DirectoryUser is the name under which the switch asks /fs/directory.
const DirectoryUser = "freeswitch"

// switchGate knows the switch.
type switchGate struct {
	proxies networks // those in front of us
	allow   networks // where the switch asks from
	secrets func() []string
	log     *slog.Logger
}

// admit lets the switch ask for its users: by the connection's own address, and by the credentials that the switch's rendered
// configuration has. Whoever stands behind a proxy has the proxy's address, so that nothing that was forwarded is answered.
func (g switchGate) admit(ctx context.Context, r *request) error {
	peer, err := netip.ParseAddrPort(r.rc.RemoteAddr().String())
	reason := ""
	switch addr := peer.Addr().Unmap(); {
	case err != nil:
		reason = "its address can't be read"
	case g.proxies.contain(addr):
		reason = "it is one of the trusted proxies"
	case forwardedBy(&r.rc.Request.Header) != "":
		reason = "it was forwarded: " + forwardedBy(&r.rc.Request.Header)
	case !g.allow.contain(addr):
		reason = "it is outside of the switch's network"
	}
	if reason != "" {
		g.log.WarnContext(ctx, "directory look-up refused", "request_id", r.id, "peer", r.rc.RemoteAddr().String(), "reason", reason)
		return newError(http.StatusForbidden, codeForbiddenClient, "Only the telephony switch may ask this, and without a proxy in between.")
	}
	if g.secrets == nil || !slices.ContainsFunc(g.secrets(), func(secret string) bool {
		return secret != "" && basicCredentials(r.rc, DirectoryUser, secret)
	}) {
		g.log.WarnContext(ctx, "directory look-up refused", "request_id", r.id, "peer", r.rc.RemoteAddr().String(),
			"reason", "its credentials are not those of `ringmaster switch config`")
		return newError(http.StatusUnauthorized, auth.CodeInvalid, "The switch's credentials are required.")
	}
	return nil
}

// forwardedBy names the header that a proxy added to a request; empty when there is none.
func forwardedBy(h *fasthttp.RequestHeader) string {
	for key := range h.All() {
		switch name := strings.ToLower(string(key)); {
		case name == "forwarded", name == "via", name == "x-real-ip", strings.HasPrefix(name, "x-forwarded"):
			return name
		}
	}
	return ""
}

// basicCredentials tells whether a request has this user and password, in a time that tells nothing about them.
func basicCredentials(rc *fasthttp.RequestCtx, user, password string) bool {
	scheme, encoded, _ := strings.Cut(string(rc.Request.Header.Peek("Authorization")), " ")
	given, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	if err != nil || !strings.EqualFold(scheme, "Basic") {
		return false
	}
	a, b := sha256.Sum256(given), sha256.Sum256([]byte(user+":"+password))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
