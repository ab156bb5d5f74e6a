package oauth

import (
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/ory/fosite"
	"github.com/ory/fosite/handler/oauth2"
	"github.com/ory/fosite/handler/openid"
	"github.com/ory/fosite/handler/pkce"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/httpapi/auth"
	"github.com/ringmaster/ringmaster/httpapi/oauth/access"
	"github.com/ringmaster/ringmaster/httpapi/oauth/pages"
	"github.com/ringmaster/ringmaster/store"
)

// The paths of the endpoints, below the issuer.
const (
	PathDiscovery  = "/.well-known/openid-configuration"
	PathJWKS       = "/.well-known/jwks.json"
	PathAuthorize  = "/oauth/authorize"
	PathToken      = "/oauth/token"
	PathIntrospect = "/oauth/introspect"
	PathRevoke     = "/oauth/revoke"
	PathUserinfo   = "/oauth/userinfo"
)

// Tokens makes and verifies access tokens, and has the keys; *access.Tokens is one.
type Tokens interface {
	Mint(c access.Claims) (string, error)
	Is(token string) bool
	Verify(token string) (access.Claims, error)
	Audience() string
	Signing() (kid string, key *rsa.PrivateKey, err error)
	Public(kid string) (*rsa.PublicKey, bool)
	JWKS() []byte
}

// Config is what a Provider needs.
type Config struct {
	Store  *store.Store
	Tokens Tokens
	Pages  *pages.Pages
	// Issuer is where the endpoints are, without a slash at its end.
	Issuer     func() string
	Now        func() time.Time
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Provider is the authorization server.
type Provider struct {
	cfg     Config
	storage *storage
	fosite  *fosite.Fosite
	config  *fosite.Config
	guard   *auth.Guard // of clients' secrets
	count   *prometheus.CounterVec
	now     func() time.Time
	log     *slog.Logger
}

// New makes a Provider.
func New(cfg Config) (*Provider, error) {
	count := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ringmaster_oauth_grants_total",
		Help: "What partners' applications asked for at the OAuth endpoints, by grant (authorization, authorization_code, refresh_token, jwt_bearer) and outcome (given, or the error).",
	}, []string{"grant", "outcome"})
	if err := cfg.Registerer.Register(count); err != nil {
		return nil, fmt.Errorf("register the metrics of OAuth: %w", err)
	}
	p := &Provider{
		cfg: cfg, storage: &storage{store: cfg.Store, now: cfg.Now}, guard: auth.NewGuard(),
		count: count, now: cfg.Now, log: cfg.Log,
	}
	p.config = &fosite.Config{
		AccessTokenLifespan: access.Lifetime, RefreshTokenLifespan: refreshLifetime, AuthorizeCodeLifespan: codeLifetime, IDTokenLifespan: access.Lifetime,
		RefreshTokenScopes: []string{scopeOffline}, ScopeStrategy: fosite.ExactScopeStrategy, EnforcePKCE: true,
		AllowedPromptValues: []string{"none", "login", "consent", "select_account"}, SanitationWhiteList: kept(),
		// A nonce is of any length, and a state too (authorization.parse).
		MinParameterEntropy: 1, OmitRedirectScopeParam: true, RedirectSecureChecker: registeredURI, ClientAuthenticationStrategy: p.authenticate,
	}
	p.fosite = fosite.NewOAuth2Provider(p.storage, p.config)
	p.grants()
	return p, nil
}

// registeredURI takes every redirect URI: each was looked at when it was registered, and is compared byte by byte.
func registeredURI(context.Context, *url.URL) bool { return true }

// issuerConfig is fosite's configuration with the issuer, which is known when the server listens.
type issuerConfig struct {
	*fosite.Config
	issuer func() string
}

// GetIDTokenIssuer implements fosite.IDTokenIssuerProvider.
func (c issuerConfig) GetIDTokenIssuer(context.Context) string { return c.issuer() }

// grants are the code flow with PKCE, OpenID Connect, refresh tokens and assertions, in the order in which they look at a request: the code first.
func (p *Provider) grants() {
	made := strategy{tokens: p.cfg.Tokens, now: p.now}
	signs := signer{p.cfg.Tokens}
	cfg := issuerConfig{Config: p.config, issuer: p.cfg.Issuer}
	ids := &openid.IDTokenHandleHelper{IDTokenStrategy: &openid.DefaultStrategy{Signer: signs, Config: cfg}}
	code := &oauth2.AuthorizeExplicitGrantHandler{
		AccessTokenStrategy: made, RefreshTokenStrategy: made, AuthorizeCodeStrategy: made, CoreStorage: p.storage, TokenRevocationStorage: p.storage, Config: cfg,
	}
	id := &openid.OpenIDConnectExplicitHandler{
		OpenIDConnectRequestStorage: p.storage, OpenIDConnectRequestValidator: openid.NewOpenIDConnectRequestValidator(signs, cfg), Config: cfg, IDTokenHandleHelper: ids,
	}
	verifier := &pkce.Handler{AuthorizeCodeStrategy: made, Storage: p.storage, Config: cfg}
	refresh := &refreshGrant{&oauth2.RefreshTokenGrantHandler{
		AccessTokenStrategy: made, RefreshTokenStrategy: made, TokenRevocationStorage: p.storage, Config: cfg,
	}}
	idAgain := &openid.OpenIDConnectRefreshHandler{IDTokenHandleHelper: ids, Config: cfg}
	p.config.AuthorizeEndpointHandlers.Append(code)
	p.config.AuthorizeEndpointHandlers.Append(verifier)
	p.config.AuthorizeEndpointHandlers.Append(id)
	for _, h := range []fosite.TokenEndpointHandler{code, verifier, id, refresh, idAgain, &assertionGrant{p: p, strategy: made}} {
		p.config.TokenEndpointHandlers.Append(h)
	}
}

// Peer is who sends a request.
type Peer struct {
	// Addr is its address, behind trusted proxies the one that they name. RequestID is the request's.
	Addr, RequestID string
	// Arrived is when the request did.
	Arrived time.Time
	// Secure tells that it came by HTTPS, or from this machine.
	Secure bool
}

type peerKey struct{}

// WithPeer gives the context of a request.
func WithPeer(ctx context.Context, peer Peer) context.Context {
	return pages.WithClient(context.WithValue(ctx, peerKey{}, peer), peer.Addr, peer.RequestID)
}

func peerOf(ctx context.Context) Peer {
	peer, _ := ctx.Value(peerKey{}).(Peer)
	return peer
}

// network is what a peer is counted by.
func network(ctx context.Context) string {
	addr, err := netip.ParseAddr(peerOf(ctx).Addr)
	if err != nil {
		return peerOf(ctx).Addr
	}
	return auth.NetworkOf(addr).String()
}

// endpoint is one path with the methods that it takes.
type endpoint struct {
	methods []string
	serve   http.HandlerFunc
	// open needs no HTTPS: it tells what everybody may know.
	open bool
}

func (p *Provider) endpoints() map[string]endpoint {
	get, post, both := []string{http.MethodGet}, []string{http.MethodPost}, []string{http.MethodGet, http.MethodPost}
	return map[string]endpoint{
		PathDiscovery: {methods: get, serve: p.discovery, open: true}, PathJWKS: {methods: get, serve: p.jwks, open: true},
		PathAuthorize: {methods: both, serve: p.authorize}, PathToken: {methods: post, serve: p.token},
		PathIntrospect: {methods: post, serve: p.introspect}, PathRevoke: {methods: post, serve: p.revoke},
		PathUserinfo: {methods: both, serve: p.userinfo},
	}
}

// Routes are the endpoints' methods by their paths.
func (p *Provider) Routes() map[string][]string {
	out := map[string][]string{}
	for path, e := range p.endpoints() {
		out[path] = e.methods
	}
	return out
}

// ServeHTTP implements http.Handler for the paths of Routes. The request's context has its Peer.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e, known := p.endpoints()[r.URL.Path]
	switch {
	case !known:
		http.NotFound(w, r)
	case !e.open && !peerOf(r.Context()).Secure:
		p.writeError(w, r, fosite.ErrInvalidRequest.WithHint("This endpoint accepts only HTTPS."))
	case e.open:
		e.serve(w, r)
	case r.Method == http.MethodHead:
		// What a GET does here, sign somebody on or make a code, a HEAD must not.
		w.WriteHeader(http.StatusMethodNotAllowed)
	default:
		if wait := p.guard.Take(network(r.Context()), p.now()); wait > 0 {
			p.writeError(w, r, &limited{wait: wait})
			return
		}
		e.serve(w, r)
	}
}

// repeated names a parameter that is there more than once (RFC 6749, 3.1 and 3.2: it must not be).
func repeated(form url.Values) error {
	for name, values := range form {
		if len(values) > 1 {
			return fosite.ErrInvalidRequest.WithHintf("The parameter %q was sent more than once.", name)
		}
	}
	return nil
}

// form reads the body of a request to an endpoint that takes application/x-www-form-urlencoded.
func form(r *http.Request) (url.Values, error) {
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if !strings.EqualFold(strings.TrimSpace(media), "application/x-www-form-urlencoded") {
		return nil, fosite.ErrInvalidRequest.WithHint("The body must be sent as application/x-www-form-urlencoded.")
	}
	if err := r.ParseForm(); err != nil {
		return nil, fosite.ErrInvalidRequest.WithHint("The body is not well-formed.")
	}
	if len(r.PostForm) == 0 {
		return nil, fosite.ErrInvalidRequest.WithHint("The body is empty.")
	}
	return r.PostForm, repeated(r.PostForm)
}

// errServer is what an error of ours is told as; the log has its cause.
func serverError(err error) error {
	if rfc := new(fosite.RFC6749Error); errors.As(err, &rfc) {
		return err
	}
	return fosite.ErrServerError.WithWrap(err)
}
