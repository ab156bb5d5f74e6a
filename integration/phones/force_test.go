package phones

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

const (
	otherExtension = "1002"
	otherHz        = 1700.0
)

// other is a second agent, with a phone of their own.
type other struct {
	*simcarrier.Server
	agent uuid.UUID
}

// secondPhone registers and holds it.
func (l *line) secondPhone(t *testing.T) other {
	t.Helper()
	o := other{Server: subscriber(t, otherHz), agent: storetest.NewID(t)}
	state, err := o.AddAgent(t.Context(), simcarrier.AgentSpec{
		Extension: otherExtension, Domain: domain, Password: password, Registrar: l.internal, Voice: fmt.Sprintf("steady:%g", otherHz),
	})
	require.NoError(t, err)
	require.True(t, state.Registered, "%+v", state)
	require.NoError(t, l.calls.HoldPhone(t.Context(), o.spec(l)))
	require.Eventually(t, func() bool {
		_, up := talking(o.Server)
		return up
	}, soon, 10*time.Millisecond)
	return o
}

func (o other) spec(l *line) phone.Spec {
	return phone.Spec{TenantID: l.tenant, AgentID: o.agent, Extension: otherExtension, Domain: domain, Mode: phone.Held}
}

// hears waits until a party hears a tone that begins after a time.
func hears(t *testing.T, s *simcarrier.Server, hz float64, after time.Time, what string) {
	t.Helper()
	require.Eventually(t, func() bool {
		r, ok := talking(s)
		return ok && !heard(r, hz, after).IsZero()
	}, soon, 10*time.Millisecond, what)
}

// quiet waits until the newest call of a party has heard nothing of a tone for a second.
func quiet(t *testing.T, s *simcarrier.Server, hz float64, what string) {
	t.Helper()
	total := func() int64 {
		r, _ := talking(s)
		for _, h := range r.Heard {
			if h.Hz == hz {
				return int64(h.TotalMS)
			}
		}
		return 0
	}
	last, since := total(), time.Now()
	require.Eventually(t, func() bool {
		if now := total(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > time.Second
	}, soon, 20*time.Millisecond, what)
}

// TestForceTransfer: a supervisor gives the caller to another agent, whoever has them: they hear each other, and nobody else does.
func TestForceTransfer(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"voice agent", "agent", "queue", "menu", "destination"} {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			onEachSwitch(t, func(t *testing.T, l *line) { t.Helper(); forceTransfer(t, l, from) })
		})
	}
}

func forceTransfer(t *testing.T, l *line, from string) {
	t.Helper()
	taken := make(chan switchctl.AgentOutcome, 2)
	first, firstHz := l.phone, agentHz // who hears the caller before
	switch from {
	case "voice agent":
		l.voiceAI(t, "", "hangup")
		first, firstHz = nil, aiHz
	case "agent":
		l.hold(t)
		l.connect(taken, phone.Held)
	case "queue":
		first, firstHz = nil, ringHz
		l.handler.onAnswer(func(ctx context.Context, leg switchctl.Leg) error {
			if err := leg.StartMusic(ctx, ""); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		})
	case "menu":
		first, firstHz = nil, 0
		l.handler.onAnswer(func(ctx context.Context, leg switchctl.Leg) error {
			_, err := leg.Gather(ctx, switchctl.Gather{MaxDigits: 1, Timeout: time.Minute})
			return err
		})
	case "destination":
		storetest.Exec(t, l.st, l.tenant, "UPDATE tenants SET sip_hosts = '{127.0.0.0/8}' WHERE id = $1", l.tenant)
		l.handler.onAnswer(func(ctx context.Context, leg switchctl.Leg) error {
			_, err := leg.Transfer(ctx, "sip_uri", "sip:desk@"+l.phone.SIPAddr())
			return err
		})
	}
	second := l.secondPhone(t)
	reached := make(chan switchctl.AgentOutcome, 1)
	begin := make(chan struct{})
	l.handler.onQueue(func(ctx context.Context, leg switchctl.Leg, req switchctl.QueueRequest) error {
		if req.Extension != otherExtension {
			return fmt.Errorf("the caller waits for %q", req.Extension)
		}
		if err := leg.StartMusic(ctx, ""); err != nil {
			return err
		}
		select {
		case <-begin:
		case <-ctx.Done():
			return ctx.Err()
		}
		out, err := leg.ConnectAgent(ctx, switchctl.AgentConnect{Phone: second.spec(l)})
		reached <- out
		return err
	})
	since := time.Now()
	call := l.dial(t)
	if firstHz != 0 {
		hears(t, l.carrier, firstHz, since, "the caller hears who has them")
	} else {
		require.Eventually(t, func() bool { return l.call(t, call.ID).AnswerTime != nil }, soon, 10*time.Millisecond)
	}
	if first != nil {
		hears(t, first, callerHz, since, "who has the caller hears them")
	}

	forced := time.Now()
	require.NoError(t, l.calls.ForceTransfer(t.Context(), l.tenant, call.ID, otherExtension))
	if from != "queue" { // where it goes on
		hears(t, l.carrier, ringHz, forced, "the caller hears that it rings")
	}
	switch from {
	case "voice agent":
		require.Eventually(t, func() bool { return l.sessionEnd(t, call.ID) == "transferred_agent" }, soon, 20*time.Millisecond)
	case "agent":
		require.Equal(t, switchctl.AgentTaken, outcome(t, taken))
		quiet(t, l.phone, callerHz, "the agent hears the caller no more")
		require.True(t, l.states.last().Up, "the agent's leg is kept")
	case "destination":
		require.Eventually(t, func() bool { _, still := talking(l.phone); return !still }, soon, 20*time.Millisecond, "the destination's leg is up")
	}
	since = time.Now()
	close(begin)
	hears(t, l.carrier, otherHz, since, "the caller hears the other agent")
	hears(t, second.Server, callerHz, since, "the other agent hears the caller")
	require.Eventually(t, func() bool {
		row := l.call(t, call.ID)
		return row.AgentID != nil && *row.AgentID == second.agent && row.Status == ledger.StatusAgentConnected
	}, soon, 20*time.Millisecond)
	require.NoError(t, l.calls.Hangup(t.Context(), l.tenant, call.ID, ledger.CauseNormalClearing))
	require.Equal(t, switchctl.AgentEnded, outcome(t, reached))
	require.Eventually(t, func() bool { return l.call(t, call.ID).Status == ledger.StatusCompleted }, soon, 20*time.Millisecond)
}

// TestForceTransferOutlivesUs: the controller ends while the caller waits for the agent. The next one goes on with that.
func TestForceTransferOutlivesUs(t *testing.T) {
	t.Parallel()
	onEachSwitch(t, func(t *testing.T, l *line) {
		t.Helper()
		taken := make(chan switchctl.AgentOutcome, 2)
		l.hold(t)
		l.connect(taken, phone.Held)
		second := l.secondPhone(t)
		asked := make(chan switchctl.QueueRequest, 2)
		wait := func(ctx context.Context, leg switchctl.Leg, req switchctl.QueueRequest) error {
			asked <- req
			if err := leg.StartMusic(ctx, ""); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}
		l.handler.onQueue(wait)
		since := time.Now()
		call := l.dial(t)
		l.bothHear(t, since)
		require.NoError(t, l.calls.ForceTransfer(t.Context(), l.tenant, call.ID, otherExtension))
		require.Equal(t, otherExtension, (<-asked).Extension)
		hears(t, l.carrier, ringHz, since, "the caller hears that it rings")
		l.leave(t)
		l.handler.onQueue(func(ctx context.Context, leg switchctl.Leg, req switchctl.QueueRequest) error {
			asked <- req
			_, err := leg.ConnectAgent(ctx, switchctl.AgentConnect{Phone: second.spec(l)})
			return err
		})
		since = time.Now()
		l.start(t)
		require.NoError(t, l.calls.HoldPhone(t.Context(), second.spec(l)))
		select {
		case req := <-asked:
			require.Equal(t, otherExtension, req.Extension)
		case <-time.After(soon):
			require.Fail(t, "nobody is asked for")
		}
		hears(t, l.carrier, otherHz, since, "the caller hears the other agent")
		hears(t, second.Server, callerHz, since, "the other agent hears the caller")
		require.NoError(t, l.calls.Hangup(t.Context(), l.tenant, call.ID, ledger.CauseNormalClearing))
		require.Eventually(t, func() bool { return l.call(t, call.ID).Status == ledger.StatusCompleted }, soon, 20*time.Millisecond)
	})
}
