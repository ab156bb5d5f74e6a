package httpapi_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/store/keyring"
)

// A session outlives the key that signed it as long as that key is good, while the server runs; a new one is signed by the newest.
func TestSessionsOutliveTheirKey(t *testing.T) {
	t.Parallel()
	var keys atomic.Pointer[[]keyring.Key]
	set := func(ring ...keyring.Key) { keys.Store(&ring) }
	set(keyring.Key{1})
	b := setup(t, func(cfg *httpapi.Config, _ *httpapi.Deps) {
		cfg.SessionKeys = func() []keyring.Key { return *keys.Load() }
	})
	const path = "/api/telephony/channels/usage"
	newUser(t, b, "admin@acme.test", "admin")
	first := signIn(t, b, "admin@acme.test").AccessToken
	b.client(first).JSON(t, http.MethodGet, path, nil, http.StatusOK, nil)
	set(keyring.Key{2}, keyring.Key{1})
	b.client(first).JSON(t, http.MethodGet, path, nil, http.StatusOK, nil)
	second := signIn(t, b, "admin@acme.test").AccessToken
	set(keyring.Key{2})
	b.client(first).JSON(t, http.MethodGet, path, nil, http.StatusUnauthorized, nil)
	b.client(second).JSON(t, http.MethodGet, path, nil, http.StatusOK, nil)
	set()
	b.client(second).JSON(t, http.MethodGet, path, nil, http.StatusUnauthorized, nil)
	require.NotEqual(t, first, second)
}
