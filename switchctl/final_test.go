package switchctl

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

func hangupComplete(headers map[string]string) *esl.Event {
	ev := esl.NewEvent(fs.ChannelHangupComplete)
	for k, v := range headers {
		ev.Set(k, v)
	}
	return ev
}

func TestFinalRecordOfTheSwitchsFailures(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		headers map[string]string
		status  string
		sip     int32
		over    bool
	}{
		{"busy", map[string]string{
			"Hangup-Cause": "USER_BUSY", "variable_sip_hangup_disposition": "recv_refuse", "variable_sip_term_status": "486",
		}, ledger.StatusFailed, 486, false},
		{"congestion", map[string]string{"Hangup-Cause": "NORMAL_TEMPORARY_FAILURE", "variable_sip_term_status": "503"}, ledger.StatusFailed, 503, true},
		{"silent carrier", map[string]string{"Hangup-Cause": "RECOVERY_ON_TIMER_EXPIRE", "variable_sip_term_status": "408"}, ledger.StatusFailed, 408, true},
		{"congestion after ringing", map[string]string{
			"Hangup-Cause": "NORMAL_TEMPORARY_FAILURE", "variable_sip_term_status": "503", "Caller-Channel-Progress-Time": "1700000001000000",
		}, ledger.StatusFailed, 503, false},
		{"no answer", map[string]string{
			"Hangup-Cause": "NO_ANSWER", "variable_sip_hangup_disposition": "send_cancel", "variable_sip_invite_failure_status": "487",
		}, ledger.StatusFailed, 487, false},
		{"answered", map[string]string{
			"Hangup-Cause": "NORMAL_CLEARING", "variable_sip_term_status": "200", "Caller-Channel-Answered-Time": "1700000002000000",
		}, ledger.StatusCompleted, 200, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rec := finalFrom(hangupComplete(tc.headers).Get, time.Now())
			require.Equal(t, tc.status, rec.Status())
			require.NotNil(t, rec.SIPStatus)
			require.Equal(t, tc.sip, *rec.SIPStatus)
			require.Equal(t, tc.headers["Hangup-Cause"], rec.Cause)
			require.Equal(t, tc.over, rec.FailsOver())
		})
	}
}

func TestFinalRecordReadsMicrosecondsAndZeroIsUnset(t *testing.T) {
	t.Parallel()
	rec := finalFrom(hangupComplete(map[string]string{
		"Caller-Channel-Progress-Time": "0", "Caller-Channel-Progress-Media-Time": "1700000001500000",
		"Caller-Channel-Answered-Time": "1700000002000001", "Caller-Channel-Hangup-Time": "1700000009123456", "Hangup-Cause": "NONE",
	}).Get, time.Now())
	require.Equal(t, time.UnixMicro(1700000001500000).UTC(), *rec.RingTime)
	require.Equal(t, time.UnixMicro(1700000002000001).UTC(), *rec.AnswerTime)
	require.Equal(t, time.UnixMicro(1700000009123456).UTC(), rec.EndTime)
	require.Equal(t, "NORMAL_UNSPECIFIED", rec.Cause)
	require.Nil(t, rec.Disposition)
	require.Nil(t, rec.SIPStatus)
}

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

func TestCallRecordGivesTheRecordOfTheEvent(t *testing.T) {
	t.Parallel()
	vars := map[string]any{
		"hangup_cause": "NORMAL_CLEARING", "sip_hangup_disposition": "recv_bye", "sip_term_status": "200",
		"progress_uepoch": "1700000001000000", "answer_uepoch": "1700000003000000", "end_uepoch": 1700000011500000,
		"sip_contact_uri": "a%40b", "rm_call_id": "x",
	}
	for _, flow := range []any{
		[]any{map[string]any{"times": map[string]string{"answered_time": "1700000003000000", "progress_time": "0"}}},
		map[string]any{"times": map[string]string{"hangup_time": "1700000011500000"}},
		nil, "nonsense",
	} {
		raw, err := json.Marshal(map[string]any{"variables": vars, "callflow": flow})
		require.NoError(t, err)
		c, err := parseCDR(raw)
		require.NoError(t, err)
		rec := c.final()
		require.Equal(t, int64(1700000001000000), rec.RingTime.UnixMicro())
		require.Equal(t, int64(1700000003000000), rec.AnswerTime.UnixMicro())
		require.Equal(t, int64(1700000011500000), rec.EndTime.UnixMicro())
		require.Equal(t, "recv_bye", *rec.Disposition)
		require.Equal(t, ledger.StatusCompleted, rec.Status())
		require.Equal(t, "a@b", c.get("variable_sip_contact_uri"))
	}
}

func TestCallRecordThatIsStillBeingWrittenIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		path := filepath.Join(b.c.cfg.CDRDir, "u-1.cdr.json")
		require.NoError(t, os.WriteFile(path, []byte(`{"variables":{"hangup_ca`), 0o600))
		_, err := b.c.waitCDR(t.Context(), "u-1", 0)
		require.ErrorIs(t, err, errCDRUnfinished)
		time.AfterFunc(time.Second, func() {
			_ = os.WriteFile(path, []byte(`{"variables":{"hangup_cause":"USER_BUSY"}}`), 0o600)
		})
		rec, err := b.c.waitCDR(t.Context(), "u-1", 2*time.Second)
		require.NoError(t, err)
		require.Equal(t, "USER_BUSY", rec.final().Cause)
		_, err = readCDR(b.c.cfg.CDRDir, "../u-1")
		require.ErrorIs(t, err, os.ErrNotExist)
	})
}

func FuzzParseCDR(f *testing.F) {
	f.Add([]byte(`{"variables":{"hangup_cause":"USER_BUSY","end_uepoch":"1"},"callflow":[{"times":{"answered_time":"0"}}]}`))
	f.Add([]byte(`{"variables":{"a":[1,2],"b":null,"c":{}},"callflow":{"times":null}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parseCDR(text)
		if err != nil {
			require.ErrorIs(t, err, errCDRUnfinished)
			return
		}
		rec := c.final()
		require.NotEmpty(t, rec.Cause)
		require.Equal(t, rec.AnswerTime != nil, rec.Status() == ledger.StatusCompleted)
	})
}
