package e2e

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/wav"
)

// TestVerbKeysOutliveTheController: the controller is killed after a verb's answer, and another time between a verb's acceptance and its effect. After
// the restart the key of the first gives the answer that there was, and that of the second says that the outcome is unknown; neither acts again.
func TestVerbKeysOutliveTheController(t *testing.T) {
	withOwnStack(t, stack.Config{}, func(t *testing.T, c *customer) {
		const number, other = "9876166000", "9876166001"
		music := audioServer(t, playedHz, 700*time.Millisecond)
		asked, release := make(chan struct{}, 8), make(chan struct{})
		tone := wav.Encode(dsptest.Tone(playedHz, recordingRate, recordingRate/2))
		late := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked <- struct{}{}
			select {
			case <-release:
				_, _ = w.Write(tone)
			case <-r.Context().Done():
			}
		}))
		t.Cleanup(late.Close)
		callID := c.live(t, number, "/tone?hz=1000")
		path := "/api/v1/ai-sessions/" + callID + "/control"
		send := func(key string, body map[string]any) (status int, replayed bool, answer string) {
			status, header, raw := c.api.With("Idempotency-Key", key).Do(t, http.MethodPost, path, body)
			return status, header.Get("Idempotent-Replayed") == "true", string(raw)
		}
		done := []map[string]any{
			{"event": "play_audio", "audio_url": music}, {"event": "mute", "target": "agent"}, {"event": "send_dtmf", "digits": "5"},
			{"event": "set_disposition", "disposition": "sold"}, {"event": "transfer", "destination_type": "e164", "destination": other},
		}
		keys, answers := make([]string, len(done)), make([]string, len(done))
		for i, body := range done {
			var status int
			keys[i] = uuid.NewString()
			status, _, answers[i] = send(keys[i], body)
			require.Equal(t, http.StatusOK, status, "%v: %s", body, answers[i])
			if body["event"] == "play_audio" {
				c.hears(t, "+91"+number, playedHz, 1, "the callee hears the audio")
			}
		}
		// The second leg is being dialed, or up, and play_audio of the other key waits for its file, if a transfer doesn't refuse it.
		c.hears(t, "+91"+other, callerHz, 1, "the other end hears the caller")

		const second = "9876166002"
		callID = c.live(t, second, "/tone?hz=1000")
		path, first := "/api/v1/ai-sessions/"+callID+"/control", path
		waits := map[string]any{"event": "play_audio", "audio_url": late.URL + "/late.wav"}
		unknown := uuid.NewString()
		over := make(chan struct{})
		go func() { // its connection breaks with the controller
			defer close(over)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.api.BaseURL+path, strings.NewReader(`{"event":"play_audio","audio_url":"`+late.URL+`/late.wav"}`))
			if err != nil {
				return
			}
			req.Header = http.Header{"Authorization": {"Bearer " + c.api.Key}, "Content-Type": {"application/json"}, "Idempotency-Key": {unknown}}
			if res, err := http.DefaultClient.Do(req); err == nil {
				_ = res.Body.Close()
			}
		}()
		<-asked
		require.NoError(t, c.KillController())
		<-over
		close(release)
		require.NoError(t, c.StartController(t.Context()))
		eventually(t, 30*time.Second, "the callee hears the AI again", func() bool {
			report, ok := c.report(t, "+91"+second)
			return ok && report.HearsNow
		})
		for range 2 {
			status, _, answer := send(unknown, waits)
			require.Equal(t, http.StatusConflict, status, answer)
			require.Contains(t, answer, "unknown_outcome")
		}
		// With a new key it is done.
		status, replayed, answer := send(uuid.NewString(), waits)
		require.Equal(t, http.StatusOK, status, answer)
		require.False(t, replayed)
		c.hears(t, "+91"+second, playedHz, 1, "the callee hears the audio")
		talkSome(t)
		report, _ := c.report(t, "+91"+second)
		require.Len(t, onsets(report.Heard, playedHz), 1, "and once alone")

		path = first
		before, _ := c.report(t, "+91"+number)
		for i, body := range done {
			status, replayed, answer := send(keys[i], body)
			require.Equal(t, http.StatusOK, status, answer)
			require.True(t, replayed, "%v", body)
			require.JSONEq(t, answers[i], answer)
		}
		talkSome(t)
		after, _ := c.report(t, "+91"+number)
		require.Len(t, onsets(after.Heard, playedHz), len(onsets(before.Heard, playedHz)), "nothing is played again")
		require.Equal(t, before.DTMF, after.DTMF, "no digit is sent again")
		c.hangUp(t, "+91"+second)
		c.hangUp(t, "+91"+number)
		c.endedCall(t, callID)
		c.atRest(t)
	})
}
