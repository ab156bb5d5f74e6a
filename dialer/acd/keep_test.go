package acd

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// TestRestartFreesAgents starts a controller over rows that the one before has left.
func TestRestartFreesAgents(t *testing.T) {
	t.Parallel()
	b := setup(t)
	over, bridged, pending, own := b.call(t, nil), b.call(t, nil), b.call(t, nil), b.call(t, nil)
	afterOver, talking, claimed, dialed, gone := b.agent(t), b.agent(t), b.agent(t), b.agent(t), b.agent(t)
	missing := uuid.New()
	for agent, call := range map[uuid.UUID]uuid.UUID{afterOver: over, talking: bridged, claimed: pending, dialed: own, gone: missing} {
		b.force(t, agent, OnCall, &call)
	}
	storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET agent_id = $2, agent_connect_time = now() WHERE id = $1", bridged, talking)
	storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET agent_id = $2 WHERE id = $1", own, dialed)
	storetest.Exec(t, b.st, b.tenant, `UPDATE calls SET agent_id = $2, agent_connect_time = now(), status = 'completed', end_time = now(),
		hangup_cause = 'CRASH' WHERE id = $1`, over, afterOver)
	b.clock.Advance(3 * time.Second)
	run(t, b.svc, b.sw)
	b.eventually(t, afterOver, WrapUp)
	b.eventually(t, claimed, Available) // its call was never bridged, and asks anew
	b.eventually(t, gone, Available)
	require.Equal(t, OnCall, b.status(t, talking), "the bridge is the switch's, and lives")
	require.Equal(t, OnCall, b.status(t, dialed), "the own call rings on")

	b.close(t, b.svc, bridged)
	require.Equal(t, WrapUp, b.status(t, talking))
	// The call that the agent dialed is answered now, by the new controller: it is still the agent's.
	storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET answer_time = now() WHERE id = $1", own)
	require.Equal(t, dialed, b.serve(t, b.svc, own, Request{}).offer(t).req.Phone.AgentID)
}

// TestSlowLook has a look at the agents that takes long: a state that was new when it was read is not set right by it, since the call's own
// transaction may have been on the way then.
func TestSlowLook(t *testing.T) {
	t.Parallel()
	var slow atomic.Bool
	var asked atomic.Int64
	var clock *storetest.Clock
	b := setup(t, func(c *Config) {
		now := c.Now
		c.Now = func() time.Time {
			at := now()
			if slow.Load() && asked.Add(1) == 1 {
				clock.Advance(settleTime)
			}
			return at
		}
	})
	clock = b.clock
	agent, call := b.agent(t), uuid.New()
	b.force(t, agent, OnCall, &call)
	slow.Store(true)
	b.svc.keeper(b.sw).look(t.Context())
	require.Equal(t, OnCall, b.status(t, agent))
	b.svc.keeper(b.sw).look(t.Context())
	require.Equal(t, Available, b.status(t, agent), "the next look finds it old")
}

func TestWrapUpEndsAfterRestart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	agent, call := b.agent(t), uuid.New()
	b.force(t, agent, WrapUp, &call)
	until := b.clock.Now().Add(time.Minute)
	storetest.Exec(t, b.st, b.tenant, "UPDATE agents SET wrap_up_until = $1", until)
	stop := run(t, b.svc, b.sw)
	require.Eventually(t, func() bool { return b.sw.holds(agent) }, 30*time.Second, time.Millisecond)
	require.Equal(t, WrapUp, b.status(t, agent))
	stop()
	b.clock.Advance(time.Minute)
	b.svc, b.sw = b.node(t, "node-1")
	run(t, b.svc, b.sw)
	b.eventually(t, agent, Available)
}

// An agent whose row somebody has locked keeps no other waiting.
func TestLockedAgentHoldsUpNobody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	locked, other, call := b.agent(t), b.agent(t), uuid.New()
	b.force(t, locked, WrapUp, &call)
	b.force(t, other, WrapUp, &call)
	storetest.Exec(t, b.st, b.tenant, "UPDATE agents SET wrap_up_until = $1, sip_expires_at = $1, sip_session_epoch = 0", b.clock.Now().Add(-time.Second))
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		if _, err := tx.Q.AgentLock(t.Context(), b.tenant, locked); err != nil {
			return err
		}
		looking, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		k := b.svc.keeper(b.sw)
		k.look(looking)
		k.voidAccounts(looking)
		require.NoError(t, looking.Err(), "waited for the row")
		return nil
	}))
	require.Equal(t, WrapUp, b.status(t, locked))
	require.Equal(t, Available, b.status(t, other))
	expired := func() int {
		return storetest.Count(t, b.st, "SELECT count(*) FROM agents WHERE sip_expires_at IS NOT NULL")
	}
	require.Equal(t, 1, expired())
	k := b.svc.keeper(b.sw)
	k.look(t.Context())
	k.voidAccounts(t.Context())
	require.Equal(t, Available, b.status(t, locked), "the next look finds it free")
	require.Zero(t, expired())
}

func TestPhoneOfAnAvailableAgent(t *testing.T) {
	t.Parallel()
	b := running(t)
	agent := b.online(t)
	require.Equal(t, 1, b.svc.ReadyAgents(b.tenant))
	b.sw.setPhone(b.tenant, agent, false, phone.Lost)
	require.Zero(t, b.svc.ReadyAgents(b.tenant), "at once")
	a := b.eventually(t, agent, Paused)
	require.Equal(t, ReasonPhoneLost, *a.Reason)
	_, err := b.svc.SetStatus(t.Context(), b.tenant, agent, StatusInput{Status: "available"})
	require.NoError(t, err)
	require.Zero(t, b.svc.ReadyAgents(b.tenant), "available, but without a phone")
	b.sw.setPhone(b.tenant, agent, true, "")
	require.Equal(t, 1, b.svc.ReadyAgents(b.tenant))
	select {
	case tenant := <-b.ready:
		require.Equal(t, b.tenant, tenant)
	default:
		require.Fail(t, "the pacers were not woken")
	}
}

// TestHowThePhoneWent pauses whoever lost the phone, but for an agent who has ended a call by it and disposes before the leg is
// back.
func TestHowThePhoneWent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		went loss
		want Status
	}{
		"hung up to end a call": {loss{OnCall, phone.HungUp}, Available},
		"lost in a call":        {loss{OnCall, phone.Lost}, Paused},
		"hung up between calls": {loss{Available, phone.HungUp}, Paused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := running(t)
			agent, call := b.online(t), uuid.New()
			b.force(t, agent, WrapUp, &call)
			require.Eventually(t, func() bool { return b.svc.ReadyAgents(b.tenant) == 0 }, 30*time.Second, time.Millisecond)
			b.sw.setPhone(b.tenant, agent, false, phone.HungUp)
			b.force(t, agent, Available, nil)
			require.Eventually(t, func() bool { // or a look that began before would forget how the phone went
				b.svc.mu.Lock()
				defer b.svc.mu.Unlock()
				return b.svc.desk.agents[agent].row.Status == string(Available)
			}, 30*time.Second, time.Millisecond)
			b.svc.mu.Lock()
			b.svc.lost[agent] = c.went
			b.svc.mu.Unlock()
			b.svc.keeper(b.sw).look(t.Context())
			b.eventually(t, agent, c.want)
			b.clock.Advance(31 * time.Second)
			require.Equal(t, ReasonPhoneLost, *b.eventually(t, agent, Paused).Reason, "the leg did not come back")
		})
	}
}

func TestPhoneThatNeverComesUp(t *testing.T) {
	t.Parallel()
	b := running(t)
	agent := b.agent(t)
	b.sw.mu.Lock()
	b.sw.down[agent] = true
	b.sw.mu.Unlock()
	_, err := b.svc.Login(t.Context(), b.tenant, agent, LoginInput{})
	require.NoError(t, err)
	b.clock.Advance(29 * time.Second)
	require.Equal(t, Available, b.status(t, agent))
	b.clock.Advance(2 * time.Second)
	require.Equal(t, ReasonPhoneLost, *b.eventually(t, agent, Paused).Reason)
}

// TestPhoneGoneWhileDialing ends the call that nobody would hear answered.
func TestPhoneGoneWhileDialing(t *testing.T) {
	t.Parallel()
	b := running(t)
	agent, call := b.online(t), b.call(t, nil)
	storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET answer_time = NULL, status = 'ringing', agent_id = $2 WHERE id = $1", call, agent)
	b.force(t, agent, OnCall, &call)
	require.Eventually(t, func() bool { return b.svc.ReadyAgents(b.tenant) == 0 }, 30*time.Second, time.Millisecond)
	b.sw.setPhone(b.tenant, agent, false, phone.HungUp)
	require.Eventually(t, func() bool { return len(b.sw.hangups()) > 0 }, 30*time.Second, time.Millisecond)
	require.Equal(t, call, b.sw.hangups()[0])
}

func TestAgentsOfOtherControllers(t *testing.T) {
	t.Parallel()
	b := running(t)
	moving, lost, live, marked := b.online(t), b.agent(t), b.agent(t), b.agent(t)
	// The clock of the host that lives is wrong by an hour, or the database was away for as long. The hosts are known before they have agents:
	// the agents of unknown ones are put offline at once.
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO nodes (id, last_seen_at, lost_at) VALUES ('dead', $1, NULL), ('alive', $1, NULL),
		('node-1', $1, NULL), ('node-2', $1, NULL), ('marked', $1, $1)`, b.clock.Now().Add(-time.Hour))
	call := uuid.New()
	for agent, node := range map[uuid.UUID]string{lost: "dead", live: "alive", marked: "marked"} {
		b.force(t, agent, OnCall, &call)
		storetest.Exec(t, b.st, b.tenant, "UPDATE agents SET node = $2 WHERE id = $1", agent, node)
		call = uuid.New()
	}
	other, phones := b.node(t, "node-2")
	kept := other.keeper(phones)
	for range 12 {
		kept.lookAfterNodes(t.Context())
		require.Equal(t, OnCall, b.status(t, lost), "nobody has seen it silent for long enough")
		require.Equal(t, Offline, b.status(t, marked), "others have")
		b.clock.Advance(nodesEvery)
		storetest.Exec(t, b.st, b.tenant, "UPDATE nodes SET last_seen_at = last_seen_at + interval '10 s' WHERE id IN ('alive', 'node-1', 'node-2')")
	}
	kept.lookAfterNodes(t.Context())
	run(t, other, phones)
	require.Equal(t, ReasonNodeLost, *b.eventually(t, lost, Offline).Reason)
	require.Equal(t, OnCall, b.status(t, live))
	require.True(t, b.sw.holds(moving))

	// Logging in at another controller moves an agent there, with the phone.
	_, err := other.Login(t.Context(), b.tenant, moving, LoginInput{})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !b.sw.holds(moving) && phones.holds(moving) }, 30*time.Second, time.Millisecond)
	require.Eventually(t, func() bool {
		return b.svc.ReadyAgents(b.tenant) == 0 && other.ReadyAgents(b.tenant) == 1
	}, 30*time.Second, time.Millisecond)
	var state *StateError
	_, err = other.Login(t.Context(), b.tenant, live, LoginInput{})
	require.ErrorAs(t, err, &state, "on a call at a controller that lives")
}

func TestDeactivatedAgent(t *testing.T) {
	t.Parallel()
	b := running(t)
	agent := b.online(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE users SET is_active = false")
	require.Equal(t, ReasonRetired, *b.eventually(t, agent, Offline).Reason)
	require.Eventually(t, func() bool { return !b.sw.holds(agent) }, 30*time.Second, time.Millisecond)
}

// What ends the session that an agent has logged in with ends the agent's work and SIP account: at once, or with the call that is up.
func TestAccountEndsWithItsSession(t *testing.T) {
	t.Parallel()
	for reason, ends := range map[string]string{
		ReasonSignedOut: "UPDATE users SET session_epoch = session_epoch + 1",
		ReasonSuspended: "UPDATE tenants SET suspended_at = now()",
		ReasonRetired:   "UPDATE users SET is_active = false",
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			b := running(t)
			idle, call := b.agent(t), b.call(t, nil)
			manager, talking := b.agent(t), b.online(t)
			storetest.Exec(t, b.st, b.tenant, "UPDATE users SET role = 'supervisor' WHERE id = $1", manager)
			in, err := b.svc.Login(t.Context(), b.tenant, idle, LoginInput{})
			require.NoError(t, err)
			theirs, err := b.svc.ManagerAccount(t.Context(), b.tenant, manager)
			require.NoError(t, err)
			storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET agent_id = $2, agent_connect_time = now() WHERE id = $1", call, talking)
			b.force(t, talking, OnCall, &call)
			require.NotZero(t, storetest.Count(t, b.st, "SELECT count(*) FROM agents WHERE sip_expires_at IS NOT NULL"))

			storetest.Exec(t, b.st, b.tenant, ends)
			for _, account := range []SIPAccount{in.SIP, theirs} {
				now, err := b.svc.cfg.Accounts.Account(t.Context(), account.Extension, account.Domain)
				if reason == ReasonSignedOut {
					require.NoError(t, err, "each extension is known, logged in or not")
					require.NotEqual(t, account.Password, now.Password, "the directory knows at once")
				} else {
					require.ErrorIs(t, err, store.ErrNotFound)
				}
			}
			b.clock.Advance(accountsEvery)
			require.Equal(t, reason, *b.eventually(t, idle, Offline).Reason)
			require.Eventually(t, func() bool { // on the switch, too
				b.sw.mu.Lock()
				defer b.sw.mu.Unlock()
				return !slices.ContainsFunc([]SIPAccount{in.SIP, theirs}, func(a SIPAccount) bool {
					return !slices.Contains(b.sw.forgot, "phone of "+a.Extension)
				})
			}, 30*time.Second, time.Millisecond)
			require.Equal(t, OnCall, b.status(t, talking), "a call that is up goes on")
			require.True(t, b.sw.holds(talking))
			storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET status = 'completed', end_time = now(), hangup_cause = 'X' WHERE id = $1", call)
			b.clock.Advance(3 * time.Second)
			b.eventually(t, talking, Offline)
			require.Eventually(t, func() bool { return !b.sw.holds(talking) }, 30*time.Second, time.Millisecond)
			require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM agents WHERE sip_expires_at IS NOT NULL"))
			if reason == ReasonSignedOut { // and a new session begins anew
				again, err := b.svc.Login(t.Context(), b.tenant, idle, LoginInput{})
				require.NoError(t, err)
				now, err := b.svc.cfg.Accounts.Account(t.Context(), again.SIP.Extension, again.SIP.Domain)
				require.NoError(t, err)
				require.Equal(t, again.SIP.Password, now.Password)
				b.clock.Advance(accountsEvery)
				b.svc.keeper(b.sw).look(t.Context())
				require.Equal(t, Available, b.status(t, idle))
			}
		})
	}
}

// A user who is deleted, or logs out by another controller, leaves nothing on the switch.
func TestAccountOfADeletedAgent(t *testing.T) {
	t.Parallel()
	b := running(t)
	agent := b.agent(t)
	in, err := b.svc.Login(t.Context(), b.tenant, agent, LoginInput{})
	require.NoError(t, err)
	b.svc.keeper(b.sw).look(t.Context())
	storetest.Exec(t, b.st, b.tenant, "DELETE FROM users WHERE id = $1", agent)
	require.Eventually(t, func() bool {
		b.sw.mu.Lock()
		defer b.sw.mu.Unlock()
		return slices.Contains(b.sw.forgot, "phone of "+in.SIP.Extension)
	}, 30*time.Second, time.Millisecond)
	require.False(t, b.sw.holds(agent))
}

func TestAccountExpires(t *testing.T) {
	t.Parallel()
	b := running(t, func(c *Config) { c.AccountTTL = time.Minute })
	agent := b.agent(t)
	got, err := b.svc.Login(t.Context(), b.tenant, agent, LoginInput{})
	require.NoError(t, err)
	b.clock.Advance(2 * time.Minute)
	require.Eventually(t, func() bool {
		account, err := b.svc.cfg.Accounts.Account(t.Context(), got.SIP.Extension, "sip.test")
		return err == nil && account.Password != got.SIP.Password
	}, 30*time.Second, time.Millisecond)
}
