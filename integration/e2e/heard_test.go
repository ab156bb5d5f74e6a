package e2e

import (
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/stack"
)

// spyHz is the tone of whoever listens to a call and may be heard there.
const spyHz = 700.0

// callee is the far end of a call to a number.
func (c *customer) callee(t *testing.T, number string) ear {
	return func(hz float64) int64 { return c.heard(t, number, hz) }
}

// voiceAgentOf is the voice agent of a call, by its first connection.
func (c *customer) voiceAgentOf(t *testing.T, callID string) ear {
	return func(hz float64) int64 { return heardOf(c.sessions(t, callID)[0].Heard, hz) }
}

// phoneOf is a softphone.
func (c *customer) phoneOf(t *testing.T, extension string) ear {
	return func(hz float64) int64 {
		state, err := c.phones().Agent(t.Context(), extension)
		require.NoError(t, err)
		if state.Call == nil {
			return 0
		}
		return heardOf(state.Call.Heard, hz)
	}
}

// monitorModes goes through what a monitor can do on a call that is up: caller and partner are its two ends, hears what the
// monitor hears of them.
func (c *customer) monitorModes(t *testing.T, monitor, target string, caller, partner ear, hears ...float64) {
	t.Helper()
	verb := func(status int, event string, more map[string]any) map[string]any {
		body := map[string]any{"event": event, "target_call_id": target}
		maps.Copy(body, more)
		return c.control(t, status, monitor, body)
	}
	// By whom the two seconds that the monitor plays are heard, half of them at least: a busy machine leaves gaps.
	file := map[string]any{"audio_url": audioServer(t, playedHz, 2*time.Second)}
	whisperIn := func(mode string) {
		t.Helper()
		before := partner(playedHz)
		verb(http.StatusOK, "whisper", file)
		eventually(t, 20*time.Second, "the other hears the whisper in mode "+mode, func() bool { return partner(playedHz) >= before+1000 })
		require.Zero(t, caller(playedHz), "a whisper is not for the caller")
	}
	verb(http.StatusForbidden, "whisper", file)
	verb(http.StatusForbidden, "barge", nil)
	verb(http.StatusOK, "monitor_start", nil)
	whisperIn("listen")
	require.Zero(t, partner(spyHz), "listen")
	require.Zero(t, caller(spyHz), "listen")

	verb(http.StatusOK, "monitor_start", map[string]any{"mode": "listen_and_whisper"})
	partner.hears(t, spyHz, "listen_and_whisper")
	whisperIn("listen_and_whisper")
	require.Zero(t, caller(spyHz), "listen_and_whisper")

	verb(http.StatusOK, "barge", nil)
	caller.hears(t, spyHz, "barge")
	partner.hears(t, spyHz, "barge")
	verb(http.StatusOK, "barge", nil)
	verb(http.StatusConflict, "whisper", file)
	var monitored ear = func(hz float64) int64 {
		s, _ := c.monitorSession(t, monitor, target)
		return heardOf(s.Heard, hz)
	}
	for _, hz := range hears {
		monitored.hears(t, hz, "barge")
	}
	require.Zero(t, monitored(spyHz), "the monitor does not hear itself")

	verb(http.StatusOK, "monitor_start", nil)
	caller.quiet(t, spyHz, "listen after barge")
	partner.quiet(t, spyHz, "listen after barge")
	verb(http.StatusOK, "barge", nil)
	caller.hears(t, spyHz, "barge again")
	verb(http.StatusOK, "monitor_stop", nil)
	caller.quiet(t, spyHz, "monitor_stop")
	partner.quiet(t, spyHz, "monitor_stop")
}

// requireHeardEvents: the events tell of each change, with the monitor among the participants.
func (r *receiver) requireHeardEvents(t *testing.T, monitor, target string) {
	t.Helper()
	want := []string{"monitor_started", "whisper", "monitor_started", "whisper", "barge", "monitor_started", "barge", "monitor_stopped"}
	eventually(t, 20*time.Second, "the events arrive", func() bool { return len(r.ofCall(monitor)) >= len(want) })
	var changes []string
	for _, d := range r.deliveries() {
		if d.event.Data["call_id"] == monitor {
			change, _ := d.event.Data["change"].(string)
			changes = append(changes, change)
			require.Equal(t, target, d.event.Data["target_call_id"])
		}
	}
	require.ElementsMatch(t, want, changes)
}

// A monitor of an AI call is heard by the voice agent alone in listen_and_whisper and by both in barge, whispers files to the voice agent, and is
// heard by nobody in listen and after its end.
func TestMonitorIsHeardOnAICall(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		r := newReceiver(t, accept)
		c.subscribe(t, r.URL, "ai_session.conference_changed")
		const callee, listener = "9876110000", "9876110001"
		target := c.live(t, callee, "/tone?hz=1000&delay=0s")
		monitor := c.live(t, listener, "/tone?hz=700&delay=0s")
		c.monitorModes(t, monitor, target, c.callee(t, callee), c.voiceAgentOf(t, target), callerHz, agentHz)
		r.requireHeardEvents(t, monitor, target)
		for _, id := range []string{target, monitor} {
			c.control(t, http.StatusOK, id, map[string]any{"event": "hangup"})
			c.endedCall(t, id)
		}
		c.atRest(t)
	})
}

// The same in two channels, of which the monitor's stand-in hears the first, of a call that an agent has.
func TestMonitorIsHeardOnHumanCall(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		a := c.login(t)
		c.softphone(t, simcarrier.AgentSpec{Extension: a.SIP.Extension, Password: a.SIP.Password, Voice: "tone:1000"})
		campaign := c.people(t)
		const callee, listener = "9866110000", "9876110011"
		c.push(t, campaign, callee)
		c.start(t, campaign)
		target := c.connected(t, campaign)
		stereo := map[string]any{"audio_format": map[string]any{"encoding": "pcm_s16le", "channels": 2}}
		monitor := c.silent(t, listener, "/tone?hz=700&delay=0s", stereo)
		c.monitorModes(t, monitor, target, c.callee(t, callee), c.phoneOf(t, a.SIP.Extension), callerHz)
		c.hangUp(t, callee)
		c.endedCall(t, target)
		a.dispose(t, target)
		c.control(t, http.StatusOK, monitor, map[string]any{"event": "hangup"})
		c.endedCall(t, monitor)
		c.atRest(t)
	})
}

// A call in bypass comes back to the switch, and goes past it again when nobody listens any more.
func TestMonitorIsHeardOnCallInBypass(t *testing.T) {
	withPlainStack(t, stack.Config{}, func(t *testing.T, c *customer) {
		c.probe(t, "9877110000")
		const callee, listener = "9876110020", "9876110021"
		target := c.bypassed(t, callee, "/tone?hz=1000&delay=0s")
		monitor := c.live(t, listener, "/tone?hz=700&delay=0s")
		before := c.changes(t, "entered")
		c.monitorModes(t, monitor, target, c.callee(t, callee), c.voiceAgentOf(t, target), callerHz, agentHz)
		eventually(t, 20*time.Second, "the call goes past the switch again", func() bool { return c.changes(t, "entered") > before })
		for _, id := range []string{target, monitor} {
			c.control(t, http.StatusOK, id, map[string]any{"event": "hangup"})
			c.endedCall(t, id)
		}
		c.atRest(t)
	})
}
