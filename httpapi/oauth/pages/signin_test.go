package pages_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/store/storetest"
)

const wrong = `role="alert">The e-mail address or the password is wrong.</p>`

// One message for an unknown address and a wrong password; the address is kept, the password never.
func TestWrongPassword(t *testing.T) {
	t.Parallel()
	b := setup(t)
	off := b.add(t, "off@acme.test", account.RoleAgent)
	require.NoError(t, b.accounts.SetUserActive(t.Context(), b.tenant, off.ID, false))
	bodies := map[string]bool{}
	for email, pass := range map[string]string{"u@acme.test": "wr0ng pass", "n@acme.test": "wr0ng pass", "off@acme.test": password} {
		br := b.browser()
		a := br.signIn(t, address, email, pass)
		require.Equal(t, http.StatusBadRequest, a.status)
		require.Empty(t, a.header.Get("WWW-Authenticate"))
		require.Contains(t, a.body, wrong)
		require.Contains(t, a.body, `value="`+email+`"`)
		require.NotContains(t, a.body, pass)
		require.Contains(t, a.body, "<title>Error: Sign in")
		require.Regexp(t, `id="password"[^>]* aria-invalid="true" aria-describedby="problem" autofocus>`, a.body)
		require.NotContains(t, br.cookies, cookie)
		bodies[strings.NewReplacer(email, "", a.token(t), "").Replace(a.body)] = true
	}
	require.Len(t, bodies, 1, "the pages are the same")
}

func TestFieldsOfTheSignInForm(t *testing.T) {
	t.Parallel()
	b := setup(t)
	long := strings.Repeat("x", 10000)
	for name, c := range map[string]struct{ email, password, problem, focus string }{
		"no address":                   {"", password, "Enter your e-mail address.", "email"},
		"spaces for an address":        {"   ", password, "Enter your e-mail address.", "email"},
		"no password":                  {b.user.Email, "", "Enter your password.", "password"},
		"neither":                      {"", "", "Enter your e-mail address.", "email"},
		"an address of 10,000 letters": {long + "@acme.test", password, "is wrong.", "email"},
		"a password of 10,000 letters": {b.user.Email, long, "is wrong.", "email"},
		"an address with a zero byte":  {"u\x00@acme.test", password, "is wrong.", "email"},
		"an address that is not UTF-8": {"u\xff@acme.test", password, "is wrong.", "email"},
	} {
		a := b.browser().signIn(t, address, c.email, c.password)
		require.Equal(t, http.StatusBadRequest, a.status, name)
		require.Contains(t, a.body, c.problem, name)
		require.Regexp(t, `id="`+c.focus+`"[^>]* autofocus>`, a.body, name)
		require.NotContains(t, a.body, long, name)
	}
	require.NotContains(t, b.logs.String(), "msg=sign-in", "no password was looked at")
	a := b.browser().signIn(t, address, " U@Acme.test ", password)
	require.Equal(t, http.StatusSeeOther, a.status, "as a telephone completes an address")
}

// Guesses are slowed down as those at the API's sign-in, of which they are a part.
func TestTooManyAttempts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	br := b.browser()
	for range 5 {
		require.Equal(t, http.StatusBadRequest, br.signIn(t, address, b.user.Email, "wrong").status)
	}
	b.clock.Advance(30 * time.Second)
	a := br.signIn(t, address, b.user.Email, password)
	require.Equal(t, http.StatusTooManyRequests, a.status)
	require.Equal(t, "270", a.header.Get("Retry-After"))
	require.Contains(t, a.body, "Too many failed attempts to sign in. Try again in 5 minutes.")
	require.Contains(t, a.body, `value="u@acme.test"`)
	require.NotContains(t, br.cookies, cookie)
	b.clock.Advance(4*time.Minute + 30*time.Second)
	require.Equal(t, http.StatusSeeOther, br.signIn(t, address, b.user.Email, password).status)
}

// An account that is guessed at from everywhere is closed to strangers for a day.
func TestLockedAccount(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.Equal(t, http.StatusBadRequest, b.browser().signIn(t, address, b.user.Email, "wrong").status)
	storetest.Exec(t, b.st, b.tenant, "UPDATE sign_in_failures SET failures = 100")
	a := b.browser().signIn(t, address, b.user.Email, password)
	require.Equal(t, http.StatusTooManyRequests, a.status)
	require.Contains(t, a.body, "Try again in 24 hours.")
}

func TestSignInIsAudited(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.signedIn(t)
	rows := storetest.Count(t, b.st,
		"SELECT count(*) FROM audit WHERE action = 'user.signed_in' AND actor = $1 AND request_id = 'req-1' AND remote_addr = '198.51.100.7'",
		"user:"+b.user.ID.String())
	require.Equal(t, 1, rows)
}

// A second window's form is the same browser's.
func TestTwoWindows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	br := b.browser()
	one, two := br.get(t, address), br.get(t, address+"2")
	require.NotContains(t, two.set, holder)
	for target, shown := range map[string]answer{address: one, address + "2": two} {
		window := br.copy()
		require.Equal(t, http.StatusSeeOther, window.post(t, target, "csrf_token", shown.token(t), "email", b.user.Email, "password", password).status)
	}
}

func TestDatabaseIsAway(t *testing.T) {
	t.Parallel()
	b := setup(t)
	br := b.signedIn(t)
	shown := b.browser()
	token := shown.get(t, address).token(t)
	b.st.Close()
	require.Equal(t, http.StatusInternalServerError, br.get(t, address).status, "no sign-in page for one who is signed in")
	a := shown.post(t, address, "csrf_token", token, "email", b.user.Email, "password", password)
	require.Contains(t, []int{http.StatusInternalServerError, http.StatusServiceUnavailable}, a.status)
	require.NotContains(t, a.body, "pool")
	require.NotContains(t, shown.cookies, cookie)
}
