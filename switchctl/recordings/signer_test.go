package recordings

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestSignedURL(t *testing.T) {
	t.Parallel()
	s := NewSigner("https://ring.example/", []byte("key"))
	call, tenant := uuid.New(), uuid.New()
	now := time.Unix(1_764_000_000, 500).UTC()
	text := s.Sign(call, tenant, now.Add(WebhookURLLifetime))
	require.True(t, strings.HasPrefix(text, "https://ring.example/recordings/"+call.String()+"?"), text)
	u, err := url.Parse(text)
	require.NoError(t, err)
	q := u.Query()
	require.Equal(t, tenant.String(), q.Get("tenant"))
	expires, sig := q.Get("expires"), q.Get("sig")
	require.Equal(t, "1764000900", expires)

	verify := func(call, tenant, expires, sig string, at time.Time) error {
		_, _, err := s.VerifyURL(call, tenant, expires, sig, at)
		return err
	}
	gotTenant, gotCall, err := s.VerifyURL(call.String(), tenant.String(), expires, sig, now)
	require.NoError(t, err)
	require.Equal(t, tenant, gotTenant)
	require.Equal(t, call, gotCall)
	require.NoError(t, verify(call.String(), tenant.String(), expires, sig, time.Unix(1_764_000_899, 0)))
	require.ErrorIs(t, verify(call.String(), tenant.String(), expires, sig, time.Unix(1_764_000_900, 0)), ErrExpired)

	for name, err := range map[string]error{
		"another call":    verify(uuid.NewString(), tenant.String(), expires, sig, now),
		"another tenant":  verify(call.String(), uuid.NewString(), expires, sig, now),
		"a later expiry":  verify(call.String(), tenant.String(), "1864000900", sig, now),
		"no number":       verify(call.String(), tenant.String(), "1764000900 ", sig, now),
		"no signature":    verify(call.String(), tenant.String(), expires, "", now),
		"half of it":      verify(call.String(), tenant.String(), expires, sig[:20], now),
		"no base64":       verify(call.String(), tenant.String(), expires, "!!", now),
		"no call id":      verify("../etc", tenant.String(), expires, sig, now),
		"no tenant":       verify(call.String(), "", expires, sig, now),
		"expired, forged": verify(call.String(), tenant.String(), "1", sig, now),
		"another key":     NewSigner("", []byte("other")).Verify(call, tenant, expires, sig, now),
	} {
		require.ErrorIs(t, err, ErrSignature, name)
	}
}
