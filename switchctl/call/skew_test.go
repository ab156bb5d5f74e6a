package call

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

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

// anotherClock has a test with a switch whose clock is 10 minutes behind ours, and with one whose clock is ahead; known says whether the controller
// has measured it.
func anotherClock(t *testing.T, known bool, test func(b *bench, ahead time.Duration)) {
	t.Helper()
	for name, ahead := range map[string]time.Duration{"behind ours": 10 * time.Minute, "ahead of ours": -10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.behind = ahead
				if known {
					b.c.skewed(ahead)
				}
				b.play("dial", "event CHANNEL_CREATE", "event CHANNEL_ANSWER", "socket up", "media answered")
				test(b, ahead)
			})
		})
	}
}

// talked is how long the bench's call was, by its record.
func (b *bench) talked() time.Duration {
	b.t.Helper()
	ended := b.ended()
	return ended.Sub(*b.ledger.call(b.call.ID).AnswerTime)
}

// TestEndByAnotherClock has a call end in order: its recording lies where it was begun, and its session lasts as long.
func TestEndByAnotherClock(t *testing.T) {
	t.Parallel()
	anotherClock(t, true, func(b *bench, _ time.Duration) {
		t := b.t
		began := time.Now()
		b.play("sleep 60s", "event CHANNEL_HANGUP_COMPLETE Hangup-Cause=NORMAL_CLEARING variable_sip_hangup_disposition=recv_bye", "sleep 1s")
		require.Equal(t, time.Minute, b.talked())
		s := b.media.session()
		require.Equal(t, 1, count(b.trace.take(), "media recording finished, 1m0s"))
		require.WithinDuration(t, s.spec.Recording.Start, s.recordedFrom, 0)
		require.WithinDuration(t, began, s.recordedFrom, 0)
		row := b.ledger.call(b.call.ID)
		require.WithinDuration(t, *row.AnswerTime, *row.AgentConnectTime, time.Millisecond, "both by the switch's clock")
		b.ledger.mu.Lock()
		defer b.ledger.mu.Unlock()
		require.WithinDuration(t, began.Add(time.Minute), *b.ledger.sessions[b.ledger.sessionOf[b.call.ID]].EndedAt, 0)
	})
}

// TestTransferByAnotherClock has a caller handed over: what is recorded with the voice agent ends, and the rest begins, when that was.
func TestTransferByAnotherClock(t *testing.T) {
	t.Parallel()
	anotherClock(t, true, func(b *bench, _ time.Duration) {
		t := b.t
		began := time.Now()
		b.play("sleep 4s", "verb transfer destination_type=e164 destination=9876500000")
		for _, line := range b.trace.take() {
			b.tidy(line) // learns the second leg
		}
		b.play("sleep 2s", "leg CHANNEL_ANSWER", "reply originate +OK", "reply originate +OK", "reply uuid_bridge +OK", "media ended", "bridged")
		lines := b.trace.take()
		require.Equal(t, 1, count(lines, "media recording finished, 6s"), "%v", lines)
		require.Equal(t, 1, count(lines, "ledger recording part at 6s"), "%v", lines)
		b.ledger.mu.Lock()
		defer b.ledger.mu.Unlock()
		require.WithinDuration(t, began.Add(6*time.Second), *b.ledger.sessions[b.ledger.sessionOf[b.call.ID]].EndedAt, 0)
	})
}

// TestLostCallByAnotherClock has the switch die under a call, with the controller there and after a restart of it: the call was as long as it was.
func TestLostCallByAnotherClock(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"same controller": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			anotherClock(t, true, func(b *bench, _ time.Duration) {
				t := b.t
				answered := *b.ledger.call(b.call.ID).AnswerTime
				b.play("sleep 60s", "link down", "sleep 120s", "channel gone")
				b.link.crash()
				if restart {
					b.link.sight.SetAhead(0) // the new process has not measured it
					b.play("restart")
				} else {
					b.play("link up")
				}
				b.play("sleep 60s")
				require.Equal(t, answered, *b.ledger.call(b.call.ID).AnswerTime, "the switch's")
				require.Equal(t, time.Minute, b.talked())
			})
		})
	}
}

// TestFoundCallByAnotherClock: a controller that starts again learns from the call's channel how far the clocks are apart, before it records on.
func TestFoundCallByAnotherClock(t *testing.T) {
	t.Parallel()
	anotherClock(t, false, func(b *bench, ahead time.Duration) {
		t := b.t
		answered := *b.ledger.call(b.call.ID).AnswerTime
		b.link.mu.Lock()
		b.link.dump = func(string) (string, bool) {
			return `{"Unique-ID":"` + b.call.FsUuid + `","Answer-State":"answered","Caller-Channel-Answered-Time":"` + micros(answered) +
				`","Event-Date-Timestamp":"` + micros(time.Now().Add(-ahead)) + `"}`, true
		}
		b.link.mu.Unlock()
		b.play("sleep 60s", "restart", "sleep 1s", "socket up", "sleep 1s")
		require.Equal(t, answered.Add(ahead), b.media.session().spec.Recording.Start)
	})
}
