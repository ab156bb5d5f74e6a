package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/ory/fosite"

	"github.com/ringmaster/ringmaster/httpapi/oauth/pages"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// authorization is one request at the authorization endpoint.
type authorization struct {
	p      *Provider
	w      http.ResponseWriter
	r      *http.Request
	query  url.Values
	client *client
	page   pages.Client
	ar     fosite.AuthorizeRequester
	prompt []string
	maxAge time.Duration // -1: not asked for
	hint   string        // whom the client expects, by id_token_hint; empty without one
}

const (
	// maxState and maxKept bound what goes through, and what is kept of a request, in bytes.
	maxState = 2048
	maxKept  = 512
)

// challenge is a S256 code challenge (RFC 7636, 4.2): SHA-256 in base64url.
var challenge = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// authorize is the authorization endpoint (RFC 6749, 3.1; OpenID Connect Core 1.0, 3.1.2). The forms of its pages are posted to it as well, with the
// request's query.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost && r.URL.RawQuery == "" {
		p.asQuery(w, r)
		return
	}
	ctx := r.Context()
	a := &authorization{p: p, w: w, r: r, query: r.URL.Query()}
	if problem := a.findClient(ctx); problem != "" {
		p.cfg.Pages.ShowError(w, http.StatusBadRequest, "This request can't be answered", problem)
		return
	}
	if err := a.parse(ctx); err != nil {
		a.refuse(ctx, err)
		return
	}
	if r.Method == http.MethodPost {
		a.posted(ctx)
		return
	}
	a.asked(ctx)
}

// asQuery turns an authorization request that was posted (OpenID Connect Core 1.0, 3.1.2.1) into the one that it stands for.
func (p *Provider) asQuery(w http.ResponseWriter, r *http.Request) {
	params, err := form(r)
	if err != nil {
		p.cfg.Pages.ShowError(w, http.StatusBadRequest, "This request can't be answered", describe(err).description)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Location", PathAuthorize+"?"+params.Encode())
	w.WriteHeader(http.StatusSeeOther)
}

// findClient looks up who asks and where the answer goes to. While that isn't known for sure nothing is redirected: the problem is told to the user.
func (a *authorization) findClient(ctx context.Context) (problem string) {
	for _, name := range []string{"client_id", "redirect_uri"} {
		if len(a.query[name]) != 1 {
			return fmt.Sprintf("The application sent no %s, or more than one.", name)
		}
	}
	found, err := a.p.storage.GetClient(ctx, a.query.Get("client_id"))
	if errors.Is(err, fosite.ErrNotFound) {
		return "The application is not registered here, or is switched off."
	}
	if err != nil {
		a.p.log.ErrorContext(ctx, "oauth request failed", "path", PathAuthorize, "request_id", peerOf(ctx).RequestID, "error", err)
		return "Something went wrong here; try again."
	}
	a.client, _ = found.(*client)
	redirect := a.query.Get("redirect_uri")
	if !slices.Contains(a.client.row.RedirectUris, redirect) {
		return "The application named an address to return to which is not registered for it."
	}
	a.page = pages.Client{ID: a.client.row.ID, Name: a.client.row.Name, Tenant: a.client.tenant}
	if u, err := url.Parse(redirect); err == nil {
		a.page.RedirectHost = u.Host
	}
	return ""
}

// parse checks all that can be checked before the user is asked for anything.
func (a *authorization) parse(ctx context.Context) (err error) {
	if err := repeated(a.query); err != nil {
		return err
	}
	for name, refusal := range map[string]*fosite.RFC6749Error{
		"request": fosite.ErrRequestNotSupported, "request_uri": fosite.ErrRequestURINotSupported, "registration": fosite.ErrRegistrationNotSupported,
	} {
		if a.query.Has(name) {
			return refusal
		}
	}
	if a.query.Get("response_type") == "" {
		// A required parameter (RFC 6749, 4.1.2.1); fosite has it as unsupported_response_type.
		return fosite.ErrInvalidRequest.WithHint("response_type is missing.")
	}
	// Of the form of a page nothing belongs to the request.
	get := a.r.Clone(ctx)
	get.Method, get.Body, get.Form, get.PostForm = http.MethodGet, http.NoBody, nil, nil
	if a.query.Get("state") == "" {
		// fosite wants one, which RFC 6749 leaves to the client; PKCE guards those that send none. What goes back is the client's own.
		query := get.URL.Query()
		query.Set("state", "none")
		get.URL.RawQuery = query.Encode()
	}
	if a.ar, err = a.p.fosite.NewAuthorizeRequest(ctx, get); err != nil {
		return serverError(err)
	}
	switch {
	case mode(a.query.Get("response_mode")) != nil:
		return mode(a.query.Get("response_mode"))
	case a.query.Get("code_challenge") == "":
		return fosite.ErrInvalidRequest.WithHint("code_challenge is missing: clients must use PKCE with code_challenge_method=S256.")
	case a.query.Get("code_challenge_method") != "S256":
		return fosite.ErrInvalidRequest.WithHint("code_challenge_method must be S256.")
	case !challenge.MatchString(a.query.Get("code_challenge")):
		return fosite.ErrInvalidRequest.WithHint("code_challenge must be the base64url form of a SHA-256, of 43 characters.")
	case len(a.query.Get("state")) > maxState, len(a.query.Get("nonce")) > maxKept, len(a.query.Get("acr_values")) > maxKept:
		return fosite.ErrInvalidRequest.WithHintf("state has more than %d characters, or nonce or acr_values more than %d.", maxState, maxKept)
	case len(a.ar.GetRequestedScopes()) == 0:
		return fosite.ErrInvalidScope.WithHint("scope is missing.")
	}
	return a.parseOpenID(ctx)
}

func mode(asked string) error {
	if asked == "" || asked == "query" {
		return nil
	}
	return fosite.ErrUnsupportedResponseMode.WithHint("response_mode must be query.")
}

// parseOpenID reads the parameters of OpenID Connect Core 1.0, 3.1.2.1.
func (a *authorization) parseOpenID(ctx context.Context) error {
	a.prompt = strings.Fields(a.query.Get("prompt"))
	for _, word := range a.prompt {
		if !slices.Contains(a.p.config.AllowedPromptValues, word) {
			return fosite.ErrInvalidRequest.WithHint("prompt must consist of none, login, consent and select_account.")
		}
	}
	if slices.Contains(a.prompt, "none") && len(a.prompt) > 1 {
		return fosite.ErrInvalidRequest.WithHint("prompt=none goes with no other value.")
	}
	a.maxAge = -1
	if a.query.Has("max_age") {
		seconds, err := strconv.ParseUint(a.query.Get("max_age"), 10, 31)
		if err != nil {
			return fosite.ErrInvalidRequest.WithHint("max_age must be a number of seconds.")
		}
		a.maxAge = time.Duration(seconds) * time.Second
	}
	if hint := a.query.Get("id_token_hint"); hint != "" {
		// fosite looks at it when it has made the code already.
		var err error
		if a.hint, err = (signer{a.p.cfg.Tokens}).subject(ctx, hint); err != nil {
			return fosite.ErrInvalidRequest.WithHint("id_token_hint is not an ID token of this issuer.").WithWrap(err)
		}
	}
	return nil
}

// expects tells whether the client takes this user (OpenID Connect Core 1.0, 3.1.2.1, id_token_hint).
func (a *authorization) expects(s *pages.Session) bool {
	return a.hint == "" || a.hint == s.User.ID.String()
}

// asked answers the request itself.
func (a *authorization) asked(ctx context.Context) {
	s, err := a.p.cfg.Pages.Session(ctx, a.r)
	if err != nil {
		a.refuse(ctx, serverError(err))
		return
	}
	silent := slices.Contains(a.prompt, "none")
	again := slices.Contains(a.prompt, "login") || slices.Contains(a.prompt, "select_account") || (s != nil && (a.tooOld(s) || !a.expects(s)))
	switch {
	case s == nil || (again && !s.For(a.r)):
		if silent {
			a.refuse(ctx, fosite.ErrLoginRequired.WithHint("The user must sign in."))
			return
		}
		a.p.cfg.Pages.ShowSignIn(a.w, a.r, a.page, "")
	default:
		a.consented(ctx, s, silent)
	}
}

// tooOld tells whether a user signed in longer ago than the client takes.
func (a *authorization) tooOld(s *pages.Session) bool {
	return a.maxAge >= 0 && a.p.now().Sub(s.At) > a.maxAge
}

// posted takes the form of one of the pages. After a sign-in the request is asked again, so that going back or loading anew sends no password.
func (a *authorization) posted(ctx context.Context) {
	s, err := a.p.cfg.Pages.Session(ctx, a.r)
	if err != nil {
		a.refuse(ctx, serverError(err))
		return
	}
	if s == nil || a.p.cfg.Pages.IsSignIn(a.r) {
		if a.p.cfg.Pages.SignIn(a.w, a.r, a.page) != nil {
			a.w.Header().Set("Location", a.r.URL.RequestURI())
			a.w.WriteHeader(http.StatusSeeOther)
		}
		return
	}
	// How long ago the user signed in was looked at before the page was shown, which its form's token tells.
	allow, ok := a.p.cfg.Pages.Decision(a.w, a.r, s)
	switch {
	case !ok:
	case !allow:
		a.auditUser(ctx, s, "oauth_grant.refused", nil)
		a.refuse(ctx, fosite.ErrAccessDenied.WithHint("The user refused."))
	default:
		a.give(ctx, s)
	}
}

// mayGive are the scopes of the request that the user can give. It has answered for a user whom the client doesn't expect, or who can give none.
func (a *authorization) mayGive(ctx context.Context, s *pages.Session) (scopes fosite.Arguments, ok bool) {
	scopes = within(a.ar.GetRequestedScopes(), a.client, s.User.Role)
	switch {
	case !a.expects(s):
		a.refuse(ctx, fosite.ErrLoginRequired.WithHint("Another user has signed in than the one of id_token_hint."))
	case len(scopes) == 0:
		a.refuse(ctx, fosite.ErrAccessDenied.WithHint("The user's role allows none of the scopes."))
	default:
		return scopes, true
	}
	return nil, false
}

// consented goes on with a user who has signed in: to the consent page unless all was granted before.
func (a *authorization) consented(ctx context.Context, s *pages.Session, silent bool) {
	scopes, ok := a.mayGive(ctx, s)
	if !ok {
		return
	}
	grant, err := a.p.cfg.Store.Read(s.User.TenantID).OAuthGrantOf(ctx, s.User.TenantID, s.User.ID, a.client.row.ID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		a.refuse(ctx, serverError(err))
		return
	}
	covered := err == nil && !slices.ContainsFunc(scopes, func(scope string) bool { return !slices.Contains(grant.Scopes, scope) })
	switch {
	case covered && !slices.Contains(a.prompt, "consent"):
		a.issue(ctx, s, scopes)
	case silent:
		a.refuse(ctx, fosite.ErrConsentRequired.WithHint("The user must agree."))
	default:
		a.p.cfg.Pages.ShowConsent(a.w, a.r, s, a.page, scopes)
	}
}

// give keeps what the user granted, and issues the code.
func (a *authorization) give(ctx context.Context, s *pages.Session) {
	scopes, ok := a.mayGive(ctx, s)
	if !ok {
		return
	}
	id, err := uuid.NewV7()
	ctx = actor(ctx, "user:"+s.User.ID.String())
	if err == nil {
		err = a.p.cfg.Store.InTenant(ctx, s.User.TenantID, func(tx *store.Tx) error {
			grant, err := tx.Q.OAuthGive(ctx, db.OAuthGiveParams{
				TenantID: s.User.TenantID, ID: id, UserID: s.User.ID, ClientID: a.client.row.ID, Scopes: scopes, Now: a.p.now(),
			})
			if err != nil {
				return err
			}
			return tx.Audit(ctx, store.AuditEntry{
				TenantID: s.User.TenantID, Action: "oauth_grant.given", ObjectID: grant.ID.String(), At: a.p.now(),
				Details: map[string]any{"client_id": a.client.row.ID, "client": a.client.row.Name, "scopes": scopes},
			})
		})
	}
	if err != nil {
		a.refuse(ctx, serverError(err))
		return
	}
	a.issue(ctx, s, scopes)
}

// issue sends the user back with a code.
func (a *authorization) issue(ctx context.Context, s *pages.Session, scopes fosite.Arguments) {
	for _, scope := range scopes {
		a.ar.GrantScope(scope)
	}
	of := newSession()
	of.become(s.User, s.At, a.p.now())
	if slices.Contains(a.prompt, "login") || a.maxAge >= 0 {
		// That the user has signed in for this request, or not too long before, was looked at already; fosite compares these two.
		of.Claims.RequestedAt = of.Claims.AuthTime
	}
	answer, err := a.p.fosite.NewAuthorizeResponse(ctx, a.ar, of)
	if errors.Is(err, errFamilyEnded) {
		a.refuse(ctx, fosite.ErrAccessDenied.WithHint("The user has just withdrawn what the application was allowed."))
		return
	}
	if err != nil {
		a.refuse(ctx, serverError(err))
		return
	}
	a.p.note(ctx, "authorization", a.client, nil)
	a.redirect(url.Values{"code": {answer.GetCode()}})
}

// refuse sends the user back with an error (RFC 6749, 4.1.2.1).
func (a *authorization) refuse(ctx context.Context, err error) {
	d := describe(err)
	if d.ours {
		a.p.log.ErrorContext(ctx, "oauth request failed", "path", PathAuthorize, "request_id", peerOf(ctx).RequestID, "error", err)
	}
	a.p.count.WithLabelValues("authorization", d.code).Inc()
	a.redirect(url.Values{"error": {d.code}, "error_description": {d.description}})
}

// redirect answers at the client's redirect URI, which stays as it is registered, byte by byte. iss tells a client of several issuers who answers (RFC 9207).
func (a *authorization) redirect(params url.Values) {
	if states := a.query["state"]; len(states) == 1 && states[0] != "" {
		params.Set("state", states[0])
	}
	params.Set("iss", a.p.cfg.Issuer())
	to, join := a.query.Get("redirect_uri"), "?"
	if strings.Contains(to, "?") {
		join = "&"
	}
	h := a.w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Location", to+join+params.Encode())
	a.w.WriteHeader(http.StatusSeeOther)
}

func (a *authorization) auditUser(ctx context.Context, s *pages.Session, action string, details map[string]any) {
	ctx = actor(ctx, "user:"+s.User.ID.String())
	if details == nil {
		details = map[string]any{}
	}
	details["client_id"], details["client"] = a.client.row.ID, a.client.row.Name
	err := a.p.cfg.Store.InTenant(ctx, s.User.TenantID, func(tx *store.Tx) error {
		return tx.Audit(ctx, store.AuditEntry{TenantID: s.User.TenantID, Action: action, ObjectID: s.User.ID.String(), At: a.p.now(), Details: details})
	})
	if err != nil {
		a.p.log.ErrorContext(ctx, "audit of a grant could not be written", "action", action, "error", err)
	}
}
