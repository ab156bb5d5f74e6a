package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/keyring"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/callbacktoken"
)

func testKeys() []keyring.Key { return []keyring.Key{{1}} }

// pgBench is a call in a real database.
type pgBench struct {
	refused bool // by the gate
	st      *store.Store
	l       *Ledger
	tenant  uuid.UUID
	agent   db.VoiceAgent
	call    db.Call
	mu      sync.Mutex
	ended   []db.Call // calls end beside each other: mu holds while one is added
	fail    error     // of the handler's part
}

func (b *pgBench) WasAnswered(context.Context, *store.Tx, db.Call) error { return nil }

func (b *pgBench) Ended(_ context.Context, _ *store.Tx, call db.Call) error {
	if b.fail != nil {
		return b.fail
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = append(b.ended, call)
	return nil
}

// Readmit runs move as the dialer's gate does.
func (b *pgBench) Readmit(ctx context.Context, leg Readmission, move func(context.Context, *store.Tx) error) error {
	if b.refused {
		return &ReadmissionError{Reason: errors.New("test")}
	}
	return b.st.InTenant(ctx, leg.Call.TenantID, func(tx *store.Tx) error { return move(ctx, tx) })
}

func newPGBench(t *testing.T) *pgBench {
	t.Helper()
	return newPGBenchOn(t, storetest.New(t))
}

func newPGBenchOn(t *testing.T, st *store.Store) *pgBench {
	t.Helper()
	b := &pgBench{st: st}
	b.tenant = storetest.Tenant(t, b.st)
	b.l = New(b.st, b, b, slog.New(slog.DiscardHandler), testKeys)
	agent := storetest.VoiceAgent(t, b.st, b.tenant, "ws://127.0.0.1:9/ai")
	campaign := storetest.Campaign(t, b.st, b.tenant, &agent)
	lead := storetest.Lead(t, b.st, b.tenant, campaign, "9876543210")
	storetest.Exec(t, b.st, b.tenant, `UPDATE leads SET crm_lead_id = 'CRM-7', metadata = '{"k":1}' WHERE id = $1`, lead)
	b.call = b.open(t, &campaign, &lead, &agent)
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		var err error
		b.agent, err = tx.Q.SessionVoiceAgent(t.Context(), b.tenant, agent)
		return err
	}))
	return b
}

// open writes a call and its unit, as the gate does.
func (b *pgBench) open(t *testing.T, campaign, lead, agent *uuid.UUID) db.Call {
	t.Helper()
	id := storetest.OpenCall(t, b.st, b.tenant, campaign, lead, agent)
	open, err := b.l.OpenCalls(t.Context(), "node-1")
	require.NoError(t, err)
	for _, o := range open {
		if o.Call.ID == id {
			return o.Call
		}
	}
	t.Fatal("the call is not among the node's open ones")
	return db.Call{}
}

func (b *pgBench) count(t *testing.T, sql string, args ...any) int {
	t.Helper()
	n := 0
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(t.Context(), sql, args...).Scan(&n)
	}))
	return n
}

// events gives the call's events in the order of the outbox, with their data.
func (b *pgBench) events(t *testing.T) (types []string, data []map[string]any) {
	t.Helper()
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		types, data = nil, nil
		rows, err := tx.Pgx().Query(t.Context(), "SELECT type, data FROM events ORDER BY seq")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var typ string
			var raw json.RawMessage
			if err := rows.Scan(&typ, &raw); err != nil {
				return err
			}
			var m map[string]any
			if err := json.Unmarshal(raw, &m); err != nil {
				return err
			}
			types, data = append(types, typ), append(data, m)
		}
		return rows.Err()
	}))
	return types, data
}

func (b *pgBench) startSession(t *testing.T) SessionGrant {
	t.Helper()
	token, err := callbacktoken.Mint(testKeys(), b.tenant, b.call.ID, time.Now(), callbacktoken.Life)
	require.NoError(t, err)
	g, err := b.l.StartSession(t.Context(), SessionStart{
		Call: b.call, Agent: b.agent, ID: storetest.NewID(t), At: time.Now().UTC(), Token: token,
	})
	require.NoError(t, err)
	return g
}

func TestLedgerRunsACallFromAnswerToItsEnd(t *testing.T) {
	t.Parallel()
	b, ctx := newPGBench(t), t.Context()
	at := time.Now().UTC().Truncate(time.Microsecond)
	require.NoError(t, b.l.Ringing(ctx, b.call, at.Add(-time.Second)))
	require.NoError(t, b.l.Answered(ctx, b.call, at))
	require.NoError(t, b.l.Answered(ctx, b.call, at), "told twice")
	b.agent.WsUrl += "?token=0123456789abcdef"
	g := b.startSession(t)
	require.Equal(t, "+919876543210", g.To)
	require.Equal(t, "CRM-7", *g.Lead.CRMLeadID)
	require.Nil(t, g.Session.OpenedAt)
	require.NoError(t, b.l.SessionOpened(ctx, b.call, g.Session, "/tmp/x.wav"))
	require.NoError(t, b.l.SessionOpened(ctx, b.call, g.Session, "/tmp/x.wav"), "told twice")
	calls, err := b.l.OpenCalls(ctx, "node-1")
	require.NoError(t, err)
	require.Len(t, calls, 1)
	require.NotNil(t, calls[0].Session.OpenedAt)
	require.NoError(t, b.l.AgentConnected(ctx, b.call, at))
	require.NoError(t, b.l.AppendLogs(ctx, b.call, g.Session.ID, []LogEntry{
		{ID: storetest.NewID(t), At: at, Source: "api", Type: "log", Metadata: json.RawMessage(`{"n":1}`)},
	}))

	disposition, sip := "recv_bye", int32(200)
	closed := Closing{Call: b.call, Outcome: SessionHangup, Record: FinalRecord{
		AnswerTime: &at, EndTime: at.Add(7500 * time.Millisecond), Cause: "NORMAL_CLEARING", Disposition: &disposition, SIPStatus: &sip,
	}}
	require.NoError(t, b.l.Close(ctx, closed))
	require.NoError(t, b.l.Close(ctx, closed), "told twice")

	types, data := b.events(t)
	require.Equal(t, []string{"call.answered", "ai_session.started", "ai_session.ended", "call.ended"}, types)
	require.Equal(t, "human", data[0]["answered_by_amd"])
	require.Equal(t, map[string]any{"k": 1.0}, data[0]["lead_metadata"])
	require.Regexp(t, `\?token=••••cdef$`, data[1]["ws_url"])
	require.Equal(t, "hangup", data[2]["outcome"])
	metadata, ok := data[2]["metadata"].(map[string]any)
	require.True(t, ok)
	require.Len(t, metadata["logs"], 1)
	ended := data[3]
	require.Equal(t, "completed", ended["status"])
	require.Equal(t, "CRM-7", ended["crm_lead_id"])
	require.InDelta(t, 7, ended["talk_duration_s"], 0)
	require.Equal(t, map[string]any{"available": false}, ended["recording"])
	require.Nil(t, ended["disposition"])
	require.NotContains(t, ended, "to")

	require.Len(t, b.ended, 1)
	require.Equal(t, "recv_bye", *b.ended[0].HangupDisposition)
	require.Zero(t, b.count(t, "SELECT count(*) FROM live_calls"))
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM recordings WHERE status = 'processing'"))
	open, err := b.l.OpenCalls(ctx, "node-1")
	require.NoError(t, err)
	require.Empty(t, open)
}

func TestLedgerKeepsNothingOfACloseThatFails(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	b.fail = errors.New("the lead can't be written")
	at := time.Now().UTC()
	c := Closing{Call: b.call, Record: FinalRecord{EndTime: at, Cause: "USER_BUSY"}}
	require.ErrorIs(t, b.l.Close(t.Context(), c), b.fail)
	types, _ := b.events(t)
	require.Empty(t, types)
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM live_calls"))
	b.fail = nil
	require.NoError(t, b.l.Close(t.Context(), c))
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM calls WHERE status = 'failed' AND hangup_cause = 'USER_BUSY'"))
}

func TestLedgerOfACallThatWasAnsweredUnseen(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	at := time.Now().UTC().Truncate(time.Microsecond)
	require.NoError(t, b.l.Close(t.Context(), Closing{
		Call: b.call, Record: FinalRecord{AnswerTime: &at, EndTime: at.Add(time.Second), Cause: "NORMAL_CLEARING"},
	}))
	types, _ := b.events(t)
	require.Equal(t, []string{"call.answered", "call.ended"}, types, "in the order in which it happened")
}

// tokenWatch counts the callback tokens that are to be forgotten.
type tokenWatch struct {
	watched atomic.Bool
	told    atomic.Int64
}

func (w *tokenWatch) Watch(on bool)      { w.watched.Store(on) }
func (w *tokenWatch) Forget(uuid.UUID)   {}
func (w *tokenWatch) ForgetToken(string) { w.told.Add(1) }

func TestLedgerEndsASessionByTransfer(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	g := b.startSession(t)
	at := time.Now().UTC()
	end := SessionEnd{
		Session: g.Session.ID, Outcome: SessionTransferredE164, At: at, Revoke: true, Final: json.RawMessage(`{"destination":"x"}`),
		Transfer: &TransferFacts{DestinationType: "e164", Destination: "+919876500000"},
	}
	watch := &tokenWatch{}
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { b.st.WatchCredentials(ctx, watch) })
	defer watching.Wait()
	defer cancel()
	require.Eventually(t, func() bool { return watch.watched.Load() }, 30*time.Second, time.Millisecond)
	require.NoError(t, b.l.EndSession(t.Context(), b.call, end))
	require.NotZero(t, watch.told.Load(), "this host takes its token no more")
	require.NoError(t, b.l.EndSession(t.Context(), b.call, end), "told twice")
	types, data := b.events(t)
	require.Equal(t, []string{"ai_session.transferred", "ai_session.ended"}, types)
	require.Equal(t, "+919876500000", data[0]["destination"])
	require.Equal(t, "transferred_e164", data[1]["outcome"])
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM callback_tokens WHERE revoked_at IS NOT NULL"))
}

func TestLedgerCountsAVoiceAgentThatTheGateDidNot(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE voice_agents SET max_concurrent = 1")
	token, err := callbacktoken.Mint(testKeys(), b.tenant, b.call.ID, time.Now(), callbacktoken.Life)
	require.NoError(t, err)
	second := b.open(t, nil, nil, nil)
	start := SessionStart{Call: second, Agent: b.agent, ID: storetest.NewID(t), At: time.Now().UTC(), Token: token}
	_, err = b.l.StartSession(t.Context(), start)
	require.ErrorIs(t, err, ErrAgentBusy, "the first call has the one unit")
	require.NoError(t, b.l.Close(t.Context(), Closing{Call: b.call, Record: FinalRecord{EndTime: time.Now().UTC(), Cause: "USER_BUSY"}}))
	_, err = b.l.StartSession(t.Context(), start)
	require.NoError(t, err)
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM live_calls WHERE voice_agent_id IS NOT NULL"))
	again := start
	again.Call = b.call
	_, err = b.l.StartSession(t.Context(), again)
	require.ErrorIs(t, err, ErrCallEnded)
}

// TestLedgerCountsASecondSession: the first session of a call has given its voice agent back, and the second asks again.
func TestLedgerCountsASecondSession(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE voice_agents SET max_concurrent = 1")
	first := b.startSession(t)
	require.NoError(t, b.l.EndSession(t.Context(), b.call, SessionEnd{Session: first.Session.ID, Outcome: SessionHangup, At: time.Now().UTC()}))
	other := b.open(t, nil, nil, &b.agent.ID)
	token, err := callbacktoken.Mint(testKeys(), b.tenant, b.call.ID, time.Now(), callbacktoken.Life)
	require.NoError(t, err)
	again := SessionStart{Call: b.call, Agent: b.agent, ID: storetest.NewID(t), At: time.Now().UTC(), Token: token}
	_, err = b.l.StartSession(t.Context(), again)
	require.ErrorIs(t, err, ErrAgentBusy, "another call has the one unit")
	require.NoError(t, b.l.Close(t.Context(), Closing{Call: other, Record: FinalRecord{EndTime: time.Now().UTC(), Cause: "USER_BUSY"}}))
	_, err = b.l.StartSession(t.Context(), again)
	require.NoError(t, err)
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM live_calls WHERE voice_agent_id IS NOT NULL"))
}

// TestLedgerStartsASessionOnce: a start whose commit's answer was lost is tried again.
func TestLedgerStartsASessionOnce(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	token, err := callbacktoken.Mint(testKeys(), b.tenant, b.call.ID, time.Now(), callbacktoken.Life)
	require.NoError(t, err)
	start := SessionStart{Call: b.call, Agent: b.agent, ID: storetest.NewID(t), At: time.Now().UTC(), Token: token, Parameters: map[string]string{"a": "b"}}
	first, err := b.l.StartSession(t.Context(), start)
	require.NoError(t, err)
	second, err := b.l.StartSession(t.Context(), start)
	require.NoError(t, err)
	require.Equal(t, first, second)
	require.JSONEq(t, `{"a":"b"}`, string(first.Session.Parameters))
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM callback_tokens WHERE call_id = $1 AND session_id = $2 AND jti_hash = $3 AND jwt = $4 AND scope = $5",
		b.call.ID, start.ID, token.Hash(), token.Kept, callbacktoken.Scope))
	require.NoError(t, b.l.SessionOpened(t.Context(), b.call, first.Session, ""))
	start.ID = storetest.NewID(t)
	_, err = b.l.StartSession(t.Context(), start)
	require.ErrorContains(t, err, "call has another that is active")
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM ai_sessions"))
}

// TestLedgerReroutes goes on only where there is room.
func TestLedgerReroutes(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	now := time.Now().UTC()
	full, slow := storetest.Trunk(t, b.st, b.tenant, "127.0.0.1", 5070, 1), storetest.Trunk(t, b.st, b.tenant, "127.0.0.1", 5071, 10)
	off, free := storetest.Trunk(t, b.st, b.tenant, "127.0.0.1", 5072, 10), storetest.Trunk(t, b.st, b.tenant, "127.0.0.1", 5073, 10)
	storetest.Exec(t, b.st, b.tenant, "UPDATE trunks SET cps = 1 WHERE id = $1", slow)
	storetest.Exec(t, b.st, b.tenant, "UPDATE trunks SET is_active = false WHERE id = $1", off)
	reroute := func(call db.Call, unit uuid.UUID, trunks ...*uuid.UUID) int {
		t.Helper()
		chosen, err := b.l.Reroute(t.Context(), Readmission{Call: call, UnitID: unit}, nil, trunks, now)
		require.NoError(t, err)
		return chosen
	}
	on := func(trunk uuid.UUID) int {
		return b.count(t, "SELECT count(*) FROM live_calls WHERE trunk_id = $1", trunk)
	}
	other, third := b.open(t, nil, nil, nil), b.open(t, nil, nil, nil)
	require.Equal(t, 0, reroute(other, other.ID, &full))
	require.Equal(t, 1, reroute(b.call, b.call.ID, &full, &slow, &off, &free), "the first has no channel")
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM calls WHERE trunk_id = $1 AND id = $2", slow, b.call.ID))
	storetest.Exec(t, b.st, b.tenant, "UPDATE live_calls SET rerouted_at = rerouted_at + interval '1 minute'") // however long this takes
	require.Equal(t, 3, reroute(third, third.ID, &full, &slow, &off, &free), "the second has begun its call of this second, the third is off")
	require.Equal(t, []int{1, 1, 0, 1}, []int{on(full), on(slow), on(off), on(free)})
	require.Equal(t, -1, reroute(third, third.ID, &full, &slow, &off))
	require.Equal(t, 1, on(free), "it stays where it was")
	b.refused = true
	require.Equal(t, -1, reroute(third, third.ID, nil), "the gate doesn't let it be dialed any more")
	require.Equal(t, 1, on(free), "it stays where it was")
	b.refused = false
	require.Equal(t, 1, reroute(third, third.ID, &full, nil), "a host's trunk has no ceilings")

	transfer := storetest.NewID(t)
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO live_calls (tenant_id, unit_id, call_id, kind, trunk_id, node)
		VALUES ($1, $2, $3, 'transfer', $4, 'node-1')`, b.tenant, transfer, b.call.ID, free)
	storetest.Exec(t, b.st, b.tenant, "UPDATE live_calls SET rerouted_at = rerouted_at - interval '2 minutes'")
	storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET created_at = created_at - interval '2 minutes'")
	require.Equal(t, 0, reroute(b.call, transfer, &slow), "a second later")
	require.Equal(t, 2, on(slow))
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM calls WHERE trunk_id = $1 AND id = $2", slow, b.call.ID), "the call stays on its own")
}

// TestLedgerCountsAgainstATrunkWhatFailsOver: not twice, where the call ends there, and not to a trunk that rests.
func TestLedgerCountsAgainstATrunkWhatFailsOver(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	now := time.Now().UTC()
	dead, free := storetest.Trunk(t, b.st, b.tenant, "127.0.0.1", 5070, 10), storetest.Trunk(t, b.st, b.tenant, "127.0.0.1", 5071, 10)
	fails := func(unit uuid.UUID, silent bool, trunks ...*uuid.UUID) int {
		t.Helper()
		failed := &FailedRoute{Trunk: dead, Cause: "NORMAL_TEMPORARY_FAILURE", Silent: silent}
		chosen, err := b.l.Reroute(t.Context(), Readmission{Call: b.call, UnitID: unit}, failed, trunks, now)
		require.NoError(t, err)
		now = now.Add(5 * time.Second)
		return chosen
	}
	health := func(column string) int {
		return b.count(t, "SELECT "+column+" FROM trunks WHERE id = $1", dead)
	}
	require.Equal(t, -1, fails(b.call.ID, false))
	require.Zero(t, health("failures"), "the call's end tells of it")
	storetest.Exec(t, b.st, b.tenant, "UPDATE trunks SET heard_at = now()")
	require.Equal(t, 0, fails(b.call.ID, true, &free))
	require.Zero(t, health("failures"), "silence says nothing of a trunk that is heard, but was never heard to ring")
	for range 5 {
		require.Zero(t, health("rests"))
		require.Equal(t, 0, fails(b.call.ID, false, &free))
	}
	require.Equal(t, 1, health("rests"))
	require.Equal(t, 1, fails(b.call.ID, false, &dead, &free), "one that rests is passed by")
	transfer := storetest.NewID(t)
	chosen, err := b.l.Reroute(t.Context(), Readmission{Call: b.call, UnitID: transfer}, nil, []*uuid.UUID{&dead, &free}, now)
	require.NoError(t, err)
	require.Zero(t, chosen, "but for a transfer")
}

// TestLedgerNotesATrunksSignsOfLife at once, and not only at the call's end.
func TestLedgerNotesATrunksSignsOfLife(t *testing.T) {
	t.Parallel()
	for name, heard := range map[string]func(*pgBench, db.Call, time.Time) error{
		"ringing": func(b *pgBench, c db.Call, at time.Time) error { return b.l.Ringing(t.Context(), c, at) },
		"answer":  func(b *pgBench, c db.Call, at time.Time) error { return b.l.Answered(t.Context(), c, at) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newPGBench(t)
			trunk, now := storetest.Trunk(t, b.st, b.tenant, "127.0.0.1", 5070, 10), time.Now().UTC()
			storetest.Exec(t, b.st, b.tenant, `UPDATE trunks SET failures = 10, failing_since = $1, failure = 'X', rests = 1, rests_until = $1`, now)
			call := b.call
			call.TrunkID = &trunk
			rests := func() int { return b.count(t, "SELECT rests FROM trunks WHERE id = $1", trunk) }
			if name == "ringing" {
				inbound := call
				inbound.Direction = "inbound"
				require.NoError(t, heard(b, inbound, now))
				require.Equal(t, 1, rests(), "a caller says nothing of it")
			}
			require.NoError(t, heard(b, call, now.Add(time.Second)))
			require.Zero(t, rests())
			require.Equal(t, 1, b.count(t, "SELECT count(*) FROM trunks WHERE id = $1 AND heard_at IS NOT NULL AND (rang_at IS NOT NULL) = $2", trunk, name == "ringing"))
		})
	}
}

// TestOpenCallInFlow: a call that its flow had before a restart is known as such, unless the flow has ended, or a voice agent has had the call since.
func TestOpenCallInFlow(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	inFlow := func() bool {
		open, err := b.l.OpenCalls(t.Context(), "node-1")
		require.NoError(t, err)
		require.Len(t, open, 1)
		return open[0].InFlow
	}
	require.False(t, inFlow())
	storetest.Exec(t, b.st, b.tenant, "INSERT INTO flow_runs (tenant_id, call_id, flow_id, version) VALUES ($1, $2, $3, 1)", b.tenant, b.call.ID, storetest.NewID(t))
	require.True(t, inFlow())
	storetest.Exec(t, b.st, b.tenant, "UPDATE flow_runs SET ended_at = now(), outcome = 'ended'")
	require.False(t, inFlow())
	storetest.Exec(t, b.st, b.tenant, "UPDATE flow_runs SET ended_at = NULL")
	g := b.startSession(t)
	require.True(t, inFlow(), "the voice agent has not been reached yet")
	storetest.Exec(t, b.st, b.tenant, "UPDATE ai_sessions SET opened_at = now() WHERE id = $1", g.Session.ID)
	require.False(t, inFlow())
}

func TestLedgerResumesTheSameSessionWithItsToken(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	sealed, err := b.st.Seal(store.AuthToken(b.agent.ID), []byte("bearer"))
	require.NoError(t, err)
	storetest.Exec(t, b.st, b.tenant, "UPDATE voice_agents SET auth_token_sealed = $1", sealed)
	g := b.startSession(t)
	open, err := b.l.OpenCalls(t.Context(), "node-1")
	require.NoError(t, err)
	require.Len(t, open, 1)
	require.Equal(t, g.Session.ID, open[0].Session.ID)
	resumed, err := b.l.ResumeSession(t.Context(), open[0].Call, *open[0].Session)
	require.NoError(t, err)
	require.Equal(t, g.Token, resumed.Token)
	require.Equal(t, "bearer", resumed.AuthToken)
	require.Equal(t, "+919876543210", resumed.To)

	next, err := callbacktoken.Mint(testKeys(), b.tenant, b.call.ID, time.Now(), callbacktoken.Life)
	require.NoError(t, err)
	for range 2 { // the answer to the first may have been lost
		require.NoError(t, b.l.AddToken(t.Context(), b.call, g.Session.ID, next))
	}
	require.ErrorContains(t, b.l.AddToken(t.Context(), b.call, storetest.NewID(t), next), "another token's")
	require.Zero(t, b.count(t, "SELECT count(*) FROM callback_tokens c, ai_sessions s WHERE c::text || s::text LIKE '%' || $1 || '%'", next.JTI),
		"who reads the database gets no token")
	open, err = b.l.OpenCalls(t.Context(), "node-1")
	require.NoError(t, err)
	require.Equal(t, next.Hash(), *open[0].Session.TokenHash)
	before, err := b.l.NodeStarted(t.Context(), "node-1", time.Now())
	require.NoError(t, err)
	require.Zero(t, before)
	require.NoError(t, b.l.NodeSeen(t.Context(), "node-1", time.Now(), "c-1"))
	before, err = b.l.NodeStarted(t.Context(), "node-1", time.Now())
	require.NoError(t, err)
	require.Equal(t, NodeBefore{Core: "c-1"}, before)
}
