package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/echoai"
	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
	"github.com/ringmaster/ringmaster/switchctl/esl"
)

// monitorSession is the AI's connection that hears another call.
func (c *customer) monitorSession(t *testing.T, callID, target string) (echoai.Session, bool) {
	t.Helper()
	for _, s := range slices.Backward(c.sessions(t, callID)) {
		var about struct {
			Purpose string `json:"purpose"`
			Target  string `json:"target_call_id"`
		}
		require.NoError(t, json.Unmarshal(s.Metadata, &about))
		if about.Purpose == "monitor" {
			require.Equal(t, target, about.Target)
			return s, true
		}
	}
	return echoai.Session{}, false
}

func (c *customer) monitor(t *testing.T, status int, callID, verb, target string) map[string]any {
	t.Helper()
	return c.control(t, status, callID, map[string]any{"event": verb, "target_call_id": target})
}

// tapLegs counts the legs of calls that eavesdrop, and all their channels.
func (c *customer) tapLegs(t *testing.T, calls ...string) (taps, channels int) {
	t.Helper()
	conn, err := esl.Dial(t.Context(), c.Bootstrap.Switch.ESL, c.SwitchPassword(), esl.Options{})
	require.NoError(t, err)
	defer conn.Close() //nolint:errcheck // the test is done with it
	text, err := conn.API(t.Context(), "show channels as json")
	require.NoError(t, err)
	var list struct {
		Rows []struct {
			Application string `json:"application"`
			UUID        string `json:"uuid"`
		} `json:"rows"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &list), "%s", text)
	for _, row := range list.Rows {
		if of, err := conn.API(t.Context(), "uuid_getvar "+row.UUID+" rm_call_id"); err != nil || !slices.Contains(calls, of) {
			continue // of another test, or gone
		}
		channels++
		if role, err := conn.API(t.Context(), "uuid_getvar "+row.UUID+" rm_role"); err == nil && role == "tap" {
			taps++
		}
	}
	return taps, channels
}

// levels are how loud each frequency was that a connection heard.
func levels(s echoai.Session) map[float64]float64 {
	out := map[float64]float64{}
	for _, h := range s.Heard {
		out[h.Hz] = h.LevelDBFS
	}
	return out
}

// One AI call listens to another: both parties reach its second connection, what that sends is heard by nobody, the target's
// audio goes on without a gap, and the stop ends the leg. A transfer of the target to a person leaves the fork in place; the
// hang-up of either call ends it, with nothing left behind.
func TestMonitorHearsAnotherCall(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		r := newReceiver(t, accept)
		c.subscribe(t, r.URL, "ai_session.conference_changed")
		const callee, listener = "9876600000", "9876600001"
		target := c.live(t, callee, "/tone?hz=1000&delay=0s")
		monitor := c.live(t, listener, "/tone?hz=700&delay=0s")
		// Of a few forks the best counts: the others may have been disturbed by this machine.
		var forks int
		for disturbed := "yes"; disturbed != ""; {
			forks++
			disturbed = c.listen(t, monitor, target, callee)
			if disturbed != "" {
				t.Logf("fork %d: %s", forks, disturbed)
				require.Less(t, forks, 6, disturbed)
				c.stopListening(t, monitor, target)
			}
		}
		// A repeated start is no fault; a stranger's call can't be found.
		c.monitor(t, http.StatusOK, monitor, "monitor_start", target)
		c.monitor(t, http.StatusNotFound, monitor, "monitor_start", "01930000-0000-7000-8000-00000000dead")
		c.control(t, http.StatusBadRequest, monitor, map[string]any{"event": "monitor_start"})
		problem := c.monitor(t, http.StatusForbidden, target, "monitor_stop", monitor)
		require.Equal(t, "no_relationship", problem["code"])
		c.stopListening(t, monitor, target)

		c.listenToPerson(t, monitor, target)
		c.hangUp(t, "+91"+callee)
		c.endedCall(t, target)
		eventually(t, 20*time.Second, "the fork has ended with its call", func() bool {
			taps, channels := c.tapLegs(t, target, monitor)
			heard, _ := c.monitorSession(t, monitor, target)
			return taps == 0 && channels == 2 && !heard.Live
		})
		problem = c.monitor(t, http.StatusConflict, monitor, "monitor_start", target)
		require.Equal(t, "invalid_call_state", problem["code"])
		c.control(t, http.StatusOK, monitor, map[string]any{"event": "hangup"})
		c.endedCall(t, monitor)
		c.atRest(t)
		r.requireMonitored(t, monitor, target, forks+1)
	})
}

// listen forks the target's audio and looks at what everybody hears. It tells what was not as it should be and may be the fault of
// a busy machine.
func (c *customer) listen(t *testing.T, monitor, target, callee string) (disturbed string) {
	t.Helper()
	c.monitor(t, http.StatusOK, monitor, "monitor_start", target)
	started := time.Now()
	var heard echoai.Session
	eventually(t, 20*time.Second, "both parties reach the monitor", func() bool {
		var ok bool
		heard, ok = c.monitorSession(t, monitor, target)
		return ok && heard.Live && len(onsets(heard.Heard, callerHz)) >= 2 && len(onsets(heard.Heard, agentHz)) > 0
	})
	t.Logf("levels at the monitor: %v", levels(heard))
	require.Empty(t, onsets(heard.Heard, 700), "the monitor's own tone is not in what it hears")
	eventually(t, 20*time.Second, "the switch lists the leg", func() bool {
		taps, _ := c.tapLegs(t, target)
		return taps == 1
	})
	report, _ := c.report(t, "+91"+callee)
	require.Empty(t, onsets(report.Heard, 700), "nobody on the target call hears the monitor")
	switch at := report.LongestGapAt; {
	case heard.LongestGapMS >= 400:
		return fmt.Sprintf("the fork has a hole of %.0f ms", heard.LongestGapMS)
	case at != nil && at.After(started.Add(-2*time.Second)) && report.LongestGapMS >= 500:
		return fmt.Sprintf("the target's audio has a gap of %.0f ms", report.LongestGapMS)
	case interrupted(report, started):
		return "the AI's tone began anew"
	}
	return ""
}

// interrupted: the AI's tone, which never pauses, began anew at the caller since then.
func interrupted(report simcarrier.Report, since time.Time) bool {
	return slices.ContainsFunc(report.Heard, func(h tone.Heard) bool {
		return h.Hz == agentHz && after(h.Onsets, since.Add(-time.Second)) > 0
	})
}

// stopListening ends the fork, twice, which is no fault.
func (c *customer) stopListening(t *testing.T, monitor, target string) {
	t.Helper()
	c.monitor(t, http.StatusOK, monitor, "monitor_stop", target)
	c.monitor(t, http.StatusOK, monitor, "monitor_stop", target)
	eventually(t, 20*time.Second, "the leg is gone", func() bool {
		taps, channels := c.tapLegs(t, target, monitor)
		heard, _ := c.monitorSession(t, monitor, target)
		return taps == 0 && channels == 4 && !heard.Live
	})
}

// listenToPerson forks the target's audio and hands its caller to a person, whom the monitor hears.
func (c *customer) listenToPerson(t *testing.T, monitor, target string) {
	t.Helper()
	const person = "9876600072"
	c.monitor(t, http.StatusOK, monitor, "monitor_start", target)
	c.control(t, http.StatusOK, target, map[string]any{
		"event": "transfer", "destination_type": "e164", "destination": "+91" + person,
	})
	eventually(t, 20*time.Second, "the person hears the caller", func() bool {
		report, ok := c.report(t, "+91"+person)
		return ok && len(onsets(report.Heard, callerHz)) > 0
	})
	// What is told apart: the person is a machine, whose beep of 1400 Hz is not like the caller's voice.
	var heard echoai.Session
	eventually(t, 25*time.Second, "the monitor hears the person's side", func() bool {
		heard, _ = c.monitorSession(t, monitor, target)
		return len(onsets(heard.Heard, 1400)) > 0
	})
	since := time.Now()
	eventually(t, 20*time.Second, "and the caller's", func() bool {
		heard, _ = c.monitorSession(t, monitor, target)
		return after(onsets(heard.Heard, callerHz), since) >= 2 && heard.Live
	})
	require.Zero(t, after(onsets(heard.Heard, agentHz), since), "the AI has left")
}

// requireMonitored: the events tell of so many forks, each of which began and ended.
func (r *receiver) requireMonitored(t *testing.T, monitor, target string, forks int) {
	t.Helper()
	eventually(t, 20*time.Second, "the events arrive", func() bool { return len(r.ofCall(monitor)) >= 2*forks })
	var changes, want []any
	for range forks {
		want = append(want, "monitor_started", "monitor_stopped")
	}
	for _, d := range r.deliveries() {
		changes = append(changes, d.event.Data["change"])
		require.Equal(t, target, d.event.Data["target_call_id"])
		require.Equal(t, "tenant_api", d.event.Data["actor"])
		require.Nil(t, d.event.Data["conference_id"])
		require.NotEmpty(t, d.event.Data["participants"])
	}
	require.ElementsMatch(t, want, changes)
}

// after counts the moments later than since.
func after(moments []time.Time, since time.Time) (n int) {
	for _, m := range moments {
		if m.After(since) {
			n++
		}
	}
	return n
}

// A monitor of two channels has the caller on the left and the other side on the right, each by a leg of its own.
func TestMonitorInTwoChannels(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		const callee, left, right = "9876700000", "9876700001", "9876700002"
		target := c.live(t, callee, "/tone?hz=1000&delay=0s")
		stereo := map[string]any{"audio_format": map[string]any{"encoding": "pcm_s16le", "channels": 2}}
		listen := func(number, path string, want, other float64) string {
			monitor := c.silent(t, number, path, stereo)
			c.monitor(t, http.StatusOK, monitor, "monitor_start", target)
			var heard echoai.Session
			eventually(t, 20*time.Second, "the side reaches the monitor", func() bool {
				var ok bool
				heard, ok = c.monitorSession(t, monitor, target)
				return ok && heard.FramesIn > 200 && len(onsets(heard.Heard, want)) > 0
			})
			t.Logf("levels at the monitor: %v, longest gap %.0f ms", levels(heard), heard.LongestGapMS)
			require.Empty(t, onsets(heard.Heard, other), "the other side is not on this channel")
			return monitor
		}
		first := listen(left, "/silent?hears=0", callerHz, agentHz)
		second := listen(right, "/silent?hears=1", agentHz, callerHz)
		eventually(t, 20*time.Second, "the switch lists the legs", func() bool {
			taps, _ := c.tapLegs(t, target, first, second)
			return taps == 4
		})
		// The calls that listen end, one by a hang-up: so do their forks, and the target goes on.
		c.hangUp(t, "+91"+left)
		c.endedCall(t, first)
		c.control(t, http.StatusOK, second, map[string]any{"event": "hangup"})
		c.endedCall(t, second)
		eventually(t, 20*time.Second, "the legs are gone", func() bool {
			taps, channels := c.tapLegs(t, target, first, second)
			return taps == 0 && channels == 2
		})
		report, _ := c.report(t, "+91"+callee)
		require.True(t, report.HearsNow)
		c.control(t, http.StatusOK, target, map[string]any{"event": "hangup"})
		c.endedCall(t, target)
		c.atRest(t)
	})
}

// silent starts a call whose voice agent says nothing, and waits until both are connected.
func (c *customer) silent(t *testing.T, number, path string, extra map[string]any) (callID string) {
	t.Helper()
	campaign := c.campaign(t, c.voiceAgent(t, path, extra), nil)
	c.push(t, campaign, number)
	c.start(t, campaign)
	eventually(t, 20*time.Second, "the call is up", func() bool {
		calls := c.calls(t, campaign)
		if len(calls) == 1 {
			callID = calls[0].ID
		}
		return len(calls) == 1 && calls[0].Status == "agent_connected"
	})
	return callID
}

// The AI asks over its own socket; the answer comes there.
func TestMonitorByCommandFrame(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		const callee, listener = "9876800000", "9876800001"
		target := c.live(t, callee, "/tone?hz=1000&delay=0s")
		script := `[{"after":"500ms","send":{"type":"command","id":"m1","data":{"event":"monitor_start","target_call_id":"` + target + `"}}}]`
		monitor := c.live(t, listener, "/tone?hz=700&delay=0s&script="+url.QueryEscape(script))
		eventually(t, 20*time.Second, "both parties reach the monitor", func() bool {
			heard, ok := c.monitorSession(t, monitor, target)
			return ok && len(onsets(heard.Heard, callerHz)) >= 1 && len(onsets(heard.Heard, agentHz)) > 0
		})
		main := c.sessions(t, monitor)[0]
		i := slices.IndexFunc(main.Texts, func(text echoai.Text) bool { return text.Type == "command_result" })
		require.GreaterOrEqual(t, i, 0)
		require.Contains(t, string(main.Texts[i].Raw), `"status":200`)
		for _, id := range []string{monitor, target} {
			c.control(t, http.StatusOK, id, map[string]any{"event": "hangup"})
			c.endedCall(t, id)
		}
		eventually(t, 20*time.Second, "no channel is left", func() bool {
			_, channels := c.tapLegs(t, target, monitor)
			return channels == 0
		})
		c.atRest(t)
	})
}
