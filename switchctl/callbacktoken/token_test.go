package callbacktoken

import (
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/keyring"
)

// rowOf is the row that keeps a token.
func rowOf(tenant, call uuid.UUID, t Token) db.CallbackToken {
	return db.CallbackToken{
		TenantID: tenant, CallID: call, JtiHash: t.Hash(), Jwt: t.Kept, Scope: Scope, CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt,
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	key, next, other := keyring.Random(), keyring.Random(), keyring.Random()
	tenant, call := uuid.New(), uuid.New()
	now := time.Date(2026, 11, 21, 10, 0, 0, 123456789, time.UTC)
	token, err := Mint([]keyring.Key{key, other}, tenant, call, now, 30*time.Minute)
	require.NoError(t, err)
	require.Regexp(t, `^svc_cb_[0-9A-HJKMNP-TV-Z]{26}$`, token.Wire())
	jti, ok := JTI(token.Wire())
	require.True(t, ok)
	row := rowOf(tenant, call, token)
	ring := []keyring.Key{next, key}
	require.NoError(t, Verify(ring, row, jti, now.Add(29*time.Minute)))
	again, err := Restore(ring, row)
	require.NoError(t, err)
	require.Equal(t, token, again)

	require.ErrorIs(t, Verify(ring, row, jti, now.Add(31*time.Minute)), ErrInvalid)
	require.ErrorIs(t, Verify([]keyring.Key{other}, row, jti, now), ErrInvalid)
	require.ErrorIs(t, Verify(ring, row, "01ARZ3NDEKTSV4RRFFQ69G5FAV", now), ErrInvalid)
	for what, change := range map[string]func(*db.CallbackToken){
		"tenant": func(r *db.CallbackToken) { r.TenantID = uuid.New() },
		"call":   func(r *db.CallbackToken) { r.CallID = uuid.New() },
		"expiry": func(r *db.CallbackToken) { r.ExpiresAt = r.ExpiresAt.Add(time.Hour) },
		"scope":  func(r *db.CallbackToken) { r.Scope = "all" },
		"jwt":    func(r *db.CallbackToken) { r.Jwt = "x" },
	} {
		forged := row
		change(&forged)
		require.ErrorIs(t, Verify(ring, forged, jti, now), ErrInvalid, what)
	}
	_, err = Restore([]keyring.Key{other}, row)
	require.ErrorIs(t, err, ErrInvalid)
	// What is kept gives nobody a token.
	require.NotContains(t, row.Jwt+row.JtiHash, jti)
	require.Len(t, strings.Split(row.Jwt, "."), 3)
	require.Empty(t, strings.Split(row.Jwt, ".")[1])
	for _, bad := range []string{"", "svc_cb_", "svc_cb_short", "svc_live_01ARZ3NDEKTSV4RRFFQ69G5FAV", "svc_cb_01arz3ndektsv4rrffq69g5fav"} {
		_, ok := JTI(bad)
		require.False(t, ok, bad)
	}
	_, err = Mint(nil, tenant, call, now, time.Minute)
	require.ErrorIs(t, err, errNoKey)
}

// A token from before jtis were hashed is good until it ends.
func TestTokenOfBefore(t *testing.T) {
	t.Parallel()
	key := keyring.Random()
	now, jti := time.Now().UTC().Truncate(time.Second), "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	row := db.CallbackToken{TenantID: uuid.New(), CallID: uuid.New(), JtiHash: Hash(jti), Scope: Scope, CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
	var err error
	row.Jwt, err = jwt.NewWithClaims(jwt.SigningMethodHS256, claims{
		TenantID: row.TenantID, CallID: row.CallID, Scope: Scope,
		RegisteredClaims: jwt.RegisteredClaims{ID: jti, Issuer: issuer, IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(row.ExpiresAt)},
	}).SignedString(key[:])
	require.NoError(t, err)
	require.NoError(t, Verify([]keyring.Key{key}, row, jti, now))
	restored, err := Restore([]keyring.Key{key}, row)
	require.NoError(t, err)
	require.Equal(t, jti, restored.JTI)
	row.CallID = uuid.New()
	require.ErrorIs(t, Verify([]keyring.Key{key}, row, jti, now), ErrInvalid)
}
