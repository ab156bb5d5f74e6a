package oauth

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/ory/fosite"

	"github.com/ringmaster/ringmaster/httpapi/oauth/access"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

// introspection is the answer of RFC 7662, 2.2. Of a token that is not good, or is another client's, it says that alone.
type introspection struct {
	Active    bool   `json:"active"`
	Scope     string `json:"scope,omitempty"`
	ClientID  string `json:"client_id,omitempty"`
	Username  string `json:"username,omitempty"`
	TokenType string `json:"token_type,omitempty"`
	Exp       int64  `json:"exp,omitempty"`
	Iat       int64  `json:"iat,omitempty"`
	Sub       string `json:"sub,omitempty"`
	Aud       string `json:"aud,omitempty"`
	Iss       string `json:"iss,omitempty"`
	JTI       string `json:"jti,omitempty"`
	TenantID  string `json:"tenant_id,omitempty"`
}

// introspect is the introspection endpoint (RFC 7662), for a client's own tokens.
func (p *Provider) introspect(w http.ResponseWriter, r *http.Request) {
	c, token, err := p.tokenOf(r)
	if err != nil {
		p.writeError(w, r, err)
		return
	}
	found, err := p.look(r, c, token)
	if err != nil {
		p.writeError(w, r, serverError(err))
		return
	}
	p.writeJSON(w, http.StatusOK, found)
}

// tokenOf reads a request about a token: who asks, and about which.
func (p *Provider) tokenOf(r *http.Request) (*client, string, error) {
	params, err := form(r)
	if err != nil {
		return nil, "", err
	}
	found, err := p.authenticate(r.Context(), r, params)
	if err != nil {
		return nil, "", err
	}
	c, _ := found.(*client)
	token := params.Get("token")
	if token == "" {
		return nil, "", fosite.ErrInvalidRequest.WithHint("token is missing.")
	}
	return c, token, nil
}

func (p *Provider) look(r *http.Request, c *client, token string) (introspection, error) {
	ctx := r.Context()
	if p.cfg.Tokens.Is(token) {
		claims, err := p.cfg.Tokens.Verify(token)
		if away, unavailable := fault.As(err, fault.Unavailable); unavailable {
			return introspection{}, away
		}
		if err != nil || claims.Client != c.row.ID {
			return introspection{}, nil //nolint:nilerr // that it isn't good is the answer
		}
		user, err := p.storage.user(ctx, claims.User)
		if errors.Is(err, fosite.ErrNotFound) {
			return introspection{}, nil
		}
		return introspection{
			Active: true, Scope: strings.Join(within(claims.Scopes, c, user.Role), " "), ClientID: c.GetID(), Username: username(claims.Scopes, user), TokenType: "Bearer",
			Exp: claims.ExpiresAt.Unix(), Iat: claims.IssuedAt.Unix(), Sub: claims.User.String(), Aud: p.cfg.Tokens.Audience(), Iss: p.cfg.Issuer(),
			JTI: claims.ID, TenantID: claims.Tenant.String(),
		}, err
	}
	row, err := p.cfg.Store.ReadSystem().OAuthRefresh(ctx, []byte(hashOf(token)))
	refresh, family := row.OauthRefreshToken, row.OauthFamily
	if errors.Is(err, store.ErrNotFound) {
		return introspection{}, nil
	}
	if err != nil || refresh.UsedAt != nil || family.EndedAt != nil || family.ClientID != c.row.ID || !p.now().Before(refresh.ExpiresAt) {
		return introspection{}, err
	}
	user, err := p.storage.user(ctx, family.UserID)
	if errors.Is(err, fosite.ErrNotFound) {
		return introspection{}, nil
	}
	return introspection{
		Active: true, Scope: strings.Join(within(family.Scopes, c, user.Role), " "), ClientID: c.GetID(), Username: username(family.Scopes, user),
		Exp: refresh.ExpiresAt.Unix(), Iat: refresh.IssuedAt.Unix(), Sub: family.UserID.String(), Iss: p.cfg.Issuer(), TenantID: family.TenantID.String(),
	}, err
}

// username is the user's address, for whom may see it.
func username(scopes []string, user db.User) string {
	if !slices.Contains(scopes, scopeEmail) {
		return ""
	}
	return user.Email
}

// revoke is the revocation endpoint (RFC 7009). A refresh token ends with all that came of its authorization, an access token by itself. A token that
// is unknown or over already is revoked as well as any; another client's is refused.
func (p *Provider) revoke(w http.ResponseWriter, r *http.Request) {
	c, token, err := p.tokenOf(r)
	if err == nil {
		err = p.end(r, c, token)
	}
	if err != nil {
		p.writeError(w, r, serverError(err))
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
}

func (p *Provider) end(r *http.Request, c *client, token string) error {
	ctx := actor(r.Context(), "oauth_client:"+c.GetID())
	foreign := fosite.ErrInvalidGrant.WithHint("The token is another client's.")
	if p.cfg.Tokens.Is(token) {
		claims, err := p.cfg.Tokens.Verify(token)
		if away, unavailable := fault.As(err, fault.Unavailable); unavailable {
			return away
		}
		if err != nil {
			return nil //nolint:nilerr // it isn't good already
		}
		if claims.Client != c.row.ID {
			return foreign
		}
		until := claims.ExpiresAt.Add(clockSkew)
		return p.cfg.Store.InSystem(ctx, func(tx *store.Tx) error {
			if err := tx.Q.OAuthRevokeToken(ctx, claims.ID, until); err != nil {
				return err
			}
			tx.RevokedOAuth(claims.ID, until)
			return tx.Audit(ctx, store.AuditEntry{
				TenantID: claims.Tenant, Action: "oauth_token.revoked", ObjectID: claims.ID, At: p.now(),
				Details: map[string]any{"client_id": claims.Client, "user_id": claims.User, "reason": endedRevoked},
			})
		})
	}
	row, err := p.cfg.Store.ReadSystem().OAuthRefresh(ctx, []byte(hashOf(token)))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return err
	case row.OauthFamily.ClientID != c.row.ID:
		return foreign
	}
	return p.storage.end(ctx, row.OauthFamily.ID, endedRevoked)
}

// userinfo is the UserInfo endpoint (OpenID Connect Core 1.0, 5.3).
func (p *Provider) userinfo(w http.ResponseWriter, r *http.Request) {
	token := ""
	if scheme, given, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		token = strings.TrimSpace(given)
	} else if r.Method == http.MethodPost { // RFC 6750, 2.2
		if params, err := form(r); err == nil {
			token = params.Get("access_token")
		}
	}
	if token == "" {
		w.Header().Set("WWW-Authenticate", `Bearer realm="ringmaster"`)
		p.writeJSON(w, http.StatusUnauthorized, map[string]string{"error": "invalid_token", "error_description": "An access token is required."})
		return
	}
	claims, err := access.Claims{}, error(refusedBearer())
	if p.cfg.Tokens.Is(token) {
		claims, err = p.cfg.Tokens.Verify(token)
	}
	var user db.User
	var errUser error
	if err == nil {
		user, errUser = p.storage.user(r.Context(), claims.User)
	}
	switch {
	case err != nil && isUnavailable(err):
		p.writeError(w, r, err)
	case err != nil, errors.Is(errUser, fosite.ErrNotFound):
		p.refuseBearer(w, http.StatusUnauthorized, "invalid_token", "The access token is not valid.")
	case errUser != nil:
		p.writeError(w, r, serverError(errUser))
	case !slices.Contains(claims.Scopes, scopeOpenID):
		p.refuseBearer(w, http.StatusForbidden, "insufficient_scope", "The access token lacks scope openid.")
	default:
		body := map[string]any{"sub": claims.User.String(), "tenant_id": claims.Tenant.String()}
		if slices.Contains(claims.Scopes, scopeProfile) {
			if user.DisplayName != nil {
				body["name"] = *user.DisplayName
			}
			body["updated_at"] = user.UpdatedAt.Unix()
		}
		if slices.Contains(claims.Scopes, scopeEmail) {
			body["email"] = user.Email
		}
		p.writeJSON(w, http.StatusOK, body)
	}
}

func refusedBearer() error { return &fault.Error{Kind: fault.Unauthorized} }

func isUnavailable(err error) bool {
	_, away := fault.As(err, fault.Unavailable)
	return away
}

// refuseBearer answers as RFC 6750, 3 wants it.
func (p *Provider) refuseBearer(w http.ResponseWriter, status int, code, text string) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="ringmaster", error="`+code+`", error_description="`+text+`"`)
	p.writeJSON(w, status, map[string]string{"error": code, "error_description": text})
}

// cacheKeys is how long clients keep the keys and the discovery document: a new key is published that much before it signs.
const cacheKeys = "public, max-age=600"

// discovery is the provider's metadata (OpenID Connect Discovery 1.0, 3; RFC 8414, 2).
func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request) {
	issuer := p.cfg.Issuer()
	secret := []string{"client_secret_basic", "client_secret_post"}
	w.Header().Set("Cache-Control", cacheKeys)
	w.Header().Set("Content-Type", "application/json")
	p.encode(w, map[string]any{
		"issuer": issuer, "authorization_endpoint": issuer + PathAuthorize, "token_endpoint": issuer + PathToken, "userinfo_endpoint": issuer + PathUserinfo,
		"introspection_endpoint": issuer + PathIntrospect, "revocation_endpoint": issuer + PathRevoke, "jwks_uri": issuer + PathJWKS,
		"scopes_supported": access.Scopes(), "response_types_supported": []string{"code"}, "response_modes_supported": []string{"query"},
		"grant_types_supported":   []string{string(fosite.GrantTypeAuthorizationCode), string(fosite.GrantTypeRefreshToken), GrantJWTBearer},
		"subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"RS256"},
		"token_endpoint_auth_methods_supported": secret, "introspection_endpoint_auth_methods_supported": secret, "revocation_endpoint_auth_methods_supported": secret,
		"code_challenge_methods_supported": []string{"S256"}, "prompt_values_supported": p.config.AllowedPromptValues,
		"claims_supported":            []string{"sub", "iss", "aud", "exp", "iat", "auth_time", "nonce", "at_hash", "name", "email", "updated_at", "tenant_id"},
		"request_parameter_supported": false, "request_uri_parameter_supported": false, "claims_parameter_supported": false,
		"authorization_response_iss_parameter_supported": true,
	})
}

// jwks are the keys that verify access and ID tokens (RFC 7517).
func (p *Provider) jwks(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/jwk-set+json")
	w.Header().Set("Cache-Control", cacheKeys)
	_, _ = w.Write(p.cfg.Tokens.JWKS())
}
