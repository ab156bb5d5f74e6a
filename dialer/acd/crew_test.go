package acd

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

func TestCrewIsWhomOneCanDialFor(t *testing.T) {
	t.Parallel()
	b := running(t)
	require.Empty(t, b.svc.Crew(b.tenant))
	onHook := b.agent(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE users SET phone_mode = 'on_hook'")
	_, err := b.svc.Login(t.Context(), b.tenant, onHook, LoginInput{})
	require.NoError(t, err)
	require.Equal(t, 1, b.svc.ReadyAgents(b.tenant), "for a caller who waits")
	require.Empty(t, b.svc.Crew(b.tenant), "and not for one who is yet to be dialed")
	_, err = b.svc.Logout(t.Context(), b.tenant, onHook)
	require.NoError(t, err)

	agent := b.online(t)
	crew := b.svc.Crew(b.tenant)
	require.NotEmpty(t, crew[0].Extension)
	require.Len(t, crew, 1)
	require.True(t, crew[0].Ready)
	require.Equal(t, Available, crew[0].Status)
	campaign := storetest.Campaign(t, b.st, b.tenant, nil)
	storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET wrap_up_s = 7")
	call := b.call(t, &campaign)
	for len(b.ready) > 0 {
		<-b.ready
	}
	caller := b.serve(t, b.svc, call, Request{Campaign: true})
	o := caller.offer(t)
	crew = b.svc.Crew(b.tenant)
	require.Len(t, crew, 1)
	require.False(t, crew[0].Ready)
	require.Equal(t, OnCall, crew[0].Status)
	require.Equal(t, campaign, crew[0].Campaign)
	require.Equal(t, call, *crew[0].Call)
	require.WithinDuration(t, b.clock.Now(), crew[0].Since, time.Millisecond)
	require.Equal(t, b.tenant, <-b.ready, "the pacers are told that a conversation begins")
	require.False(t, crew[0].Outside)

	b.bridged(t, call, agent)
	o.answer <- switchctl.AgentEnded
	caller.ends(t, Ended)
	b.eventually(t, agent, WrapUp)
	require.Eventually(t, func() bool { crew = b.svc.Crew(b.tenant); return len(crew) == 1 && crew[0].Status == WrapUp },
		30*time.Second, time.Millisecond)
	require.Equal(t, call, *crew[0].Call, "the call that it is about")
	require.WithinDuration(t, b.clock.Now().Add(7*time.Second), crew[0].WrapUpUntil, time.Second)
	b.sw.setPhone(b.tenant, agent, false, phone.Lost)
	require.Empty(t, b.svc.Crew(b.tenant), "without a phone there is nobody to dial for")
}

// TestCallersWhomNoCampaignHasDialed: the plans of campaigns know who takes an agent, and who waits for one.
func TestCallersWhomNoCampaignHasDialed(t *testing.T) {
	t.Parallel()
	b := running(t)
	agent := b.online(t)
	require.Empty(t, b.svc.Waiting(b.tenant))
	first, second := b.call(t, nil), b.call(t, nil)
	caller := b.serve(t, b.svc, first, Request{})
	o := caller.offer(t)
	require.True(t, b.svc.Crew(b.tenant)[0].Outside)
	next := b.serve(t, b.svc, second, Request{Priority: 2, AgentID: &agent})
	require.Eventually(t, func() bool { return len(b.svc.Waiting(b.tenant)) == 1 }, 30*time.Second, time.Millisecond)
	waiter := b.svc.Waiting(b.tenant)[0]
	require.WithinDuration(t, time.Now(), waiter.Since, time.Minute)
	waiter.Since = time.Time{}
	require.Equal(t, Waiter{Call: second, Want: Want{Agent: &agent}, Priority: 2}, waiter)
	b.bridged(t, first, agent)
	o.answer <- switchctl.AgentEnded
	caller.ends(t, Ended)
	b.eventually(t, agent, WrapUp)
	_, err := b.svc.SetStatus(t.Context(), b.tenant, agent, StatusInput{Status: string(Paused)})
	require.NoError(t, err)
	_, err = b.svc.SetStatus(t.Context(), b.tenant, agent, StatusInput{Status: string(Available)})
	require.NoError(t, err)
	o = next.offer(t)
	require.Empty(t, b.svc.Waiting(b.tenant))
	b.bridged(t, second, agent)
	o.answer <- switchctl.AgentEnded
	next.ends(t, Ended)
}
