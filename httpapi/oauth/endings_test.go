package oauth_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/httpapi/oauth"
	"github.com/ringmaster/ringmaster/httpapi/oauth/clients"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// withdraw takes back what the user granted, all of it.
func (b *bundle) withdraw(t *testing.T) {
	t.Helper()
	service := clients.New(b.st, b.clock.Now)
	grants, err := service.Grants(t.Context(), b.home, b.user.ID)
	require.NoError(t, err)
	for _, g := range grants {
		require.NoError(t, service.Withdraw(t.Context(), b.home, b.user.ID, g.OauthGrant.ID))
	}
}

// A withdrawal at the time of an authorization ends it, or comes first: no family lives without its grant.
func TestWithdrawalBesideAnAuthorization(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.signedIn(t, "openid", "offline_access", "campaigns:read")
	// The authorization is held up as it writes its code.
	release, locked, held := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	free := sync.OnceFunc(func() { close(release) })
	t.Cleanup(free)
	go func() {
		held <- b.st.InSystem(t.Context(), lockTable(t, "oauth_codes", locked, release))
	}()
	<-locked
	verifier := oauth2.GenerateVerifier()
	cfg := b.config("openid", "offline_access", "campaigns:read")
	asked, withdrawn := make(chan page, 1), make(chan struct{})
	go func() { asked <- b.get(t, cfg.AuthCodeURL("x", oauth2.S256ChallengeOption(verifier))) }() //nolint:testifylint // a failure ends the test by the wait for its page
	b.awaitWaiting(t, 1)
	go func() {
		defer close(withdrawn)
		b.withdraw(t) //nolint:testifylint // the exchange fails then
	}()
	b.awaitWaiting(t, 2)
	free()
	require.NoError(t, <-held)
	p := <-asked
	<-withdrawn
	code := b.answer(t, p).Get("code")
	_, err := cfg.Exchange(b.ctx(t), code, oauth2.VerifierOption(verifier))
	require.ErrorContains(t, err, "invalid_grant")
}

// awaitWaiting waits until as many of the database's sessions wait for a lock.
func (b *bundle) awaitWaiting(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		return storetest.Count(t, b.st, "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.datname = current_database()") >= n
	}, 30*time.Second, 5*time.Millisecond)
}

// Who had the password keeps nothing when it is another, and switching a user off and on gives nothing back.
func TestEndsWithTheUser(t *testing.T) { //nolint:tparallel // one user, one ending after another
	t.Parallel()
	b := setup(t)
	b.addUser(t, b.home, "other@home.test", account.RoleAdmin) // the last administrator stays one
	accounts := account.New(b.st)
	for name, end := range map[string]func(t *testing.T){
		"another password": func(t *testing.T) {
			t.Helper()
			_, err := accounts.EditUser(t.Context(), b.home, b.user.ID, account.UserEdit{Password: input.Some(password + " again")})
			require.NoError(t, err)
			_, err = accounts.EditUser(t.Context(), b.home, b.user.ID, account.UserEdit{Password: input.Some(password)})
			require.NoError(t, err)
		},
		"switched off and on": func(t *testing.T) {
			t.Helper()
			for _, on := range []bool{false, true} {
				err := accounts.SetUserActive(t.Context(), b.home, b.user.ID, on)
				require.NoError(t, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b.browser = b.newBrowser(t)
			token := b.signedIn(t, "openid", "offline_access")
			end(t)
			_, err := b.tokens.Verify(token.AccessToken)
			require.Error(t, err, "on the host where it was done at once")
			status, _ := b.post(t, oauth.PathToken, "grant_type", "refresh_token", "refresh_token", token.RefreshToken)
			require.Equal(t, http.StatusBadRequest, status)
		})
	}
}

// What is over already isn't ended once more: an ending costs what is good.
func TestEndingsLeaveWhatIsOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	token := b.signedIn(t, "openid")
	storetest.Exec(t, b.st, b.home, `INSERT INTO oauth_families (tenant_id, id, user_id, client_id, scopes, began_at, good_until)
		SELECT $1, gen_random_uuid(), $2, $3, '{openid}', now() - interval '2 hours', now() - interval '1 hour' FROM generate_series(1, 100)`, b.home, b.user.ID, b.client)
	_, err := clients.New(b.st, b.clock.Now).Edit(t.Context(), b.partner, b.client, clients.Fields{IsActive: input.Some(false)})
	require.NoError(t, err)
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM oauth_revocations"))
	_, err = b.tokens.Verify(token.AccessToken)
	require.Error(t, err, "before the edit's answer")
}

// A withdrawal counts with its answer.
func TestWithdrawalIsAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 10 {
		token := b.signedIn(t, "openid")
		b.withdraw(t)
		_, err := b.tokens.Verify(token.AccessToken)
		require.Error(t, err)
	}
}

// An address is told where the user let the client see it.
func TestIntrospectionTellsNoAddress(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, got := b.post(t, oauth.PathIntrospect, "token", b.signedIn(t, "campaigns:read").AccessToken)
	require.Equal(t, true, got["active"])
	require.NotContains(t, got, "username")
	_, got = b.post(t, oauth.PathIntrospect, "token", b.signedIn(t, "email").AccessToken)
	require.Equal(t, b.user.Email, got["username"])
}

// What is kept of a request, and goes through, is bounded.
func TestLongParameters(t *testing.T) {
	t.Parallel()
	b := setup(t)
	before := b.ledger(t)
	for name, length := range map[string]int{"nonce": 513, "acr_values": 513, "state": 2049} {
		p := b.get(t, b.config("openid").AuthCodeURL("x", oauth2.S256ChallengeOption(oauth2.GenerateVerifier()), oauth2.SetAuthURLParam(name, strings.Repeat("x", length))))
		require.Equal(t, "invalid_request", b.answer(t, p).Get("error"), name)
	}
	require.Equal(t, before, b.ledger(t))
}

// Who guesses ids of clients is slowed down like who guesses a secret, and who knows one is let in beside.
func TestGuessedClients(t *testing.T) {
	t.Parallel()
	b := setup(t)
	refresh := b.signedIn(t, "offline_access").RefreshToken
	last := 0
	for range 7 {
		last, _, _ = b.postAs(t, uuid.NewString(), secret, oauth.PathToken, "grant_type", "refresh_token", "refresh_token", "x")
	}
	require.Equal(t, http.StatusTooManyRequests, last)
	status, _ := b.post(t, oauth.PathToken, "grant_type", "refresh_token", "refresh_token", refresh)
	require.Equal(t, http.StatusOK, status)
}

// A refused assertion of a client that has signed it is in its tenant's audit.
func TestRefusedAssertionIsAudited(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, _ := b.signs(t, b.client)
	b.refuses(t, bearing(signed(t, jwt.SigningMethodRS256, key, b.asserts(t, b.client, uuid.New(), b.home))), http.StatusBadRequest, "invalid_grant")
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM audit WHERE action = 'oauth_token.refused'"))
}

// A HEAD makes no code.
func TestHeadOfAnAuthorization(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.signedIn(t, "openid")
	before := b.ledger(t)
	res, err := b.browser.Head(b.config("openid").AuthCodeURL("x", oauth2.S256ChallengeOption(oauth2.GenerateVerifier()))) //nolint:noctx // a test's
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusMethodNotAllowed, res.StatusCode)
	require.Equal(t, before, b.ledger(t))
}
