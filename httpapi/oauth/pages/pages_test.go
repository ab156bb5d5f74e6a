package pages_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// A user signs in, allows, denies, and takes another account.
func TestTheWayThrough(t *testing.T) {
	t.Parallel()
	b := setup(t)
	br := b.signedIn(t)
	shown := br.get(t, address)
	require.Contains(t, shown.body, "<bdi>Acme CRM</bdi> asks for access")
	for _, decision := range []string{"allow", "deny"} {
		a := br.post(t, address, "csrf_token", shown.token(t), "decision", decision)
		require.Equal(t, http.StatusFound, a.status, a.body)
	}
	require.Equal(t, []bool{true, false}, b.decisions)
	a := br.post(t, address, "csrf_token", shown.token(t), "account", "other")
	require.Equal(t, http.StatusSeeOther, a.status)
	require.Equal(t, address[len("/oauth/authorize"):], a.header.Get("Location"))
	require.NotContains(t, br.cookies, cookie)
	require.Contains(t, br.get(t, address).body, `name="password"`)
}
