package ledger

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/storetest"
)

// TestLedgerLogs writes entries once and in order, leaves out what jsonb can't hold, and shows them in ai_session.ended behind those
// of the time before they had rows, with the number of those that were dropped.
func TestLedgerLogs(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	ctx := t.Context()
	g := b.startSession(t)
	storetest.Exec(t, b.st, b.tenant, `UPDATE ai_sessions SET metadata = '{"logs":[{"type":"old"}],"final":null}' WHERE id = $1`, g.Session.ID)
	at := time.Date(2026, 11, 2, 3, 4, 5, 6000, time.UTC)
	entry := func(typ, metadata string) LogEntry {
		return LogEntry{ID: storetest.NewID(t), At: at, Source: "ai", Type: typ, Metadata: json.RawMessage(metadata)}
	}
	first := []LogEntry{entry("one", `{"n":1}`), entry("two", `null`)}
	require.NoError(t, b.l.AppendLogs(ctx, b.call, g.Session.ID, first))
	require.NoError(t, b.l.AppendLogs(ctx, b.call, g.Session.ID, first), "a write that is repeated")
	err := b.l.AppendLogs(ctx, b.call, g.Session.ID, []LogEntry{
		entry("three", `"plain"`), entry("bad", `"\u0000"`), entry("bad", `1e999999`), entry("four", `[4]`),
	})
	var refused *LogsRefusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 2, refused.N)
	resumed, err := b.l.ResumeSession(ctx, b.call, g.Session)
	require.NoError(t, err)
	require.Equal(t, 4, resumed.LogEntries)
	require.Positive(t, resumed.LogBytes)

	require.NoError(t, b.l.EndSession(ctx, b.call, SessionEnd{
		Session: g.Session.ID, Outcome: SessionHangup, At: at, Final: json.RawMessage(`{"action":"hangup"}`), LogsDropped: 7,
	}))
	require.NoError(t, b.l.SessionOpened(ctx, b.call, g.Session, ""))
	_, data := b.events(t)
	require.NotEmpty(t, data)
	raw, err := json.Marshal(data[0]["metadata"])
	require.NoError(t, err)
	require.JSONEq(t, `{"logs":[{"type":"old"},
		{"at":"2026-11-02T03:04:05.000006Z","source":"ai","type":"one","metadata":{"n":1}},
		{"at":"2026-11-02T03:04:05.000006Z","source":"ai","type":"two","metadata":null},
		{"at":"2026-11-02T03:04:05.000006Z","source":"ai","type":"three","metadata":"plain"},
		{"at":"2026-11-02T03:04:05.000006Z","source":"ai","type":"four","metadata":[4]}],
		"final":{"action":"hangup"},"logs_dropped":7}`, string(raw))
}
