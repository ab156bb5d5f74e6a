package phones

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/echoai"
	"github.com/ringmaster/ringmaster/media/wav"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

const aiHz = 1400.0

// voiceAI starts a voice AI that speaks one tone without end, and has it take the calls. query is added to its URL.
func (l *line) voiceAI(t *testing.T, query, action string) {
	t.Helper()
	ai := echoai.New(echoai.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, ai.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		require.NoError(t, ai.Close(ctx))
	})
	id := storetest.VoiceAgent(t, l.st, l.tenant, fmt.Sprintf("ws://%s/tone?hz=%g&level=-12&greet=false%s", ai.Addr(), aiHz, query))
	storetest.Exec(t, l.st, l.tenant, "UPDATE voice_agents SET ws_disconnect_action = $2 WHERE id = $1", id, action)
	l.voice = &id
}

// sessionEnd reads how the call's AI session ended.
func (l *line) sessionEnd(t *testing.T, call uuid.UUID) string {
	t.Helper()
	outcome := ""
	require.NoError(t, l.st.InTenant(t.Context(), l.tenant, func(tx *store.Tx) error {
		s, err := tx.Q.SessionLastOfCall(t.Context(), l.tenant, call)
		if err == nil && s.Outcome != nil {
			outcome = *s.Outcome
		}
		return err
	}))
	return outcome
}

// TestHandover: a voice agent hands its caller over to a person, by the verb and by its lost socket; with nobody logged in it does
// not, and talks on or the call ends.
func TestHandover(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"verb", "disconnect"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			onEachSwitch(t, func(t *testing.T, l *line) { t.Helper(); handover(t, l, way) })
		})
	}
}

func handover(t *testing.T, l *line, way string) {
	t.Helper()
	query := ""
	if way == "disconnect" {
		query = "&end_by=close&end_after=10s"
	}
	l.voiceAI(t, query, "transfer_to_queue")
	requests := make(chan switchctl.QueueRequest, 1)
	outcomes := make(chan switchctl.AgentOutcome, 1)
	l.handler.onQueue(func(ctx context.Context, leg switchctl.Leg, req switchctl.QueueRequest) error {
		requests <- req
		out, err := leg.ConnectAgent(ctx, switchctl.AgentConnect{Phone: l.spec(phone.Held)})
		outcomes <- out
		return err
	})
	l.hold(t)
	since := time.Now()
	call := l.dial(t)
	require.Eventually(t, func() bool {
		caller, ok := talking(l.carrier)
		return ok && !heard(caller, aiHz, since).IsZero()
	}, soon, 10*time.Millisecond, "the caller does not hear the AI")
	if way == "verb" {
		l.handler.mu.Lock()
		l.handler.canQueue = switchctl.ErrNobodyLoggedIn
		l.handler.mu.Unlock()
		_, err := l.calls.Control(t.Context(), l.tenant, call.ID, switchctl.ControlRequest{Event: "transfer", DestinationType: "agent_queue"})
		refusal, ok := fault.Of(err)
		require.True(t, ok)
		require.Equal(t, fault.Conflict, refusal.Kind)
		require.Equal(t, "no_agent_available", refusal.Code)
		l.handler.mu.Lock()
		l.handler.canQueue = nil
		l.handler.mu.Unlock()
		since = time.Now()
		_, err = l.calls.Control(t.Context(), l.tenant, call.ID, switchctl.ControlRequest{
			Event: "transfer", DestinationType: "agent", Destination: extension, Metadata: []byte(`{"why":"asked"}`),
		})
		require.NoError(t, err)
		req := <-requests
		require.Equal(t, extension, req.Extension)
		require.JSONEq(t, `{"why":"asked"}`, string(req.Metadata))
	} else {
		since = time.Now()
		require.Equal(t, "default", (<-requests).Queue)
	}
	l.bothHear(t, since)
	require.Eventually(t, func() bool {
		return l.call(t, call.ID).AgentID != nil && l.sessionEnd(t, call.ID) == "transferred_agent"
	}, soon, 20*time.Millisecond)
	time0 := time.Now()
	require.Eventually(t, func() bool { return time.Since(time0) > time.Second }, soon, 50*time.Millisecond) // something to record
	require.NoError(t, l.calls.Hangup(t.Context(), l.tenant, call.ID, ledger.CauseNormalClearing))
	require.Equal(t, switchctl.AgentEnded, outcome(t, outcomes))
	require.Eventually(t, func() bool { return l.call(t, call.ID).Status == ledger.StatusCompleted }, soon, 20*time.Millisecond)

	first, second := l.recording(t, call.ID.String()+".wav"), l.recording(t, call.ID.String()+".2.wav")
	require.Equal(t, 2, second.Channels)
	require.Greater(t, loudest(second.Channel(0), callerHz, second.Rate), -30.0, "left is the caller")
	require.Greater(t, loudest(second.Channel(1), agentHz, second.Rate), -30.0, "right is the agent")
	require.Less(t, level(second.Channel(0), agentHz, second.Rate), -50.0)
	require.Equal(t, 2, first.Channels)
}

// recording reads a file that was recorded.
func (l *line) recording(t *testing.T, name string) wav.File {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(l.dir, name))
	require.NoError(t, err)
	wav, err := wav.Parse(text)
	require.NoError(t, err)
	return wav
}

// TestHandoverBeforeTheLeg: a voice agent whose socket closes before its media leg is bridged: the caller reaches a free agent without
// waiting for the switch to give up the bridge.
func TestHandoverBeforeTheLeg(t *testing.T) {
	t.Parallel()
	onEachSwitch(t, func(t *testing.T, l *line) {
		t.Helper()
		l.voiceAI(t, "&end_by=close&end_after=1ms", "transfer_to_queue")
		queued := make(chan time.Time, 1)
		l.handler.onQueue(func(ctx context.Context, leg switchctl.Leg, _ switchctl.QueueRequest) error {
			queued <- time.Now()
			_, err := leg.ConnectAgent(ctx, switchctl.AgentConnect{Phone: l.spec(phone.Held)})
			return err
		})
		l.hold(t)
		call := l.dial(t)
		since := <-queued
		require.Eventually(t, func() bool { return l.call(t, call.ID).AgentID != nil }, soon, 5*time.Millisecond)
		took := time.Since(since)
		t.Logf("from the queue to the agent: %s", took.Round(time.Millisecond))
		require.Less(t, took, 2*time.Second, "the caller waited for the bridge to the media leg")
		require.NoError(t, l.calls.Hangup(t.Context(), l.tenant, call.ID, ledger.CauseNormalClearing))
	})
}
