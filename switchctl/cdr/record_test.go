package cdr

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	rt "github.com/ringmaster/ringmaster/switchctl/actor"
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
			rec := Final(hangupComplete(tc.headers).Get, time.Now())
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
	rec := Final(hangupComplete(map[string]string{
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
		c, err := parse(raw)
		require.NoError(t, err)
		rec := c.Final()
		require.Equal(t, int64(1700000001000000), rec.RingTime.UnixMicro())
		require.Equal(t, int64(1700000003000000), rec.AnswerTime.UnixMicro())
		require.Equal(t, int64(1700000011500000), rec.EndTime.UnixMicro())
		require.Equal(t, "recv_bye", *rec.Disposition)
		require.Equal(t, ledger.StatusCompleted, rec.Status())
		require.Equal(t, "a@b", c.Get("variable_sip_contact_uri"))
	}
}

func TestCallRecordThatIsStillBeingWrittenIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		records := NewFolder(dir, rt.SystemClock{}, slog.New(slog.DiscardHandler), func(string) bool { return false })
		path := filepath.Join(dir, "u-1.cdr.json")
		require.NoError(t, os.WriteFile(path, []byte(`{"variables":{"hangup_ca`), 0o600))
		_, err := records.Wait(t.Context(), "u-1", 0)
		require.ErrorIs(t, err, ErrUnfinished)
		time.AfterFunc(time.Second, func() {
			_ = os.WriteFile(path, []byte(`{"variables":{"hangup_cause":"USER_BUSY"}}`), 0o600)
		})
		rec, err := records.Wait(t.Context(), "u-1", 2*time.Second)
		require.NoError(t, err)
		require.Equal(t, "USER_BUSY", rec.Final().Cause)
		_, err = records.Read("../u-1")
		require.ErrorIs(t, err, os.ErrNotExist)
	})
}

func FuzzParseCDR(f *testing.F) {
	f.Add([]byte(`{"variables":{"hangup_cause":"USER_BUSY","end_uepoch":"1"},"callflow":[{"times":{"answered_time":"0"}}]}`))
	f.Add([]byte(`{"variables":{"a":[1,2],"b":null,"c":{}},"callflow":{"times":null}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parse(text)
		if err != nil {
			require.ErrorIs(t, err, ErrUnfinished)
			return
		}
		rec := c.Final()
		require.NotEmpty(t, rec.Cause)
		require.Equal(t, rec.AnswerTime != nil, rec.Status() == ledger.StatusCompleted)
	})
}
