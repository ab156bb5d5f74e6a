package e2e

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/media/wav"
)

// A mailbox is left a message by a campaign of a voice agent, after its beep, and has it on its recording: the voice agent is out of
// it by then. The lead is called again as one whom a machine has answered.
func TestMailboxGetsAMessage(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		campaign := c.campaign(t, c.voiceAgent(t, "/tone?hz=1000&end_after=60s", nil), map[string]any{
			"voicemail_action": "message", "voicemail_message_url": prompts(t, 2*time.Second), "max_attempts": 2,
		})
		told, heard, beeps := c.getsAMessage(t, campaign, "9874100072", "9874100172", "9874100272")
		require.Equal(t, "hangup", c.outcome(t, told.ID))
		t.Logf("answer to beep %s, beep to message %s, to the end %s",
			beeps[0].Sub(*told.AnswerTime), heard[0].Sub(beeps[0]), told.EndTime.Sub(beeps[0]))
		require.Greater(t, told.EndTime.Sub(heard[0]), 1500*time.Millisecond, "the message is cut short")
		wav, err := wav.Parse(c.recording(t, told.ID))
		require.NoError(t, err)
		require.Equal(t, 2, wav.Channels)
		require.NotEmpty(t, wavOnsets(wav.Channel(1), wav.Rate, promptHz), "the message is in the recording")
		c.do(t, http.StatusOK, http.MethodPost, "/api/v1/campaigns/"+campaign+"/stop", nil, nil)
	})
}

// getsAMessage has a campaign call mailboxes until one is told from a person, and gives its call when it has ended, when it heard the message, and when it
// beeped, which was before.
func (c *customer) getsAMessage(t *testing.T, campaign string, mailboxes ...string) (told call, heard, beeps []time.Time) {
	t.Helper()
	numbers := map[string]string{} // by lead
	for _, number := range mailboxes {
		numbers[c.push(t, campaign, number)] = "+91" + number
	}
	c.start(t, campaign)
	eventually(t, time.Minute, "a mailbox is told from a person", func() bool {
		for _, call := range c.calls(t, campaign) {
			if call.AMD != nil && call.AMD.Class == "machine" && (call.AMD.Confidence >= 0.95 || call.AMD.Machine != nil) { // else nothing is done
				told = call
				return true
			}
		}
		return false
	})
	eventually(t, 40*time.Second, "the call ends", func() bool { return c.call(t, told.ID).EndTime != nil })
	told = c.call(t, told.ID)
	require.Equal(t, "NORMAL_CLEARING", deref(told.HangupCause))
	report, ok := c.report(t, numbers[*told.LeadID])
	require.True(t, ok)
	heard, beeps = onsets(report.Heard, promptHz), sent(report, "beep")
	require.NotEmpty(t, heard, "the mailbox hears no message: %+v", report.Heard)
	require.NotEmpty(t, beeps, "the mailbox has not come to its beep")
	require.True(t, heard[0].After(beeps[0]), "the message talks over the greeting")
	return told, heard, beeps
}

// sent gives the onsets of a kind of audio that a subscriber sent.
func sent(report simcarrier.Report, kind string) []time.Time {
	for _, s := range report.Sent {
		if s.Kind == kind {
			return s.Onsets
		}
	}
	return nil
}

// What callees are told at answer comes before the voice agent, who isn't there yet, and is on the recording, on the other side's
// channel. Nobody is dialed while it can't be fetched.
func TestAnnouncement(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		agent := c.voiceAgent(t, "/tone?hz=1000&end_after=5s", nil)
		told := c.campaign(t, agent, map[string]any{"announcement_url": prompts(t, 2*time.Second)})
		var there atomic.Bool
		untold := c.campaign(t, agent, map[string]any{"announcement_url": promptsOnce(t, time.Second, there.Load)})
		c.push(t, told, "9874200001")
		c.push(t, untold, "9874200002")
		c.start(t, told)
		c.start(t, untold)
		call := c.ended(t, told, 1, time.Minute)[0]
		admin := c.signedIn(t, "admin")
		eventually(t, time.Minute, "the other campaign tells what it waits for", func() bool {
			var stats struct {
				Pacing struct {
					WaitsFor *string `json:"waits_for"`
				}
			}
			admin.JSON(t, http.MethodGet, "/api/campaigns/"+untold+"/stats", nil, http.StatusOK, &stats)
			return stats.Pacing.WaitsFor != nil && *stats.Pacing.WaitsFor == "announcement_url"
		})
		require.Empty(t, c.calls(t, untold))
		there.Store(true)
		other := c.ended(t, untold, 1, time.Minute)[0]
		require.Equal(t, "completed", other.Status)
		require.NotEmpty(t, c.sessions(t, other.ID))
		report, ok := c.report(t, "+919874200001")
		require.True(t, ok)
		first, voice := onsets(report.Heard, promptHz), onsets(report.Heard, 1000)
		require.NotEmpty(t, first, "%+v", report.Heard)
		require.NotEmpty(t, voice, "%+v", report.Heard)
		require.Greater(t, voice[0].Sub(first[0]), 1500*time.Millisecond, "the voice agent does not wait for its end")
		wav, err := wav.Parse(c.recording(t, call.ID))
		require.NoError(t, err)
		require.Equal(t, 2, wav.Channels)
		require.NotEmpty(t, wavOnsets(wav.Channel(1), wav.Rate, promptHz), "the announcement is in the recording")
		require.NotEmpty(t, wavOnsets(wav.Channel(1), wav.Rate, 1000), "and so is the voice agent")
		require.Empty(t, wavOnsets(wav.Channel(0), wav.Rate, promptHz), "the callee has not said it")
		for _, campaign := range []string{told, untold} {
			c.do(t, http.StatusOK, http.MethodPost, "/api/v1/campaigns/"+campaign+"/stop", nil, nil)
		}
	})
}
