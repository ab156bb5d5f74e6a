package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/stack"
)

// After a stall of the carrier's network the caller's words reach the voice agent as soon as before: what waited in the switch is made up for.
func TestAStallDoesNotLast(t *testing.T) {
	withPlainStack(t, stack.Config{Voice: "marker"}, func(t *testing.T, c *customer) {
		const number, stall, slack = "9877300010", 300, 100.0 // ms
		campaign := c.campaign(t, c.voiceAgent(t, "/echo?greet=0", nil), map[string]any{"amd": false})
		c.push(t, campaign, number)
		c.start(t, campaign)
		trips := func() []float64 {
			r, _ := c.report(t, "+91"+number)
			return r.RoundTripMS
		}
		eventually(t, 20*time.Second, "the echo is measured", func() bool { return len(trips()) >= 3 })
		before := trips()[2]
		require.NoError(t, c.phones().Stall(t.Context(), "+91"+number, simcarrier.StallRequest{MS: stall}))
		at := len(trips())
		eventually(t, 20*time.Second, "the echo is as soon as before", func() bool {
			now := trips()
			return len(now) >= at+3 && now[len(now)-1] < before+slack
		})
		t.Logf("round trips: %.0f ms", trips())
		c.hangUp(t, "+91"+number)
		c.ended(t, campaign, 1, 20*time.Second)
		c.atRest(t)
	})
}
