package switchctl

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// TestAgentsOwnCallIsFoundAgain has the controller die before it has written that an agent and the lead whom they dialed talk: the next one writes it.
func TestAgentsOwnCallIsFoundAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.play("hold", "phone CHANNEL_ANSWER", "dial")
		row := func() *memLedger { b.ledger.mu.Lock(); return b.ledger }
		agent, l := testPhone(PhoneHeld).AgentID, row()
		call := l.calls[b.call.ID]
		call.AgentID = &agent // from the admission on
		l.calls[b.call.ID] = call
		l.mu.Unlock()
		b.play("event CHANNEL_CREATE", "event CHANNEL_ANSWER", "socket up", "phoneleg there", "channel answered bridged=phoneleg", "restart",
			"sleep 1800s", "event CHANNEL_HANGUP_COMPLETE Hangup-Cause=NORMAL_CLEARING variable_sip_hangup_disposition=recv_bye", "sleep 1s")
		l = row()
		defer l.mu.Unlock()
		require.NotNil(t, l.calls[b.call.ID].AgentConnectTime)
	})
}
