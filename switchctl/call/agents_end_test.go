package call

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// TestAgentsOwnCallIsFoundAgain has the controller die before it has written that an agent and the lead whom they dialed talk: the next one writes it.
func TestAgentsOwnCallIsFoundAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.play("hold", "phone CHANNEL_ANSWER", "dial")
		agent := testPhone(phone.Held).AgentID
		b.ledger.mu.Lock()
		row := b.ledger.calls[b.call.ID]
		row.AgentID = &agent // from the admission on
		b.ledger.calls[b.call.ID] = row
		b.ledger.mu.Unlock()
		b.play("event CHANNEL_CREATE", "event CHANNEL_ANSWER", "socket up", "phoneleg there", "channel answered bridged=phoneleg", "restart",
			"sleep 1800s", "event CHANNEL_HANGUP_COMPLETE Hangup-Cause=NORMAL_CLEARING variable_sip_hangup_disposition=recv_bye", "sleep 1s")
		b.ledger.mu.Lock()
		defer b.ledger.mu.Unlock()
		require.NotNil(t, b.ledger.calls[b.call.ID].AgentConnectTime)
	})
}
