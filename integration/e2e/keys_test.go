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

// keyed sends verbs of one call with keys.
type keyed struct {
	c    *customer
	path string
}

func (c *customer) keyed(callID string) keyed {
	return keyed{c: c, path: "/api/v1/ai-sessions/" + callID + "/control"}
}

func (k keyed) send(t *testing.T, key string, body map[string]any) (status int, replayed bool, answer string) {
	t.Helper()
	status, header, raw := k.c.api.With("Idempotency-Key", key).Do(t, http.MethodPost, k.path, body)
	return status, header.Get("Idempotent-Replayed") == "true", string(raw)
}

// begin sends a play_audio whose file doesn't come, and returns when it has been asked for. over is closed when the connection has ended.
func (k keyed) begin(t *testing.T, key, audio string, asked <-chan struct{}) (over <-chan struct{}) {
	t.Helper()
	done := make(chan struct{})
	body := strings.NewReader(`{"event":"play_audio","audio_url":"` + audio + `"}`)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, k.c.api.BaseURL+k.path, body)
	require.NoError(t, err)
	req.Header = http.Header{"Authorization": {"Bearer " + k.c.api.Key}, "Content-Type": {"application/json"}, "Idempotency-Key": {key}}
	go func() {
		defer close(done)
		if res, err := http.DefaultClient.Do(req); err == nil {
			_ = res.Body.Close()
		}
	}()
	<-asked
	return done
}

// lateAudio serves a tone once release is closed, and tells of each request.
func lateAudio(t *testing.T, release <-chan struct{}) (url string, asked <-chan struct{}) {
	t.Helper()
	requests := make(chan struct{}, 8)
	tone := wav.Encode(dsptest.Tone(playedHz, recordingRate, recordingRate/2))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- struct{}{}
		select {
		case <-release:
			_, _ = w.Write(tone)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	return server.URL + "/late.wav", requests
}

// TestVerbKeysOutliveTheController: the controller is killed after a verb's answer, and another time between a verb's acceptance and its effect. After
// the restart the key of the first gives the answer that there was, and that of the second says that the outcome is unknown; neither acts again.
func TestVerbKeysOutliveTheController(t *testing.T) {
	withOwnStack(t, stack.Config{}, func(t *testing.T, c *customer) {
		const number, other, second = "9876166000", "9876166001", "9876166002"
		music, release := audioServer(t, playedHz, 700*time.Millisecond), make(chan struct{})
		late, asked := lateAudio(t, release)
		callID := c.live(t, number, "/tone?hz=1000")
		first := c.keyed(callID)
		done := []map[string]any{
			{"event": "play_audio", "audio_url": music},
			{"event": "mute", "target": "agent"},
			{"event": "send_dtmf", "digits": "5"},
			{"event": "set_disposition", "disposition": "sold"},
			{"event": "transfer", "destination_type": "e164", "destination": other},
		}
		keys, answers := make([]string, len(done)), make([]string, len(done))
		for i, body := range done {
			var status int
			keys[i] = uuid.NewString()
			status, _, answers[i] = first.send(t, keys[i], body)
			require.Equal(t, http.StatusOK, status, "%v: %s", body, answers[i])
			if body["event"] == "play_audio" {
				c.hears(t, "+91"+number, playedHz, 1, "the callee hears the audio")
			}
		}
		c.hears(t, "+91"+other, callerHz, 1, "the other end hears the caller")

		callID = c.live(t, second, "/tone?hz=1000")
		calls, unknown := c.keyed(callID), uuid.NewString()
		over := calls.begin(t, unknown, late, asked)
		require.NoError(t, c.KillController())
		<-over // the connection breaks with the controller
		close(release)
		require.NoError(t, c.StartController(t.Context()))
		eventually(t, 30*time.Second, "the callee hears the AI again", func() bool {
			report, ok := c.report(t, "+91"+second)
			return ok && report.HearsNow
		})
		waits := map[string]any{"event": "play_audio", "audio_url": late}
		for range 2 {
			status, _, answer := calls.send(t, unknown, waits)
			require.Equal(t, http.StatusConflict, status, answer)
			require.Contains(t, answer, "unknown_outcome")
		}
		status, replayed, answer := calls.send(t, uuid.NewString(), waits)
		require.Equal(t, http.StatusOK, status, "with a new key it is done: %s", answer)
		require.False(t, replayed)
		c.hears(t, "+91"+second, playedHz, 1, "the callee hears the audio")
		talkSome(t)
		report, _ := c.report(t, "+91"+second)
		require.Less(t, heardOf(report.Heard, playedHz), int64(750), "and once alone, half a second, whatever gaps a busy machine leaves in it")

		before, _ := c.report(t, "+91"+number)
		for i, body := range done {
			status, replayed, answer := first.send(t, keys[i], body)
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
