package oauth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/ory/fosite"
	"github.com/ory/fosite/handler/oauth2"
)

// grantNames are the grants as metrics and logs name them, by grant_type.
func grantNames() map[string]string {
	return map[string]string{
		string(fosite.GrantTypeAuthorizationCode): "authorization_code", string(fosite.GrantTypeRefreshToken): "refresh_token", GrantJWTBearer: "jwt_bearer",
	}
}

// token is the token endpoint (RFC 6749, 3.2).
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	params, err := form(r)
	grant, known := grantNames()[params.Get("grant_type")]
	switch {
	case err != nil:
	case params.Get("grant_type") == "":
		err = fosite.ErrInvalidRequest.WithHint("grant_type is missing.")
	case !known:
		err = fosite.ErrUnsupportedGrantType.WithHint("grant_type must be authorization_code, refresh_token or " + GrantJWTBearer + ".")
	default:
		err = missing(params, grant)
	}
	if err != nil {
		p.count.WithLabelValues("other", describe(err).code).Inc()
		p.writeError(w, r, err)
		return
	}
	request, err := p.fosite.NewAccessRequest(r.Context(), r, newSession())
	var answer fosite.AccessResponder
	if err == nil {
		answer, err = p.fosite.NewAccessResponse(r.Context(), request)
	}
	c := clientOf(request)
	if err = p.settle(r.Context(), request, err); err != nil {
		p.note(r.Context(), grant, c, err)
		p.writeError(w, r, err)
		return
	}
	p.note(r.Context(), grant, c, nil)
	body := answer.ToMap()
	body["token_type"] = "Bearer"
	p.writeJSON(w, http.StatusOK, body)
}

// missing names the parameter that a grant can't do without (RFC 6749, 5.2: invalid_request). To fosite one that isn't there is a grant that isn't good.
func missing(params url.Values, grant string) error {
	name := map[string]string{"authorization_code": "code", "refresh_token": "refresh_token", "jwt_bearer": "assertion"}[grant]
	if params.Get(name) == "" {
		return fosite.ErrInvalidRequest.WithHint(name + " is missing.")
	}
	return nil
}

func clientOf(r fosite.AccessRequester) *client {
	if r == nil {
		return nil
	}
	c, _ := r.GetClient().(*client)
	return c
}

// settle turns what a transaction found into what the client is told.
func (p *Provider) settle(ctx context.Context, r fosite.AccessRequester, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errCodeUsed), errors.Is(err, fosite.ErrInvalidatedAuthorizeCode):
		// Two had the code: neither keeps what came of it.
		if id, parsed := uuid.Parse(r.GetID()); parsed == nil {
			if ended := p.storage.end(ctx, id, endedCodeReused); ended != nil {
				return serverError(ended)
			}
		}
		return fosite.ErrInvalidGrant.WithHint("The code was used already.")
	case errors.Is(err, errRefreshUsed), errors.Is(err, errFamilyEnded), describe(err).ours && errors.Is(err, fosite.ErrNotFound):
		// Between two looks at it by fosite, somebody else was faster.
		return fosite.ErrInvalidGrant.WithHint("The token was used already, or is revoked.")
	}
	return serverError(err)
}

// refreshGrant is fosite's, and has a scope parameter narrow the access token (RFC 6749, 6). The refresh token keeps the scopes that were granted.
type refreshGrant struct {
	*oauth2.RefreshTokenGrantHandler
}

// HandleTokenEndpointRequest implements fosite.TokenEndpointHandler.
func (g *refreshGrant) HandleTokenEndpointRequest(ctx context.Context, r fosite.AccessRequester) error {
	if len(r.GetRequestForm().Get("refresh_token")) > maxOpaque {
		return fosite.ErrInvalidGrant.WithHint("The refresh token is malformed.")
	}
	if err := g.RefreshTokenGrantHandler.HandleTokenEndpointRequest(ctx, r); err != nil {
		return err //nolint:wrapcheck // fosite's own
	}
	asked := strings.Fields(r.GetRequestForm().Get("scope"))
	request, ok := r.(*fosite.AccessRequest)
	if len(asked) == 0 || !ok {
		return nil
	}
	for _, scope := range asked {
		if !slices.Contains(request.GrantedScope, scope) {
			return fosite.ErrInvalidScope.WithHintf("The scope %q was not granted.", scope)
		}
	}
	request.GrantedScope = asked
	return nil
}
