package httpapi_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/httpapi/apitest"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

const anySession = "/api/telephony/channels/usage"

func (b *bundle) login(t *testing.T, email, password string, status int) apitest.Client {
	t.Helper()
	var s session
	into := any(&s)
	if status != http.StatusOK {
		into = nil
	}
	b.client("").JSON(t, http.MethodPost, "/api/auth/login", object{"email": email, "password": password}, status, into)
	return b.client(s.AccessToken)
}

// again gives a client with a new session of a user.
func (b *bundle) again(t *testing.T, id string) apitest.Client {
	t.Helper()
	user, err := account.New(b.st).User(t.Context(), b.tenant, uuid.MustParse(id))
	require.NoError(t, err)
	return b.signIn(t, user.Email)
}

// A session ends at once, with all others of its user, by signing out, by another password, address or role, and with its user.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	id := newUser(t, b, "u@acme.test", "agent")
	path := "/api/users/" + id.String()
	patch := func(body object) func(apitest.Client) {
		return func(apitest.Client) { s.admin.JSON(t, http.MethodPatch, path, body, http.StatusOK, nil) }
	}
	for _, c := range []struct {
		what string
		do   func(apitest.Client)
		ends bool
	}{
		{"another name", patch(object{"display_name": "U"}), false},
		{"sign-out", func(c apitest.Client) { c.JSON(t, http.MethodPost, "/api/auth/logout", nil, http.StatusNoContent, nil) }, true},
		{"the administrator's password", patch(object{"password": "correct horse"}), true},
		{"another role", patch(object{"role": "supervisor"}), true},
		{"another address", patch(object{"email": "u2@acme.test"}), true},
		{"deactivated and active again", func(c apitest.Client) {
			patch(object{"is_active": false, "email": "u@acme.test"})(c)
			patch(object{"is_active": true})(c)
		}, true},
	} {
		user, err := account.New(b.st).User(t.Context(), b.tenant, id)
		require.NoError(t, err)
		one, two := b.login(t, user.Email, "correct horse", http.StatusOK), b.login(t, user.Email, "correct horse", http.StatusOK)
		one.JSON(t, http.MethodGet, anySession, nil, http.StatusOK, nil)
		c.do(one)
		want := http.StatusOK
		if c.ends {
			want = http.StatusUnauthorized
		}
		for _, session := range []apitest.Client{one, two} {
			status, _, _ := session.Do(t, http.MethodGet, anySession, nil)
			require.Equal(t, want, status, c.what)
		}
	}
	s.admin.JSON(t, http.MethodGet, anySession, nil, http.StatusOK, nil)
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM audit WHERE action = 'user.signed_out' AND actor = $1", "user:"+id.String()))
}

func TestOwnPassword(t *testing.T) {
	t.Parallel()
	b := setup(t)
	newUser(t, b, "u@acme.test", "agent")
	const path = "/api/users/me/password"
	c := b.login(t, "u@acme.test", "correct horse", http.StatusOK)
	for field, body := range map[string]object{
		"current_password": {"current_password": "wrong", "new_password": "battery staple"},
		"new_password":     {"current_password": "correct horse", "new_password": "short"},
	} {
		require.Equal(t, []string{"body." + field}, denied(t, c, http.MethodPost, path, body, http.StatusUnprocessableEntity))
	}
	c.JSON(t, http.MethodPost, path, object{"current_password": "correct horse", "new_password": "battery staple"}, http.StatusNoContent, nil)
	c.JSON(t, http.MethodGet, anySession, nil, http.StatusUnauthorized, nil)
	b.login(t, "u@acme.test", "correct horse", http.StatusUnauthorized)
	c = b.login(t, "u@acme.test", "battery staple", http.StatusOK)
	row := b.changes(t)[0]
	for _, r := range b.changes(t) {
		if r.Action == "user.updated" {
			row = r
			break
		}
	}
	require.JSONEq(t, `{"password_hash": "••••"}`, string(row.After))
	// Whoever has the session alone doesn't find the password out.
	for range 5 {
		c.JSON(t, http.MethodPost, path, object{"current_password": "guess", "new_password": "battery staple"}, http.StatusUnprocessableEntity, nil)
	}
	c.JSON(t, http.MethodPost, path, object{"current_password": "battery staple", "new_password": "battery staples"}, http.StatusTooManyRequests, nil)
}

// Every credential of a suspended tenant is refused at once, and is good again when it is taken back.
func TestSuspendedTenant(t *testing.T) {
	t.Parallel()
	b := setup(t)
	newUser(t, b, "u@acme.test", "agent")
	session := b.login(t, "u@acme.test", "correct horse", http.StatusOK)
	call := b.call(t, b.tenant, nil, "")
	callback := b.client(b.token(t, b.tenant, call, b.clock.Now().Add(time.Hour)))
	b.recording(t, call, "ready", []byte("RIFF"))
	var recording struct {
		URL string `json:"url"`
	}
	b.api.JSON(t, http.MethodGet, callPath(call)+"/recording", nil, http.StatusOK, &recording)
	storetest.Exec(t, b.st, b.tenant, "UPDATE users SET extension = '4711' WHERE email = 'u@acme.test'")
	campaign := storetest.Campaign(t, b.st, b.tenant, nil)
	storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET status = 'running' WHERE id = $1", campaign)
	storetest.InboundNumber(t, b.st, b.tenant, "+918000000077")
	accounts := account.New(b.st)

	check := func(good bool) {
		t.Helper()
		want := func(yes, no int) int {
			if good {
				return yes
			}
			return no
		}
		ask := func(c apitest.Client, method, path string, body any, status int) {
			t.Helper()
			got, _, answer := c.Do(t, method, path, body)
			require.Equal(t, status, got, "%s %s: %s", method, path, answer)
		}
		ask(b.api, http.MethodGet, voiceAgents, nil, want(200, 401))
		ask(session, http.MethodGet, anySession, nil, want(200, 401))
		ask(callback, http.MethodPost, "/api/v1/ai-sessions/"+call.String()+"/control", object{"event": "get_call_state"}, want(200, 401))
		ask(b.client(""), http.MethodPost, "/api/auth/login", object{"email": "u@acme.test", "password": "correct horse"}, want(200, 401))
		ask(b.client(""), http.MethodGet, recording.URL, nil, want(200, 403))
		ask(b.foreign, http.MethodGet, voiceAgents, nil, 200)
		require.NoError(t, b.st.InSystem(t.Context(), func(tx *store.Tx) error {
			_, err := tx.Q.FindSIPAccount(t.Context(), "4711")
			require.Equal(t, good, err == nil, "the SIP account")
			paced, err := tx.Q.CampaignsToPace(t.Context())
			require.NoError(t, err)
			require.Len(t, paced, want(1, 0))
			_, err = tx.Q.FindNumber(t.Context(), "+918000000077")
			require.Equal(t, good, err == nil, "the number")
			return nil
		}))
	}
	check(true)
	_, err := accounts.Suspend(t.Context(), b.tenant, b.clock.Now(), "unpaid")
	require.NoError(t, err)
	check(false)
	_, err = accounts.Suspend(t.Context(), b.tenant, b.clock.Now(), "again")
	require.NoError(t, err)
	_, err = accounts.Resume(t.Context(), b.tenant)
	require.NoError(t, err)
	check(true)
	_, err = accounts.Suspend(t.Context(), uuid.New(), b.clock.Now(), "")
	require.ErrorIs(t, err, store.ErrNotFound)
}

// Answers that carry what somebody's credential opens are kept by no cache on the way.
func TestAnswersAreNotCached(t *testing.T) {
	t.Parallel()
	b := setup(t)
	newUser(t, b, "u@acme.test", "admin")
	body := object{"email": "u@acme.test", "password": "correct horse"}
	_, header, _ := b.client("").Do(t, http.MethodPost, "/api/auth/login", body)
	require.Equal(t, "no-store", header.Get("Cache-Control"))
	for _, c := range []struct{ method, path string }{
		{http.MethodGet, voiceAgents}, {http.MethodGet, "/api/v1/webhooks"},
	} {
		_, header, _ = b.api.Do(t, c.method, c.path, nil)
		require.Equal(t, "no-store", header.Get("Cache-Control"), c.path)
	}
}
