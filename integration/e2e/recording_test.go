package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/media/wav"
)

// A recording in mu-law is paused, resumed, and paused again before a transfer: both pauses are silent, the second one on the
// switch's side too, the rest is there, and the times are true.
func TestRecordingPaused(t *testing.T) {
	ulaw := stack.Config{Override: map[string]any{"recordings.encoding": "ulaw"}}
	withPlainStack(t, ulaw, func(t *testing.T, c *customer) {
		const caller, other = "9876300000", "9876300001"
		callID := c.live(t, caller, "/tone?hz=1000")
		answered := *c.row(t, callID).answered
		talk, verb := c.talks(t, callID, answered)
		talk(3 * time.Second)
		pause, paused := verb("recording_pause")
		state := c.control(t, http.StatusOK, callID, map[string]any{"event": "get_call_state"})
		result, ok := state["result"].(map[string]any)
		require.True(t, ok)
		require.Equal(t, false, result["is_recording"])
		talk(5 * time.Second)
		resume, resumed := verb("recording_resume")
		talk(4 * time.Second)
		pauseAgain, again := verb("recording_pause")
		c.control(t, http.StatusOK, callID, map[string]any{
			"event": "transfer", "destination_type": "e164", "destination": "+91" + other,
		})
		eventually(t, 15*time.Second, "the other party hears the caller", func() bool {
			report, ok := c.report(t, "+91"+other)
			return ok && len(onsets(report.Heard, callerHz)) > 0
		})
		talk(4 * time.Second)
		c.hangUp(t, "+91"+other)
		c.endedCall(t, callID)
		c.atRest(t)

		file := c.recording(t, callID)
		require.Equal(t, []byte{7, 0}, file[20:22], "mu-law")
		wav, err := wav.Parse(file)
		require.NoError(t, err)
		row := c.row(t, callID)
		left, right := wav.Channel(0), wav.Channel(1)
		// The switch begins its part a little after the bridge, and ends it a little before the hang-up.
		require.InDelta(t, row.ended.Sub(*row.answered), time.Duration(len(left))*time.Second/recordingRate, float64(3*time.Second))
		const edge = 200 * time.Millisecond // what was on its way when the verb came
		part := func(samples []int16, from, to time.Duration) []int16 {
			at := func(d time.Duration) int { return min(int(d.Seconds()*recordingRate), len(samples)) }
			return samples[at(from+edge):at(to-edge)]
		}
		end := row.ended.Sub(*row.answered)
		for name, side := range map[string][]int16{"caller": left, "other side": right} {
			hz := map[string]float64{"caller": callerHz, "other side": agentHz}[name]
			level := func(from, to time.Duration) float64 { return tone.LevelAt(part(side, from, to), recordingRate, hz) }
			before, during, after, transferred := level(0, pause), level(paused, resume), level(resumed, pauseAgain), level(again, end)
			t.Logf("%s: %.0f dB, paused %.0f, resumed %.0f, paused and transferred %.0f", name, before, during, after, transferred)
			require.Greater(t, before, during+separationDB, name)
			require.Greater(t, after, during+separationDB, name)
			require.Greater(t, after, transferred+separationDB, name)
		}
		require.Less(t, tone.LevelAt(part(right, again, end), recordingRate, callerHz), tone.LevelAt(part(left, resumed, pauseAgain), recordingRate, callerHz)-separationDB,
			"nor is the person whom the caller was handed to")
	})
}

// talks gives what lets a call go on for a while, and what carries a verb out, with the moments at which it was asked for and done, from the answer.
func (c *customer) talks(t *testing.T, callID string, answered time.Time) (talk func(time.Duration), verb func(event string) (asked, done time.Duration)) {
	t.Helper()
	talk = func(d time.Duration) {
		until := time.Now().Add(d)
		eventually(t, d+10*time.Second, "time passes", func() bool { return time.Now().After(until) })
	}
	verb = func(event string) (asked, done time.Duration) {
		asked = time.Since(answered)
		c.control(t, http.StatusOK, callID, map[string]any{"event": event})
		return asked, time.Since(answered)
	}
	return talk, verb
}
