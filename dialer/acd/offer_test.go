package acd

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// passes waits until real time has gone on.
func passes(t *testing.T, d time.Duration) {
	t.Helper()
	begun := time.Now()
	require.Eventually(t, func() bool { return time.Since(begun) > d }, 30*time.Second, time.Millisecond)
}

// TestAgentLostAfterLongTalk: the limit of the wait is none of the talk.
func TestAgentLostAfterLongTalk(t *testing.T) {
	t.Parallel()
	b := running(t)
	first := b.online(t)
	call := b.call(t, nil)
	caller := b.serve(t, b.svc, call, Request{MaxWait: 4 * time.Second})
	o := caller.offer(t)
	b.bridged(t, call, first)
	passes(t, 4100*time.Millisecond)
	o.answer <- switchctl.AgentLost
	b.eventually(t, first, Paused)
	second := b.online(t)
	next := caller.offer(t)
	require.Equal(t, second, next.req.Phone.AgentID)
	b.bridged(t, call, second)
	next.answer <- switchctl.AgentEnded
	caller.ends(t, Ended)
	require.False(t, b.row(t, call).Abandoned)
}

// TestNoSilence: who waits for a bridge hears something, and who doesn't wait hears nothing else.
func TestNoSilence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		req  Request
		slow bool
		want []string
	}{
		"at once":           {want: nil},
		"a whisper":         {req: Request{WhisperURL: "http://whisper.test/a.wav", MusicURL: "http://music.test/"}, want: []string{""}},
		"a leg is redialed": {slow: true, want: []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := running(t)
			agent := b.online(t)
			call := b.call(t, nil)
			leg := &fakeLeg{call: b.row(t, call), slow: c.slow}
			begun := time.Now()
			caller := b.serveOn(t, b.svc, leg, c.req)
			o := caller.offer(t)
			require.Eventually(t, func() bool { return len(caller.musics()) == len(c.want) }, 30*time.Second, time.Millisecond)
			if c.slow {
				require.GreaterOrEqual(t, time.Since(begun), bridgeSoon, "not at once")
			}
			b.bridged(t, call, agent)
			o.answer <- switchctl.AgentEnded
			caller.ends(t, Ended)
			require.Equal(t, c.want, caller.musics())
		})
	}
}

// TestLimitBoundsTheRinging: a phone rings no longer than the caller waits, and its agent is not blamed.
func TestLimitBoundsTheRinging(t *testing.T) {
	t.Parallel()
	b := running(t)
	agent := b.agent(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE users SET phone_mode = 'on_hook'")
	_, err := b.svc.Login(t.Context(), b.tenant, agent, LoginInput{})
	require.NoError(t, err)
	call := b.call(t, nil)
	caller := b.serve(t, b.svc, call, Request{MaxWait: 4 * time.Second})
	o := caller.offer(t)
	require.LessOrEqual(t, o.req.RingTimeout, 4*time.Second)
	passes(t, 4*time.Second)
	o.answer <- switchctl.AgentUnavailable
	caller.ends(t, TimedOut)
	require.True(t, b.row(t, call).Abandoned)
	b.eventually(t, agent, Available)
}

// TestConnectedTooLate counts callees who had to wait longer than their campaign allows, when they get their agent.
func TestConnectedTooLate(t *testing.T) {
	t.Parallel()
	b := running(t)
	campaign := storetest.Campaign(t, b.st, b.tenant, nil)
	for wait, late := range map[time.Duration]bool{time.Second: false, 3 * time.Second: true} {
		agent, call := b.online(t), b.call(t, &campaign)
		caller := b.serve(t, b.svc, call, Request{Campaign: true, Due: b.clock.Now().Add(2 * time.Second)})
		o := caller.offer(t)
		b.clock.Advance(wait)
		b.bridged(t, call, agent)
		require.Equal(t, late, b.row(t, call).Abandoned, wait)
		o.answer <- switchctl.AgentEnded
		caller.ends(t, Ended)
		b.close(t, b.svc, call)
		require.Equal(t, late, b.row(t, call).Abandoned, wait)
		b.eventually(t, agent, WrapUp)
	}
}

// TestLoginFromAnotherPlace has the phone dialed anew, at once or after the call.
func TestLoginFromAnotherPlace(t *testing.T) {
	t.Parallel()
	b := running(t)
	agent := b.online(t)
	again := func() {
		_, err := b.svc.Login(t.Context(), b.tenant, agent, LoginInput{})
		require.NoError(t, err)
	}
	renewed := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool { return b.sw.releases() == n && b.sw.holds(agent) }, 30*time.Second, time.Millisecond)
		require.Eventually(t, func() bool { return b.svc.ReadyAgents(b.tenant) == 1 }, 30*time.Second, time.Millisecond)
	}
	again()
	renewed(1)
	require.Equal(t, Available, b.status(t, agent))

	call := b.call(t, nil)
	caller := b.serve(t, b.svc, call, Request{})
	o := caller.offer(t)
	again()
	passes(t, 200*time.Millisecond) // several looks
	require.Equal(t, 1, b.sw.releases(), "somebody is on the leg")
	b.bridged(t, call, agent)
	o.answer <- switchctl.AgentEnded
	caller.ends(t, Ended)
	b.eventually(t, agent, WrapUp)
	require.Eventually(t, func() bool { return b.sw.releases() == 2 && b.sw.holds(agent) }, 30*time.Second, time.Millisecond)
}

// TestLoginThatALookIsAheadOf: the look at the agents holds the phone between the login's commit and its own request; it is dialed once.
func TestLoginThatALookIsAheadOf(t *testing.T) {
	t.Parallel()
	b := running(t, func(c *Config) { c.Every = time.Hour })
	agent := b.agent(t)
	b.sw.forgetting = func() {
		notify(b.svc.kick)
		require.Eventually(t, func() bool { return b.sw.holds(agent) }, 30*time.Second, time.Millisecond)
	}
	_, err := b.svc.Login(t.Context(), b.tenant, agent, LoginInput{})
	require.NoError(t, err)
	b.svc.keeper(b.sw).look(t.Context())
	require.Zero(t, b.sw.releases())
	require.True(t, b.sw.holds(agent))
}

// TestLoginFromAnotherPlaceAfterARestart: the look that finds the phone's leg comes while the login is under way; the leg is at the place before.
func TestLoginFromAnotherPlaceAfterARestart(t *testing.T) {
	t.Parallel()
	b := running(t, func(c *Config) { c.Every = time.Hour })
	agent := b.online(t)
	b.svc.mu.Lock()
	delete(b.svc.held, agent) // as a controller begins
	b.svc.mu.Unlock()
	b.sw.forgetting = func() {
		notify(b.svc.kick)
		require.Eventually(t, func() bool { return b.svc.holds(agent) }, 30*time.Second, time.Millisecond)
	}
	_, err := b.svc.Login(t.Context(), b.tenant, agent, LoginInput{})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return b.sw.releases() == 1 && b.sw.holds(agent) }, 30*time.Second, time.Millisecond)
}

// TestOwnerIsReadFromTheRow: the desk may have missed who has dialed a call.
func TestOwnerIsReadFromTheRow(t *testing.T) {
	t.Parallel()
	b := running(t, func(c *Config) { c.Every = time.Hour })
	b.online(t)
	b.clock.Advance(time.Minute)
	owner := b.online(t)
	call := b.call(t, nil)
	storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET agent_id = $2 WHERE id = $1", call, owner)
	b.force(t, owner, OnCall, &call)
	require.Equal(t, owner, b.serve(t, b.svc, call, Request{}).offer(t).req.Phone.AgentID)
}

// TestAgentWhoHasLeftOverARestart: a flow asks for people again whose caller's agent has hung up since the restart. That agent is asked for, as the one
// who has the call, and wraps up; the caller waits for nobody.
func TestAgentWhoHasLeftOverARestart(t *testing.T) {
	t.Parallel()
	b := running(t)
	owner := b.online(t)
	call := b.call(t, nil)
	b.bridged(t, call, owner)
	b.force(t, owner, OnCall, &call)
	free := b.online(t)
	caller := b.serve(t, b.svc, call, Request{Tags: []string{"nobody's"}, KeepCaller: true})
	o := caller.offer(t)
	require.Equal(t, owner, o.req.Phone.AgentID)
	require.True(t, o.req.Theirs)
	require.True(t, o.req.KeepCaller)
	o.answer <- switchctl.AgentEnded
	caller.ends(t, Ended)
	require.Equal(t, WrapUp, b.status(t, owner))
	require.Equal(t, Available, b.status(t, free))
	row := b.row(t, call)
	require.Nil(t, row.QueuedAt)
	require.False(t, row.Abandoned)
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM agent_status_log WHERE agent_id = $1 AND status = 'wrap_up'", owner))
	require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM agent_status_log WHERE status = 'on_call'"), "nobody is given the call anew")
	next := b.connect(t, Request{})
	require.False(t, next.offer(t).req.Theirs, "a call of somebody who is free")
}

// TestPhoneGoesWhileDialsCommits: the look that sees the phone gone has read the row of before.
func TestPhoneGoesWhileDialsCommits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	b.svc.phones = b.sw
	agent := b.agent(t)
	b.force(t, agent, Available, nil)
	b.svc.keeper(b.sw).look(ctx)
	require.Equal(t, 1, b.svc.ReadyAgents(b.tenant))
	call := b.call(t, nil)
	storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET answer_time = NULL, status = 'ringing', agent_id = $2 WHERE id = $1", call, agent)
	var rows []db.AgentsOfNodeRow
	require.NoError(t, b.st.InSystem(ctx, func(tx *store.Tx) error {
		var err error
		rows, err = tx.Q.AgentsOfNode(ctx, "node-1")
		return err
	}))
	b.force(t, agent, OnCall, &call)
	b.sw.setPhone(b.tenant, agent, false, phone.HungUp)
	require.NoError(t, b.svc.keeper(b.sw).correct(ctx, rows[0], b.clock.Now()))
	require.Empty(t, b.sw.hangups())
	b.svc.keeper(b.sw).look(ctx)
	require.Equal(t, []uuid.UUID{call}, b.sw.hangups())
}

// TestAccountsEndWithTheWork: whoever is put offline loses the password, and the switch hears of it.
func TestAccountsEndWithTheWork(t *testing.T) {
	t.Parallel()
	b := running(t)
	retired, lost := b.agent(t), b.agent(t)
	var account SIPAccount // of the last
	for _, agent := range []uuid.UUID{retired, lost} {
		got, err := b.svc.Login(t.Context(), b.tenant, agent, LoginInput{})
		require.NoError(t, err)
		account = got.SIP
	}
	storetest.Exec(t, b.st, b.tenant, "UPDATE agents SET node = 'dead' WHERE id = $1", lost)
	storetest.Exec(t, b.st, b.tenant, "UPDATE users SET is_active = false WHERE id = $1", retired)
	b.eventually(t, retired, Offline)
	other, phones := b.node(t, "node-2")
	run(t, other, phones)
	b.eventually(t, lost, Offline)
	now, err := b.svc.cfg.Accounts.Account(t.Context(), account.Extension, account.Domain)
	require.NoError(t, err)
	require.NotEqual(t, account.Password, now.Password)
	require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM agents WHERE sip_expires_at IS NOT NULL"))
}

// TestLoginAtTheEndOfAnAccount: what expires is the account of before.
func TestLoginAtTheEndOfAnAccount(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.AccountTTL = time.Minute })
	b.svc.phones = b.sw
	agent := b.online(t)
	told := len(b.sw.forgot)
	b.clock.Advance(2 * time.Minute)
	b.svc.keeper(b.sw).voidAccounts(t.Context())
	require.Len(t, b.sw.forgot, told+1, "the switch forgets the password at once")
	got, err := b.svc.Login(t.Context(), b.tenant, agent, LoginInput{})
	require.NoError(t, err)
	b.svc.keeper(b.sw).voidAccounts(t.Context())
	account, err := b.svc.cfg.Accounts.Account(t.Context(), got.SIP.Extension, got.SIP.Domain)
	require.NoError(t, err)
	require.Equal(t, got.SIP.Password, account.Password)
}
