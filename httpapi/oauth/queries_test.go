package oauth_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/oauth"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// What a token costs the database: nothing to verify it, the user at userinfo, and the client as well for introspection.
func TestQueries(t *testing.T) {
	t.Parallel()
	st, proxy := storetest.NewProxied(t)
	b := setupOn(t, st, time.Now)
	access, _, _ := b.tokensFor(t, b.client, allScopes)
	userinfo := func() {
		status, got, _ := b.do(t, request{method: http.MethodGet, path: oauth.PathUserinfo, header: http.Header{"Authorization": {"Bearer " + access}}})
		require.Equal(t, http.StatusOK, status, got)
	}
	introspect := func() { require.True(t, b.active(t, b.client.String(), access)) }
	userinfo()
	introspect()
	const times = 20
	// What runs beside it, as the connection on which revocations are told, doesn't make it one more for each.
	each := func(do func()) int {
		return proxy.RoundTrips(func() {
			for range times {
				do()
			}
		}) / times
	}
	require.Zero(t, each(func() {
		_, err := b.tokens.Verify(access)
		require.NoError(t, err)
	}))
	require.Equal(t, 1, each(userinfo))
	require.Equal(t, 2, each(introspect))
}
