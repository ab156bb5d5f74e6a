package call

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/switchctl"
)

// TestVerbRateHoldsInEverySpan lets no more than ten verbs through in any span of one second, wherever it begins.
func TestVerbRateHoldsInEverySpan(t *testing.T) {
	t.Parallel()
	var r verbRate
	start := time.Unix(1_000_000, 0)
	var let []time.Time
	for ms := 0; ms < 5000; ms += 7 {
		at := start.Add(time.Duration(ms) * time.Millisecond)
		if wait := r.take(at); wait > 0 {
			require.LessOrEqual(t, wait, time.Second)
			continue
		}
		let = append(let, at)
	}
	for i := switchctl.VerbsPerSecond; i < len(let); i++ {
		require.GreaterOrEqual(t, let[i].Sub(let[i-switchctl.VerbsPerSecond]), time.Second)
	}
	require.GreaterOrEqual(t, len(let), 45, "and ten per second do get through")
}

// talkingCall brings a call to its voice agent, at the moment in which they hear each other.
func talkingCall(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.play("dial", "event CHANNEL_CREATE", "event CHANNEL_ANSWER", "socket up", "media answered")
	b.trace.take()
	return b
}

// count is how many lines of the trace have all parts.
func count(lines []string, parts ...string) (n int) {
lines:
	for _, l := range lines {
		for _, p := range parts {
			if !strings.Contains(l, p) {
				continue lines
			}
		}
		n++
	}
	return n
}

// TestVerbsShareOneRate has a call take ten verbs in a second, over HTTP, by command frames and by transfer frames together; each
// command frame above that is answered with 429.
func TestVerbsShareOneRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := talkingCall(t)
		command := func() {
			b.media.session().send(media.Text{Type: "command", ID: "c", Data: json.RawMessage(`{"event":"get_call_state"}`)})
			synctest.Wait()
		}
		for range 4 {
			require.NoError(t, b.c.TakeVerb(b.call.ID))
		}
		for range 40 {
			command()
		}
		lines := b.trace.take()
		require.Equal(t, 6, count(lines, "command_result", `"status":200`))
		require.Equal(t, 34, count(lines, "command_result", `"status":429`, `"code":"rate_limited"`, `"retry_after_s":1`))
		require.Len(t, lines, 40)
		var rate *VerbRateError
		require.ErrorAs(t, b.c.TakeVerb(b.call.ID), &rate)
		require.Equal(t, time.Second, rate.Wait)
		b.media.session().send(media.Text{Type: "transfer", Data: json.RawMessage(`{"destination":"+919812345678","destination_type":"e164"}`)})
		synctest.Wait()
		require.Equal(t, 1, count(b.trace.take(), "transfer_failed", "RATE_LIMITED"))
		require.InDelta(t, 36, testutil.ToFloat64(b.c.metrics.throttled), 0)
		b.play("sleep 1s")
		command()
		require.Equal(t, 1, count(b.trace.take(), "command_result", `"status":200`))
		require.NoError(t, b.c.TakeVerb(uuid.New()), "a call that is not here")
	})
}

// TestSessionLogBounds keeps 1,000 entries of a session, or 1 MiB, and counts the others; what comes fast is written together.
func TestSessionLogBounds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		size, sent, kept int
	}{
		"many":  {20, 1500, sessionLogEntries},
		"large": {50 << 10, 40, sessionLogBytes / (50<<10 + 64)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := talkingCall(t)
				data := json.RawMessage(`"` + strings.Repeat("l", tc.size-2) + `"`)
				for range tc.sent {
					b.media.session().send(media.Text{Type: "json", Data: data})
					synctest.Wait()
				}
				b.play("sleep 1s")
				require.Equal(t, tc.kept, count(b.trace.take(), "ledger log ai json"))
				require.LessOrEqual(t, b.ledger.logWriteCount(), 3, "at once, 100 ms later, and not for each")
				b.media.session().send(media.Text{Type: "command", ID: "c", Data: json.RawMessage(`{"event":"log","metadata":{"a":` + string(data) + `}}`)})
				synctest.Wait()
				require.Equal(t, 1, count(b.trace.take(), "command_result", `"status":413`, "session_log_full"))
				require.InDelta(t, tc.sent-tc.kept+1, testutil.ToFloat64(b.c.metrics.logsDropped), 0)
				require.Zero(t, b.c.logBytes.Used(b.call.TenantID.String()))
				b.play("event CHANNEL_HANGUP_COMPLETE")
				require.Equal(t, tc.sent-tc.kept+1, b.ledger.logsDropped)
			})
		})
	}
}

// TestSessionLogPauses has a session that logs all the time write once a second, and one that logs now and then at once.
func TestSessionLogPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := talkingCall(t)
		entry := media.Text{Type: "json", Data: json.RawMessage(`"l"`)}
		writes := func(d time.Duration) int {
			before := b.ledger.logWriteCount()
			for range d / (20 * time.Millisecond) {
				b.media.session().send(entry)
				b.play("sleep 20ms")
			}
			return b.ledger.logWriteCount() - before
		}
		require.Equal(t, 4, writes(time.Second), "at once, after 100 ms, 200 ms and 400 ms")
		require.LessOrEqual(t, writes(5*time.Second), 5)
		b.play("sleep 2s")
		require.Equal(t, 2, writes(150*time.Millisecond), "after a pause as before")
	})
}

// TestSessionLogOutage bounds what the entries of a tenant's calls hold while the database is away, and writes what is left before
// the session's end.
func TestSessionLogOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := talkingCall(t)
		tenant := b.call.TenantID.String()
		require.True(t, b.c.logBytes.Try(tenant, tenantLogBytes-100_000), "other calls of the tenant")
		b.ledger.setAway(true)
		data := json.RawMessage(`"` + strings.Repeat("l", 30_000-64-2) + `"`)
		for range 10 {
			b.media.session().send(media.Text{Type: "json", Data: data})
			synctest.Wait()
		}
		b.media.session().send(media.Text{Type: "command", ID: "c", Data: json.RawMessage(`{"event":"log","metadata":{"a":"` + strings.Repeat("l", 30_000) + `"}}`)})
		synctest.Wait()
		require.Equal(t, 1, count(b.trace.take(), "command_result", `"status":503`, "service_unavailable"))
		require.LessOrEqual(t, b.c.logBytes.Used(tenant), int64(tenantLogBytes))
		require.InDelta(t, 8, testutil.ToFloat64(b.c.metrics.logsDropped), 0)
		b.ledger.setAway(false)
		b.play("event CHANNEL_HANGUP_COMPLETE", "sleep 10s")
		lines := b.trace.take()
		require.Equal(t, 3, count(lines, "ledger log ai json"))
		last, end := -1, -1
		for i, l := range lines {
			switch {
			case strings.HasPrefix(l, "ledger log"):
				last = i
			case strings.Contains(l, "ai_session.ended"):
				end = i
			}
		}
		require.Greater(t, end, last, "the log is written before the session ends")
		require.EqualValues(t, tenantLogBytes-100_000, b.c.logBytes.Used(tenant))
	})
}

// TestSessionLogBehindAnotherWrite ends a session whose entries wait behind another write of its call: one write takes them all, and the next call's log
// is written as ever.
func TestSessionLogBehindAnotherWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := talkingCall(t)
		b.ledger.setAway(true)
		b.media.session().send(media.Text{Type: "command", ID: "c", Data: json.RawMessage(`{"event":"set_disposition","disposition":"interested","metadata":{"ai_summary":"s"}}`)})
		synctest.Wait()
		b.media.session().send(media.Text{Type: "json", Data: json.RawMessage(`"l"`)})
		synctest.Wait()
		b.play("event CHANNEL_HANGUP_COMPLETE")
		b.ledger.setAway(false)
		b.play("sleep 10s")
		require.Equal(t, 1, count(b.trace.take(), "ledger log ai json"))
		require.Zero(t, testutil.ToFloat64(b.c.metrics.panics))
		require.Zero(t, b.c.logBytes.Used(b.call.TenantID.String()))
	})
}
