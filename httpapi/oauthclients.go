package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/httpapi/oauth/clients"
	"github.com/ringmaster/ringmaster/store/db"
)

const (
	oauthClientNoun = "OAuth client"
	grantNoun       = "grant"
)

type oauthClientView struct {
	ID uuid.UUID `json:"id"`
	// ClientID is the same: what the client calls itself.
	ClientID uuid.UUID `json:"client_id"`
	// ClientSecret is shown at creation and rotation only.
	ClientSecret  string    `json:"client_secret,omitempty"`
	Name          string    `json:"name"`
	RedirectURIs  []string  `json:"redirect_uris"`
	AllowedScopes []string  `json:"allowed_scopes"`
	PublicKeyPEM  *string   `json:"public_key_pem"`
	JWTIssuer     *string   `json:"jwt_issuer"`
	IsActive      bool      `json:"is_active"`
	CreatedAt     time.Time `json:"created_at"`
	UpdatedAt     time.Time `json:"updated_at"`
	// PreviousSecretUntil is until when the secret before the present one is good as well.
	PreviousSecretUntil *time.Time `json:"previous_secret_until"`
}

func viewOAuthClient(c db.OauthClient) oauthClientView {
	return oauthClientView{
		ID: c.ID, ClientID: c.ID, Name: c.Name, RedirectURIs: orEmpty(c.RedirectUris), AllowedScopes: orEmpty(c.AllowedScopes),
		PublicKeyPEM: c.PublicKeyPem, JWTIssuer: c.JwtIssuer, IsActive: c.IsActive, CreatedAt: c.CreatedAt.UTC(), UpdatedAt: c.UpdatedAt.UTC(),
		PreviousSecretUntil: utc(c.PreviousSecretUntil),
	}
}

// withClientSecret answers with a client and its secret, which a repeated request doesn't show again.
func withClientSecret(as func(any) reply, c db.OauthClient, secret string) reply {
	view := viewOAuthClient(c)
	view.ClientSecret = secret
	out := as(view)
	out.secrets = []string{"client_secret"}
	return out
}

// partnerOperations are the administration of partners' applications, and each user's own grants. The endpoints of the protocol are in
// package oauth.
func (a *api) partnerOperations() []operation {
	const root, one, grants = "/api/oauth/clients", "/api/oauth/clients/{id}", "/api/users/me/grants"
	return onDialerAPI([]operation{
		{method: http.MethodGet, path: root, roles: admins, handle: a.oauthClients.list},
		{method: http.MethodPost, path: root, roles: admins, body: jsonBody, handle: a.oauthClients.create},
		{method: http.MethodGet, path: one, roles: admins, handle: a.oauthClients.get},
		{method: http.MethodPatch, path: one, roles: admins, body: jsonBody, handle: a.oauthClients.patch},
		{method: http.MethodDelete, path: one, roles: admins, handle: deleteByID(oauthClientNoun, a.oauthClients.clients.Delete)},
		{method: http.MethodPost, path: one + "/rotate_secret", roles: admins, body: jsonBody, handle: a.oauthClients.rotateSecret},
		{method: http.MethodGet, path: grants, roles: anyRole, handle: a.oauthClients.grants},
		{method: http.MethodDelete, path: grants + "/{id}", roles: anyRole, handle: a.oauthClients.withdraw},
	})
}

func (h oauthClientHandlers) list(ctx context.Context, r *request) (reply, error) {
	rows, err := h.clients.List(ctx, r.who.TenantID)
	return ok(listed(rows, viewOAuthClient)), err
}

func (h oauthClientHandlers) create(ctx context.Context, r *request) (reply, error) {
	var in clients.Fields
	if err := r.decodeInto(&in); err != nil {
		return reply{}, err
	}
	row, secret, err := h.clients.Create(ctx, r.who.TenantID, in)
	if err != nil {
		return reply{}, err
	}
	return withClientSecret(created, row, secret), nil
}

func (h oauthClientHandlers) get(ctx context.Context, r *request) (reply, error) {
	return onOne(ctx, r, oauthClientNoun, h.clients.Get, viewOAuthClient)
}

func (h oauthClientHandlers) patch(ctx context.Context, r *request) (reply, error) {
	var in clients.Fields
	if err := r.decodeInto(&in); err != nil {
		return reply{}, err
	}
	return onOne(ctx, r, oauthClientNoun, func(ctx context.Context, tenant, id uuid.UUID) (db.OauthClient, error) {
		return h.clients.Edit(ctx, tenant, id, in)
	}, viewOAuthClient)
}

func (h oauthClientHandlers) rotateSecret(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("id", oauthClientNoun)
	if err != nil {
		return reply{}, err
	}
	var in clients.RotateInput
	if err := r.decodeOptional(&in); err != nil {
		return reply{}, err
	}
	row, secret, err := h.clients.RotateSecret(ctx, r.who.TenantID, id, in)
	if err != nil {
		return reply{}, named(err, oauthClientNoun)
	}
	return withClientSecret(ok, row, secret), nil
}

type grantView struct {
	ID     uuid.UUID       `json:"id"`
	Client grantClientView `json:"client"`
	Scopes []string        `json:"scopes"`
	// GrantedAt is when the user last consented, LastUsedAt when the client last got a token by it.
	GrantedAt  time.Time  `json:"granted_at"`
	LastUsedAt *time.Time `json:"last_used_at"`
}

type grantClientView struct {
	ClientID   uuid.UUID `json:"client_id"`
	Name       string    `json:"name"`
	TenantName string    `json:"tenant_name"`
}

func viewGrant(row db.OAuthGrantsOfRow) grantView {
	g := row.OauthGrant
	return grantView{
		ID: g.ID, Client: grantClientView{ClientID: g.ClientID, Name: row.ClientName, TenantName: row.ClientTenant}, Scopes: orEmpty(g.Scopes),
		GrantedAt: g.GrantedAt.UTC(), LastUsedAt: utc(g.LastUsedAt),
	}
}

func (h oauthClientHandlers) grants(ctx context.Context, r *request) (reply, error) {
	rows, err := h.clients.Grants(ctx, r.who.TenantID, r.who.ID)
	return ok(listed(rows, viewGrant)), err
}

func (h oauthClientHandlers) withdraw(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("id", grantNoun)
	if err != nil {
		return reply{}, err
	}
	return noContent(), named(h.clients.Withdraw(ctx, r.who.TenantID, r.who.ID, id), grantNoun)
}
