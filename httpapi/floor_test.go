package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/supervisors"
	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/httpapi/apitest"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func TestSupervisorFloor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.serveSupervisors(t)
	b.servePhones(t)
	sup, _ := b.supervisor(t, "2001")
	var floor supervisors.Floor
	sup.JSON(t, http.MethodGet, "/api/supervisor/floor", nil, http.StatusOK, &floor)
	require.Empty(t, floor.Agents)
	require.Equal(t, supervisors.KPIs{}, floor.KPIs)
	agent, id := newAgent(t, b, "1001")
	newAgent(t, b, "1002")
	agent.JSON(t, http.MethodPost, "/api/agent/login", nil, http.StatusOK, nil)
	call := b.liveCall(t, b.tenant)
	escalation := b.escalate(t, b.tenant, call, "high")
	b.liveCall(t, b.other)
	talk := b.call(t, b.tenant, nil, ", status, answer_time, agent_connect_time, agent_id", "agent_connected",
		b.clock.Now().Add(-90*time.Second), b.clock.Now().Add(-80*time.Second), id)
	storetest.Exec(t, b.st, b.tenant, "UPDATE agents SET status = 'on_call', current_call_id = $1, version = version + 1 WHERE id = $2", talk, id)
	b.clock.Advance(time.Minute) // the figures of the day are counted anew
	sup.JSON(t, http.MethodGet, "/api/supervisor/floor", nil, http.StatusOK, &floor)
	require.Len(t, floor.Agents, 2)
	on := floor.Agents[0]
	require.Equal(t, id, on.ID.String())
	require.NotNil(t, on.LoggedInAt)
	require.Equal(t, talk, on.Call.ID)
	require.Equal(t, 150, on.Call.DurationS)
	require.Nil(t, floor.Agents[1].Call)
	require.Empty(t, floor.Queue)
	require.Len(t, floor.AICalls, 1)
	require.Equal(t, call, floor.AICalls[0].CallID)
	require.Equal(t, 67, floor.AICalls[0].DurationS)
	require.Equal(t, escalation, floor.AICalls[0].Escalation.ID)
	require.Equal(t, int64(2), floor.KPIs.CallsLive)
	require.Equal(t, int64(2), floor.KPIs.CallsToday)
	require.Equal(t, 1, floor.KPIs.AgentsOnCall)
	require.InDelta(t, 10, floor.KPIs.AvgWaitS, 0.1)
}

// event is one of a stream.
type event struct{ id, name, data string }

// stream opens the live floor, and gives its events until the context ends.
func stream(t *testing.T, b *bundle, client apitest.Client, last string) (<-chan event, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, client.BaseURL+"/api/supervisor/floor/stream", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+client.Key)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req) //nolint:bodyclose // the goroutine below closes it
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
	out := make(chan event, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(out)
		defer func() { _ = resp.Body.Close() }()
		var e event
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "id":
				e.id = value
			case "event":
				e.name = value
			case "data":
				e.data = value
			case "":
				if e.name != "" {
					out <- e
				}
				e = event{}
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return out, cancel
}

func TestFloorStream(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.serveSupervisors(t)
	sup, _ := b.supervisor(t, "2001")
	events, leave := stream(t, b, sup, "")
	first := <-events
	require.Equal(t, "floor", first.name)
	var floor supervisors.Floor
	require.NoError(t, json.Unmarshal([]byte(first.data), &floor))
	require.Empty(t, floor.AICalls)
	call := b.liveCall(t, b.tenant)
	next := func(events <-chan event) (event, supervisors.Change) {
		e := <-events
		require.Equal(t, "change", e.name)
		var c supervisors.Change
		require.NoError(t, json.Unmarshal([]byte(e.data), &c))
		return e, c
	}
	changed, change := next(events)
	require.NotEqual(t, first.id, changed.id)
	require.Equal(t, call, change.AICalls[0].CallID)
	require.Nil(t, change.AICalls[0].Escalation)
	require.Nil(t, change.Queue, "which is the same")
	b.escalate(t, b.tenant, call, "high")
	escalated, change := next(events)
	require.Equal(t, "high", change.AICalls[0].Escalation.Urgency)
	leave()
	// Whoever resumes gets what was missed, and nothing of before.
	resumed, _ := stream(t, b, sup, changed.id)
	again := <-resumed
	require.Equal(t, escalated, again)
	storetest.Exec(t, b.st, b.tenant, "UPDATE ai_sessions SET status = 'ended', outcome = 'hangup', ended_at = now() WHERE call_id = $1", call)
	_, change = next(resumed)
	require.Equal(t, []uuid.UUID{call}, change.AICallsGone)
	for _, unknown := range []string{"nonsense", "00000000-1", first.id + "99"} {
		whole, _ := stream(t, b, sup, unknown)
		require.Equal(t, "floor", (<-whole).name, unknown)
	}
}

func TestFloorStreamsAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.serveSupervisors(t)
	sup, _ := b.supervisor(t, "2001")
	for range 50 {
		l, err := b.service.Supervisors.Listen(b.tenant, uuid.New(), "")
		require.NoError(t, err)
		defer l.Close()
	}
	status, _, answer := sup.Do(t, http.MethodGet, "/api/supervisor/floor/stream", nil)
	require.Equal(t, http.StatusTooManyRequests, status)
	require.Contains(t, string(answer), "too_many_streams")
	one := uuid.New()
	for range 10 {
		l, err := b.service.Supervisors.Listen(b.other, one, "")
		require.NoError(t, err)
		defer l.Close()
	}
	_, err := b.service.Supervisors.Listen(b.other, one, "")
	require.Error(t, err, "one more than a user may have")
	s := newStaff(t, b)
	events, _ := stream(t, b, s.foreign, "")
	require.Equal(t, "floor", (<-events).name, "another tenant has its own")
}

// A stream ends with the session that has opened it, as soon as that has ended, and with the server.
func TestFloorStreamEnds(t *testing.T) {
	t.Parallel()
	b := setup(t, func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.StreamCheck = time.Hour })
	b.serveSupervisors(t)
	sup, _ := b.supervisor(t, "2001")
	events, _ := stream(t, b, sup, "")
	require.Equal(t, "floor", (<-events).name)
	sup.JSON(t, http.MethodPost, "/api/auth/logout", nil, http.StatusNoContent, nil)
	for range events { // until it ends
	}
	other, _ := b.supervisor(t, "2002")
	// HEAD leaves no listener behind.
	status, _, _ := other.Do(t, http.MethodHead, "/api/supervisor/floor/stream", nil)
	require.Equal(t, http.StatusOK, status)
	events, _ = stream(t, b, other, "")
	require.Equal(t, "floor", (<-events).name)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.NoError(t, b.srv.Close(ctx))
	for range events {
	}
}
