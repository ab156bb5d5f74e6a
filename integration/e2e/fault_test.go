package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/echoai"
	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/store"
)

// A voice AI that can't be reached, refuses, never answers, or goes away: the call ends with a true cause, the session says why,
// and nothing stays behind.
func TestVoiceAIFaults(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		r := newReceiver(t, accept)
		c.subscribe(t, r.URL, "ai_session.ended", "call.ended")
		for i, fault := range []struct {
			name, path, outcome string
		}{
			{"refused with 401", "/refuse?status=401", "error"},
			{"no answer to the upgrade", "/stall", "error"},
			{"closed cleanly in mid-call", "/close?after=2s&code=1000", "hangup"},
		} {
			t.Run(fault.name, func(t *testing.T) {
				campaign := c.campaign(t, c.voiceAgent(t, fault.path, nil), nil)
				c.push(t, campaign, fmt.Sprintf("98780000%02d", i))
				c.start(t, campaign)
				call := c.ended(t, campaign, 1, 40*time.Second)[0]
				require.Equal(t, "completed", call.Status, "it was answered")
				require.NotEmpty(t, deref(call.HangupCause))
				require.Equal(t, "send_bye", deref(call.HangupDisposition))
				eventually(t, 10*time.Second, "the session's end is told", func() bool {
					for _, d := range r.deliveries() {
						if d.event.Type == "ai_session.ended" && d.event.Data["call_id"] == call.ID {
							require.Equal(t, fault.outcome, d.event.Data["outcome"])
							return true
						}
					}
					return false
				})
				c.atRest(t)
			})
		}
	})
}

// A voice AI whose socket breaks is dialed again in the same session; one that stays away ends the call.
func TestVoiceAISocketBroken(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		campaign := c.campaign(t, c.voiceAgent(t, "/close?after=2s&code=1011&times=1", nil), nil)
		const number = "9878200000"
		c.push(t, campaign, number)
		c.start(t, campaign)
		var sessions []echoai.Session
		eventually(t, 30*time.Second, "the socket is dialed again", func() bool {
			if calls := c.calls(t, campaign); len(calls) == 1 {
				sessions = c.sessions(t, calls[0].ID)
			}
			return len(sessions) == 2
		})
		require.True(t, sessions[1].Reconnect)
		require.Equal(t, token(t, sessions[0]), token(t, sessions[1]))
		report, _ := c.report(t, "+91"+number)
		require.True(t, report.Live, "the call has gone on")
		c.hangUp(t, "+91"+number)
		c.ended(t, campaign, 1, 10*time.Second)

		gone := c.campaign(t, c.fleetingAI(t, 2*time.Second), nil)
		c.push(t, gone, "9878200001")
		c.start(t, gone)
		call := c.ended(t, gone, 1, 40*time.Second)[0]
		require.Equal(t, "completed", call.Status)
		require.Equal(t, "send_bye", deref(call.HangupDisposition))
		require.Equal(t, "error", c.outcome(t, call.ID))
		c.atRest(t)
	})
}

// fleetingAI takes one connection, drops it without a close frame, and refuses all others.
func (c *customer) fleetingAI(t *testing.T, after time.Duration) (voiceAgent string) {
	t.Helper()
	var taken atomic.Bool
	upgrader := websocket.Upgrader{Subprotocols: []string{"audio.alpha.org"}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if taken.Swap(true) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		conn, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		timer := time.AfterFunc(after, func() { _ = conn.NetConn().Close() })
		defer timer.Stop()
		for {
			if _, _, err := conn.ReadMessage(); err != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	var out id
	c.do(t, http.StatusCreated, http.MethodPost, "/api/v1/voice-agents",
		map[string]any{"name": "fleeting", "ws_url": "ws" + strings.TrimPrefix(server.URL, "http")}, &out)
	return out.ID
}

// outcome is that of a call's AI session.
func (c *customer) outcome(t *testing.T, callID string) string {
	t.Helper()
	var out string
	require.NoError(t, c.open(t).InSystem(t.Context(), func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(t.Context(), "SELECT coalesce(outcome, '') FROM ai_sessions WHERE call_id = $1", callID).Scan(&out)
	}))
	return out
}

// Nobody listens at the voice AI's address.
func TestVoiceAIRefusedConnection(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		var out id
		c.do(t, http.StatusCreated, http.MethodPost, "/api/v1/voice-agents",
			map[string]any{"name": "gone", "ws_url": "ws://127.0.0.1:1/none"}, &out)
		campaign := c.campaign(t, out.ID, nil)
		c.push(t, campaign, "9878100000")
		c.start(t, campaign)
		call := c.ended(t, campaign, 1, 30*time.Second)[0]
		require.Equal(t, "completed", call.Status)
		c.atRest(t)
	})
}

// The switch's event socket is lost for 10 s: calls go on, those that ended meanwhile are closed with their true end, and
// dialing goes on afterwards with no lead dialed twice.
func TestSwitchLinkLost(t *testing.T) {
	faultOnCable(t, "switch.esl_addr", func(c *stack.Stack) string { return c.Bootstrap.Switch.ESL }, nil)
}

// PostgreSQL is lost for 10 s: the same.
func TestDatabaseLost(t *testing.T) {
	faultOnCable(t, "database.url", databaseHost, func(url, host string) string {
		before, rest, _ := strings.Cut(url, "@")
		_, name, _ := strings.Cut(rest, "/")
		return before + "@" + host + "/" + name
	})
}

func databaseHost(s *stack.Stack) string {
	_, rest, _ := strings.Cut(s.Bootstrap.DatabaseURL, "@")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

const outage = 10 * time.Second

// faultOnCable runs calls over an outage of one connection of the controller's, on a stack of its own.
func faultOnCable(t *testing.T, key string, target func(*stack.Stack) string, rewrite func(url, host string) string) {
	t.Helper()
	withOwnStack(t, stack.Config{}, func(t *testing.T, c *customer) {
		cable := newCable(t, target(c.Stack))
		value := cable.addr
		if rewrite != nil {
			value = rewrite(c.Bootstrap.DatabaseURL, cable.addr)
		}
		require.NoError(t, c.Reconfigure(t.Context(), map[string]any{key: value}))
		campaign := c.campaign(t, c.voiceAgent(t, "/tone?hz=1000&delay=0s", nil), map[string]any{"max_concurrent": 4})
		number := func(i int) string { return fmt.Sprintf("98790000%02d", i) }
		for i := range 8 {
			c.push(t, campaign, number(i))
		}
		c.start(t, campaign)
		eventually(t, 30*time.Second, "four callees hear the AI", func() bool { return c.hearing(t, 8, number) == 4 })
		cable.cut()
		lost := time.Now()
		first := ""
		for i := range 8 {
			if r, ok := c.report(t, "+91"+number(i)); ok && r.Live {
				first = number(i)
				break
			}
		}
		c.hangUp(t, "+91"+first)
		eventually(t, outage+5*time.Second, "the outage passes", func() bool { return time.Since(lost) > outage })
		eventually(t, 5*time.Second, "live calls go on", func() bool { return c.hearing(t, 8, number) >= 3 })
		cable.join(t)
		eventually(t, 30*time.Second, "the freed slot is used", func() bool { return c.hearing(t, 8, number) == 4 })
		eventually(t, 30*time.Second, "all calls end", func() bool {
			c.finish(t, 8, number)
			calls := c.calls(t, campaign)
			return len(calls) == 8 && !slices.ContainsFunc(calls, func(call call) bool { return call.EndTime == nil })
		})
		seen := map[string]bool{}
		for _, call := range c.calls(t, campaign) {
			require.False(t, seen[*call.LeadID], "a lead was dialed twice")
			seen[*call.LeadID] = true
			require.Equal(t, "NORMAL_CLEARING", deref(call.HangupCause))
			require.Equal(t, "recv_bye", deref(call.HangupDisposition))
			r, ok := c.report(t, c.row(t, call.ID).to)
			require.True(t, ok)
			require.WithinDuration(t, *r.EndedAt, *call.EndTime, 5*time.Second)
		}
		c.atRest(t)
		require.NoError(t, c.StopController()) // before its cable is cut again
	})
}

// A second controller on the same ports says so and fails.
func TestSecondControllerOnTheSamePort(t *testing.T) {
	onEachSwitchAlone(t, func(t *testing.T, c *customer) {
		var stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), theSuite.controller, "serve", "--config", filepath.Join(c.Dir(), "ringmaster.yaml"))
		cmd.Stderr, cmd.Env = &stderr, append(os.Environ(), "RINGMASTER_NODE=second")
		err := cmd.Run()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, 1, exit.ExitCode())
		require.Contains(t, stderr.String(), "address already in use")
	})
}

// With PostgreSQL down at start the controller says so, waits, and fails when its patience ends; it starts when it comes up.
func TestDatabaseDownAtStart(t *testing.T) {
	withPlainStack(t, stack.Config{}, func(t *testing.T, c *customer) {
		cable := newCable(t, databaseHost(c.Stack))
		cable.cut()
		before, rest, _ := strings.Cut(c.Bootstrap.DatabaseURL, "@")
		_, name, _ := strings.Cut(rest, "/")
		url := before + "@" + cable.addr + "/" + name
		require.NoError(t, c.StopController())
		var stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), theSuite.controller, "serve", "--config", filepath.Join(c.Dir(), "ringmaster.yaml"))
		cmd.Stderr = &stderr
		cmd.Env = append(os.Environ(), "RINGMASTER_DATABASE__URL="+url, "RINGMASTER_DATABASE__CONNECT_TIMEOUT=2s")
		require.Error(t, cmd.Run())
		require.Contains(t, strings.ToLower(stderr.String()), "database")

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		joined := make(chan error, 1)
		go func() { joined <- cable.joinLate(ctx, 3) }()
		require.NoError(t, c.Reconfigure(ctx, map[string]any{"database.url": url}))
		require.NoError(t, <-joined)
		require.NoError(t, c.StopController()) // before its cable is cut again
	})
}
