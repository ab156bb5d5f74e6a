package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/wav"
)

// playedHz is what the verbs' audio has; the stand-ins track it.
const playedHz = 1400.0

// audioServer serves a WAV file of one tone.
func audioServer(t *testing.T, hz float64, length time.Duration) string {
	t.Helper()
	file := wav.Encode(dsptest.Tone(hz, recordingRate, int(length.Seconds()*recordingRate)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "audio/wav")
		_, _ = w.Write(file)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/tone.wav"
}

// span is a part of a recording, from its answer on.
type span struct{ from, to time.Duration }

// level is the tone's level in a part, without what was on its way at its edges.
func (s span) level(samples []int16, hz float64) float64 {
	const edge = 250 * time.Millisecond
	at := func(d time.Duration) int { return max(0, min(int(d.Seconds()*recordingRate), len(samples))) }
	return tone.LevelAt(samples[at(s.from+edge):max(at(s.from+edge), at(s.to-edge))], recordingRate, hz)
}

func (c *customer) state(t *testing.T, callID string) map[string]any {
	t.Helper()
	out := c.control(t, http.StatusOK, callID, map[string]any{"event": "get_call_state"})
	state, ok := out["result"].(map[string]any)
	require.True(t, ok)
	return state
}

// TestSoundVerbs mutes either side, plays audio over the voice agent, and holds the caller: heard at the callee's end, and in the recording,
// which has what was heard and silence for what was not.
func TestSoundVerbs(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		const number = "9876100001"
		music := audioServer(t, playedHz, 700*time.Millisecond)
		callID := c.live(t, number, "/tone?hz=1000")
		answered := *c.row(t, callID).answered
		// during is how long what a verb made lasts, and what is undone after it.
		during := func(d time.Duration, begin, end map[string]any) span {
			c.control(t, http.StatusOK, callID, begin)
			out := span{from: time.Since(answered)}
			until := time.Now().Add(d)
			eventually(t, d+10*time.Second, "time passes", func() bool { return time.Now().After(until) })
			out.to = time.Since(answered)
			if end != nil {
				c.control(t, http.StatusOK, callID, end)
			}
			return out
		}
		verb := func(event string) map[string]any { return map[string]any{"event": event} }
		plain := during(2*time.Second, verb("unhold"), nil)
		agentMuted := during(2*time.Second, map[string]any{"event": "mute", "target": "agent"}, map[string]any{"event": "unmute", "target": "agent"})
		// The callee pauses for 2 s at most: there is speech in it.
		callerMuted := during(4*time.Second, verb("mute"), nil)
		require.Equal(t, map[string]any{"caller": true, "agent": false}, c.state(t, callID)["is_muted"])
		c.control(t, http.StatusOK, callID, verb("unmute"))
		played := during(1200*time.Millisecond, map[string]any{"event": "play_audio", "audio_url": music}, nil)
		c.hears(t, "+91"+number, playedHz, 1, "the callee hears the audio")
		held := during(4*time.Second, map[string]any{"event": "hold", "moh_url": music}, nil)
		require.Equal(t, true, c.state(t, callID)["is_held"])
		c.hears(t, "+91"+number, playedHz, 2, "the callee hears the music")
		c.control(t, http.StatusOK, callID, verb("unhold"))
		resumed := during(2*time.Second, verb("unhold"), nil)
		nowhere := httptest.NewServer(http.NotFoundHandler())
		problem := c.control(t, http.StatusFailedDependency, callID, map[string]any{"event": "play_audio", "audio_url": nowhere.URL})
		require.Equal(t, "audio_failed", problem["code"])
		require.Equal(t, "The audio can't be fetched or played: its server answered 404.", problem["detail"])
		nowhere.Close()
		c.control(t, http.StatusOK, callID, verb("hangup"))
		c.endedCall(t, callID)
		c.atRest(t)

		var states []string
		for _, text := range c.sessions(t, callID)[0].Texts {
			if text.Type == "call_state" {
				var frame struct {
					Data struct{ State string }
				}
				require.NoError(t, json.Unmarshal(text.Raw, &frame))
				states = append(states, frame.Data.State)
			}
		}
		require.Equal(t, []string{"answered", "held", "resumed", "ended"}, states)

		file, err := wav.Parse(c.recording(t, callID))
		require.NoError(t, err)
		left, right := file.Channel(0), file.Channel(1)
		loudAI := plain.level(right, agentHz)
		for name, quiet := range map[string]float64{
			"the muted agent": agentMuted.level(right, agentHz), "the agent beside the music": held.level(right, agentHz),
		} {
			require.Less(t, quiet, loudAI-separationDB, name)
		}
		for name, loud := range map[string]float64{
			"the agent of a muted caller": callerMuted.level(right, agentHz), "the agent under the audio": played.level(right, agentHz),
			"the agent after the hold": resumed.level(right, agentHz),
		} {
			require.InDelta(t, loudAI, loud, 6, name)
		}
		require.Greater(t, held.level(right, playedHz), plain.level(right, playedHz)+separationDB, "the music")
		require.Greater(t, span{played.from - 250*time.Millisecond, played.from + 700*time.Millisecond}.level(right, playedHz),
			plain.level(right, playedHz)+separationDB, "the audio")
		loudCaller := tone.LevelAt(left, recordingRate, callerHz)
		require.Less(t, callerMuted.level(left, callerHz), loudCaller-separationDB, "the muted caller")
		require.Less(t, held.level(left, callerHz), loudCaller-separationDB, "the held caller")
	})
}

// TestOutcomeVerbs: what a voice agent says of call and lead is there after the call; the callback that it promised is dialed at its time by
// the voice agent that it named, and the opt-out of that call keeps the number from being called again.
func TestOutcomeVerbs(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		const number = "9876100002"
		r := newReceiver(t, accept)
		c.subscribe(t, r.URL, "call.disposition_set", "lead.completed")
		other := c.voiceAgent(t, "/tone?hz=700", nil)
		campaign := c.campaign(t, c.voiceAgent(t, "/tone?hz=1000", nil), map[string]any{"max_attempts": 2})
		lead := c.push(t, campaign, number)
		c.start(t, campaign)
		up := func(n int) string {
			t.Helper()
			var found []call
			eventually(t, 40*time.Second, "the call is up", func() bool {
				found = c.calls(t, campaign)
				return len(found) == n && slices.ContainsFunc(found, func(k call) bool { return k.Status == "agent_connected" })
			})
			i := slices.IndexFunc(found, func(k call) bool { return k.Status == "agent_connected" })
			return found[i].ID
		}
		first := up(1)
		c.control(t, http.StatusOK, first, map[string]any{"event": "set_disposition", "disposition": "interested", "notes": "rings back"})
		c.control(t, http.StatusOK, first, map[string]any{"event": "set_disposition", "disposition": "call_back"})
		c.control(t, http.StatusOK, first, map[string]any{"event": "set_lead_field", "field": "plan", "value": map[string]any{"tier": 2}})
		c.control(t, http.StatusUnprocessableEntity, first, map[string]any{"event": "schedule_callback", "scheduled_at": "2020-01-01T00:00:00Z"})
		c.control(t, http.StatusOK, first, map[string]any{
			"event": "schedule_callback", "scheduled_at": time.Now().Add(2 * time.Second).UTC().Format(time.RFC3339Nano), "reason": "at lunch",
			"voice_agent_id": other,
		})
		require.Equal(t, "call_back", c.state(t, first)["disposition"])
		c.control(t, http.StatusOK, first, map[string]any{"event": "hangup", "metadata": map[string]any{
			"ai_summary": "Wants a call.", "ai_sentiment": "positive", "ai_next_action": "call",
		}})
		c.endedCall(t, first)
		var said map[string]any
		c.do(t, http.StatusOK, http.MethodGet, "/api/v1/calls/"+first, nil, &said)
		require.Equal(t, "call_back", said["disposition"])
		require.Equal(t, "rings back", said["notes"])
		require.Equal(t, "Wants a call.", said["ai_summary"])
		require.Equal(t, "positive", said["ai_sentiment"])
		require.Equal(t, "call", said["ai_next_action"])

		second := up(2)
		require.NotEqual(t, first, second)
		var again map[string]any
		c.do(t, http.StatusOK, http.MethodGet, "/api/v1/calls/"+second, nil, &again)
		require.Equal(t, other, again["voice_agent_id"])
		c.control(t, http.StatusOK, second, map[string]any{"event": "set_lead_status", "status": "opted_out"})
		c.control(t, http.StatusConflict, second, map[string]any{"event": "set_lead_status", "status": "retry"})
		c.control(t, http.StatusOK, second, map[string]any{"event": "hangup"})
		c.endedCall(t, second)
		var kept map[string]any
		eventually(t, 10*time.Second, "the lead ends", func() bool {
			c.do(t, http.StatusOK, http.MethodGet, "/api/v1/leads/"+lead, nil, &kept)
			return kept["completed_at"] != nil
		})
		require.Equal(t, "opted_out", kept["status"])
		require.Equal(t, "ai", kept["status_set_by"])
		require.Equal(t, map[string]any{"plan": map[string]any{"tier": 2.0}}, kept["custom_fields"])
		eventually(t, 10*time.Second, "the events arrive", func() bool { return len(r.deliveries()) >= 3 })
		var told []string
		for _, d := range r.deliveries() {
			told = append(told, d.event.Type)
			if d.event.Type == "call.disposition_set" {
				require.Equal(t, "ai", d.event.Data["source"])
			}
		}
		require.Equal(t, []string{"call.disposition_set", "call.disposition_set", "lead.completed"}, told)
		c.atRest(t)
	})
}

// TestAgentActsOnItsSocket: the guide's voice agent uses its ten verbs as command frames, and each is answered.
func TestAgentActsOnItsSocket(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		campaign := c.campaign(t, c.voiceAgent(t, "/act", nil), nil)
		lead := c.push(t, campaign, "9876100003")
		c.start(t, campaign)
		ended := c.ended(t, campaign, 1, 40*time.Second)
		require.Equal(t, "NORMAL_CLEARING", deref(ended[0].HangupCause))
		require.Equal(t, "send_bye", deref(ended[0].HangupDisposition))
		answered := map[string]bool{}
		for _, text := range c.sessions(t, ended[0].ID)[0].Texts {
			var frame struct {
				Data struct {
					ID    string
					OK    bool
					Error json.RawMessage
				}
			}
			if text.Type != "command_result" {
				continue
			}
			require.NoError(t, json.Unmarshal(text.Raw, &frame))
			require.True(t, frame.Data.OK, "%s: %s", frame.Data.ID, frame.Data.Error)
			answered[frame.Data.ID] = true
		}
		for i := range 9 { // the tenth ends the socket, too
			require.True(t, answered["act-"+strconv.Itoa(i+1)], "act-%d in %v", i+1, answered)
		}
		var said, kept map[string]any
		c.do(t, http.StatusOK, http.MethodGet, "/api/v1/calls/"+ended[0].ID, nil, &said)
		require.Equal(t, "interested", said["disposition"])
		require.Equal(t, "Wants the offer by mail.", said["ai_summary"])
		require.Equal(t, "send the offer", said["ai_next_action"])
		c.do(t, http.StatusOK, http.MethodGet, "/api/v1/leads/"+lead, nil, &kept)
		require.Equal(t, map[string]any{"language": "hi"}, kept["custom_fields"])
		c.atRest(t)
	})
}
