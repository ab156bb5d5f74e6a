package dialer

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/media/amd"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/keyring"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/callbacktoken"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// Each commit of a call's later part waits for the database no more often than this. A tenant with a subscription to all of it, and a
// recording, has all that there may be.
func TestRoundTripsOfACallsEnd(t *testing.T) {
	t.Parallel()
	st, proxy := storetest.NewProxied(t)
	agents, err := acd.New(acd.Config{NodeID: "node-1", Accounts: acd.NewAccounts(st, []byte("key"), "sip.test")}, st)
	require.NoError(t, err)
	b := setupOn(t, st, func(c *Config) { c.Agents = agents })
	campaign := b.running(t).ID
	agent := storetest.VoiceAgent(t, st, b.tenant, "ws://127.0.0.1:9/ai")
	trunk := storetest.Trunk(t, st, b.tenant, "198.51.100.7", 5060, 100)
	storetest.Subscription(t, st, b.tenant, nil, "call.*", "lead.*", "ai_session.*")
	keys := func() []keyring.Key { return []keyring.Key{{1}} }
	l := ledger.New(st, b.svc.Gate, b.svc.Answers, slog.New(slog.DiscardHandler), keys)

	open := func(voiceAgent *uuid.UUID, amd bool) db.Call {
		lead := storetest.Lead(t, st, b.tenant, campaign, b.freshNumber())
		id := storetest.OpenCall(t, st, b.tenant, &campaign, &lead, voiceAgent)
		storetest.Exec(t, st, b.tenant, "UPDATE calls SET amd = $2, trunk_id = $3 WHERE id = $1", id, amd, trunk)
		storetest.Exec(t, st, b.tenant, "UPDATE leads SET status = 'dialing', attempts = 1, last_call_id = $2 WHERE id = $1", lead, id)
		return b.openCall(t, id)
	}
	session := func(call db.Call) ledger.SessionGrant {
		token, err := callbacktoken.Mint(keys(), b.tenant, call.ID, time.Now(), callbacktoken.Life)
		require.NoError(t, err)
		voiceAgent, err := st.Read(b.tenant).VoiceAgentGet(t.Context(), b.tenant, agent)
		require.NoError(t, err)
		g, err := l.StartSession(t.Context(), ledger.SessionStart{Call: call, Agent: voiceAgent, ID: storetest.NewID(t), At: time.Now(), Token: token})
		require.NoError(t, err)
		require.NoError(t, l.SessionOpened(t.Context(), call, g.Session, "/tmp/"+call.ID.String()))
		require.NoError(t, l.AgentConnected(t.Context(), call, time.Now()))
		return g
	}
	heard := func(call *db.Call) {
		class, sure, after, by := string(amd.ClassHuman), 0.9, int32(800), ledger.AnsweredByHuman
		call.AmdClass, call.AmdConfidence, call.AmdAfterMs, call.AnsweredByAmd = &class, &sure, &after, &by
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	status := int32(486)
	refuse := "recv_refuse"
	ended := func(answered bool) ledger.FinalRecord {
		if answered {
			return ledger.FinalRecord{RingTime: &now, AnswerTime: &now, EndTime: now.Add(time.Minute), Cause: ledger.CauseNormalClearing}
		}
		return ledger.FinalRecord{EndTime: now, Cause: ledger.CauseUserBusy, SIPStatus: &status, Disposition: &refuse}
	}

	for name, c := range map[string]struct {
		most int
		act  func() (act func() error)
	}{
		"verdict": {2, func() func() error {
			call := open(&agent, true)
			require.NoError(t, l.Answered(t.Context(), call, now))
			require.Equal(t, string(leads.StatusConnected), b.lead(t, *call.LeadID).Status)
			session(call) // whose events are held
			heard(&call)
			return func() error { return l.Verdict(t.Context(), call) }
		}},
		"answer": {1, func() func() error {
			call := open(&agent, true)
			return func() error { return l.Answered(t.Context(), call, now) }
		}},
		"answer, told": {2, func() func() error {
			call := open(&agent, false)
			return func() error { return l.Answered(t.Context(), call, now) }
		}},
		"choice of a voice agent": {1, func() func() error {
			call := open(&agent, true)
			return func() error { return b.svc.Answers.Answered(t.Context(), &fakeLeg{call: call}) }
		}},
		"quality": {1, func() func() error {
			call := open(&agent, false)
			return func() error { return l.Quality(t.Context(), call, []byte(`{}`)) }
		}},
		"session's end": {2, func() func() error {
			call := open(&agent, false)
			require.NoError(t, l.Answered(t.Context(), call, now))
			require.Equal(t, string(leads.StatusConnected), b.lead(t, *call.LeadID).Status)
			g := session(call)
			return func() error {
				return l.EndSession(t.Context(), call, ledger.SessionEnd{Session: g.Session.ID, Outcome: ledger.SessionTransferredAgent, At: now, Revoke: true, Transfer: &ledger.TransferFacts{}})
			}
		}},
		"close of a busy line": {4, func() func() error {
			call := open(nil, false)
			return func() error { return l.Close(t.Context(), ledger.Closing{Call: call, Record: ended(false)}) }
		}},
		"close of a voice agent's call": {5, func() func() error {
			call := open(&agent, false)
			require.NoError(t, l.Answered(t.Context(), call, now))
			session(call)
			return func() error { return l.Close(t.Context(), ledger.Closing{Call: call, Record: ended(true)}) }
		}},
		"close while a verdict is waited for": {6, func() func() error {
			call := open(&agent, true)
			require.NoError(t, l.Answered(t.Context(), call, now))
			session(call)
			heard(&call)
			call.AnsweredByAmd = nil
			return func() error { return l.Close(t.Context(), ledger.Closing{Call: call, Record: ended(true)}) }
		}},
		"close of an agent's call": {4, func() func() error {
			call := open(nil, false)
			person := storetest.NewID(t)
			storetest.Exec(t, st, b.tenant, `INSERT INTO users (tenant_id, id, email, password_hash, role)
				VALUES ($1, $2::uuid, $2::uuid::text || '@people.test', 'x', 'agent')`, b.tenant, person)
			require.NoError(t, l.Answered(t.Context(), call, now))
			call.AgentID = &person
			require.NoError(t, l.AgentConnected(t.Context(), call, now))
			storetest.Exec(t, st, b.tenant, `INSERT INTO agents (tenant_id, id, status, current_call_id, node, last_status_at, logged_in_at)
				VALUES ($1, $2, 'on_call', $3, 'node-1', now(), now())`, b.tenant, person, call.ID)
			return func() error { return l.Close(t.Context(), ledger.Closing{Call: call, Record: ended(true)}) }
		}},
	} {
		fewest := 100
		for range 8 { // the first has statements prepared, and River's first word of a queue is a query
			act := c.act()
			fewest = min(fewest, proxy.RoundTrips(func() { require.NoError(t, act(), name) }))
		}
		require.LessOrEqual(t, fewest, c.most, name)
		t.Logf("%s: %d", name, fewest)
	}
	require.Zero(t, storetest.Count(t, st, "SELECT count(*) FROM held_events h JOIN calls c ON c.id = h.call_id WHERE c.end_time IS NOT NULL"))
}

func (b *bundle) openCall(t *testing.T, id uuid.UUID) (call db.Call) {
	t.Helper()
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) (err error) {
		call, err = tx.Q.CallLockOpen(t.Context(), b.tenant, id)
		return err
	}))
	return call
}
