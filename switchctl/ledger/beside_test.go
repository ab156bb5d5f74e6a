package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/callbacktoken"
)

// beside does several things at once, each behind the one before, and all behind a lock: what is tried again, or given up, since its connection was lost
// may still wait in the server.
func (b *pgBench) beside(t *testing.T, lock string, id any, all ...func(ctx context.Context) error) {
	t.Helper()
	done := make(chan error, len(all))
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		if _, err := tx.Pgx().Exec(t.Context(), lock, id); err != nil {
			return err
		}
		for i, do := range all {
			go func() { done <- do(t.Context()) }()
			require.Eventually(t, func() bool { // for us, or for one before
				return storetest.Count(t, b.st, `SELECT count(*) FROM pg_locks l WHERE NOT l.granted AND l.locktype IN ('tuple', 'transactionid')
				AND EXISTS (SELECT FROM pg_locks d WHERE d.pid = l.pid AND d.database = (SELECT oid FROM pg_database WHERE datname = current_database()))`) == i+1
			}, 30*time.Second, 5*time.Millisecond)
		}
		return nil
	}))
	for range all {
		require.NoError(t, <-done)
	}
}

func TestLedgerStartsASessionBesideItself(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	token, err := callbacktoken.Mint(testKeys(), b.tenant, b.call.ID, time.Now(), callbacktoken.Life)
	require.NoError(t, err)
	start := SessionStart{Call: b.call, Agent: b.agent, ID: storetest.NewID(t), At: time.Now().UTC(), Token: token}
	try := func(ctx context.Context) error {
		_, err := b.l.StartSession(ctx, start)
		return err
	}
	b.beside(t, "SELECT FROM calls WHERE id = $1 FOR UPDATE", b.call.ID, try, try)
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM ai_sessions"))
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM callback_tokens"))
}

// TestLedgerEndsASessionThatIsLate: a session that was given up before its start was written ends all the same, and the next one can begin.
func TestLedgerEndsASessionThatIsLate(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	start := func(id uuid.UUID) func(ctx context.Context) error {
		token, err := callbacktoken.Mint(testKeys(), b.tenant, b.call.ID, time.Now(), callbacktoken.Life)
		require.NoError(t, err)
		return func(ctx context.Context) error {
			_, err := b.l.StartSession(ctx, SessionStart{Call: b.call, Agent: b.agent, ID: id, At: time.Now().UTC(), Token: token})
			return err
		}
	}
	late, next := storetest.NewID(t), storetest.NewID(t)
	end := SessionEnd{Session: late, Outcome: SessionError, At: time.Now().UTC(), Unsure: true}
	giveUp := func(ctx context.Context) error { return b.l.EndSession(ctx, b.call, end) }
	b.beside(t, "SELECT FROM calls WHERE id = $1 FOR UPDATE", b.call.ID, start(late), giveUp)
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM ai_sessions WHERE status = 'ended' AND outcome = 'error'"))
	require.Zero(t, b.count(t, "SELECT count(*) FROM live_calls WHERE voice_agent_id IS NOT NULL"))
	require.NoError(t, start(next)(t.Context()))
	require.NoError(t, giveUp(t.Context()), "told twice")
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM live_calls WHERE voice_agent_id IS NOT NULL"), "it is the next one's")
}

// TestLedgerStartsASessionInPlaceOfALateOne: the controller that has adopted the call starts the next one, while that of the one which died still waits in the
// server. The late one is nobody's, whichever voice agent it was to be of.
func TestLedgerStartsASessionInPlaceOfALateOne(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]bool{"of the same voice agent": false, "of another": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newPGBench(t)
			agent := b.agent
			if other {
				agent.ID = storetest.VoiceAgent(t, b.st, b.tenant, "ws://127.0.0.1:9/")
			}
			now := time.Now().UTC()
			start := func(id uuid.UUID, agent db.VoiceAgent, at time.Time) func(ctx context.Context) error {
				token, err := callbacktoken.Mint(testKeys(), b.tenant, b.call.ID, at, callbacktoken.Life)
				require.NoError(t, err)
				return func(ctx context.Context) error {
					_, err := b.l.StartSession(ctx, SessionStart{Call: b.call, Agent: agent, ID: id, At: at, Token: token})
					return err
				}
			}
			late, next := storetest.NewID(t), storetest.NewID(t)
			b.beside(t, "SELECT FROM calls WHERE id = $1 FOR UPDATE", b.call.ID, start(late, b.agent, now.Add(-time.Second)), start(next, agent, now))
			require.Equal(t, 1, b.count(t, "SELECT count(*) FROM ai_sessions WHERE id = $1 AND status = 'ended' AND outcome = 'error'", late))
			require.Equal(t, 1, b.count(t, "SELECT count(*) FROM ai_sessions WHERE id = $1 AND status = 'active'", next))
			require.Equal(t, 1, b.count(t, "SELECT count(*) FROM live_calls WHERE voice_agent_id = $1", agent.ID))
			require.Equal(t, 1, b.count(t, "SELECT count(*) FROM callback_tokens WHERE revoked_at IS NULL"), "the next one's")
			types, _ := b.events(t)
			require.Equal(t, []string{"ai_session.ended"}, types)
		})
	}
}

// TestLedgerGivesBackAVoiceAgentThatWasNeverReached: a call whose session could not be written may go on with a person.
func TestLedgerGivesBackAVoiceAgentThatWasNeverReached(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM live_calls WHERE voice_agent_id IS NOT NULL"))
	end := SessionEnd{Session: storetest.NewID(t), Outcome: SessionError, At: time.Now().UTC(), Unsure: true}
	require.NoError(t, b.l.EndSession(t.Context(), b.call, end))
	require.Zero(t, b.count(t, "SELECT count(*) FROM live_calls WHERE voice_agent_id IS NOT NULL"))
	types, _ := b.events(t)
	require.Empty(t, types)
}

// TestLedgerNotesASession: a call that was led elsewhere has a session for the note alone. It takes no place of the voice agent's, nor is the call that agent's.
func TestLedgerNotesASession(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	other := b.agent
	other.ID = storetest.VoiceAgent(t, b.st, b.tenant, "ws://127.0.0.1:9/")
	note := LogEntry{ID: storetest.NewID(t), At: time.Now().UTC(), Source: "system", Type: "connect_url", Metadata: json.RawMessage(`{"error":"busy"}`)}
	for range 2 { // the first commit's reply was lost
		require.NoError(t, b.l.NoteSession(t.Context(), b.call, other, note))
	}
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM ai_sessions WHERE status = 'ended' AND outcome = 'error' AND voice_agent_id = $1", other.ID))
	require.Zero(t, b.count(t, "SELECT count(*) FROM calls WHERE voice_agent_id = $1", other.ID))
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM live_calls WHERE voice_agent_id = $1", b.agent.ID), "the call holds what it held")
	require.Zero(t, b.count(t, "SELECT count(*) FROM callback_tokens"))
	types, payloads := b.events(t)
	require.Equal(t, []string{"ai_session.ended"}, types)
	require.Contains(t, fmt.Sprint(payloads[0]), "busy")
	b.startSession(t)
}

func TestLedgerAddsATokenBesideItself(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	g := b.startSession(t)
	token, err := callbacktoken.Mint(testKeys(), b.tenant, b.call.ID, time.Now(), callbacktoken.Life)
	require.NoError(t, err)
	try := func(ctx context.Context) error { return b.l.AddToken(ctx, b.call, g.Session.ID, token) }
	b.beside(t, "SELECT FROM ai_sessions WHERE id = $1 FOR UPDATE", g.Session.ID, try, try)
	require.Equal(t, 2, b.count(t, "SELECT count(*) FROM callback_tokens"), "the first and this one")
}
