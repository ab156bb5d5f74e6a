package phones

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer"
	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/desk"
	"github.com/ringmaster/ringmaster/dialer/wake"
	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/call"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// staff gives the line an agents' service, and a dialer that paces campaigns by it.
func (l *line) staff(t *testing.T) *acd.Service {
	t.Helper()
	require.NoError(t, l.stop(t.Context()))
	l.wake = wake.New()
	agents, err := acd.New(acd.Config{
		NodeID: "node-1", Accounts: acd.NewAccounts(l.st, []byte("key of tests"), l.phone.SIPAddr()), Logger: l.cfg.Logger,
		Changed: l.wake.Tenant,
	}, l.st)
	require.NoError(t, err)
	l.dialer, err = dialer.New(dialer.Config{
		NodeID: "node-1", Guard: netguard.Policy{AllowLoopback: true}, Legal: dialer.Hours{From: "00:00", To: "24:00"}, DNC: nobody{},
		Agents: agents, Wake: l.wake, Prompts: l.cfg.Prompts, Logger: l.cfg.Logger,
	}, l.st)
	require.NoError(t, err)
	l.cfg.Phones, l.handler = agents, nil
	h := l.dialer.Answers
	l.calls, err = call.New(l.cfg, l.st, l.media, l.dialer.Gate, h)
	require.NoError(t, err)
	require.NoError(t, l.calls.Start(t.Context()))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 2)
	go func() { done <- agents.Run(ctx, l.calls) }()
	go func() { done <- l.dialer.Pacers.Run(ctx, l.calls) }()
	l.stop = func(stopping context.Context) error {
		cancel()
		return errors.Join(<-done, <-done, l.calls.Close(stopping))
	}
	require.Eventually(t, func() bool { return l.calls.Ready(t.Context()) == nil }, soon, 10*time.Millisecond)
	return agents
}

// person adds an agent with a phone on the line.
func (l *line) person(t *testing.T, mode string) uuid.UUID {
	t.Helper()
	id := storetest.NewID(t)
	storetest.Exec(t, l.st, l.tenant, `INSERT INTO users (tenant_id, id, email, password_hash, role, extension, phone_mode)
		VALUES ($1, $2, 'agent@people.test', 'x', 'agent', '1001', $3)`, l.tenant, id, mode)
	return id
}

// TestProgressiveReachesAgent is the whole way of a call: the agent logs in, a campaign calls a lead as soon as the phone is up,
// both hear each other, the agent hangs up, says how it went, and has the next call.
func TestProgressiveReachesAgent(t *testing.T) {
	t.Parallel()
	onEachSwitch(t, func(t *testing.T, l *line) {
		t.Helper()
		agents := l.staff(t)
		agent := l.person(t, "held")
		campaign := storetest.Campaign(t, l.st, l.tenant, nil)
		storetest.Exec(t, l.st, l.tenant, "UPDATE campaigns SET post_answer_action = 'connect_agent'")
		storetest.Lead(t, l.st, l.tenant, campaign, "9876543210")
		storetest.Lead(t, l.st, l.tenant, campaign, "9876543211")
		l.wake.Tenant(l.tenant)
		since := time.Now()
		_, err := agents.Login(t.Context(), l.tenant, agent, acd.LoginInput{})
		require.NoError(t, err)
		l.bothHear(t, since)
		a, err := agents.GetAgent(t.Context(), l.tenant, agent)
		require.NoError(t, err)
		require.Equal(t, acd.OnCall, a.Status)
		first := *a.CurrentCallUUID
		require.Eventually(t, func() bool { return l.call(t, first).Status == ledger.StatusAgentConnected }, soon, 10*time.Millisecond)
		row := l.call(t, first)
		t.Logf("answer to bridge %s, answer to queue %s", row.AgentConnectTime.Sub(*row.AnswerTime), row.QueuedAt.Sub(*row.AnswerTime))
		require.Len(t, l.carrier.Calls(simcarrier.Filter{}), 1, "one agent, one call")

		_, err = l.dialer.Desk(l.calls).AgentHangup(t.Context(), l.tenant, agent)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			a, err = agents.GetAgent(t.Context(), l.tenant, agent)
			return err == nil && a.Status == acd.WrapUp
		}, soon, 10*time.Millisecond)
		require.Eventually(t, func() bool { return l.call(t, first).Status == ledger.StatusCompleted }, soon, 10*time.Millisecond)
		require.Equal(t, "send_bye", *l.call(t, first).HangupDisposition)
		got, err := l.dialer.Desk(l.calls).Dispose(t.Context(), l.tenant, agent, desk.DisposeInput{
			CallID: input.Some(first.String()), Disposition: input.Some("sold"),
		})
		require.NoError(t, err)
		require.Equal(t, acd.Available, got.Agent.Status)
		require.Eventually(t, func() bool {
			a, err = agents.GetAgent(t.Context(), l.tenant, agent)
			return err == nil && a.CurrentCallUUID != nil && *a.CurrentCallUUID != first && l.call(t, *a.CurrentCallUUID).AgentID != nil
		}, soon, 10*time.Millisecond, "the next lead")
		require.Len(t, l.phone.Calls(simcarrier.Filter{}), 1, "the leg was kept")
	})
}

// TestPreviewDial lets an agent dial: they hear that it rings, then the callee; hanging up the phone ends the call, and the phone is
// there again for the next one.
func TestPreviewDial(t *testing.T) {
	t.Parallel()
	onEachSwitch(t, func(t *testing.T, l *line) {
		t.Helper()
		agents := l.staff(t)
		agent := l.person(t, "held")
		campaign := storetest.Campaign(t, l.st, l.tenant, nil)
		storetest.Exec(t, l.st, l.tenant, "UPDATE campaigns SET post_answer_action = 'connect_agent', dial_mode = 'preview'")
		lead := storetest.Lead(t, l.st, l.tenant, campaign, "9876543264") // rings for a while
		_, err := agents.Login(t.Context(), l.tenant, agent, acd.LoginInput{})
		require.NoError(t, err)
		require.Eventually(t, func() bool { return agents.ReadyAgents(l.tenant) == 1 }, soon, 10*time.Millisecond)
		next, err := l.dialer.Desk(l.calls).NextLead(t.Context(), l.tenant, agent, campaign)
		require.NoError(t, err)
		require.Equal(t, lead, next.ID)
		since := time.Now()
		call, err := l.dialer.Desk(l.calls).AgentDial(t.Context(), l.tenant, agent, desk.DialInput{LeadID: input.Some(lead.String())})
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			r, ok := talking(l.phone)
			return ok && !heard(r, ringHz, since).IsZero()
		}, soon, 10*time.Millisecond, "the agent hears no ringback")
		require.Eventually(t, func() bool {
			row := l.call(t, call.ID)
			return row.Status == ledger.StatusAgentConnected && *row.AgentID == agent
		}, 3*soon, 20*time.Millisecond)
		l.bothHear(t, since)

		leg, _ := talking(l.phone)
		require.NoError(t, l.phone.Hangup(leg.CallID))
		require.Eventually(t, func() bool { return l.call(t, call.ID).Status == ledger.StatusCompleted }, soon, 10*time.Millisecond)
		require.Equal(t, "send_bye", *l.call(t, call.ID).HangupDisposition)
		a, err := agents.GetAgent(t.Context(), l.tenant, agent)
		require.NoError(t, err)
		require.Equal(t, acd.WrapUp, a.Status)
		_, err = l.dialer.Desk(l.calls).Dispose(t.Context(), l.tenant, agent, desk.DisposeInput{
			CallID: input.Some(call.ID.String()), Disposition: input.Some("no_interest"),
		})
		require.NoError(t, err)
		require.Eventually(t, func() bool { return agents.ReadyAgents(l.tenant) == 1 }, soon, 10*time.Millisecond, "the phone is dialed again")
	})
}
