package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"

	"github.com/ringmaster/ringmaster/httpapi/oauth"
	"github.com/ringmaster/ringmaster/httpapi/oauth/pages"
)

// oauthHandlers serve the endpoints of OAuth, which are net/http's.
type oauthHandlers struct {
	provider *oauth.Provider
	issuer   func() string
	proxies  networks
}

// oauthEndpoints are the endpoints of the interface document's section 4.7. They answer in the forms of their RFCs.
func (a *api) oauthEndpoints() []operation {
	var ops []operation
	for path, methods := range a.oauth.provider.Routes() {
		for _, method := range methods {
			ops = append(ops, operation{method: method, path: path, access: accessOpen, page: true, handle: a.oauth.serve})
		}
	}
	return ops
}

// serve gives a request to the provider, and its answer back.
func (h oauthHandlers) serve(ctx context.Context, r *request) (reply, error) {
	sent := new(http.Request)
	if err := fasthttpadaptor.ConvertRequest(r.rc, sent, true); err != nil {
		return reply{}, fmt.Errorf("read the request: %w", err)
	}
	answer := &recorder{header: http.Header{}, status: http.StatusOK}
	h.provider.ServeHTTP(answer, sent.WithContext(oauth.WithPeer(ctx, oauth.Peer{
		Addr: r.client, RequestID: r.id, Arrived: time.Now(), Secure: h.secure(r.rc),
	})))
	out := reply{status: answer.status, raw: answer.body.Bytes(), headers: map[string]string{}, contentType: answer.header.Get("Content-Type")}
	if out.raw == nil {
		out.raw = []byte{}
	}
	for name, values := range answer.header {
		switch name {
		case "Content-Type":
		case "Set-Cookie":
			for _, v := range values {
				r.rc.Response.Header.Add(name, v)
			}
		default:
			out.headers[name] = strings.Join(values, ", ")
		}
	}
	return out, nil
}

// secure tells whether a request came by HTTPS, here or at a trusted proxy, or from this machine to this machine.
func (h oauthHandlers) secure(rc *fasthttp.RequestCtx) bool {
	if rc.IsTLS() {
		return true
	}
	peer, err := netip.ParseAddrPort(rc.RemoteAddr().String())
	if err != nil {
		return false
	}
	if h.proxies.contain(peer.Addr().Unmap()) && rc.Request.Header.Peek("X-Forwarded-Proto") != nil {
		return bytes.EqualFold(rc.Request.Header.Peek("X-Forwarded-Proto"), []byte("https"))
	}
	host, _, err := net.SplitHostPort(string(rc.Host()))
	if err != nil {
		host = strings.Trim(string(rc.Host()), "[]")
	}
	addr, err := netip.ParseAddr(host)
	return h.local() && peer.Addr().IsLoopback() && (strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback())
}

// local tells whether the issuer is on this machine: only then nobody else can be behind a peer that is.
func (h oauthHandlers) local() bool {
	issuer, err := url.Parse(h.issuer())
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(issuer.Hostname())
	return issuer.Hostname() == "localhost" || err == nil && addr.IsLoopback()
}

// recorder is an answer until it is whole.
type recorder struct {
	header http.Header
	status int
	wrote  bool
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *recorder) WriteHeader(status int) {
	if !w.wrote {
		w.status, w.wrote = status, true
	}
}

// Write implements http.ResponseWriter.
func (w *recorder) Write(b []byte) (int, error) {
	w.wrote = true
	return w.body.Write(b) //nolint:wrapcheck // it never fails
}

// newOAuth makes the provider of the server.
func (s *Server) newOAuth() (oauthHandlers, error) {
	provider, err := oauth.New(oauth.Config{
		Store: s.store, Tokens: s.tokens, Issuer: s.issuer, Now: s.cfg.Now, Log: s.cfg.Logger, Registerer: s.cfg.Registerer,
		Pages: pages.New(pages.Config{
			Store: s.store, SignIn: s.signIn, Keys: s.cfg.SessionKeys, Now: s.cfg.Now, Log: s.cfg.Logger,
			Secure: s.cfg.TLSCertFile != "" || strings.HasPrefix(cmp.Or(s.cfg.Issuer, s.cfg.PublicURL), "https://"),
		}),
	})
	return oauthHandlers{provider: provider, issuer: s.issuer, proxies: s.cfg.TrustedProxies}, err
}
