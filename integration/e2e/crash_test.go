package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/echoai"
	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/store"
)

// After kill -9 of the controller alone during 20 live AI calls, and its restart: every call that the carrier still holds hears
// its AI again within 5 s of the restart, in the same session; calls that the carrier ended meanwhile are closed with their true
// cause and times; no row stays open, no unit is lost.
func TestControllerKilledDuringLiveCalls(t *testing.T) {
	const (
		calls     = 20
		hungUp    = 4
		again     = 5 * time.Second
		busy      = 20 * time.Second // what a busy machine may add to that
		silentFor = 3 * time.Second
	)
	withOwnStack(t, stack.Config{}, func(t *testing.T, c *customer) {
		campaign := c.campaign(t, c.voiceAgent(t, "/tone?hz=1000&delay=0s", nil), nil)
		number := func(i int) string { return fmt.Sprintf("98740000%02d", i) }
		for i := range calls {
			c.push(t, campaign, number(i))
		}
		c.start(t, campaign)
		eventually(t, 40*time.Second, "all callers hear the AI", func() bool { return c.hearing(t, calls, number) == calls })
		before := c.calls(t, campaign)
		require.Len(t, before, calls)

		require.NoError(t, c.KillController())
		gone := map[string]time.Time{}
		for i := range hungUp {
			c.hangUp(t, "+91"+number(i))
			eventually(t, 5*time.Second, "the callee has hung up", func() bool {
				report, ok := c.report(t, "+91"+number(i))
				if ok && report.EndedAt != nil {
					gone[number(i)] = *report.EndedAt
				}
				return ok && report.EndedAt != nil
			})
		}
		c.forgetConnections(t, gone)
		eventually(t, silentFor+5*time.Second, "the callers hear nothing", func() bool { return c.hearing(t, calls, number) == 0 })
		restarted := time.Now()
		require.NoError(t, c.StartController(t.Context()))
		eventually(t, again+busy+5*time.Second, "every caller hears the AI again", func() bool {
			return c.hearing(t, calls, number) == calls-hungUp
		})
		took := time.Since(restarted)
		t.Logf("all %d callers heard the AI again %s after the restart", calls-hungUp, took.Round(time.Millisecond))
		require.LessOrEqual(t, took, again+busy)
		c.checkSurvivors(t, campaign, before, gone, restarted)
		require.Equal(t, hungUp, c.connections(t), "by the switch's records these were connected")
		c.finish(t, calls, number)
		c.ended(t, campaign, calls, 20*time.Second)
		c.atRest(t)
		c.checkOutbox(t, campaign)
	})
}

// forgetConnections has the controller killed before it had written that the callers at these numbers heard their AI.
func (c *customer) forgetConnections(t *testing.T, numbers map[string]time.Time) {
	t.Helper()
	for number := range numbers {
		require.NoError(t, c.open(t).InSystem(t.Context(), func(tx *store.Tx) error {
			done, err := tx.Pgx().Exec(t.Context(), `UPDATE calls SET status = 'answered', agent_connect_time = NULL
				WHERE end_time IS NULL AND agent_connect_time IS NOT NULL AND to_number = $1`, "+91"+number)
			if err == nil && done.RowsAffected() != 1 {
				err = fmt.Errorf("calls to %s changed: %d", number, done.RowsAffected())
			}
			return err
		}))
	}
}

// connections counts the ended calls whose callers were connected.
func (c *customer) connections(t *testing.T) (n int) {
	t.Helper()
	require.NoError(t, c.open(t).InSystem(t.Context(), func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(t.Context(), "SELECT count(*) FROM calls WHERE end_time > agent_connect_time AND agent_connect_time >= answer_time").Scan(&n)
	}))
	return n
}

// checkOutbox: each answered call of a campaign has said so once, before its sessions and its end, whenever the controller was
// killed.
func (c *customer) checkOutbox(t *testing.T, campaign string) {
	t.Helper()
	var calls [][]string
	require.NoError(t, c.open(t).InSystem(t.Context(), func(tx *store.Tx) error {
		rows, err := tx.Pgx().Query(t.Context(), `SELECT array_agg(type ORDER BY seq) FROM events
			WHERE campaign_id = $1 AND call_id IS NOT NULL GROUP BY call_id`, campaign)
		if err != nil {
			return err
		}
		calls, err = pgx.CollectRows(rows, pgx.RowTo[[]string])
		return err
	}))
	require.NotEmpty(t, calls)
	for _, types := range calls {
		require.GreaterOrEqual(t, len(types), 5, "%v", types)
		require.Equal(t, []string{"call.started", "call.answered", "ai_session.started", "ai_session.ended", "call.ended"}, types[:5])
		require.NotContains(t, types[5:], "call.answered")
	}
}

// hearing counts the callees that hear something now.
func (c *customer) hearing(t *testing.T, calls int, number func(int) string) int {
	t.Helper()
	n := 0
	for i := range calls {
		if r, ok := c.report(t, "+91"+number(i)); ok && r.Live && r.HearsNow {
			n++
		}
	}
	return n
}

// tellDeaf logs, when a test has failed, how each callee's call stands.
func (c *customer) tellDeaf(t *testing.T, campaign string, calls int, number func(int) string) {
	t.Helper()
	if !t.Failed() {
		return
	}
	for i := range calls {
		r, _ := c.report(t, "+91"+number(i))
		t.Logf("%s: live %t, hears %t, %d re-INVITEs", number(i), r.Live, r.HearsNow, r.Reinvites)
	}
	for _, call := range c.calls(t, campaign) {
		t.Logf("call %s %s %s", call.ID, call.Status, deref(call.HangupCause))
	}
}

// checkSurvivors looks at the calls after the restart: the same calls, one session each, dialed again with reconnect; those that
// the carrier ended closed with the truth.
func (c *customer) checkSurvivors(t *testing.T, campaign string, before []call, gone map[string]time.Time, restarted time.Time) {
	t.Helper()
	var after []call
	eventually(t, 5*time.Second, "the calls that ended meanwhile are closed", func() bool {
		after = c.calls(t, campaign)
		closed := 0
		for _, call := range after {
			if call.EndTime != nil {
				closed++
			}
		}
		return closed >= len(gone)
	})
	require.Len(t, after, len(before), "no lead was dialed twice")
	ended := 0
	for _, call := range after {
		if call.EndTime == nil {
			sessions := c.sessions(t, call.ID)
			require.Len(t, sessions, 2, "%d connections: the first, and the one after the restart", len(sessions))
			require.True(t, sessions[1].Reconnect)
			require.Equal(t, token(t, sessions[0]), token(t, sessions[1]), "the same session keeps its token")
			continue
		}
		ended++
		require.Equal(t, "completed", call.Status)
		require.Equal(t, "NORMAL_CLEARING", deref(call.HangupCause))
		require.Equal(t, "recv_bye", deref(call.HangupDisposition))
		number := strings.TrimPrefix(c.row(t, call.ID).to, "+91")
		require.Contains(t, gone, number)
		require.WithinDuration(t, gone[number], *call.EndTime, 5*time.Second)
		require.True(t, call.EndTime.Before(restarted), "its true end, not the restart's")
	}
	require.Equal(t, len(gone), ended)
}

// finish makes every callee who has answered hang up.
func (c *customer) finish(t *testing.T, calls int, number func(int) string) {
	t.Helper()
	for i := range calls {
		if r, ok := c.report(t, "+91"+number(i)); ok && r.Live && r.AnsweredAt != nil {
			c.hangUp(t, "+91"+number(i))
		}
	}
}

// token is the callback token that a connection was given.
func token(t *testing.T, s echoai.Session) string {
	t.Helper()
	var metadata struct {
		Token string `json:"service_callback_token"`
	}
	require.NoError(t, json.Unmarshal(s.Metadata, &metadata))
	require.NotEmpty(t, metadata.Token)
	return metadata.Token
}

// A controller crashes while a flow's caller talks to a number, and is back once the two have parted: the flow goes on behind that.
func TestFlowTransferPartsBeforeARestart(t *testing.T) {
	withOwnStack(t, stack.Config{}, func(t *testing.T, c *customer) {
		const other, from = "+919876210302", "9877400301"
		c.flowThroughTransfer(t, other)
		out := c.dialIn(t, from, c.tenant.Numbers[0])
		require.True(t, out.Answered, "%+v", out)
		c.hears(t, other, callerHz, 1, "the other party hears the caller")
		require.NoError(t, c.KillController())
		c.leaves(t, other)
		require.NoError(t, c.StartController(t.Context()))
		c.wentThroughTransfer(t, out.CallID, from)
	})
}

// A flow's caller talks with an agent as the controller crashes. They talk on, and when the agent hangs up, by the softphone, by the API or
// before the next controller is there, the flow goes on behind that. The caller is queued once, and the agent has one call and one wrap-up.
func TestFlowGoesOnBehindItsAgentAfterARestart(t *testing.T) {
	withOwnStack(t, stack.Config{}, func(t *testing.T, c *customer) {
		c.flowOfTheNumber(t, `[{"id":"s","type":"start","next":{"default":"a"}},
			{"id":"a","type":"connect_agent","data":{"max_wait_s":30},"next":{"ended":"p"}},
			{"id":"p","type":"play_audio","data":{"audio_url":"`+prompts(t, time.Second)+`"},"next":{"default":"h"}},
			{"id":"h","type":"hangup"}]`)
		a := c.login(t)
		c.softphone(t, simcarrier.AgentSpec{Extension: a.SIP.Extension, Password: a.SIP.Password, Voice: "tone:1000"})
		bySoftphone := func() {
			_, err := c.phones().HangupAgent(t.Context(), a.SIP.Extension)
			require.NoError(t, err)
		}
		for i, when := range []struct {
			what          string
			before, after func()
		}{
			{what: "killed, then the softphone", after: bySoftphone},
			{what: "killed, then the API", after: func() { a.api.JSON(t, http.MethodPost, "/api/agent/hangup", nil, http.StatusOK, nil) }},
			{what: "killed, and the softphone meanwhile", before: bySoftphone},
		} {
			eventually(t, 15*time.Second, "the agent's phone is held", func() bool {
				state, err := c.phones().Agent(t.Context(), a.SIP.Extension)
				return err == nil && state.Call != nil && state.Call.Live
			})
			from := fmt.Sprintf("987740032%d", i)
			out := c.dialIn(t, from, c.tenant.Numbers[0])
			require.True(t, out.Answered, "%+v", out)
			c.hears(t, out.CallID, agentHz, 1, "the caller hears the agent: "+when.what)
			found, ok := c.inboundCall(t, from)
			require.True(t, ok)
			callID := found.String()
			eventually(t, 10*time.Second, "the conversation is written", func() bool { return c.call(t, callID).Status == "agent_connected" })
			require.NoError(t, c.KillController())
			if when.before != nil {
				when.before()
			}
			require.NoError(t, c.StartController(t.Context()))
			if when.after != nil {
				talkSome(t)
				when.after()
			}
			c.hears(t, out.CallID, promptHz, 1, "the caller is back in the flow: "+when.what)
			require.Equal(t, "completed", c.endedCall(t, callID).Status)
			detail, steps := c.traced(t, callID)
			require.Equal(t, []string{"s=default", "a=ended", "p=default", "h=default"}, steps, when.what)
			require.NotNil(t, detail.AgentConnectTime)
			require.Equal(t, []string{"on_call", "wrap_up"}, c.statusesOf(t, callID), when.what)
			a.api.JSON(t, http.MethodPost, "/api/agent/dispose", map[string]any{"call_id": callID, "disposition": "done"}, http.StatusOK, nil)
		}
		c.atRest(t)
	})
}

// statusesOf are the agents' states of a call, in order.
func (c *customer) statusesOf(t *testing.T, callID string) (statuses []string) {
	t.Helper()
	st := c.open(t)
	require.NoError(t, st.InTenant(t.Context(), c.tenant.ID, func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(t.Context(), "SELECT array_agg(status ORDER BY version) FROM agent_status_log WHERE call_id = $1 AND status IN ('on_call', 'wrap_up')",
			callID).Scan(&statuses)
	}))
	return statuses
}

// flowThroughTransfer is a flow of the number that leads the caller to another one and plays a tone behind that.
func (c *customer) flowThroughTransfer(t *testing.T, other string) {
	t.Helper()
	c.flowOfTheNumber(t, `[{"id":"s","type":"start","next":{"default":"t"}},
		{"id":"t","type":"transfer","data":{"destination_type":"e164","destination":"`+other+`"},"next":{"ended":"p"}},
		{"id":"p","type":"play_audio","data":{"audio_url":"`+prompts(t, time.Second)+`"},"next":{"default":"h"}},
		{"id":"h","type":"hangup"}]`)
}

// leaves has a party outside hang up, and waits until it is gone.
func (c *customer) leaves(t *testing.T, number string) {
	t.Helper()
	c.hangUp(t, number)
	eventually(t, 10*time.Second, "the other party is gone", func() bool {
		report, ok := c.report(t, number)
		return ok && report.EndedAt != nil
	})
}

// wentThroughTransfer: the caller goes on behind the transfer of flowThroughTransfer, to the end of the flow.
func (c *customer) wentThroughTransfer(t *testing.T, caller, from string) {
	t.Helper()
	c.hears(t, caller, promptHz, 1, "the caller is back in the flow")
	callID, ok := c.inboundCall(t, from)
	require.True(t, ok)
	c.endedCall(t, callID.String())
	_, steps := c.traced(t, callID.String())
	require.Equal(t, []string{"s=default", "t=ended", "p=default", "h=default"}, steps)
	c.atRest(t)
}
