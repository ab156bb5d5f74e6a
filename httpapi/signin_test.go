package httpapi_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// behindProxy trusts the test's own address to say who the client is.
func behindProxy(cfg *httpapi.Config, _ *httpapi.Deps) {
	cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
}

// signInFrom tries to sign in from an address.
func (b *bundle) signInFrom(t *testing.T, client, email, password string) (status int, retryAfter string) {
	t.Helper()
	status, header, body := b.client("").With("X-Forwarded-For", client).Do(t, http.MethodPost, "/api/auth/login",
		object{"email": email, "password": password})
	if after := header.Get("Retry-After"); after != "" {
		require.Contains(t, string(body), `"retry_after_s":`+after)
	}
	return status, header.Get("Retry-After")
}

// One who has a whole /64 is one client.
func TestGuessesFromOneNetwork(t *testing.T) {
	t.Parallel()
	b := setup(t, behindProxy)
	newUser(t, b, "u@acme.test", "agent")
	for i := range 5 {
		status, _ := b.signInFrom(t, fmt.Sprintf("2001:db8:1:2::%d", i+1), "u@acme.test", "wrong")
		require.Equal(t, http.StatusUnauthorized, status)
	}
	status, _ := b.signInFrom(t, "2001:db8:1:2:ffff::1", "u@acme.test", "correct horse")
	require.Equal(t, http.StatusTooManyRequests, status)
	status, _ = b.signInFrom(t, "2001:db8:1:3::1", "u@acme.test", "correct horse")
	require.Equal(t, http.StatusOK, status)
}

// Guesses from many networks, at many controllers, have a limit a day, which doesn't lock the user out of their own network. It is the
// same for an address that nobody has.
func TestGuessesAtOneAccount(t *testing.T) {
	t.Parallel()
	b := setup(t, behindProxy)
	id := newUser(t, b, "u@acme.test", "agent")
	status, _ := b.signInFrom(t, "198.51.100.1", "u@acme.test", "correct horse")
	require.Equal(t, http.StatusOK, status)
	for _, email := range []string{"U@acme.test", "nobody@acme.test"} {
		for i := range 3 {
			status, _ = b.signInFrom(t, fmt.Sprintf("203.0.113.%d", i+1), email, "wrong")
			require.Equal(t, http.StatusUnauthorized, status)
		}
	}
	require.Equal(t, 2, storetest.Count(t, b.st, "SELECT count(*) FROM sign_in_failures WHERE failures = 3"))
	storetest.Exec(t, b.st, b.tenant, "UPDATE sign_in_failures SET failures = 99")
	for _, email := range []string{"u@acme.test", "nobody@acme.test"} {
		status, _ = b.signInFrom(t, "203.0.113.11", email, "wrong")
		require.Equal(t, http.StatusUnauthorized, status)
		status, wait := b.signInFrom(t, "203.0.113.12", email, "correct horse")
		require.Equal(t, http.StatusTooManyRequests, status, email)
		require.Equal(t, "86400", wait)
	}
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM audit WHERE action = 'user.sign_in_limited' AND object_id = $1", id.String()))
	status, _ = b.signInFrom(t, "198.51.100.1", "u@acme.test", "correct horse")
	require.Equal(t, http.StatusOK, status, "from where the user has signed in before")
	b.clock.Advance(24*time.Hour + time.Second)
	status, _ = b.signInFrom(t, "203.0.113.12", "u@acme.test", "correct horse")
	require.Equal(t, http.StatusOK, status)
}

// The log tells who signed in, who didn't and why, without what was typed.
func TestSignInsAreLogged(t *testing.T) {
	t.Parallel()
	b := setup(t, behindProxy)
	id := newUser(t, b, "u@acme.test", "agent")
	b.signInFrom(t, "198.51.100.1", "u@acme.test", "wrong password of mine")
	b.signInFrom(t, "198.51.100.1", "secret typed here@acme.test", "x")
	b.signInFrom(t, "198.51.100.1", "u@acme.test", "correct horse")
	var lines []string
	for line := range strings.Lines(b.logs.String()) {
		if strings.Contains(line, `"msg":"sign-in"`) {
			lines = append(lines, line)
		}
	}
	require.Len(t, lines, 3)
	for i, want := range []string{"wrong password", "unknown address", "succeeded"} {
		require.Contains(t, lines[i], want)
		require.Contains(t, lines[i], `"remote_addr":"198.51.100.1"`)
		require.NotContains(t, lines[i], "acme.test")
		require.NotContains(t, lines[i], "of mine")
	}
	require.Contains(t, lines[0], id.String())
	require.Contains(t, lines[2], id.String())
	rows := b.changes(t)
	require.Equal(t, "user.signed_in", rows[0].Action)
	require.Equal(t, "user:"+id.String(), rows[0].Actor)
	require.Equal(t, "198.51.100.1", *rows[0].RemoteAddr)
}

// A client that has failed too often costs neither memory nor disk: the log has some of its attempts, and the sum of the others.
func TestRefusedSignInsAreSummedUp(t *testing.T) {
	t.Parallel()
	b := setup(t, behindProxy)
	lines := func(text string) int { return strings.Count(b.logs.String(), text) }
	for i := range 30 {
		status, _ := b.signInFrom(t, "198.51.100.1", fmt.Sprintf("u%d@acme.test", i), "wrong")
		require.Equal(t, http.StatusUnauthorized, status)
	}
	requests := lines(`"msg":"http request"`)
	for i := range 200 {
		status, wait := b.signInFrom(t, "198.51.100.1", fmt.Sprintf("v%d@acme.test", i), "wrong")
		require.Equal(t, http.StatusTooManyRequests, status)
		require.Equal(t, "300", wait)
	}
	require.Equal(t, 60, lines(`"outcome":"limited"`))
	require.Equal(t, requests+60, lines(`"msg":"http request"`))
	require.NoError(t, testutil.GatherAndCompare(b.metrics, strings.NewReader(`
# HELP ringmaster_http_sign_ins_total Attempts to sign in: succeeded, failed, limited (too many failed), busy (too many at once).
# TYPE ringmaster_http_sign_ins_total counter
ringmaster_http_sign_ins_total{outcome="failed"} 30
ringmaster_http_sign_ins_total{outcome="limited"} 200
`), "ringmaster_http_sign_ins_total"), "all are counted")
	b.clock.Advance(time.Minute)
	b.signInFrom(t, "198.51.100.1", "v@acme.test", "wrong")
	require.Equal(t, 1, lines(`"more_than_logged":140`))
	require.Equal(t, 61, lines(`"outcome":"limited"`))
}

func TestCommonPasswordsAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	for _, password := range []string{"password1", "Passw0rd", "12345678"} {
		require.Equal(t, []string{"body.password"}, denied(t, s.admin, http.MethodPost, "/api/users",
			object{"email": "n@x.test", "role": "agent", "password": password}, http.StatusUnprocessableEntity))
	}
}
