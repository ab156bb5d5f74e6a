package acd

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func TestLoginGivesAccountAndState(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.agent(t)
	require.Equal(t, Offline, b.status(t, id))
	first, err := b.svc.Login(t.Context(), b.tenant, id, LoginInput{})
	require.NoError(t, err)
	require.Equal(t, Available, first.Agent.Status)
	require.Equal(t, id.String(), first.Agent.UserID)
	require.Equal(t, first.Agent.Extension, first.SIP.Extension)
	require.Equal(t, "sip.test", first.SIP.Domain)
	require.NotEmpty(t, first.SIP.Password)
	require.Equal(t, []string{"udp"}, first.SIP.Transports)
	require.WithinDuration(t, b.clock.Now().Add(12*time.Hour), first.SIP.ExpiresAt, time.Second)
	account, err := b.svc.cfg.Accounts.Account(t.Context(), first.SIP.Extension, "sip.test")
	require.NoError(t, err)
	require.Equal(t, first.SIP.Password, account.Password, "the switch's directory knows this password")

	// From a second place: the same state, and the newest password counts.
	_, err = b.svc.SetStatus(t.Context(), b.tenant, id, StatusInput{Status: "paused", Reason: "lunch"})
	require.NoError(t, err)
	second, err := b.svc.Login(t.Context(), b.tenant, id, LoginInput{})
	require.NoError(t, err)
	require.Equal(t, Paused, second.Agent.Status)
	require.Equal(t, "lunch", *second.Agent.Reason)
	require.NotEqual(t, first.SIP.Password, second.SIP.Password)
	account, err = b.svc.cfg.Accounts.Account(t.Context(), first.SIP.Extension, "sip.test")
	require.NoError(t, err)
	require.Equal(t, second.SIP.Password, account.Password)

	out, err := b.svc.Logout(t.Context(), b.tenant, id)
	require.NoError(t, err)
	require.Equal(t, Offline, out.Status)
	account, err = b.svc.cfg.Accounts.Account(t.Context(), first.SIP.Extension, "sip.test")
	require.NoError(t, err)
	require.NotEqual(t, second.SIP.Password, account.Password, "a logout ends the account")
	_, err = b.svc.Logout(t.Context(), b.tenant, id)
	require.NoError(t, err, "there is nothing to do")
	require.Equal(t, 3, storetest.Count(t, b.st, "SELECT count(*) FROM agent_status_log"), "login, pause, logout")
}

// A password counts from the login that gave it: the switch is told before the phone can be.
func TestSwitchForgetsAccountsAtLoginAndLogout(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Every = time.Hour }) // a look right behind the logout would tell the switch again
	run(t, b.svc, b.sw)
	id := b.agent(t)
	in, err := b.svc.Login(t.Context(), b.tenant, id, LoginInput{})
	require.NoError(t, err)
	forgot := func() []string {
		b.sw.mu.Lock()
		defer b.sw.mu.Unlock()
		return slices.Clone(b.sw.forgot)
	}
	require.Equal(t, []string{in.SIP.Extension}, forgot())
	_, err = b.svc.Logout(t.Context(), b.tenant, id)
	require.NoError(t, err)
	require.Equal(t, []string{in.SIP.Extension, in.SIP.Extension, "phone of " + in.SIP.Extension}, forgot())
}

func TestLoginIsForAgentsWithTheirExtension(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, other := b.agent(t), b.agent(t)
	_, err := b.svc.Login(t.Context(), b.tenant, uuid.New(), LoginInput{})
	require.ErrorIs(t, err, ErrNotAgent)
	_, err = b.svc.Login(t.Context(), b.tenant, id, LoginInput{Extension: "77"})
	var input *fault.Error
	require.ErrorAs(t, err, &input)
	require.Equal(t, "extension", input.Fields[0].Field)

	storetest.Exec(t, b.st, b.tenant, "UPDATE users SET extension = NULL WHERE id = $1", id)
	var state *StateError
	_, err = b.svc.Login(t.Context(), b.tenant, id, LoginInput{})
	require.ErrorAs(t, err, &state)
	require.Equal(t, "no_extension", state.Code)
	taken, err := b.svc.GetAgent(t.Context(), b.tenant, other)
	require.NoError(t, err)
	_, err = b.svc.Login(t.Context(), b.tenant, id, LoginInput{Extension: taken.Extension})
	require.ErrorAs(t, err, &state)
	require.Equal(t, "extension_in_use", state.Code)
	got, err := b.svc.Login(t.Context(), b.tenant, id, LoginInput{Extension: "77"})
	require.NoError(t, err)
	require.Equal(t, "77", got.SIP.Extension)

	storetest.Exec(t, b.st, b.tenant, "UPDATE users SET role = 'supervisor' WHERE id = $1", other)
	_, err = b.svc.Login(t.Context(), b.tenant, other, LoginInput{})
	require.ErrorIs(t, err, ErrNotAgent)
	stranger := storetest.Tenant(t, b.st)
	_, err = b.svc.GetAgent(t.Context(), stranger, id)
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = b.svc.SetStatus(t.Context(), stranger, id, StatusInput{Status: "paused"})
	require.ErrorIs(t, err, store.ErrNotFound)
}

// TestStatusesOnRequest asks for everything in every state.
func TestStatusesOnRequest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, call := b.agent(t), uuid.New()
	const refused = Status("")
	for _, c := range []struct {
		from Status
		ask  string
		to   Status
	}{
		{Offline, "available", refused},
		{Offline, "paused", refused},
		{Offline, "offline", Offline},
		{Offline, "on_call", refused},
		{Offline, "wrap_up", refused},
		{Available, "available", Available},
		{Available, "paused", Paused},
		{Available, "offline", Offline},
		{Available, "on_call", refused},
		{Available, "wrap_up", refused},
		{OnCall, "available", refused},
		{OnCall, "paused", refused},
		{OnCall, "offline", refused},
		{OnCall, "on_call", refused},
		{OnCall, "wrap_up", refused},
		{WrapUp, "available", refused},
		{WrapUp, "paused", Paused},
		{WrapUp, "offline", Offline},
		{WrapUp, "on_call", refused},
		{WrapUp, "wrap_up", refused},
		{Paused, "available", Available},
		{Paused, "paused", Paused},
		{Paused, "offline", Offline},
		{Paused, "on_call", refused},
		{Paused, "wrap_up", refused},
	} {
		b.force(t, id, c.from, &call)
		got, err := b.svc.SetStatus(t.Context(), b.tenant, id, StatusInput{Status: c.ask})
		if c.to != refused {
			require.NoError(t, err, "%s asks for %s", c.from, c.ask)
			require.Equal(t, c.to, got.Status)
			require.Equal(t, c.to, b.status(t, id))
			continue
		}
		var state *StateError
		require.ErrorAs(t, err, &state, "%s asks for %s", c.from, c.ask)
		require.Equal(t, fault.Conflict, state.Fault().Kind)
		require.Equal(t, c.from, b.status(t, id), "a refusal changes nothing")
	}
	var input *fault.Error
	_, err := b.svc.SetStatus(t.Context(), b.tenant, id, StatusInput{Status: "asleep"})
	require.ErrorAs(t, err, &input)
}
