package oauth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/ory/fosite"

	"github.com/ringmaster/ringmaster/httpapi/oauth/clients"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// GrantJWTBearer is the grant type of RFC 7523.
const GrantJWTBearer = "urn:ietf:params:oauth:grant-type:jwt-bearer"

// client is a registered client as fosite sees it: confidential, for the code flow alone.
type client struct {
	row    db.OauthClient
	tenant string // the name of the tenant that registered it
}

// GetID implements fosite.Client.
func (c *client) GetID() string { return c.row.ID.String() }

// GetHashedSecret implements fosite.Client; secrets are compared by authenticate.
func (c *client) GetHashedSecret() []byte { return c.row.SecretHash }

// GetRedirectURIs implements fosite.Client.
func (c *client) GetRedirectURIs() []string { return c.row.RedirectUris }

// GetGrantTypes implements fosite.Client.
func (c *client) GetGrantTypes() fosite.Arguments {
	types := fosite.Arguments{string(fosite.GrantTypeAuthorizationCode), string(fosite.GrantTypeRefreshToken)}
	if c.row.PublicKeyPem != nil {
		types = append(types, GrantJWTBearer)
	}
	return types
}

// GetResponseTypes implements fosite.Client.
func (c *client) GetResponseTypes() fosite.Arguments { return fosite.Arguments{"code"} }

// GetScopes implements fosite.Client.
func (c *client) GetScopes() fosite.Arguments { return c.row.AllowedScopes }

// IsPublic implements fosite.Client.
func (c *client) IsPublic() bool { return false }

// GetAudience implements fosite.Client: there is one resource server, which nobody needs to name.
func (c *client) GetAudience() fosite.Arguments { return fosite.Arguments{} }

// GetClient implements fosite.ClientManager: a client that is switched off, or whose tenant is suspended, is none.
func (s *storage) GetClient(ctx context.Context, id string) (fosite.Client, error) {
	parsed, err := uuid.Parse(id)
	if err != nil || parsed.String() != id {
		return nil, fosite.ErrNotFound
	}
	return s.client(ctx, parsed)
}

func (s *storage) client(ctx context.Context, id uuid.UUID) (*client, error) {
	row, err := s.store.ReadSystem().OAuthClient(ctx, id)
	if errors.Is(err, store.ErrNotFound) || (err == nil && (!row.OauthClient.IsActive || row.Suspended)) {
		return nil, fosite.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return &client{row: row.OauthClient, tenant: row.TenantName}, nil
}

// ClientAssertionJWTValid implements fosite.ClientManager; clients authenticate by their secret alone.
func (s *storage) ClientAssertionJWTValid(context.Context, string) error { return fosite.ErrJTIKnown }

// SetClientAssertionJWT implements fosite.ClientManager.
func (s *storage) SetClientAssertionJWT(context.Context, string, time.Time) error {
	return fosite.ErrJTIKnown
}

// credentials takes a client's id and secret out of a request (RFC 6749, 2.3.1): from the Authorization header, where both are form-encoded, or from the
// body, never from both.
func credentials(r *http.Request, form url.Values) (id, secret string, err error) {
	user, password, basic := r.BasicAuth()
	switch {
	case form.Get("client_assertion") != "" || form.Get("client_assertion_type") != "":
		return "", "", fosite.ErrInvalidClient.WithHint("Clients authenticate by their secret.")
	case basic && form.Get("client_secret") != "":
		return "", "", fosite.ErrInvalidRequest.WithHint("The client's secret is in the header and in the body: it must be in one of them.")
	case !basic && r.Header.Get("Authorization") != "":
		return "", "", fosite.ErrInvalidClient.WithHint("The Authorization header must be a client's, of the scheme Basic.")
	case basic:
		var errID, errSecret error
		id, errID = url.QueryUnescape(user)
		secret, errSecret = url.QueryUnescape(password)
		if errID != nil || errSecret != nil {
			return "", "", fosite.ErrInvalidClient.WithHint("The client's id and secret must be form-encoded in the Authorization header.")
		}
		if body := form.Get("client_id"); body != "" && body != id {
			return "", "", fosite.ErrInvalidRequest.WithHint("client_id in the body is not that of the authenticated client.")
		}
		return id, secret, nil
	}
	return form.Get("client_id"), form.Get("client_secret"), nil
}

// authenticate finds the client that asks (fosite.ClientAuthenticationStrategy). Who guesses is slowed down.
func (p *Provider) authenticate(ctx context.Context, r *http.Request, form url.Values) (fosite.Client, error) {
	id, secret, err := credentials(r, form)
	if err != nil {
		return nil, err
	}
	if id == "" {
		return nil, fosite.ErrInvalidClient.WithHint("The client's id is missing.")
	}
	if secret == "" {
		return nil, fosite.ErrInvalidClient.WithHint("The client's secret is missing.")
	}
	found, err := p.storage.GetClient(ctx, id)
	if err != nil && !errors.Is(err, fosite.ErrNotFound) {
		return nil, err
	}
	c, _ := found.(*client)
	if c == nil || !clients.SecretMatches(c.row, secret, p.now()) {
		guessed := id
		if c == nil {
			guessed = "" // of clients that there are none, all of a network's count together
		}
		if wait := p.guard.Failed(guessed, network(ctx), p.now()); wait > 0 {
			return nil, &limited{wait: wait} // neither logged nor audited: there may be many
		}
		p.refuseClient(ctx, c, id)
		return nil, fosite.ErrInvalidClient.WithHint("The client's id or its secret is wrong.")
	}
	if wait := p.guard.Take("client "+id, p.now()); wait > 0 {
		return nil, &limited{wait: wait}
	}
	return c, nil
}
