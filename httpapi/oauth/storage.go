package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/ory/fosite"

	"github.com/ringmaster/ringmaster/httpapi/oauth/access"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

const (
	codeLifetime    = time.Minute
	refreshLifetime = 30 * 24 * time.Hour
	// raceWindow is how long after a refresh token's use another request with it may arrive as the loser of a race, and not as a reuse: a client that sends
	// the same request twice at once doesn't lose its family.
	raceWindow = time.Second
	// usedEvery is how exactly it is kept when a grant was last used.
	usedEvery = time.Minute
)

// What a transaction finds that another one has done first.
var (
	errCodeUsed    = errors.New("the code was used at the same time")
	errRefreshUsed = errors.New("the refresh token was used at the same time")
	errFamilyEnded = errors.New("what the token belongs to has ended")
)

// storage keeps codes, refresh tokens and families for fosite. What fosite writes between BeginTX and Commit is one transaction.
type storage struct {
	store *store.Store
	now   func() time.Time
}

// write is a part of a transaction.
type write func(ctx context.Context, tx *store.Tx) error

type unitKey struct{}

// unit is what is to be written at once.
type unit struct{ writes []write }

// BeginTX implements storage.Transactional.
func (s *storage) BeginTX(ctx context.Context) (context.Context, error) {
	return context.WithValue(ctx, unitKey{}, &unit{}), nil
}

// Commit implements storage.Transactional.
func (s *storage) Commit(ctx context.Context) error {
	u, _ := ctx.Value(unitKey{}).(*unit)
	if u == nil || len(u.writes) == 0 {
		return nil
	}
	return s.store.InSystem(ctx, func(tx *store.Tx) error {
		for _, w := range u.writes {
			if err := w(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
}

// Rollback implements storage.Transactional: nothing was written yet.
func (s *storage) Rollback(context.Context) error { return nil }

// write does one write, or adds it to the unit.
func (s *storage) write(ctx context.Context, w write) error {
	if u, _ := ctx.Value(unitKey{}).(*unit); u != nil {
		u.writes = append(u.writes, w)
		return nil
	}
	return s.store.InSystem(ctx, func(tx *store.Tx) error { return w(ctx, tx) })
}

// CreateAuthorizeCodeSession implements oauth2.AuthorizeCodeStorage: a family begins.
func (s *storage) CreateAuthorizeCodeSession(ctx context.Context, signature string, r fosite.Requester) error {
	of, ok := r.GetSession().(*session)
	family, err := uuid.Parse(r.GetID())
	c, isClient := r.GetClient().(*client)
	if err != nil || !ok || !isClient {
		return fmt.Errorf("begin family %q: it is not a request of ours", r.GetID())
	}
	request, err := json.Marshal(asked{
		Form: r.GetRequestForm(), Scopes: r.GetRequestedScopes(), RequestedAt: of.Claims.RequestedAt, SignedInAt: of.Claims.AuthTime,
	})
	if err != nil {
		return fmt.Errorf("begin family %s: %w", family, err)
	}
	now := s.now()
	ends := now.Add(codeLifetime)
	return s.write(ctx, func(ctx context.Context, tx *store.Tx) error {
		if err := hold(ctx, tx, of.user, c, true); err != nil {
			return err
		}
		if err := tx.Q.OAuthFamilyBegin(ctx, db.OAuthFamilyBeginParams{
			TenantID: of.user.TenantID, ID: family, UserID: of.user.ID, ClientID: c.row.ID, Scopes: r.GetGrantedScopes(), Request: request,
			BeganAt: now, GoodUntil: ends,
		}); err != nil {
			return err
		}
		return tx.Q.OAuthCodeAdd(ctx, db.OAuthCodeAddParams{TenantID: of.user.TenantID, Hash: []byte(signature), FamilyID: family, ExpiresAt: ends})
	})
}

// hold keeps client, user and, where asked, the user's grant as they are while a family begins: whoever ends one of them at the same time either ends the
// family too, or comes first, which is errFamilyEnded.
func hold(ctx context.Context, tx *store.Tx, user db.User, c *client, granted bool) error {
	good, err := tx.Q.OAuthHold(ctx, c.row.ID, user.TenantID, user.ID)
	if err == nil && good && granted {
		_, err = tx.Q.OAuthHoldGrant(ctx, user.TenantID, user.ID, c.row.ID)
	}
	if errors.Is(err, store.ErrNotFound) || (err == nil && !good) {
		return errFamilyEnded
	}
	return err
}

// load gives the request of a family. Its errors are fosite.ErrNotFound for one that is over or another client's, or whose user may not sign in.
func (s *storage) load(ctx context.Context, family db.OauthFamily, given fosite.Session) (*fosite.Request, error) {
	if asks, _ := ctx.Value(fosite.AccessRequestContextKey).(fosite.AccessRequester); asks != nil && asks.GetClient().GetID() != family.ClientID.String() {
		return nil, fosite.ErrNotFound
	}
	c, err := s.client(ctx, family.ClientID)
	if err != nil {
		return nil, err
	}
	user, err := s.user(ctx, family.UserID)
	if err != nil {
		return nil, err
	}
	into, _ := given.(*session)
	if into == nil {
		into = newSession()
	}
	return requestOf(family, c, user, into)
}

// user gives a user who may sign in.
func (s *storage) user(ctx context.Context, id uuid.UUID) (db.User, error) {
	row, err := s.store.ReadSystem().OAuthUser(ctx, id)
	if errors.Is(err, store.ErrNotFound) || (err == nil && (!row.User.IsActive || row.Suspended)) {
		return db.User{}, fosite.ErrNotFound
	}
	return row.User, err
}

// code gives what a code stands for, used or not.
func (s *storage) code(ctx context.Context, signature string, given fosite.Session) (*fosite.Request, db.OauthCode, error) {
	row, err := s.store.ReadSystem().OAuthCode(ctx, []byte(signature))
	if errors.Is(err, store.ErrNotFound) {
		return nil, db.OauthCode{}, fosite.ErrNotFound
	}
	if err != nil {
		return nil, db.OauthCode{}, err
	}
	r, err := s.load(ctx, row.OauthFamily, given)
	if err != nil {
		return nil, db.OauthCode{}, err
	}
	r.Session.SetExpiresAt(fosite.AuthorizeCode, row.OauthCode.ExpiresAt)
	if row.OauthFamily.EndedAt != nil && row.OauthCode.UsedAt == nil {
		return nil, db.OauthCode{}, fosite.ErrNotFound
	}
	return r, row.OauthCode, nil
}

// GetAuthorizeCodeSession implements oauth2.AuthorizeCodeStorage.
func (s *storage) GetAuthorizeCodeSession(ctx context.Context, signature string, given fosite.Session) (fosite.Requester, error) {
	r, code, err := s.code(ctx, signature, given)
	if err != nil {
		return nil, err
	}
	if code.UsedAt != nil {
		return r, fosite.ErrInvalidatedAuthorizeCode
	}
	return r, nil
}

// InvalidateAuthorizeCodeSession implements oauth2.AuthorizeCodeStorage: of those who use a code at once, one does.
func (s *storage) InvalidateAuthorizeCodeSession(ctx context.Context, signature string) error {
	return s.write(ctx, func(ctx context.Context, tx *store.Tx) error {
		now := s.now()
		n, err := tx.Q.OAuthCodeUse(ctx, &now, []byte(signature))
		if err == nil && n == 0 {
			err = errCodeUsed
		}
		return err
	})
}

// CreatePKCERequestSession implements pkce.PKCERequestStorage: the family has it all.
func (s *storage) CreatePKCERequestSession(context.Context, string, fosite.Requester) error {
	return nil
}

// GetPKCERequestSession implements pkce.PKCERequestStorage.
func (s *storage) GetPKCERequestSession(ctx context.Context, signature string, _ fosite.Session) (fosite.Requester, error) {
	r, _, err := s.code(ctx, signature, nil)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// DeletePKCERequestSession implements pkce.PKCERequestStorage.
func (s *storage) DeletePKCERequestSession(context.Context, string) error { return nil }

// CreateOpenIDConnectSession implements openid.OpenIDConnectRequestStorage: the family has it all.
func (s *storage) CreateOpenIDConnectSession(context.Context, string, fosite.Requester) error {
	return nil
}

// GetOpenIDConnectSession implements openid.OpenIDConnectRequestStorage.
func (s *storage) GetOpenIDConnectSession(ctx context.Context, code string, _ fosite.Requester) (fosite.Requester, error) {
	r, _, err := s.code(ctx, hashOf(code), nil)
	if err != nil {
		return nil, err
	}
	if !r.GrantedScope.Has(scopeOpenID) {
		return nil, fosite.ErrNotFound
	}
	return r, nil
}

// DeleteOpenIDConnectSession implements openid.OpenIDConnectRequestStorage.
func (s *storage) DeleteOpenIDConnectSession(context.Context, string) error { return nil }

// CreateAccessTokenSession implements oauth2.AccessTokenStorage: nothing is kept of an access token but until when its family may be good.
func (s *storage) CreateAccessTokenSession(ctx context.Context, _ string, r fosite.Requester) error {
	claims, err := claimsOf(r)
	if err != nil {
		return err
	}
	return s.write(ctx, func(ctx context.Context, tx *store.Tx) error {
		now := s.now()
		n, err := tx.Q.OAuthFamilyGoodUntil(ctx, now.Add(access.Lifetime), claims.Family)
		if err == nil && n == 0 {
			err = errFamilyEnded
		}
		if err != nil {
			return err
		}
		before := now.Add(-usedEvery)
		return tx.Q.OAuthGrantUsed(ctx, db.OAuthGrantUsedParams{
			Now: &now, Before: &before, TenantID: claims.Tenant, UserID: claims.User, ClientID: claims.Client,
		})
	})
}

// GetAccessTokenSession implements oauth2.AccessTokenStorage; access tokens are verified by package access.
func (s *storage) GetAccessTokenSession(context.Context, string, fosite.Session) (fosite.Requester, error) {
	return nil, fosite.ErrNotFound
}

// DeleteAccessTokenSession implements oauth2.AccessTokenStorage.
func (s *storage) DeleteAccessTokenSession(context.Context, string) error { return nil }

// CreateRefreshTokenSession implements oauth2.RefreshTokenStorage.
func (s *storage) CreateRefreshTokenSession(ctx context.Context, signature, _ string, r fosite.Requester) error {
	claims, err := claimsOf(r)
	if err != nil {
		return err
	}
	return s.write(ctx, func(ctx context.Context, tx *store.Tx) error {
		now := s.now()
		ends := now.Add(refreshLifetime)
		if _, err := tx.Q.OAuthFamilyGoodUntil(ctx, ends, claims.Family); err != nil {
			return err
		}
		return tx.Q.OAuthRefreshAdd(ctx, db.OAuthRefreshAddParams{
			TenantID: claims.Tenant, Hash: []byte(signature), FamilyID: claims.Family, IssuedAt: now, ExpiresAt: ends,
		})
	})
}

// GetRefreshTokenSession implements oauth2.RefreshTokenStorage. One that was used is fosite.ErrInactiveToken, on which fosite ends the family, unless that was
// a moment ago.
func (s *storage) GetRefreshTokenSession(ctx context.Context, signature string, given fosite.Session) (fosite.Requester, error) {
	row, err := s.store.ReadSystem().OAuthRefresh(ctx, []byte(signature))
	if errors.Is(err, store.ErrNotFound) || (err == nil && row.OauthFamily.EndedAt != nil) {
		return nil, fosite.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	r, err := s.load(ctx, row.OauthFamily, given)
	if err != nil {
		return nil, err
	}
	r.Session.SetExpiresAt(fosite.RefreshToken, row.OauthRefreshToken.ExpiresAt)
	if used := row.OauthRefreshToken.UsedAt; used != nil {
		if peerOf(ctx).Arrived.Before(used.Add(raceWindow)) {
			return nil, fosite.ErrNotFound
		}
		return r, fosite.ErrInactiveToken
	}
	return r, nil
}

// RotateRefreshToken implements oauth2.RefreshTokenStorage: of those who use a refresh token at once, one does.
func (s *storage) RotateRefreshToken(ctx context.Context, _, signature string) error {
	return s.write(ctx, func(ctx context.Context, tx *store.Tx) error {
		now := s.now()
		n, err := tx.Q.OAuthRefreshUse(ctx, &now, []byte(signature))
		if err == nil && n == 0 {
			err = errRefreshUsed
		}
		return err
	})
}

// DeleteRefreshTokenSession implements oauth2.RefreshTokenStorage: a used one stays, to be known again.
func (s *storage) DeleteRefreshTokenSession(context.Context, string) error { return nil }

// RevokeRefreshToken implements oauth2.TokenRevocationStorage. fosite calls it when a refresh token, or a code, was used again.
func (s *storage) RevokeRefreshToken(ctx context.Context, family string) error {
	id, err := uuid.Parse(family)
	if err != nil {
		return fosite.ErrNotFound
	}
	why := endedRefreshReused
	if asks, _ := ctx.Value(fosite.AccessRequestContextKey).(fosite.AccessRequester); asks != nil && asks.GetGrantTypes().ExactOne(string(fosite.GrantTypeAuthorizationCode)) {
		why = endedCodeReused
	}
	return s.end(ctx, id, why)
}

// RevokeAccessToken implements oauth2.TokenRevocationStorage: they end with their family.
func (s *storage) RevokeAccessToken(context.Context, string) error { return nil }

// Why a family ends (oauth_families.ended_for).
const (
	endedRevoked       = "revoked"
	endedCodeReused    = "code_reused"
	endedRefreshReused = "refresh_reused"
)

// end ends a family with all its tokens, here before it returns and on other hosts as soon as they are told. Its user's audit has it.
func (s *storage) end(ctx context.Context, family uuid.UUID, why string) error {
	return s.store.InSystem(ctx, func(tx *store.Tx) error {
		now := s.now()
		n, err := tx.Q.OAuthFamilyEnd(ctx, &now, &why, family)
		if err != nil || n == 0 {
			return err
		}
		tx.RevokedOAuth(family.String(), now.Add(access.Lifetime))
		row, err := tx.Q.OAuthFamily(ctx, family)
		if err != nil {
			return err
		}
		return tx.Audit(ctx, store.AuditEntry{
			TenantID: row.TenantID, Action: "oauth_token.revoked", ObjectID: family.String(), At: now,
			Details: map[string]any{"client_id": row.ClientID, "user_id": row.UserID, "reason": why},
		})
	})
}
