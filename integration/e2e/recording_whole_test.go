package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
	"github.com/ringmaster/ringmaster/media/wav"
)

// requireWhole holds that nothing is missing from the recording of a call whose other side has a steady tone from a moment on: it is as long as the
// call, has that tone in each half second, and the caller's phrases where they were said.
func (c *customer) requireWhole(t *testing.T, callID, number string, hz float64, since time.Time) {
	t.Helper()
	const window, edge, audible, apart = 500 * time.Millisecond, time.Second, -30.0, 400 * time.Millisecond
	w, err := wav.Parse(c.recording(t, callID))
	require.NoError(t, err)
	row := c.row(t, callID)
	left, right := w.Channel(0), w.Channel(w.Channels-1)
	whole, lasts := row.ended.Sub(*row.answered), time.Duration(len(left))*time.Second/time.Duration(w.Rate)
	report, ok := c.report(t, number)
	require.True(t, ok)
	var sent []time.Duration
	for _, at := range report.SentOnsets {
		sent = append(sent, at.Sub(*row.answered).Round(time.Millisecond))
	}
	recorded := wavOnsets(left, w.Rate, callerHz)
	t.Logf("%s: %s of %s; the caller's phrases at %v, recorded at %v", number, lasts, whole.Round(time.Millisecond), sent, recorded)
	require.InDelta(t, whole.Seconds(), lasts.Seconds(), edge.Seconds())

	n, from := int(window.Seconds()*float64(w.Rate)), since.Sub(*row.answered)+edge
	begun := false // a prompt is fetched first, which takes its time on a busy machine
	for i := 0; i+n <= len(right); i += n {
		at := time.Duration(i) * time.Second / time.Duration(w.Rate)
		begun = begun || at > from+4*edge || tone.LevelAt(right[i:i+n], w.Rate, hz) > audible
		if begun && at > from && at+window < lasts-edge/2 {
			require.Greater(t, tone.LevelAt(right[i:i+n], w.Rate, hz), audible, "the other side %s after the answer", at)
		}
	}
	for _, at := range sent {
		if at < edge || at > whole-edge {
			continue
		}
		found := false
		for _, r := range recorded {
			found = found || (r-at).Abs() < apart
		}
		require.True(t, found, "what the caller said at %s", at)
	}
}

// talkSeven lets a conversation go on for longer than machine detection listens.
func talkSeven(t *testing.T) {
	t.Helper()
	began := time.Now()
	eventually(t, 20*time.Second, "they talk", func() bool { return time.Since(began) > 7*time.Second })
}

// A SIP endpoint's call is recorded from its beginning, also while machine detection listens.
func TestRecordingIsWholeOverSIP(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		const number = "9876197000"
		bot := newSIPBot(t)
		campaign, _ := c.sipCampaignOf(t, c.campaign(t, c.sipAgent(t, bot, nil, nil), map[string]any{"amd": true}), number)
		s := bot.next(t)
		s.say(agentHz, time.Minute)
		since := time.Now()
		call := c.calls(t, campaign)[0]
		talkSeven(t)
		s.bye(t)
		c.ended(t, campaign, 1, 20*time.Second)
		c.requireWhole(t, call.ID, number, agentHz, since)
		c.atRest(t)
	})
}

// So is one that a person takes, at once or after an announcement.
func TestRecordingIsWholeWithAPerson(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		for number, more := range map[string]map[string]any{
			"9866197001": {"amd": true}, "9866197002": {"amd": true, "announcement_url": prompts(t, 2*time.Second)},
		} {
			a := c.login(t)
			c.softphone(t, simcarrier.AgentSpec{Extension: a.SIP.Extension, Password: a.SIP.Password, Voice: "steady:1000"})
			campaign := c.peopleWith(t, more)
			c.push(t, campaign, number)
			c.start(t, campaign)
			callID := c.connected(t, campaign)
			talkSeven(t)
			c.hangUp(t, number)
			c.endedCall(t, callID)
			a.dispose(t, callID)
			c.requireWhole(t, callID, number, agentHz, *c.person(t, callID).AgentConnectTime)
			a.api.JSON(t, http.MethodPost, "/api/agent/logout", nil, http.StatusOK, nil)
		}
		c.atRest(t)
	})
}

// So is one that a flow handles.
func TestRecordingIsWholeInAFlow(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		const number = "9876197003"
		var f id
		c.signedIn(t, "admin").JSON(t, http.MethodPost, "/api/flows", map[string]any{"name": t.Name(), "nodes": []map[string]any{
			{"id": "s", "type": "start", "next": map[string]any{"default": "a"}},
			{"id": "a", "type": "play_audio", "data": map[string]any{"audio_url": prompts(t, 8*time.Second)}, "next": map[string]any{"default": "b"}},
			{"id": "b", "type": "hangup"},
		}}, http.StatusCreated, &f)
		campaign := c.campaign(t, "", map[string]any{"voice_agent_id": nil, "post_answer_action": "run_flow", "flow_id": f.ID, "amd": true})
		c.push(t, campaign, number)
		c.start(t, campaign)
		call := c.ended(t, campaign, 1, 40*time.Second)[0]
		c.requireWhole(t, call.ID, number, promptHz, *call.AnswerTime)
		c.atRest(t)
	})
}
