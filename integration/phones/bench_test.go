package phones

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// BenchmarkAnswerToVoices measures a held leg: the callee's answer (its 200 OK leaves) until caller and agent have heard each
// other, in ms, on the real switch where there is one.
func BenchmarkAnswerToVoices(b *testing.B) {
	l := newLine(b, os.Getenv(envFreeSWITCH))
	outcomes := make(chan switchctl.AgentOutcome, 1)
	l.connect(outcomes, phone.Held)
	l.hold(b)
	var took []float64
	for b.Loop() {
		require.Eventually(b, func() bool {
			agent, ok := talking(l.phone)
			return ok && !agent.HearsNow
		}, soon, 10*time.Millisecond)
		since := time.Now()
		call := l.dial(b)
		var answered, voices time.Time
		require.Eventually(b, func() bool {
			caller, ok := talking(l.carrier)
			agent, ok2 := talking(l.phone)
			if !ok || !ok2 || caller.AnsweredAt == nil {
				return false
			}
			one, two := heard(caller, agentHz, since), heard(agent, callerHz, since)
			answered, voices = *caller.AnsweredAt, one
			if two.After(one) {
				voices = two
			}
			return !one.IsZero() && !two.IsZero()
		}, soon, 20*time.Millisecond)
		took = append(took, float64(voices.Sub(answered).Microseconds())/1000)
		require.NoError(b, l.calls.Hangup(b.Context(), l.tenant, call.ID, ledger.CauseNormalClearing))
		<-outcomes
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2], "p50-ms")
	b.ReportMetric(took[len(took)*99/100], "p99-ms")
	b.ReportMetric(0, "ns/op")
	b.Logf("%d calls: %.1f", len(took), took)
}
