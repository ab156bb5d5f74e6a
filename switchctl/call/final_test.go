package call

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// TestShuffledAndDuplicatedEventsLeaveTheSameRecord runs the events of one answered call in many orders, with any of them
// told again, and compares the rows that they leave.
func TestShuffledAndDuplicatedEventsLeaveTheSameRecord(t *testing.T) {
	t.Parallel()
	want := map[string]any{
		"status": "completed", "ring": int64(1700000001000000), "answer": int64(1700000003000000), "end": int64(1700000011500000),
		"cause": "NORMAL_CLEARING", "disposition": "recv_bye", "sip": int32(200),
	}
	names := []string{fs.ChannelCreate, fs.ChannelProgress, fs.ChannelProgressMedia, fs.ChannelAnswer, fs.ChannelBridge, fs.ChannelHangupComplete, fs.ChannelDestroy}
	for seed := range uint64(400) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			require.NoError(t, b.dial())
			rnd := rand.New(rand.NewPCG(seed, 3)) //nolint:gosec // a reproducible order is the point
			order := slices.Clone(names)
			for range rnd.IntN(8) {
				order = append(order, names[rnd.IntN(len(names))])
			}
			rnd.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			for _, name := range order {
				b.c.dispatch(scriptedEvent(b.call, name))
				if rnd.IntN(2) == 0 {
					synctest.Wait()
				}
			}
			synctest.Wait()
			require.Equal(t, want, rowFacts(b.ledger.call(b.call.ID)), "order %v", order)
			require.Zero(t, b.ledger.unitCount())
			require.Equal(t, 1, b.ledger.closes)
			require.Zero(t, b.c.Live())
		})
	}
}

// scriptedEvent has the times that the switch gives one call in all its events.
func scriptedEvent(call db.Call, name string) *esl.Event {
	ev := esl.NewEvent(name)
	for k, v := range map[string]string{
		"Unique-ID": call.FsUuid, "Event-Date-Timestamp": "1700000000500000", "Caller-Channel-Created-Time": "1700000000000000",
		"Caller-Channel-Progress-Time": "1700000001000000", "Caller-Channel-Answered-Time": "1700000003000000",
	} {
		ev.Set(k, v)
	}
	if name == fs.ChannelHangupComplete {
		ev.Set("Caller-Channel-Hangup-Time", "1700000011500000")
		ev.Set("Hangup-Cause", "NORMAL_CLEARING")
		ev.Set("variable_sip_hangup_disposition", "recv_bye")
		ev.Set("variable_sip_term_status", "200")
	}
	return ev
}

func rowFacts(row db.Call) map[string]any {
	f := map[string]any{"status": row.Status}
	if row.RingTime != nil {
		f["ring"] = row.RingTime.UnixMicro()
	}
	if row.AnswerTime != nil {
		f["answer"] = row.AnswerTime.UnixMicro()
	}
	if row.EndTime != nil {
		f["end"] = row.EndTime.UnixMicro()
	}
	if row.HangupCause != nil {
		f["cause"] = *row.HangupCause
	}
	if row.HangupDisposition != nil {
		f["disposition"] = *row.HangupDisposition
	}
	if row.SipStatus != nil {
		f["sip"] = *row.SipStatus
	}
	return f
}
