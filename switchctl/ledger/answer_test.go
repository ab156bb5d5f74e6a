package ledger

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// detected is a bench whose call is listened to, answered at the given time, with an open session.
func detected(t *testing.T, at time.Time) *pgBench {
	t.Helper()
	b := newPGBench(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET amd = true WHERE id = $1", b.call.ID)
	b.call.Amd = true
	require.NoError(t, b.l.Answered(t.Context(), b.call, at))
	g := b.startSession(t)
	require.NoError(t, b.l.SessionOpened(t.Context(), b.call, g.Session, "/tmp/x.wav"))
	types, _ := b.events(t)
	require.Empty(t, types, "nothing is told before the answer")
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM calls WHERE status = 'answered' AND answered_by_amd IS NULL"),
		"the call itself is answered")
	return b
}

// told gives the call with what machine detection and the wait for it have brought.
func told(call db.Call, class, by string) db.Call {
	confidence, after := 0.9, int32(1500)
	call.AmdClass, call.AmdConfidence, call.AmdAfterMs = &class, &confidence, &after
	if class == "" {
		call.AmdClass, call.AmdConfidence, call.AmdAfterMs = nil, nil, nil
	}
	if by != "" {
		call.AnsweredByAmd = &by
	}
	return call
}

func (b *pgBench) endAt(t *testing.T, call db.Call, at time.Time) {
	t.Helper()
	c := Closing{Call: call, Record: FinalRecord{EndTime: at, Cause: CauseNormalClearing}, Outcome: SessionHangup}
	require.NoError(t, b.l.Close(t.Context(), c))
	require.NoError(t, b.l.Close(t.Context(), c), "told twice")
}

func TestLedgerHoldsTheAnswerUntilTheVerdict(t *testing.T) {
	t.Parallel()
	at := time.Now().UTC().Truncate(time.Microsecond)
	b := detected(t, at)
	call := told(b.call, "machine", AnsweredByMachine)
	require.NoError(t, b.l.Verdict(t.Context(), call))
	require.NoError(t, b.l.Verdict(t.Context(), call), "told twice")
	require.NoError(t, b.l.Verdict(t.Context(), told(b.call, "human", AnsweredByHuman)), "the first verdict stays")
	mailbox, fax := "mailbox", "fax"
	beeped := told(b.call, "human", AnsweredByHuman)
	beeped.AmdMachine = &mailbox
	require.NoError(t, b.l.Verdict(t.Context(), beeped), "a beep tells which machine, and changes nothing else")
	beeped.AmdMachine = &fax
	require.NoError(t, b.l.Verdict(t.Context(), beeped), "once")
	b.endAt(t, call, at.Add(10*time.Second))
	types, data := b.events(t)
	require.Equal(t, []string{"call.answered", "ai_session.started", "ai_session.ended", "call.ended"}, types)
	require.Equal(t, AnsweredByMachine, data[0]["answered_by_amd"])
	require.Equal(t, map[string]any{"k": 1.0}, data[0]["lead_metadata"])
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM calls c JOIN events e ON e.call_id = c.id AND e.created_at = c.answer_time "+
		"WHERE e.type = 'call.answered'"), "the event has the time of the fact")
	require.Equal(t, 1, b.count(t, `SELECT count(*) FROM calls WHERE answered_by_amd = 'machine' AND amd_class = 'machine'
		AND amd_confidence = 0.9 AND amd_after_ms = 1500 AND amd_machine = 'mailbox'`))
	require.Len(t, b.ended, 1)
	require.Equal(t, "machine", *b.ended[0].AmdClass, "whoever takes the call's end knows")
}

func TestLedgerTellsTheAnswerAtHangUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		class, by, told string
	}{
		"undecided":                         {told: AnsweredByHuman},
		"the verdict could not be written":  {class: "machine", by: AnsweredByMachine, told: AnsweredByMachine},
		"decided, then heard otherwise":     {class: "machine", by: AnsweredByHuman, told: AnsweredByHuman},
		"heard in the moment of the end":    {class: "machine", told: AnsweredByMachine},
		"heard that it can not be told who": {class: "unknown", told: AnsweredByHuman},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := time.Now().UTC().Truncate(time.Microsecond)
			b := detected(t, at)
			b.endAt(t, told(b.call, c.class, c.by), at.Add(time.Second))
			types, data := b.events(t)
			require.Equal(t, []string{"call.answered", "ai_session.started", "ai_session.ended", "call.ended"}, types)
			require.Equal(t, c.told, data[0]["answered_by_amd"])
			require.Zero(t, b.count(t, "SELECT count(*) FROM held_events"))
			require.Equal(t, 1, b.count(t, "SELECT count(*) FROM calls WHERE answered_by_amd = '"+c.told+"'"))
		})
	}
}

// A callee whom nobody took counts as a person, unless surely a machine: so say the event and the closed call, however late the verdict.
func TestLedgerCountsWhomNobodyTookAtHangUp(t *testing.T) {
	t.Parallel()
	for sure, want := range map[float64]string{0.94: AnsweredByHuman, 0.95: AnsweredByMachine} {
		for _, heard := range []string{"before the end", "at the end"} {
			t.Run(want+", heard "+heard, func(t *testing.T) {
				t.Parallel()
				at := time.Now().UTC().Truncate(time.Microsecond)
				b := detected(t, at)
				storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET abandoned = true WHERE id = $1", b.call.ID)
				call := told(b.call, "machine", "")
				call.AmdConfidence = &sure
				if heard == "before the end" {
					require.NoError(t, b.l.Verdict(t.Context(), call))
				}
				b.endAt(t, call, at.Add(time.Second))
				_, data := b.events(t)
				require.Equal(t, want, data[0]["answered_by_amd"])
				require.Equal(t, 1, b.count(t, "SELECT count(*) FROM calls WHERE answered_by_amd = '"+want+"'"))
				require.Equal(t, want, *b.ended[0].AnsweredByAmd)
			})
		}
	}
}

// A beep that is known when the call ends, and was not written before, makes a machine of an abandoned callee as one that was written would, unless
// call.answered has said that it is a person.
func TestLedgerOfABeepAndAnAbandonedCallee(t *testing.T) {
	t.Parallel()
	for said, order := range map[string][]string{AnsweredByMachine: {"verdict", "abandoned"}, AnsweredByHuman: {"abandoned", "verdict"}} {
		for _, written := range []string{"before the end", "at the end"} {
			t.Run(said+", written "+written, func(t *testing.T) {
				t.Parallel()
				at := time.Now().UTC().Truncate(time.Microsecond)
				b := detected(t, at)
				storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET queued_at = $2 WHERE id = $1", b.call.ID, at)
				call := told(b.call, "machine", AnsweredByMachine)
				for _, step := range order {
					if step == "verdict" {
						require.NoError(t, b.l.Verdict(t.Context(), call))
						continue
					}
					require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
						return tx.Q.CallAbandoned(t.Context(), b.tenant, b.call.ID)
					}))
				}
				call.AmdMachine = new("mailbox")
				if written == "before the end" {
					require.NoError(t, b.l.Verdict(t.Context(), call))
				}
				b.endAt(t, call, at.Add(10*time.Second))
				_, data := b.events(t)
				require.Equal(t, said, data[0]["answered_by_amd"])
				require.Equal(t, 1, b.count(t, "SELECT count(*) FROM calls WHERE abandoned AND amd_machine = 'mailbox' AND answered_by_amd = '"+said+"'"))
				require.Equal(t, said, *b.ended[0].AnsweredByAmd)
			})
		}
	}
}

// A verdict that comes after the wait is kept, and tells nobody anything else.
func TestLedgerKeepsALateVerdict(t *testing.T) {
	t.Parallel()
	at := time.Now().UTC().Truncate(time.Microsecond)
	b := detected(t, at)
	require.NoError(t, b.l.Verdict(t.Context(), told(b.call, "", AnsweredByHuman)))
	require.NoError(t, b.l.Verdict(t.Context(), told(b.call, "machine", AnsweredByHuman)))
	types, data := b.events(t)
	require.Equal(t, []string{"call.answered", "ai_session.started"}, types)
	require.Equal(t, AnsweredByHuman, data[0]["answered_by_amd"])
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM calls WHERE answered_by_amd = 'human' AND amd_class = 'machine'"))
}

// Quality is replaced while the call goes on, and left alone by an end that brings none.
func TestLedgerKeepsQuality(t *testing.T) {
	t.Parallel()
	at := time.Now().UTC().Truncate(time.Microsecond)
	b := detected(t, at)
	quality := func() string {
		row := ""
		require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
			return tx.Pgx().QueryRow(t.Context(), "SELECT quality::text FROM calls WHERE id = $1", b.call.ID).Scan(&row)
		}))
		return row
	}
	require.NoError(t, b.l.Quality(t.Context(), b.call, json.RawMessage(`{"inbound":null,"outbound":null}`)))
	require.NoError(t, b.l.Quality(t.Context(), b.call, json.RawMessage(`{"inbound":{"mos":4},"outbound":null}`)))
	b.endAt(t, b.call, at.Add(time.Second))
	require.JSONEq(t, `{"inbound":{"mos":4},"outbound":null}`, quality())
	require.NoError(t, b.l.Quality(t.Context(), b.call, json.RawMessage(`{}`)), "too late")
	require.JSONEq(t, `{"inbound":{"mos":4},"outbound":null}`, quality())

	other := b.open(t, nil, nil, nil)
	b.call = other
	record := FinalRecord{AnswerTime: &at, EndTime: at, Cause: CauseNormalClearing}
	require.NoError(t, b.l.Close(t.Context(), Closing{Call: other, Record: record, Quality: json.RawMessage(`{"inbound":{"mos":3},"outbound":null}`)}))
	require.JSONEq(t, `{"inbound":{"mos":3},"outbound":null}`, quality())
}

// A call that was listened to, and whose answer nobody saw, says so at its end.
func TestLedgerOfAnAnswerUnseenWithDetection(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET amd = true WHERE id = $1", b.call.ID)
	at := time.Now().UTC().Truncate(time.Microsecond)
	require.NoError(t, b.l.Close(t.Context(), Closing{
		Call: b.call, Record: FinalRecord{AnswerTime: &at, EndTime: at.Add(time.Second), Cause: CauseNormalClearing},
	}))
	types, data := b.events(t)
	require.Equal(t, []string{"call.answered", "call.ended"}, types)
	require.Equal(t, AnsweredByHuman, data[0]["answered_by_amd"])
}
