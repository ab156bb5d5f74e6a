package acd

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

func running(t *testing.T, change ...func(*Config)) *bundle {
	t.Helper()
	b := setup(t, change...)
	run(t, b.svc, b.sw)
	return b
}

func TestCallerGetsAgentAtOnce(t *testing.T) {
	t.Parallel()
	b := running(t)
	agent := b.online(t)
	campaign := storetest.Campaign(t, b.st, b.tenant, nil)
	storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET wrap_up_s = 7")
	call := b.call(t, &campaign)
	caller := b.serve(t, b.svc, call, Request{
		Campaign: true, WhisperURL: "http://whisper.test/a.wav", CallerName: "Diwali", KeepCaller: true,
	})
	o := caller.offer(t)
	require.Equal(t, "Diwali", o.req.CallerName)
	require.True(t, o.req.KeepCaller)
	require.Equal(t, agent, o.req.Phone.AgentID)
	require.Equal(t, "http://whisper.test/a.wav", o.req.WhisperURL)
	require.Equal(t, phone.Held, o.req.Phone.Mode)
	require.Equal(t, []string{""}, caller.musics(), "the whisper takes its time")
	a, err := b.svc.GetAgent(t.Context(), b.tenant, agent)
	require.NoError(t, err)
	require.Equal(t, OnCall, a.Status, "before the bridge begins")
	require.Equal(t, &call, a.CurrentCallUUID)
	require.Zero(t, b.svc.ReadyAgents(b.tenant))
	require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM live_calls WHERE awaits_agent"))
	require.NotNil(t, b.row(t, call).QueuedAt)

	b.bridged(t, call, agent)
	o.answer <- switchctl.AgentEnded
	caller.ends(t, Ended)
	a = b.eventually(t, agent, WrapUp)
	require.Nil(t, a.CurrentCallUUID)
	require.WithinDuration(t, b.clock.Now().Add(7*time.Second), *a.WrapUpUntil, time.Second, "the campaign's limit")
	b.close(t, b.svc, call)
	require.False(t, b.row(t, call).Abandoned)
	require.Equal(t, WrapUp, b.status(t, agent), "the end comes once")
	b.clock.Advance(8 * time.Second)
	b.eventually(t, agent, Available)
	require.Eventually(t, func() bool { return b.svc.ReadyAgents(b.tenant) == 1 }, 30*time.Second, 10*time.Millisecond)
}

func TestCallerWhoTalksAlreadyIsOfferedNoMore(t *testing.T) {
	t.Parallel()
	b := running(t)
	agent := b.online(t)
	caller := b.serve(t, b.svc, b.call(t, nil), Request{})
	o := caller.offer(t)
	caller.other = uuid.New()
	o.answer <- switchctl.AgentEnded
	caller.ends(t, Ended)
	b.eventually(t, agent, Available)
}

func TestLongestIdleFirst(t *testing.T) {
	t.Parallel()
	b := running(t)
	first := b.online(t)
	b.clock.Advance(time.Minute)
	second := b.online(t)
	b.clock.Advance(time.Minute)
	one := b.connect(t, Request{}).offer(t)
	two := b.connect(t, Request{}).offer(t)
	require.Equal(t, first, one.req.Phone.AgentID)
	require.Equal(t, second, two.req.Phone.AgentID)
}

func TestSkillsAndPriority(t *testing.T) {
	t.Parallel()
	b := running(t)
	german := b.online(t, "german", "billing")
	require.Equal(t, german, b.connect(t, Request{Tags: []string{"german"}}).offer(t).req.Phone.AgentID)
	low := b.connect(t, Request{Tags: []string{"billing"}})
	require.Eventually(t, func() bool { return len(low.musics()) == 1 }, 30*time.Second, time.Millisecond)
	high := b.connect(t, Request{Priority: 5, MusicURL: "http://music.test/1.wav"})
	require.Eventually(t, func() bool { return len(high.musics()) == 1 }, 30*time.Second, time.Millisecond)
	require.Equal(t, []string{"http://music.test/1.wav"}, high.musics())
	plain := b.online(t)
	require.Equal(t, plain, high.offer(t).req.Phone.AgentID, "an agent without the skill is for others")
	other := b.online(t, "billing")
	require.Equal(t, other, low.offer(t).req.Phone.AgentID)
}

func TestNobodyInTime(t *testing.T) {
	t.Parallel()
	b := running(t)
	agent := b.online(t)
	_, err := b.svc.SetStatus(t.Context(), b.tenant, agent, StatusInput{Status: "paused"})
	require.NoError(t, err)
	call := b.call(t, nil)
	caller := b.serve(t, b.svc, call, Request{MaxWait: 50 * time.Millisecond})
	caller.ends(t, TimedOut)
	require.Equal(t, []string{""}, caller.musics(), "ringback")
	row := b.row(t, call)
	require.True(t, row.Abandoned)
	require.NotNil(t, row.QueuedAt)
}

// What the floors of other hosts show: since when a caller waits, while that lasts, and with which priority.
func TestWaitIsTold(t *testing.T) {
	t.Parallel()
	b := running(t)
	agent := b.online(t)
	_, err := b.svc.SetStatus(t.Context(), b.tenant, agent, StatusInput{Status: "paused"})
	require.NoError(t, err)
	waits := func() int {
		return int(storetest.Count(t, b.st, "SELECT count(*) FROM live_calls WHERE waits_since IS NOT NULL AND wait_priority = 3"))
	}
	told := func(n int, what string) {
		t.Helper()
		require.Eventually(t, func() bool { return waits() == n }, 30*time.Second, time.Millisecond, what)
	}
	caller := b.connect(t, Request{Priority: 3})
	told(1, "waits")
	since := storetest.Query[time.Time](t, b.st, b.tenant, "SELECT waits_since FROM live_calls")
	require.WithinDuration(t, b.clock.Now(), since[0], time.Second)
	b.clock.Advance(time.Minute)
	_, err = b.svc.SetStatus(t.Context(), b.tenant, agent, StatusInput{Status: "available"})
	require.NoError(t, err)
	o := caller.offer(t)
	require.Zero(t, waits(), "has an agent")
	o.answer <- switchctl.AgentUnavailable
	told(1, "waits again")
	require.Equal(t, since, storetest.Query[time.Time](t, b.st, b.tenant, "SELECT waits_since FROM live_calls"), "in the old place")
	caller.hangUp()
	<-caller.done
	require.Zero(t, waits(), "has left the queue, and may be on the line")
	b.serve(t, b.svc, caller.call.ID, Request{Priority: 3, MaxWait: 50 * time.Millisecond}).ends(t, TimedOut)
	require.Zero(t, waits(), "nobody came in time")
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	b := running(t)
	b.connect(t, Request{}).ends(t, Unavailable)
	agent := b.online(t)
	b.connect(t, Request{Tags: []string{"german"}}).ends(t, Unavailable)
	_, err := b.svc.SetStatus(t.Context(), b.tenant, agent, StatusInput{Status: "paused"})
	require.NoError(t, err)
	caller := b.connect(t, Request{})
	require.Eventually(t, func() bool { return len(caller.musics()) == 1 }, 30*time.Second, time.Millisecond)
	_, err = b.svc.Logout(t.Context(), b.tenant, agent)
	require.NoError(t, err)
	caller.ends(t, Unavailable)
	require.Eventually(t, func() bool { return !b.sw.holds(agent) }, 30*time.Second, time.Millisecond)
}

// TestAgentWhoCannot goes through the ways in which a phone fails, with what becomes of agent and caller.
func TestAgentWhoCannot(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		onHook  bool
		outcome switchctl.AgentOutcome
		reason  string
	}{
		"a rung phone is not answered": {true, switchctl.AgentUnavailable, ReasonUnanswered},
		"a held leg is gone":           {false, switchctl.AgentUnavailable, ReasonPhoneLost},
		"a phone dies in mid-call":     {false, switchctl.AgentLost, ReasonPhoneLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := running(t)
			first := b.agent(t)
			if c.onHook {
				storetest.Exec(t, b.st, b.tenant, "UPDATE users SET phone_mode = 'on_hook'")
			}
			_, err := b.svc.Login(t.Context(), b.tenant, first, LoginInput{})
			require.NoError(t, err)
			call := b.call(t, nil)
			caller := b.serve(t, b.svc, call, Request{})
			o := caller.offer(t)
			require.Equal(t, first, o.req.Phone.AgentID)
			if c.onHook {
				require.Equal(t, []string{""}, caller.musics(), "the caller hears that it rings")
			}
			if c.outcome == switchctl.AgentLost {
				b.bridged(t, call, first)
			}
			o.answer <- c.outcome
			a := b.eventually(t, first, Paused)
			require.Equal(t, c.reason, *a.Reason)
			b.waitsAgain(t, call)
			later := b.connect(t, Request{})
			b.clock.Advance(time.Minute)
			second := b.online(t)
			next := caller.offer(t)
			require.Equal(t, second, next.req.Phone.AgentID, "the caller stands at the head of the queue")
			b.bridged(t, call, second)
			next.answer <- switchctl.AgentEnded
			caller.ends(t, Ended)
			require.Equal(t, WrapUp, b.status(t, second))
			require.Equal(t, Paused, b.status(t, first))
			_, err = b.svc.SetStatus(t.Context(), b.tenant, first, StatusInput{Status: "available"})
			require.NoError(t, err)
			require.Equal(t, first, later.offer(t).req.Phone.AgentID)
		})
	}
}

// waitsAgain waits until a caller has no agent any more: their agent's row says so a moment earlier.
func (b *bundle) waitsAgain(t *testing.T, call uuid.UUID) {
	t.Helper()
	require.Eventually(t, func() bool {
		b.svc.mu.Lock()
		defer b.svc.mu.Unlock()
		c := b.svc.desk.callers[call]
		return c != nil && c.seat == nil
	}, 30*time.Second, time.Millisecond)
}

func TestCallerLeaves(t *testing.T) {
	t.Parallel()
	b := running(t)
	agent := b.agent(t)
	_, err := b.svc.Login(t.Context(), b.tenant, agent, LoginInput{})
	require.NoError(t, err)
	before := b.row(t, b.call(t, nil)).ID
	ringing := b.serve(t, b.svc, before, Request{})
	ringing.offer(t)
	waiting := b.connect(t, Request{})
	require.Eventually(t, func() bool { return len(waiting.musics()) == 1 }, 30*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { return b.row(t, waiting.call.ID).QueuedAt != nil }, 30*time.Second, time.Millisecond)
	b.close(t, b.svc, waiting.call.ID)
	waiting.hangUp()
	<-waiting.done
	require.True(t, b.row(t, waiting.call.ID).Abandoned, "left while waiting")

	b.close(t, b.svc, before)
	ringing.hangUp()
	require.Equal(t, Available, b.status(t, agent), "freed by the transaction that closed the call; never bridged, nothing to wrap up")
	require.Eventually(t, func() bool { return b.svc.ReadyAgents(b.tenant) == 1 }, 30*time.Second, time.Millisecond)
	require.Equal(t, agent, b.connect(t, Request{}).offer(t).req.Phone.AgentID)
}

// TestCallIsOverBeforeItsAgent lets the call's end and the claim meet.
func TestCallIsOverBeforeItsAgent(t *testing.T) {
	t.Parallel()
	b := running(t)
	agent := b.online(t)
	call := b.call(t, nil)
	b.close(t, b.svc, call)
	caller := b.serve(t, b.svc, call, Request{})
	<-caller.done
	require.ErrorIs(t, caller.err, ledger.ErrCallEnded)
	require.Equal(t, Available, b.status(t, agent))
	require.Eventually(t, func() bool { return b.svc.ReadyAgents(b.tenant) == 1 }, 30*time.Second, time.Millisecond)
}

func TestPlaceIsAnnounced(t *testing.T) {
	t.Parallel()
	b := running(t, func(c *Config) {
		c.PositionPrompts, c.AnnounceEvery = []string{"http://prompts.test/1.wav"}, 10*time.Millisecond
	})
	agent := b.online(t)
	_, err := b.svc.SetStatus(t.Context(), b.tenant, agent, StatusInput{Status: "paused"})
	require.NoError(t, err)
	caller := b.connect(t, Request{Announce: true})
	require.Eventually(t, func() bool { return len(caller.musics()) > 0 }, 30*time.Second, time.Millisecond, "is in the queue, the first")
	silent := b.connect(t, Request{})
	require.Eventually(t, func() bool { return caller.plays() > 1 && len(caller.musics()) > 2 }, 30*time.Second, time.Millisecond)
	require.Zero(t, silent.plays())
	_, err = b.svc.SetStatus(t.Context(), b.tenant, agent, StatusInput{Status: "available"})
	require.NoError(t, err)
	caller.offer(t)
}

func TestWantedAgentOnly(t *testing.T) {
	t.Parallel()
	b := running(t)
	b.online(t)
	wanted := b.agent(t)
	a, err := b.svc.GetAgent(t.Context(), b.tenant, wanted)
	require.NoError(t, err)
	id, err := b.svc.ByExtension(t.Context(), b.tenant, a.Extension)
	require.NoError(t, err)
	require.Equal(t, wanted, id)
	require.False(t, b.svc.Staffed(b.tenant, Request{AgentID: &id}))
	b.connect(t, Request{AgentID: &id}).ends(t, Unavailable)
	_, err = b.svc.Login(t.Context(), b.tenant, wanted, LoginInput{})
	require.NoError(t, err)
	require.True(t, b.svc.Staffed(b.tenant, Request{AgentID: &id}))
	require.Equal(t, wanted, b.connect(t, Request{AgentID: &id}).offer(t).req.Phone.AgentID)
	_, err = b.svc.ByExtension(t.Context(), uuid.New(), a.Extension)
	require.ErrorIs(t, err, switchctl.ErrUnknownExtension)
}

// TestCallerIsTakenAway: whoever had the caller wraps up, whoever was about to have them takes others, and the caller goes to the one who is
// wanted, before those who have waited longer.
func TestCallerIsTakenAway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		outcome switchctl.AgentOutcome
		becomes Status
	}{
		"they talked":     {switchctl.AgentTaken, WrapUp},
		"before they did": {switchctl.AgentWithdrawn, Available},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := running(t)
			first := b.online(t)
			call := b.call(t, nil)
			caller := b.serve(t, b.svc, call, Request{})
			o := caller.offer(t)
			if c.outcome == switchctl.AgentTaken {
				b.bridged(t, call, first)
			}
			o.answer <- c.outcome
			<-caller.done
			require.ErrorIs(t, caller.err, switchctl.ErrHandedOver)
			b.eventually(t, first, c.becomes)

			b.clock.Advance(time.Minute)
			second := b.online(t)
			_, err := b.svc.SetStatus(t.Context(), b.tenant, second, StatusInput{Status: "paused"})
			require.NoError(t, err)
			waits := b.connect(t, Request{AgentID: &second})
			require.Eventually(t, func() bool { return len(waits.musics()) == 1 }, 30*time.Second, time.Millisecond)
			b.clock.Advance(time.Minute)
			again := b.serve(t, b.svc, call, Request{AgentID: &second, Priority: 1})
			require.Eventually(t, func() bool { return len(again.musics()) == 1 }, 30*time.Second, time.Millisecond)
			_, err = b.svc.SetStatus(t.Context(), b.tenant, second, StatusInput{Status: "available"})
			require.NoError(t, err)
			require.Equal(t, second, again.offer(t).req.Phone.AgentID)
		})
	}
}

// TestCallOfAFormerAgent: a restart finds the call with an agent from whom a supervisor has taken it.
func TestCallOfAFormerAgent(t *testing.T) {
	t.Parallel()
	b := running(t)
	first, second := b.online(t), b.online(t)
	call := b.call(t, nil)
	b.force(t, first, OnCall, &call)
	require.Eventually(t, func() bool { return b.svc.ReadyAgents(b.tenant) == 1 }, 30*time.Second, time.Millisecond)
	caller := b.serve(t, b.svc, call, Request{AgentID: &second})
	require.Equal(t, second, caller.offer(t).req.Phone.AgentID)
	b.eventually(t, first, WrapUp)
}
