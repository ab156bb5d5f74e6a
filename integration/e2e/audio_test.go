package e2e

import (
	"math"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
	"github.com/ringmaster/ringmaster/media/wav"
)

// What the suite holds audio to.
const (
	callerHz, agentHz  = 425.0, 1000.0
	separationDB       = 40.0
	onsetTolerance     = 20 * time.Millisecond
	durationTolerance  = 40 * time.Millisecond
	recordingRate      = 8000
	frequencyTolerance = 10.0
)

// The caller's 425 Hz is heard by the AI as 425 Hz, the AI's 1000 Hz by the caller; the recording has the one only left and the
// other only right, where the carrier sent the one and heard the other, from answer to hang-up. A busy machine delays what the
// stand-ins send and stamp: one of a few calls has to meet the onsets' tolerance, and each one all the rest.
func TestAudioBothWaysAndRecorded(t *testing.T) {
	onEachSwitchAlone(t, func(t *testing.T, c *customer) {
		best := time.Hour
		for try := 0; try < 8 && best > onsetTolerance; try++ {
			best = min(best, audioOfOneCall(t, c, "98730000"+strconv.Itoa(10+try)))
		}
		require.LessOrEqual(t, best, onsetTolerance, "the recording's two sides against the carrier's")
	})
}

// audioOfOneCall checks a call, and returns by how much its recording's sides are apart.
func audioOfOneCall(t *testing.T, c *customer, number string) time.Duration {
	t.Helper()
	// The AI speaks for 1 s every 3.7 s, so that its bursts fall into the caller's pauses and into its speech.
	agent := c.voiceAgent(t, "/tone?hz=1000&delay=1500ms&duration=1s&every=3700ms", nil)
	campaign := c.campaign(t, agent, nil)
	c.push(t, campaign, number)
	c.start(t, campaign)
	var report simcarrier.Report
	eventually(t, 30*time.Second, "the callee hears three bursts", func() bool {
		var ok bool
		report, ok = c.report(t, "+91"+number)
		return ok && len(onsets(report.Heard, agentHz)) >= 3
	})
	callID := c.calls(t, campaign)[0].ID
	c.do(t, http.StatusOK, http.MethodPost, "/api/v1/ai-sessions/"+callID+"/control", map[string]any{"event": "hangup"}, nil)
	c.ended(t, campaign, 1, 10*time.Second)
	report, _ = c.report(t, "+91"+number)
	require.InDelta(t, agentHz, report.DominantHz, frequencyTolerance, "what the caller heard")
	sessions := c.sessions(t, callID)
	require.Len(t, sessions, 1)
	require.InDelta(t, callerHz, sessions[0].DominantHz, frequencyTolerance, "what the AI heard")
	return checkRecording(t, c, callID, report)
}

// checkRecording returns the largest difference between onsets' distances in the file and at the carrier.
func checkRecording(t *testing.T, c *customer, callID string, report simcarrier.Report) time.Duration {
	t.Helper()
	wav, err := wav.Parse(c.recording(t, callID))
	require.NoError(t, err)
	require.Equal(t, 2, wav.Channels)
	require.Equal(t, recordingRate, wav.Rate)
	left, right := wav.Channel(0), wav.Channel(1)
	separation := func(name string, samples []int16, want, other float64) {
		got := tone.LevelAt(samples, wav.Rate, want) - tone.LevelAt(samples, wav.Rate, other)
		t.Logf("%s: %.0f Hz is %.1f dB above %.0f Hz", name, want, got, other)
		require.GreaterOrEqual(t, got, separationDB, name)
	}
	separation("left", left, callerHz, agentHz)
	separation("right", right, agentHz, callerHz)

	row := c.row(t, callID)
	require.NotNil(t, row.answered)
	require.NotNil(t, row.ended)
	length := time.Duration(len(left)) * time.Second / time.Duration(wav.Rate)
	t.Logf("the recording lasts %s, the call %s", length, row.ended.Sub(*row.answered))
	require.InDelta(t, row.ended.Sub(*row.answered), length, float64(durationTolerance))

	inLeft, inRight := wavOnsets(left, wav.Rate, callerHz), wavOnsets(right, wav.Rate, agentHz)
	heard := onsets(report.Heard, agentHz)
	require.GreaterOrEqual(t, len(inLeft), 2)
	require.GreaterOrEqual(t, len(inRight), 2)
	// The callee's hello began with the answer, before anybody could listen: its first whole phrase is the mark. Only distances
	// between the two sides are compared.
	mark := inLeft[1]
	sent := nearest(report.SentOnsets, row.answered.Add(mark))
	worst := time.Duration(0)
	for _, burst := range inRight {
		carrier, file := nearest(heard, row.answered.Add(burst)).Sub(sent), burst-mark
		t.Logf("a burst: %s after the caller's onset at the carrier, %s in the file, %s apart", carrier, file, carrier-file)
		worst = max(worst, (carrier - file).Abs())
	}
	return worst
}

// onsets are those of one frequency.
func onsets(heard []tone.Heard, hz float64) []time.Time {
	for _, h := range heard {
		if math.Abs(h.Hz-hz) < frequencyTolerance {
			return h.Onsets
		}
	}
	return nil
}

// wavOnsets dates the bursts of a frequency in one channel of a file.
func wavOnsets(samples []int16, rate int, hz float64) []time.Duration {
	listener := tone.NewListener(rate, []float64{hz})
	zero := time.Unix(0, 0)
	frame := rate / 50
	for i := 0; i+frame <= len(samples); i += frame {
		listener.Hear(zero.Add(time.Duration(i)*time.Second/time.Duration(rate)), samples[i:i+frame], nil)
	}
	var out []time.Duration
	for _, at := range onsets(listener.Heard(), hz) {
		out = append(out, at.Sub(zero))
	}
	return out
}

// nearest is the moment next to at.
func nearest(moments []time.Time, at time.Time) time.Time {
	best := moments[0]
	for _, m := range moments {
		if m.Sub(at).Abs() < best.Sub(at).Abs() {
			best = m
		}
	}
	return best
}
