package switchctl

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/esl"
)

// TestClockSkew takes the least delayed event of each window.
func TestClockSkew(t *testing.T) {
	t.Parallel()
	var s clockSkew
	now := time.Unix(1_000_000, 0)
	event := func(behind time.Duration) (time.Duration, bool) {
		at := strconv.FormatInt(now.Add(-behind).UnixMicro(), 10)
		ev := esl.NewEvent("CHANNEL_CREATE")
		ev.Set("Event-Date-Timestamp", at)
		return s.note(ev, now)
	}
	for range 29 {
		_, ok := event(3*time.Second + 40*time.Millisecond)
		require.False(t, ok)
		now = now.Add(time.Second)
	}
	_, ok := event(3 * time.Second)
	require.False(t, ok)
	now = now.Add(time.Second)
	skew, ok := event(5 * time.Second)
	require.True(t, ok)
	require.Equal(t, 3*time.Second, skew)
	now = now.Add(time.Hour)
	_, ok = event(-time.Second)
	require.False(t, ok, "a window begins anew")
	now = now.Add(skewWindow)
	skew, ok = event(0)
	require.True(t, ok)
	require.Equal(t, -time.Second, skew)
}

// TestAnswerByAnotherClock has a switch whose clock is 3 s behind ours: the recording begins at the answer by our clock and is finished by it, the
// call's record has the switch's times, and the switch is asked once to set its clock.
func TestAnswerByAnotherClock(t *testing.T) {
	t.Parallel()
	const ahead = 3100 * time.Millisecond
	for name, end := range map[string][]string{
		"hung up": {"event CHANNEL_HANGUP_COMPLETE Hangup-Cause=NORMAL_CLEARING variable_sip_hangup_disposition=recv_bye"},
		"lost":    {"link down", "channel gone", "link up"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.c.skewed(200 * time.Millisecond)
				b.c.skewed(3 * time.Second)
				b.c.skewed(ahead)
				synctest.Wait()
				require.Equal(t, 1, count(b.trace.take(), "fsctl sync_clock_when_idle"))
				b.play("dial", "event CHANNEL_CREATE", "event CHANNEL_ANSWER", "socket up", "media answered")
				answered := *b.ledger.calls[b.call.ID].AnswerTime
				session := b.media.session()
				require.Equal(t, answered.Add(ahead), session.spec.Recording.Start)

				b.play("sleep 60s")
				b.play(append(end, "sleep 60s")...)
				row := b.ledger.calls[b.call.ID]
				require.Equal(t, answered, *row.AnswerTime)
				if name == "lost" {
					require.WithinDuration(t, answered.Add(time.Minute-ahead), *row.EndTime, 0)
				}
				require.Equal(t, answered.Add(ahead), session.recordedFrom)
			})
		})
	}
}
