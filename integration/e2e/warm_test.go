package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
)

// TestWarmTransfer: whoever takes the caller hears first who comes, which the caller, who is with the voice agent or hears that it rings, does not.
func TestWarmTransfer(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		const length = 1500 * time.Millisecond
		who := audioServer(t, playedHz, length)
		transfer := func(kind, destination string) map[string]any {
			return map[string]any{
				"event": "transfer", "destination_type": kind, "destination": destination, "metadata": map[string]any{"announce_url": who},
			}
		}
		// announced holds what the other end has heard against it: all of the announcement, and then the caller.
		announced := func(heard []tone.Heard) {
			t.Helper()
			first, caller := onsets(heard, playedHz), onsets(heard, callerHz)
			require.NotEmpty(t, first, "%+v", heard)
			require.NotEmpty(t, caller, "%+v", heard)
			require.Greater(t, caller[0].Sub(first[0]), length-300*time.Millisecond, "the caller comes after the announcement")
		}

		const number, other = "9876155000", "9876155001"
		callID := c.live(t, number, "/tone?hz=700")
		c.control(t, http.StatusBadRequest, callID, map[string]any{"event": "transfer", "metadata": map[string]any{"announce_url": "who.wav"}})
		c.control(t, http.StatusOK, callID, transfer("e164", other))
		c.hears(t, "+91"+other, callerHz, 1, "the other end hears the caller")
		c.hears(t, "+91"+number, callerHz, 1, "the caller hears the other end")
		report, _ := c.report(t, "+91"+other)
		announced(report.Heard)
		report, _ = c.report(t, "+91"+number)
		require.Empty(t, onsets(report.Heard, playedHz), "the announcement is not the caller's")
		c.hangUp(t, "+91"+other)
		c.endedCall(t, callID)

		a := c.login(t)
		c.softphone(t, simcarrier.AgentSpec{Extension: a.SIP.Extension, Password: a.SIP.Password, Voice: "tone:1000"})
		c.held(t, a)
		const second = "9876155002"
		callID = c.live(t, second, "/tone?hz=700")
		c.control(t, http.StatusOK, callID, transfer("agent", a.SIP.Extension))
		c.hears(t, "+91"+second, agentHz, 1, "the caller hears the agent")
		var state simcarrier.AgentState
		eventually(t, 10*time.Second, "the agent hears the caller", func() bool {
			var err error
			state, err = c.phones().Agent(t.Context(), a.SIP.Extension)
			return err == nil && state.Call != nil && len(onsets(state.Call.Heard, callerHz)) > 0
		})
		announced(state.Call.Heard)
		report, _ = c.report(t, "+91"+second)
		require.Empty(t, onsets(report.Heard, playedHz), "the announcement is not the caller's")
		c.hangUp(t, "+91"+second)
		c.endedCall(t, callID)
		a.dispose(t, callID)

		// An announcement that can't be had keeps nobody waiting.
		const third, last = "9876155003", "9876155004"
		callID = c.live(t, third, "/tone?hz=700")
		body := transfer("e164", last)
		body["metadata"] = map[string]any{"announce_url": "http://127.0.0.1:9/who.wav"}
		c.control(t, http.StatusOK, callID, body)
		c.hears(t, "+91"+last, callerHz, 1, "the other end hears the caller")
		report, _ = c.report(t, "+91"+last)
		require.Empty(t, onsets(report.Heard, playedHz))
		c.hangUp(t, "+91"+last)
		c.endedCall(t, callID)
		c.atRest(t)
	})
}
