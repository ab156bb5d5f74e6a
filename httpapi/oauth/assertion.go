package oauth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/ory/fosite"

	"github.com/ringmaster/ringmaster/httpapi/oauth/access"
	"github.com/ringmaster/ringmaster/httpapi/oauth/clients"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

const (
	// assertionLifetime bounds how long an assertion is good (interface, section 8).
	assertionLifetime = 5 * time.Minute
	// clockSkew is how far a client's clock may be ahead of ours.
	clockSkew = 5 * time.Second
	// maxAssertion bounds an assertion in bytes.
	maxAssertion = 4096
)

// assertionGrant is the JWT bearer grant (RFC 7523): a client acts for a user whom it names in an assertion that it signs. It needs no other authentication;
// if there is one it must be right.
type assertionGrant struct {
	p        *Provider
	strategy strategy
}

// assertion are the claims on the wire; others are not looked at.
type assertion struct {
	jwt.RegisteredClaims
	TenantID string `json:"tenant_id"`
}

// CanSkipClientAuth implements fosite.TokenEndpointHandler.
func (g *assertionGrant) CanSkipClientAuth(context.Context, fosite.AccessRequester) bool { return true }

// CanHandleTokenEndpointRequest implements fosite.TokenEndpointHandler.
func (g *assertionGrant) CanHandleTokenEndpointRequest(_ context.Context, r fosite.AccessRequester) bool {
	return r.GetGrantTypes().ExactOne(GrantJWTBearer)
}

// HandleTokenEndpointRequest implements fosite.TokenEndpointHandler. An assertion is taken once: that is the last thing that is done with it.
func (g *assertionGrant) HandleTokenEndpointRequest(ctx context.Context, r fosite.AccessRequester) error {
	c, claims, err := g.verify(ctx, r)
	if err != nil {
		return err
	}
	request, ok := r.(*fosite.AccessRequest)
	if !ok {
		return errors.New("an assertion came with a request that isn't fosite's")
	}
	request.Client = c
	user, err := g.user(ctx, c, claims)
	if err != nil {
		return err
	}
	if request.GrantedScope, err = g.scopes(ctx, c, user, request.GetRequestedScopes()); err != nil {
		return err
	}
	of, ok := request.GetSession().(*session)
	if !ok {
		return errors.New("an assertion came without a session")
	}
	of.become(user, g.p.now(), g.p.now())
	of.SetExpiresAt(fosite.AccessToken, g.p.now().Add(access.Lifetime))
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make a family's id: %w", err)
	}
	request.SetID(id.String())
	return g.take(ctx, c, claims, request.GetRequestForm().Get("assertion"))
}

func refusedAssertion(format string, args ...any) error {
	return fosite.ErrInvalidGrant.WithHintf(format, args...)
}

// verify finds the client of an assertion, and holds it against the client's record.
func (g *assertionGrant) verify(ctx context.Context, r fosite.AccessRequester) (*client, assertion, error) {
	var claims assertion
	raw := r.GetRequestForm().Get("assertion")
	if raw == "" {
		return nil, claims, fosite.ErrInvalidRequest.WithHint("assertion is missing.")
	}
	if len(raw) > maxAssertion {
		return nil, claims, refusedAssertion("The assertion is longer than %d bytes.", maxAssertion)
	}
	if _, _, err := jwt.NewParser().ParseUnverified(raw, &claims); err != nil {
		return nil, claims, refusedAssertion("The assertion is not a JWT.")
	}
	candidates, err := g.clients(ctx, r, claims)
	if err != nil {
		return nil, claims, err
	}
	// Anybody may register anybody's issuer: of several clients it is the one whose key has signed.
	var c *client
	for _, c = range candidates {
		if claims, err = g.read(c, raw); !errors.Is(err, jwt.ErrTokenSignatureInvalid) {
			break
		}
	}
	refusal := new(fosite.RFC6749Error)
	switch {
	case errors.As(err, &refusal):
		return nil, claims, err
	case err != nil:
		return nil, claims, refusedAssertion("The assertion is refused: %s.", reason(err))
	}
	if err := g.check(c, claims); err != nil {
		return nil, claims, err
	}
	if wait := g.p.guard.Take("client "+c.GetID(), g.p.now()); wait > 0 {
		return nil, claims, &limited{wait: wait}
	}
	return c, claims, nil
}

// read verifies an assertion with a client's key.
func (g *assertionGrant) read(c *client, raw string) (claims assertion, err error) {
	if c.row.PublicKeyPem == nil || c.row.JwtIssuer == nil {
		return claims, fosite.ErrUnauthorizedClient.WithHint("The client has no public key: it may not use assertions.")
	}
	key, err := clients.ParsePublicKey(*c.row.PublicKeyPem)
	if err != nil {
		return claims, fmt.Errorf("read the public key of client %s: %w", c.row.ID, err)
	}
	_, err = jwt.ParseWithClaims(raw, &claims, func(*jwt.Token) (any, error) { return key, nil }, jwt.WithValidMethods([]string{jwt.SigningMethodRS256.Alg()}),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(clockSkew), jwt.WithTimeFunc(g.p.now), jwt.WithIssuer(*c.row.JwtIssuer), jwt.WithStrictDecoding())
	return claims, err //nolint:wrapcheck // the caller looks which it is
}

// reason says what is wrong with an assertion without what it says.
func reason(err error) string {
	for _, known := range []struct {
		is   error
		text string
	}{
		{jwt.ErrTokenExpired, "it has expired"},
		{jwt.ErrTokenNotValidYet, "it is not valid yet"},
		{jwt.ErrTokenUsedBeforeIssued, "iat is in the future"},
		{jwt.ErrTokenInvalidIssuer, "iss is not the client's jwt_issuer"},
		{jwt.ErrTokenRequiredClaimMissing, "exp is missing"},
		{jwt.ErrTokenSignatureInvalid, "it is not signed by the client's key with RS256"},
		{jwt.ErrTokenMalformed, "it is malformed"},
	} {
		if errors.Is(err, known.is) {
			return known.text
		}
	}
	return "its claims are not valid"
}

// check holds what the library doesn't: audience, and times as the interface bounds them.
func (g *assertionGrant) check(c *client, claims assertion) error {
	now := g.p.now()
	switch {
	case claims.IssuedAt == nil:
		return refusedAssertion("The assertion is refused: iat is missing.")
	case !slices.Contains(claims.Audience, c.GetID()) && !slices.Contains(claims.Audience, g.p.cfg.Issuer()+PathToken):
		return refusedAssertion("The assertion is refused: aud is neither the client's id nor the URL of the token endpoint.")
	case claims.ExpiresAt.Sub(claims.IssuedAt.Time) > assertionLifetime, claims.ExpiresAt.Sub(now) > assertionLifetime+clockSkew:
		return refusedAssertion("The assertion is refused: exp is more than 5 minutes after iat, or from now.")
	case !now.Before(claims.ExpiresAt.Time):
		return refusedAssertion("The assertion is refused: it has expired.")
	}
	return nil
}

// clients finds whose assertion it may be: the client that authenticates, or names itself, or is the audience, or those with this issuer.
func (g *assertionGrant) clients(ctx context.Context, r fosite.AccessRequester, claims assertion) ([]*client, error) {
	if c, ok := r.GetClient().(*client); ok {
		return []*client{c}, nil
	}
	if sent, _ := ctx.Value(fosite.RequestContextKey).(*http.Request); sent != nil {
		form := r.GetRequestForm()
		if sent.Header.Get("Authorization") != "" || form.Get("client_secret") != "" || form.Get("client_assertion") != "" {
			return nil, fosite.ErrInvalidClient.WithHint("The client's id or its secret is wrong.")
		}
	}
	var ids []uuid.UUID
	for _, named := range append([]string{r.GetRequestForm().Get("client_id")}, claims.Audience...) {
		if id, err := uuid.Parse(named); err == nil {
			ids = []uuid.UUID{id}
			break
		}
	}
	if len(ids) == 0 {
		var err error
		if ids, err = g.p.cfg.Store.ReadSystem().OAuthClientsOfIssuer(ctx, &claims.Issuer); err != nil {
			return nil, err
		}
	}
	var found []*client
	for _, id := range ids {
		c, err := g.p.storage.client(ctx, id)
		if err == nil {
			found = append(found, c)
		} else if !errors.Is(err, fosite.ErrNotFound) {
			return nil, err
		}
	}
	if len(found) == 0 {
		return nil, refusedAssertion("The assertion is refused: neither its aud, nor client_id, nor its iss is a client's.")
	}
	return found, nil
}

// user is whom the client acts for.
func (g *assertionGrant) user(ctx context.Context, c *client, claims assertion) (db.User, error) {
	unknown := refusedAssertion("The assertion is refused: sub is not a user of tenant_id who may sign in, or the user has not allowed the client to act.")
	id, err := uuid.Parse(claims.Subject)
	if err != nil {
		return db.User{}, unknown
	}
	user, err := g.p.storage.user(ctx, id)
	if errors.Is(err, fosite.ErrNotFound) || (err == nil && user.TenantID.String() != claims.TenantID) {
		return db.User{}, unknown
	}
	if err != nil {
		return db.User{}, err
	}
	if user.TenantID == c.row.TenantID {
		return user, nil
	}
	grant, err := g.p.cfg.Store.Read(user.TenantID).OAuthGrantOf(ctx, user.TenantID, user.ID, c.row.ID)
	if errors.Is(err, store.ErrNotFound) || (err == nil && !slices.Contains(grant.Scopes, scopeOffline)) {
		return db.User{}, unknown // without offline_access the user let the client act while they are there
	}
	return user, err
}

// scopes are those asked for, or else all that the client may have, as far as the user's role has them. For a user of another tenant than the client's they are
// within what that user granted. There is no refresh token, so that offline_access says nothing.
func (g *assertionGrant) scopes(ctx context.Context, c *client, user db.User, asked []string) (fosite.Arguments, error) {
	for _, scope := range asked {
		if !slices.Contains(c.row.AllowedScopes, scope) {
			return nil, fosite.ErrInvalidScope.WithHintf("The client is not allowed the scope %q.", scope)
		}
	}
	if len(asked) == 0 {
		asked = c.row.AllowedScopes
	}
	may := within(asked, c, user.Role)
	if user.TenantID != c.row.TenantID {
		grant, err := g.p.cfg.Store.Read(user.TenantID).OAuthGrantOf(ctx, user.TenantID, user.ID, c.row.ID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		may = slices.DeleteFunc(may, func(s string) bool { return !slices.Contains(grant.Scopes, s) })
	}
	may = slices.DeleteFunc(may, func(s string) bool { return s == scopeOffline })
	if len(may) == 0 {
		return nil, fosite.ErrInvalidScope.WithHint("None of the scopes may be given for this user.")
	}
	return may, nil
}

// take marks the assertion as used: by its jti, or by all that was signed where it has none. Of those who send it at once, one is served.
func (g *assertionGrant) take(ctx context.Context, c *client, claims assertion, raw string) error {
	id := "jti " + claims.ID
	if claims.ID == "" {
		id = "assertion " + raw[:strings.LastIndex(raw, ".")]
	}
	sum := sha256.Sum256([]byte(id))
	var n int64
	err := g.p.cfg.Store.InSystem(ctx, func(tx *store.Tx) error {
		var err error
		n, err = tx.Q.OAuthAssertionTake(ctx, c.row.ID, sum[:], claims.ExpiresAt.Add(clockSkew))
		return err
	})
	if err != nil {
		return err
	}
	if n == 0 {
		return refusedAssertion("The assertion is refused: it was used already.")
	}
	return nil
}

// PopulateTokenEndpointResponse implements fosite.TokenEndpointHandler: a family of one access token.
func (g *assertionGrant) PopulateTokenEndpointResponse(ctx context.Context, r fosite.AccessRequester, answer fosite.AccessResponder) error {
	if !g.CanHandleTokenEndpointRequest(ctx, r) {
		return fosite.ErrUnknownRequest
	}
	token, _, err := g.strategy.GenerateAccessToken(ctx, r)
	if err != nil {
		return err
	}
	claims, err := claimsOf(r)
	if err != nil {
		return err
	}
	now := g.p.now()
	before := now.Add(-usedEvery)
	as := actor(ctx, "oauth_client:"+claims.Client.String())
	c := clientOf(r)
	of, _ := r.GetSession().(*session)
	if c == nil || of == nil {
		return errors.New("an assertion has lost its client")
	}
	err = g.p.cfg.Store.InSystem(as, func(tx *store.Tx) error {
		if err := hold(as, tx, of.user, c, claims.Tenant != c.row.TenantID); err != nil {
			return err
		}
		if err := tx.Q.OAuthFamilyBegin(ctx, db.OAuthFamilyBeginParams{
			TenantID: claims.Tenant, ID: claims.Family, UserID: claims.User, ClientID: claims.Client, Scopes: claims.Scopes, Request: []byte("{}"),
			BeganAt: now, GoodUntil: now.Add(access.Lifetime),
		}); err != nil {
			return err
		}
		if err := tx.Q.OAuthGrantUsed(ctx, db.OAuthGrantUsedParams{
			Now: &now, Before: &before, TenantID: claims.Tenant, UserID: claims.User, ClientID: claims.Client,
		}); err != nil {
			return err
		}
		return tx.Audit(as, store.AuditEntry{
			TenantID: claims.Tenant, Action: "oauth_token.given", ObjectID: claims.Family.String(), At: now,
			Details: map[string]any{"grant": "jwt_bearer", "client_id": claims.Client, "user_id": claims.User, "scopes": claims.Scopes},
		})
	})
	if err != nil {
		return err
	}
	answer.SetAccessToken(token)
	answer.SetTokenType("bearer")
	answer.SetExpiresIn(access.Lifetime)
	answer.SetScopes(r.GetGrantedScopes())
	return nil
}
