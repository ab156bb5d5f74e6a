package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/echoai"
	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/media/wav"
)

// metric reads one sample of /metrics by its name with labels, 0 when there is none.
func (c *customer) metric(t *testing.T, name string) float64 {
	t.Helper()
	value, err := sample(t.Context(), c.Bootstrap.MetricsURL, name)
	require.NoError(t, err)
	return value
}

func sample(ctx context.Context, url, name string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close() //nolint:errcheck // read to its end
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, nil
}

// changes counts the ways past the switch and back, by what became of them.
func (c *customer) changes(t *testing.T, change string) int {
	t.Helper()
	return int(c.metric(t, `ringmaster_bypass_changes_total{change="`+change+`"}`))
}

// trunk is what the command line tells of the stack's trunk.
type trunk struct {
	ID            string  `json:"id"`
	MediaMode     string  `json:"media_mode"`
	BypassFailure *string `json:"bypass_failure"`
}

func (c *customer) trunk(t *testing.T) trunk {
	t.Helper()
	var trunks []trunk
	c.cli(t, &trunks, "trunk", "list", "--tenant", "acme")
	require.Len(t, trunks, 1)
	return trunks[0]
}

// bypassTrunk asks for bypass on the stack's trunk, whatever has failed before.
func (c *customer) bypassTrunk(t *testing.T) {
	t.Helper()
	c.cli(t, nil, "trunk", "set", c.trunk(t).ID, "--tenant", "acme", "--media-mode", "bypass")
}

// bypassed starts a call that stays up, and waits until it is in bypass. A carrier, or this machine, that is slow once costs the
// trunk its flag: then another call is tried on a fresh one.
func (c *customer) bypassed(t *testing.T, number, path string) (callID string) {
	t.Helper()
	for range 3 {
		before, failed := c.changes(t, "entered"), c.changes(t, "failed")
		callID = c.live(t, number, path)
		eventually(t, 20*time.Second, "the call is in bypass, or can't be", func() bool {
			return c.changes(t, "entered") > before || c.changes(t, "failed") > failed
		})
		if c.changes(t, "entered") > before {
			return callID
		}
		t.Logf("the call to %s did not go past the switch: %s", number, deref(c.trunk(t).BypassFailure))
		_ = c.phones().Hangup(t.Context(), "+91"+number) // if it has not ended already
		c.endedCall(t, callID)
		c.bypassTrunk(t)
	}
	require.FailNow(t, "no call went past the switch")
	return ""
}

// tolerableGap is what a change of the audio's way may cost on a busy machine. BenchmarkBypassGap prints what it does cost.
const tolerableGap = 400 * time.Millisecond

// A trunk earns bypass by a probe. In it both sides hear each other, keys are understood whatever their payload type is, the
// recording goes on, and either side's hang-up is told truly. A transfer takes the media back and loses little by that.
func TestBypass(t *testing.T) {
	withPlainStack(t, stack.Config{}, func(t *testing.T, c *customer) {
		require.Len(t, c.probe(t, "9877000000"), 8)
		require.Equal(t, "bypass", c.trunk(t).MediaMode)

		// Of a few calls the best counts: this machine may be busy.
		best := time.Hour
		for try := 0; try < 6 && best >= tolerableGap; try++ {
			best = min(best, c.bypassAndTransfer(t, try))
		}
		require.Less(t, best, tolerableGap, "the longest time without audio at the carrier")
		c.bypassHangups(t)
		c.bypassKeys(t)
		c.atRest(t)
	})
}

// bypassAndTransfer hears both sides in bypass, then transfers the caller. It returns the longest time without audio, which is an
// hour when the way back was not measured: then the media leg has not outlived it.
func (c *customer) bypassAndTransfer(t *testing.T, try int) (gap time.Duration) {
	t.Helper()
	caller, other := fmt.Sprintf("98770000%d1", try), fmt.Sprintf("98770000%d2", try)
	since := time.Now()
	callID := c.bypassed(t, caller, "/tone?hz=1000&delay=0s")
	gap = c.wayGap(t, "entered", caller, since)
	var report simcarrier.Report
	eventually(t, 20*time.Second, "the caller says two phrases", func() bool {
		report, _ = c.report(t, "+91"+caller)
		return len(report.SentOnsets) >= 4
	})
	require.GreaterOrEqual(t, report.Reinvites, 2, "one that tries the carrier, one that leads the audio past the switch")
	require.InDelta(t, agentHz, report.DominantHz, frequencyTolerance, "what the caller heard")
	sessions := c.sessions(t, callID)
	require.Len(t, sessions, 1)
	require.InDelta(t, callerHz, sessions[0].DominantHz, frequencyTolerance, "what the AI heard")

	left, measured := c.changes(t, "left"), c.wayGaps(t, "left")
	since = time.Now()
	c.control(t, http.StatusOK, callID, map[string]any{
		"event": "transfer", "destination_type": "e164", "destination": "+91" + other,
	})
	eventually(t, 15*time.Second, "the other party hears the caller", func() bool {
		report, ok := c.report(t, "+91"+other)
		return ok && len(onsets(report.Heard, callerHz)) > 0
	})
	eventually(t, patience, "the media was taken back", func() bool { return c.changes(t, "left") == left+1 })
	if gap = max(gap, c.wayGap(t, "left", caller, since)); c.wayGaps(t, "left") == measured {
		t.Log("the way back was not measured")
		gap = time.Hour
	}
	eventually(t, 10*time.Second, "the other party says two phrases after its hello", func() bool {
		report, _ := c.report(t, "+91"+other)
		return len(report.SentOnsets) >= 3
	})
	eventually(t, patience, "the caller hears the other party", func() bool {
		report, _ := c.report(t, "+91"+caller)
		return len(onsets(report.Heard, callerHz)) > 0
	})
	c.hangUp(t, "+91"+other)
	call := c.endedCall(t, callID)
	require.Equal(t, "completed", call.Status)
	c.checkBypassRecording(t, callID)
	return gap
}

// wayGap is the longest time without audio at the carrier since then; it logs what the media endpoint measured as well.
func (c *customer) wayGap(t *testing.T, change, number string, since time.Time) time.Duration {
	t.Helper()
	report, _ := c.report(t, "+91"+number)
	carrier, endpoint := gapSince(report, since), c.metric(t, `ringmaster_bypass_gap_seconds_sum{change="`+change+`"}`)
	t.Logf("%s: longest gap at the carrier %s; %.0f ms at the media endpoint, in %d changes", change, carrier, 1000*endpoint, c.wayGaps(t, change))
	return carrier
}

// wayGaps counts the changes of the audio's way that were measured.
func (c *customer) wayGaps(t *testing.T, change string) int {
	t.Helper()
	return int(c.metric(t, `ringmaster_bypass_gap_seconds_count{change="`+change+`"}`))
}

// gapSince is the longest time between two packets at the carrier that began since then.
func gapSince(r simcarrier.Report, since time.Time) (longest time.Duration) {
	for _, gap := range r.Gaps {
		if gap.At.After(since) {
			longest = max(longest, time.Duration(gap.MS*float64(time.Millisecond)))
		}
	}
	return longest
}

// checkBypassRecording holds the file against the call: the AI and the caller in its first part, the other party in its second,
// and no less audio than the call was long.
func (c *customer) checkBypassRecording(t *testing.T, callID string) {
	t.Helper()
	wav, err := wav.Parse(c.recording(t, callID))
	require.NoError(t, err)
	require.Equal(t, 2, wav.Channels)
	left, right := wav.Channel(0), wav.Channel(1)
	row := c.row(t, callID)
	length := time.Duration(len(left)) * time.Second / time.Duration(wav.Rate)
	require.InDelta(t, row.ended.Sub(*row.answered), length, float64(3*time.Second))
	first := 5 * wav.Rate
	require.Greater(t, len(left), first)
	for name, side := range map[string]struct {
		samples     []int16
		want, other float64
	}{
		"the caller": {left[:first], callerHz, agentHz}, "the AI": {right[:first], agentHz, callerHz},
		"the other party": {right[len(right)-2*wav.Rate:], callerHz, agentHz},
	} {
		level := tone.LevelAt(side.samples, wav.Rate, side.want) - tone.LevelAt(side.samples, wav.Rate, side.other)
		require.Greater(t, level, separationDB/2, name)
	}
}

// bypassHangups ends calls in bypass from both sides.
func (c *customer) bypassHangups(t *testing.T) {
	t.Helper()
	for disposition, end := range map[string]func(callID, number string){
		"send_bye": func(callID, _ string) {
			c.control(t, http.StatusOK, callID, map[string]any{"event": "hangup"})
		},
		"recv_bye": func(_, number string) { c.hangUp(t, "+91"+number) },
	} {
		number := "98770010" + map[string]string{"send_bye": "01", "recv_bye": "02"}[disposition]
		callID := c.bypassed(t, number, "/tone?hz=1000&delay=0s")
		end(callID, number)
		call := c.endedCall(t, callID)
		require.Equal(t, "completed", call.Status)
		require.Equal(t, "NORMAL_CLEARING", deref(call.HangupCause))
		require.Equal(t, disposition, deref(call.HangupDisposition))
	}
}

// bypassKeys: the keys of a carrier whose telephone events have a number of their own, which nobody has told us; both ways, and
// also after a monitor has taken the media back.
func (c *customer) bypassKeys(t *testing.T) {
	t.Helper()
	callID := c.bypassed(t, "9877000069", "/tone?hz=1000&delay=0s")
	require.NoError(t, c.phones().Press(t.Context(), "+919877000069", simcarrier.PressRequest{Digits: "123"}))
	eventually(t, 10*time.Second, "the AI is told three keys", func() bool {
		return len(keysTold(t, c.sessions(t, callID)[0])) >= 3
	})
	require.Equal(t, []string{"1", "2", "3"}, keysTold(t, c.sessions(t, callID)[0]))
	c.press(t, callID, "45", "+919877000069", "45")
	left := c.wayGaps(t, "left")
	monitor := c.live(t, "9877000003", "/tone?hz=700&delay=0s")
	c.monitor(t, http.StatusOK, monitor, "monitor_start", callID)
	c.press(t, callID, "67", "+919877000069", "4567")
	eventually(t, patience, "the way out is measured", func() bool { return c.wayGaps(t, "left") > left })
	for _, id := range []string{monitor, callID} {
		c.control(t, http.StatusOK, id, map[string]any{"event": "hangup"})
		c.endedCall(t, id)
	}
}

// press sends digits to the caller, who then has been sent so many in all.
func (c *customer) press(t *testing.T, callID, digits, number, all string) {
	t.Helper()
	c.control(t, http.StatusOK, callID, map[string]any{"event": "send_dtmf", "digits": digits})
	var got string
	require.Eventually(t, func() bool {
		report, _ := c.report(t, number)
		var keys strings.Builder
		for _, d := range report.DTMF {
			keys.WriteString(d.Digit)
		}
		got = keys.String()
		return len(got) >= len(all)
	}, patience, 100*time.Millisecond, "the caller hears %s", all)
	require.Equal(t, all, got)
}

func keysTold(t *testing.T, s echoai.Session) (keys []string) {
	t.Helper()
	for _, text := range s.Texts {
		if text.Type != "dtmf" {
			continue
		}
		var frame struct {
			Data struct {
				Digit string `json:"digit"`
			} `json:"data"`
		}
		require.NoError(t, json.Unmarshal(text.Raw, &frame))
		keys = append(keys, frame.Data.Digit)
	}
	return keys
}

// A carrier that refuses re-INVITEs costs its trunk the flag. With 488 and 491 the call goes on undisturbed; 500 ends it, and its
// record says so. One that answers late is borne.
func TestBypassThatFails(t *testing.T) {
	withPlainStack(t, stack.Config{}, func(t *testing.T, c *customer) {
		for number, status := range map[string]int{"9877100065": 488, "9877100066": 491} {
			c.bypassTrunk(t)
			failed := c.changes(t, "failed")
			callID := c.live(t, number, "/tone?hz=1000&delay=0s")
			eventually(t, 20*time.Second, "the failure is noticed", func() bool { return c.changes(t, "failed") == failed+1 })
			eventually(t, 20*time.Second, "the trunk is out of bypass", func() bool { return c.trunk(t).BypassFailure != nil })
			require.Contains(t, *c.trunk(t).BypassFailure, strconv.Itoa(status))
			require.Equal(t, "bypass", c.trunk(t).MediaMode, "what was configured is kept")
			eventually(t, 10*time.Second, "the AI hears the caller on", func() bool {
				return len(onsets(c.sessions(t, callID)[0].Heard, callerHz)) >= 2
			})
			report, _ := c.report(t, "+91"+number)
			require.Less(t, report.LongestGapMS, 2500.0, "the call was not disturbed")
			require.True(t, report.HearsNow)
			c.control(t, http.StatusOK, callID, map[string]any{"event": "hangup"})
			c.endedCall(t, callID)
		}
		entered := c.changes(t, "entered")
		callID := c.live(t, "9877100010", "/tone?hz=1000&delay=0s")
		c.control(t, http.StatusOK, callID, map[string]any{"event": "hangup"})
		c.endedCall(t, callID)
		report, _ := c.report(t, "+919877100010")
		require.Zero(t, report.Reinvites, "a trunk that has failed is not tried again")
		require.Equal(t, entered, c.changes(t, "entered"))

		c.bypassTrunk(t)
		callID = c.bypassed(t, "9877100068", "/tone?hz=1000&delay=0s")
		c.control(t, http.StatusOK, callID, map[string]any{"event": "hangup"})
		c.endedCall(t, callID)
		require.Nil(t, c.trunk(t).BypassFailure, "400 ms are not too late")

		campaign := c.campaign(t, c.voiceAgent(t, "/tone?hz=1000&delay=0s", nil), nil)
		c.push(t, campaign, "9877100067")
		c.start(t, campaign)
		call := c.ended(t, campaign, 1, 20*time.Second)[0]
		require.Equal(t, "completed", call.Status)
		require.Equal(t, "NORMAL_TEMPORARY_FAILURE", deref(call.HangupCause))
		require.Equal(t, "recv_refuse", deref(call.HangupDisposition))
		require.Contains(t, deref(c.trunk(t).BypassFailure), "500")
		c.atRest(t)
	})
}

// After kill -9 of the controller with calls in bypass nothing happens on the switch; after its restart every caller hears the
// AI again, in the same session.
func TestControllerKilledInBypass(t *testing.T) {
	const calls = 5
	withOwnStack(t, stack.Config{}, func(t *testing.T, c *customer) {
		c.bypassTrunk(t)
		campaign := c.campaign(t, c.voiceAgent(t, "/tone?hz=1000&delay=0s", nil), nil)
		number := func(i int) string { return fmt.Sprintf("98772000%02d", i) }
		for i := range calls {
			c.push(t, campaign, number(i))
		}
		c.start(t, campaign)
		eventually(t, 30*time.Second, "all calls are in bypass", func() bool { return c.changes(t, "entered") == calls })
		before := c.calls(t, campaign)
		require.NoError(t, c.KillController())
		eventually(t, 5*time.Second, "the callers hear nothing", func() bool { return c.hearing(t, calls, number) == 0 })
		restarted := time.Now()
		defer c.tellDeaf(t, campaign, calls, number)
		require.NoError(t, c.StartController(t.Context()))
		eventually(t, 25*time.Second, "every caller hears the AI again", func() bool { return c.hearing(t, calls, number) == calls })
		t.Logf("all %d callers heard the AI again %s after the restart", calls, time.Since(restarted).Round(time.Millisecond))
		eventually(t, 10*time.Second, "all calls are in bypass again", func() bool { return c.changes(t, "entered") == calls })
		c.checkSurvivors(t, campaign, before, nil, time.Now())
		for _, call := range c.calls(t, campaign) {
			require.Nil(t, call.EndTime)
		}
		c.finish(t, calls, number)
		ended := c.ended(t, campaign, calls, 20*time.Second)
		require.False(t, slices.ContainsFunc(ended, func(call call) bool { return deref(call.HangupDisposition) != "recv_bye" }))
		c.atRest(t)
	})
}
