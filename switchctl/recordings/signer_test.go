package recordings

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/keyring"
)

// keys gives keys of those names, the newest first.
func keys(names ...string) func() []keyring.Key {
	var out []keyring.Key
	for _, name := range names {
		out = append(out, keyring.Key{}.Derive(name))
	}
	return func() []keyring.Key { return out }
}

// A URL outlives the key that signed it while that key is good, and no longer.
func TestSignedURLUnderAnEarlierKey(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_764_000_000, 0).UTC()
	link := Link{CallID: uuid.New(), TenantID: uuid.New(), Expires: now.Add(time.Hour)}
	u, err := url.Parse(NewSigner("", keys("first")).Sign(link))
	require.NoError(t, err)
	got, err := NewSigner("", keys("second", "first")).Verify(link.CallID.String(), u.Query().Get, now)
	require.NoError(t, err)
	require.Equal(t, link.CallID, got.CallID)
	_, err = NewSigner("", keys("second")).Verify(link.CallID.String(), u.Query().Get, now)
	require.ErrorIs(t, err, ErrSignature)
	u, err = url.Parse(NewSigner("", keys("second", "first")).Sign(link))
	require.NoError(t, err)
	_, err = NewSigner("", keys("second")).Verify(link.CallID.String(), u.Query().Get, now)
	require.NoError(t, err, "the newest key signs")
	_, err = NewSigner("", keys()).Verify(link.CallID.String(), u.Query().Get, now)
	require.ErrorIs(t, err, ErrSignature)
}

func TestSignedURL(t *testing.T) {
	t.Parallel()
	s := NewSigner("https://ring.example/", keys("key"))
	call, tenant := uuid.New(), uuid.New()
	now := time.Unix(1_764_000_000, 500).UTC()
	text := s.Sign(Link{CallID: call, TenantID: tenant, Recipient: "api_key:7", Expires: now.Add(WebhookURLLifetime)})
	require.True(t, strings.HasPrefix(text, "https://ring.example/recordings/"+call.String()+"?"), text)
	u, err := url.Parse(text)
	require.NoError(t, err)
	q := u.Query()
	require.Equal(t, tenant.String(), q.Get("tenant"))
	require.Equal(t, "api_key:7", q.Get("to"))
	expires, sig := q.Get("expires"), q.Get("sig")
	require.Equal(t, "1764000900", expires)

	verifyTo := func(to, call, tenant, expires, sig string, at time.Time) error {
		q := url.Values{"tenant": {tenant}, "to": {to}, "expires": {expires}, "sig": {sig}}
		_, err := s.Verify(call, q.Get, at)
		return err
	}
	verify := func(call, tenant, expires, sig string, at time.Time) error {
		return verifyTo("api_key:7", call, tenant, expires, sig, at)
	}
	got, err := s.Verify(call.String(), q.Get, now)
	require.NoError(t, err)
	require.Equal(t, Link{CallID: call, TenantID: tenant, Recipient: "api_key:7", Expires: time.Unix(1_764_000_900, 0)}, got)
	require.NoError(t, verify(call.String(), tenant.String(), expires, sig, time.Unix(1_764_000_899, 0)))
	require.ErrorIs(t, verify(call.String(), tenant.String(), expires, sig, time.Unix(1_764_000_900, 0)), ErrExpired)
	_, other := NewSigner("", keys("other")).Verify(call.String(), q.Get, now)
	plain, err := url.Parse(s.Sign(Link{CallID: call, TenantID: tenant, Expires: now.Add(time.Minute)}))
	require.NoError(t, err)
	require.False(t, plain.Query().Has("to"))
	_, err = s.Verify(call.String(), plain.Query().Get, now)
	require.NoError(t, err)

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
		"another key":     other,
		"somebody else":   verifyTo("api_key:8", call.String(), tenant.String(), expires, sig, now),
		"nobody":          verifyTo("", call.String(), tenant.String(), expires, sig, now),
	} {
		require.ErrorIs(t, err, ErrSignature, name)
	}
}
