package pacing_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/pacing"
)

func TestProgressiveDialsOneCallPerReadyAgent(t *testing.T) {
	t.Parallel()
	p := pacing.New(pacing.Config{MaxWait: 2 * time.Second, RingTimeout: 25 * time.Second})
	s := pacing.State{Ready: 5, Ringing: make([]time.Duration, 2), Waiting: 1, Room: 100}
	require.Equal(t, pacing.Plan{Dial: 2, Lines: 1, Mode: pacing.Progressive, Verdict: pacing.Go}, p.Plan(s))
	s.Room = 1
	require.Equal(t, 1, p.Plan(s).Dial, "no more than the ceilings leave")
}
