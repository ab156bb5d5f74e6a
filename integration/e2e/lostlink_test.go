package e2e

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/echoai"
	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/stack"
)

// The link to the switch is lost while a voice agent's transfer is under way: caller and destination come together, and stay so.
func TestTransferOverALostLink(t *testing.T) {
	withPlainStack(t, stack.Config{}, func(t *testing.T, c *customer) {
		cable := newCable(t, c.Bootstrap.Switch.ESL)
		require.NoError(t, c.Reconfigure(t.Context(), map[string]any{"switch.esl_addr": cable.addr}))
		t.Cleanup(func() { require.NoError(t, c.StopController()) }) // before its cable is cut again
		transfer := func(callID, other string) {
			c.control(t, http.StatusOK, callID, map[string]any{"event": "transfer", "destination_type": "e164", "destination": other})
		}
		failed := func(callID string) bool {
			sessions := c.sessions(t, callID)
			require.Len(t, sessions, 1)
			return slices.ContainsFunc(sessions[0].Texts, func(text echoai.Text) bool { return text.Type == "transfer_failed" })
		}
		together := func(callID, other string) {
			eventually(t, 15*time.Second, "the other party hears the caller", func() bool {
				report, ok := c.report(t, other)
				return ok && len(onsets(report.Heard, callerHz)) > 0
			})
			eventually(t, 10*time.Second, "the session is over", func() bool { return c.slotsHeld(t) == 0 })
			require.False(t, failed(callID))
			c.hangUp(t, other)
			require.Equal(t, "completed", c.endedCall(t, callID).Status)
			c.atRest(t)
		}

		const bridged = "+919876210001"
		callID := c.live(t, "9876210000", "/tone?hz=1000")
		cable.severBehind("uuid_bridge ")
		transfer(callID, bridged)
		together(callID, bridged)

		const anew = "+919876210002" // the bridge never reaches the switch, and is asked for again
		callID = c.live(t, "9876210003", "/tone?hz=1000")
		cable.severAhead("uuid_bridge ")
		transfer(callID, anew)
		together(callID, anew)

		const rings = "+919876210164" // for 8 s
		callID = c.live(t, "9876210100", "/tone?hz=1000")
		transfer(callID, rings)
		eventually(t, 10*time.Second, "the other party rings", func() bool {
			_, ok := c.report(t, rings)
			return ok
		})
		cable.cut()
		eventually(t, 15*time.Second, "they answer", func() bool {
			report, _ := c.report(t, rings)
			return report.AnsweredAt != nil
		})
		cable.join(t)
		together(callID, rings)

		// Where the transfer fails, since the bridge is never asked for, the caller can be led to an agent after that.
		a := c.login(t)
		c.softphone(t, simcarrier.AgentSpec{Extension: a.SIP.Extension, Password: a.SIP.Password, Voice: "tone:1400"})
		c.held(t, a)
		const fails = "9876210200"
		callID = c.live(t, fails, "/tone?hz=1000")
		cable.severBehind("hangup_after_bridge true")
		transfer(callID, "+919876210201")
		eventually(t, 15*time.Second, "the voice agent is told", func() bool { return failed(callID) })
		eventually(t, 10*time.Second, "the link is back", func() bool {
			status, _, _ := c.api.Do(t, http.MethodPost, "/api/v1/ai-sessions/"+callID+"/control", map[string]any{
				"event": "transfer", "destination_type": "agent", "destination": a.SIP.Extension,
			})
			return status == http.StatusOK
		})
		c.hears(t, fails, 1400, 1, "the caller hears the agent")
		c.hangUp(t, fails)
		c.endedCall(t, callID)
		a.dispose(t, callID)
	})
}

// The link to the switch is lost as a flow's caller is bridged with a number, and is back once the two have parted: the flow goes on behind that.
func TestFlowTransferWithinAnOutage(t *testing.T) {
	withPlainStack(t, stack.Config{}, func(t *testing.T, c *customer) {
		cable := newCable(t, c.Bootstrap.Switch.ESL)
		require.NoError(t, c.Reconfigure(t.Context(), map[string]any{"switch.esl_addr": cable.addr}))
		t.Cleanup(func() { require.NoError(t, c.StopController()) }) // before its cable is cut again
		const other, from = "+919876210301", "9877400300"
		c.flowThroughTransfer(t, other)
		cable.deafBehind("uuid_bridge ")
		out := c.dialIn(t, from, c.tenant.Numbers[0])
		require.True(t, out.Answered, "%+v", out)
		c.hears(t, other, callerHz, 1, "the other party hears the caller")
		cable.cut()
		c.speaks(t, out.CallID, 200) // for longer than a caller who hears nobody is left in silence
		c.leaves(t, other)
		cable.join(t)
		c.wentThroughTransfer(t, out.CallID, from)
	})
}

// The link is lost before the bridge reaches the switch: caller and destination come together as soon as there is a link again.
func TestFlowTransferAskedForAgain(t *testing.T) {
	withPlainStack(t, stack.Config{}, func(t *testing.T, c *customer) {
		cable := newCable(t, c.Bootstrap.Switch.ESL)
		require.NoError(t, c.Reconfigure(t.Context(), map[string]any{"switch.esl_addr": cable.addr}))
		t.Cleanup(func() { require.NoError(t, c.StopController()) }) // before its cable is cut again
		const other, from = "+919876210303", "9877400302"
		c.flowThroughTransfer(t, other)
		cable.severAhead("uuid_bridge ")
		out := c.dialIn(t, from, c.tenant.Numbers[0])
		require.True(t, out.Answered, "%+v", out)
		c.hears(t, other, callerHz, 1, "the other party hears the caller")
		c.leaves(t, other)
		c.wentThroughTransfer(t, out.CallID, from)
	})
}
