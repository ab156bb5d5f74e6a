package e2e

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/pacing/sim"
	"github.com/ringmaster/ringmaster/integration/agentbench"
	"github.com/ringmaster/ringmaster/integration/stack"
)

// The pacer at work on a simulated switch, with agents who talk and wrap up: a short run of what `ringmaster bench agents --mode
// predictive` holds against the simulation of pacing.
func TestPacedCampaign(t *testing.T) {
	besideOthers(t)
	dir, err := os.MkdirTemp(theSuite.dir, "pace-") //nolint:usetesting // the database's server runs as another user
	require.NoError(t, err)
	s, err := theSuite.start(t.Context(), dir, simulated, stack.Config{RTPEvery: 10})
	require.NoError(t, err, theSuite.log.text())
	endWith(t, s)
	defer showLog(t)
	short := sim.Dist{Shape: sim.Exp, Mean: time.Second, Min: time.Second}.Draw
	got, err := agentbench.RunPace(t.Context(), s, agentbench.Pace{
		Mode: "predictive", Agents: 3, AnswerRate: 1, Ring: short, Talk: short, WrapUp: short,
		Handle: 4 * time.Second, RingTimeout: 15 * time.Second, MaxWait: 2 * time.Second, Duration: 20 * time.Second, Seed: 1,
	}, agentbench.Options{Seed: 1})
	require.NoError(t, err)
	t.Logf("%+v", *got)
	require.Greater(t, got.Answered, 5)
	require.GreaterOrEqual(t, got.Dialed, got.Answered)
	require.Positive(t, got.Utilisation)
	require.Less(t, got.Utilisation, 1.0)
	require.InDelta(t, got.Answered, got.Connected+got.Abandoned, 3, "some wait in the end")
	require.Positive(t, got.Lines)
}
