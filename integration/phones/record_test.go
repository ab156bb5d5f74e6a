package phones

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// level is the power of samples at a frequency, in dB relative to a full-scale sine.
func level(pcm []int16, hz float64, perSecond int) float64 {
	var re, im float64
	for i, v := range pcm {
		at := 2 * math.Pi * hz * float64(i) / float64(perSecond)
		re += float64(v) * math.Cos(at)
		im += float64(v) * math.Sin(at)
	}
	return 20 * math.Log10(max(2*math.Hypot(re, im)/float64(max(1, len(pcm)))/32768, 1e-10))
}

// loudest is the power at a frequency where it is highest, of stretches of a tenth of a second: a busy machine may have broken the rest.
func loudest(pcm []int16, hz float64, perSecond int) float64 {
	best, n := -200.0, perSecond/10
	for at := 0; at+n <= len(pcm); at += n / 2 {
		best = max(best, level(pcm[at:at+n], hz, perSecond))
	}
	return best
}

// TestRecording: the switch records the call with a person in mono, the wait included.
func TestRecording(t *testing.T) {
	t.Parallel()
	onEachSwitch(t, func(t *testing.T, l *line) {
		t.Helper()
		outcomes := make(chan switchctl.AgentOutcome, 1)
		begin := make(chan struct{})
		l.handler.onAnswer(func(ctx context.Context, leg switchctl.Leg) error {
			if err := leg.StartMusic(ctx, ""); err != nil {
				return err
			}
			select {
			case <-begin:
			case <-ctx.Done():
				return ctx.Err()
			}
			out, err := leg.ConnectAgent(ctx, switchctl.AgentConnect{Phone: l.spec(phone.Held)})
			outcomes <- out
			return err
		})
		l.hold(t)
		since := time.Now()
		call := l.dial(t)
		require.Eventually(t, func() bool {
			caller, ok := talking(l.carrier)
			return ok && !heard(caller, ringHz, since).IsZero() && time.Since(since) > 2*time.Second
		}, soon, 10*time.Millisecond, "the caller hears no ringback")
		close(begin)
		connected := time.Now()
		l.bothHear(t, connected)
		require.Eventually(t, func() bool { return time.Since(connected) > 3*time.Second }, soon, 50*time.Millisecond)
		caller, _ := talking(l.carrier)
		require.NoError(t, l.carrier.Hangup(caller.CallID))
		require.Equal(t, switchctl.AgentEnded, outcome(t, outcomes))
		require.Eventually(t, func() bool { return l.call(t, call.ID).Status == ledger.StatusCompleted }, soon, 20*time.Millisecond)

		row := l.call(t, call.ID)
		wav := l.recording(t, call.ID.String()+".1.wav")
		require.Equal(t, 1, wav.Channels)
		pcm := wav.Channel(0)
		lasts := time.Duration(len(pcm)) * time.Second / time.Duration(wav.Rate)
		talk := row.EndTime.Sub(*row.AnswerTime)
		t.Logf("recorded %s of %s", lasts, talk)
		require.InDelta(t, talk.Seconds(), lasts.Seconds(), 1.5)
		tail := pcm[len(pcm)-2*wav.Rate:]
		for _, hz := range []float64{callerHz, agentHz} {
			require.Greater(t, loudest(tail, hz, wav.Rate), -30.0, "%g Hz", hz)
		}
		require.Greater(t, loudest(pcm[:2*wav.Rate], ringHz, wav.Rate), -40.0, "the wait is not recorded")
		require.NoError(t, l.st.InTenant(t.Context(), l.tenant, func(tx *store.Tx) error {
			view, err := tx.Q.GetCallView(t.Context(), l.tenant, call.ID)
			require.Equal(t, "processing", view.RecordingStatus)
			return err
		}))
	})
}
