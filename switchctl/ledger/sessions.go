package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl/callbacktoken"
	"github.com/ringmaster/ringmaster/switchctl/recordings"
)

// TransportTwilio is the transport of voice agents whose token isn't sent: it signs the handshake.
const TransportTwilio = "twilio"

// StartSession takes a unit of the voice agent, unless the call holds one ([ErrAgentBusy]), and writes session and token.
func (l *Ledger) StartSession(ctx context.Context, s SessionStart) (SessionGrant, error) {
	if held := s.Call.VoiceAgentID; held != nil && *held == s.Agent.ID {
		if g, begun, err := l.beginSession(ctx, s); err != nil || begun {
			return g, err
		}
	}
	var g SessionGrant
	err := l.st.InTenant(ctx, s.Call.TenantID, func(tx *store.Tx) error {
		g = SessionGrant{Agent: s.Agent, Token: s.Token}
		var existing *db.AiSession
		var limit db.SessionVoiceAgentLimitRow
		asks := append([]func(*db.Queries) error{func(q *db.Queries) error {
			_, err := q.CallLockOpen(ctx, s.Call.TenantID, s.Call.ID)
			if errors.Is(err, store.ErrNotFound) {
				return ErrCallEnded
			}
			return err
		}, func(q *db.Queries) error {
			row, err := q.SessionActiveOfCall(ctx, s.Call.TenantID, s.Call.ID)
			if errors.Is(err, store.ErrNotFound) {
				return nil
			}
			existing = &row
			return err
		}, func(q *db.Queries) (err error) {
			limit, err = q.SessionVoiceAgentLimit(ctx, s.Call.TenantID, s.Call.ID, s.Agent.ID)
			return err
		}}, forGrant(ctx, s.Call, &g)...)
		if err := tx.Together(ctx, asks...); err != nil {
			return err
		}
		switch {
		case existing != nil && existing.ID == s.ID:
			g.Session = *existing // the commit before this try did arrive
		case existing != nil && existing.OpenedAt != nil:
			return fmt.Errorf("switchctl: start AI session: call has another that is active: %s", existing.ID)
		default:
			if existing != nil { // of a controller that died while its start waited here: nobody knows of it, and nobody will open it
				if err := endSession(ctx, tx, s.Call, s.insteadOf(*existing)); err != nil {
					return err
				}
				limit.Held = nil // given back with it
			}
			if err := insertSession(ctx, tx, s, limit, &g); err != nil {
				return err
			}
		}
		return l.complete(ctx, tx, s.Call, &g)
	})
	return g, err
}

// beginSession is StartSession in one round trip: the callee waits. It does nothing where the call doesn't hold the unit that it was admitted with
// any more, has a session, or has ended.
func (l *Ledger) beginSession(ctx context.Context, s SessionStart) (g SessionGrant, begun bool, err error) {
	err = l.st.InTenant(ctx, s.Call.TenantID, func(tx *store.Tx) error {
		g, begun = SessionGrant{Agent: s.Agent, Token: s.Token}, false
		asks := append([]func(*db.Queries) error{func(q *db.Queries) error {
			row, err := q.SessionBegin(ctx, db.SessionBeginParams{
				TenantID: s.Call.TenantID, ID: s.ID, CallID: s.Call.ID, VoiceAgentID: s.Agent.ID, ExternalAgentID: s.Agent.ExternalAgentID,
				WsUrl: s.Agent.WsUrl, StartedAt: s.At, Parameters: s.parameters(), TokenHash: s.Token.Hash(), Jwt: s.Token.Kept,
				Scope: callbacktoken.Scope, ExpiresAt: s.Token.ExpiresAt, CreatedAt: s.Token.CreatedAt,
			})
			g.Session, begun = db.AiSession(row), err == nil
			return unlessNotFound(err)
		}}, forGrant(ctx, s.Call, &g)...)
		if len(s.Call.PeerSealed) > 0 { // its key may have to be read
			if err := tx.Together(ctx, asks...); err != nil || !begun {
				return err
			}
			return l.complete(ctx, tx, s.Call, &g)
		}
		for _, ask := range asks {
			if err := tx.Later(ctx, ask); err != nil {
				return err
			}
		}
		return l.complete(ctx, tx, s.Call, &g)
	})
	return g, begun, err
}

// insteadOf is the end of a session that was never opened, in whose place another one starts.
func (s SessionStart) insteadOf(lost db.AiSession) SessionEnd {
	at := s.At
	if at.Before(lost.StartedAt) {
		at = lost.StartedAt
	}
	return SessionEnd{Session: lost.ID, Outcome: SessionError, At: at, Revoke: true}
}

func insertSession(ctx context.Context, tx *store.Tx, s SessionStart, limit db.SessionVoiceAgentLimitRow, g *SessionGrant) error {
	if limit.Held == nil || *limit.Held != s.Agent.ID { // as it does from its admission on; an earlier session of the call's has given that back
		if err := takeAgentUnit(ctx, tx, s); err != nil {
			return err
		}
	}
	return errors.Join(tx.Later(ctx, func(q *db.Queries) (err error) {
		g.Session, err = q.SessionInsert(ctx, db.SessionInsertParams{
			TenantID: s.Call.TenantID, ID: s.ID, CallID: s.Call.ID, VoiceAgentID: s.Agent.ID,
			ExternalAgentID: s.Agent.ExternalAgentID, WsUrl: s.Agent.WsUrl, StartedAt: s.At, TokenHash: new(s.Token.Hash()), Parameters: s.parameters(),
		})
		return err
	}), insertToken(ctx, tx, s.Call, s.ID, s.Token))
}

// takeAgentUnit counts the call against the voice agent. It counts under the gate's lock, as the gate does.
func takeAgentUnit(ctx context.Context, tx *store.Tx, s SessionStart) error {
	var agent db.SessionVoiceAgentLimitRow
	var used int64
	err := tx.Together(ctx, func(q *db.Queries) error {
		return q.GateLock(ctx, s.Call.TenantID)
	}, func(q *db.Queries) (err error) {
		agent, err = q.SessionVoiceAgentLimit(ctx, s.Call.TenantID, s.Call.ID, s.Agent.ID)
		return err
	}, func(q *db.Queries) (err error) {
		used, err = q.LiveUnitVoiceAgentUsage(ctx, s.Call.TenantID, s.Agent.ID, s.Call.ID)
		return err
	})
	if err != nil {
		return err
	}
	if used >= int64(agent.MaxConcurrent) {
		return ErrAgentBusy
	}
	return errors.Join(tx.Later(ctx, func(q *db.Queries) error { // the call's row before its units
		_, err := q.CallSetVoiceAgent(ctx, s.Agent.ID, s.Call.TenantID, s.Call.ID)
		return err
	}), tx.Later(ctx, func(q *db.Queries) error {
		_, err := q.LiveUnitSetVoiceAgent(ctx, s.Agent.ID, s.Call.TenantID, s.Call.ID)
		return err
	}))
}

func insertToken(ctx context.Context, tx *store.Tx, call db.Call, session uuid.UUID, t callbacktoken.Token) error {
	return tx.Later(ctx, func(q *db.Queries) error {
		_, err := q.CallbackTokenInsert(ctx, db.CallbackTokenInsertParams{
			TenantID: call.TenantID, JtiHash: t.Hash(), CallID: call.ID, SessionID: session, Jwt: t.Kept, Scope: callbacktoken.Scope,
			ExpiresAt: t.ExpiresAt, CreatedAt: t.CreatedAt,
		})
		if errors.Is(err, store.ErrNotFound) {
			return errors.New("the id of the callback token is another token's")
		}
		return err
	})
}

// parameters are how they are kept; nil for none.
func (s SessionStart) parameters() []byte {
	if len(s.Parameters) == 0 {
		return nil
	}
	raw, _ := json.Marshal(s.Parameters) // strings always encode
	return raw
}

// ResumeSession reads what a session needs that outlived a crash.
func (l *Ledger) ResumeSession(ctx context.Context, call db.Call, session db.AiSession) (SessionGrant, error) {
	g := SessionGrant{Session: session}
	err := l.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		agent, err := tx.Q.SessionVoiceAgent(ctx, call.TenantID, session.VoiceAgentID)
		if err != nil {
			return err
		}
		g.Agent = agent
		if !netguard.SameEnd(g.Agent.WsUrl, session.WsUrl) && g.Agent.Transport != TransportTwilio {
			g.Agent.AuthTokenSealed = nil // it is for the host of ws_url
		}
		g.Agent.WsUrl = session.WsUrl // the session goes on where it began
		if session.TokenHash != nil {
			row, err := tx.Q.CallbackTokenGet(ctx, call.TenantID, *session.TokenHash)
			if err != nil {
				return err
			}
			if g.Token, err = callbacktoken.Restore(l.keys(), row); err != nil {
				return err
			}
		}
		usage, err := tx.Q.SessionLogUsage(ctx, call.TenantID, session.ID)
		if err != nil {
			return err
		}
		g.LogEntries, g.LogBytes = int(usage.Entries), int(usage.Bytes)
		if err := tx.Together(ctx, forGrant(ctx, call, &g)...); err != nil {
			return err
		}
		return l.complete(ctx, tx, call, &g)
	})
	return g, err
}

// forGrant reads what the metadata frame and the dial need.
func forGrant(ctx context.Context, call db.Call, g *SessionGrant) (asks []func(*db.Queries) error) {
	if call.LeadID != nil {
		asks = append(asks, readLead(ctx, call, &g.Lead))
	}
	if call.TrunkID != nil {
		asks = append(asks, func(q *db.Queries) (err error) {
			g.Bypass, err = q.TrunkBypass(ctx, call.TenantID, *call.TrunkID)
			if errors.Is(err, store.ErrNotFound) {
				return nil
			}
			return err
		})
	}
	return asks
}

// complete adds what is kept sealed.
func (l *Ledger) complete(ctx context.Context, tx *store.Tx, call db.Call, g *SessionGrant) error {
	g.From, g.To = call.FromNumber.Reveal(), call.ToNumber.Reveal()
	if len(call.PeerSealed) > 0 {
		// A strict tenant's row shows the mask; the voice agent gets the number while the call lasts.
		peer, err := tx.OpenPhone(ctx, call.TenantID, call.PeerSealed)
		if err != nil {
			return err
		}
		if call.Direction == DirectionInbound {
			g.From = peer.E164()
		} else {
			g.To = peer.E164()
		}
	}
	if len(g.Agent.AuthTokenSealed) > 0 {
		plain, err := l.st.Unseal(store.AuthToken(g.Agent.ID), g.Agent.AuthTokenSealed)
		if err != nil {
			return fmt.Errorf("switchctl: open the voice agent's auth token: %w", err)
		}
		g.AuthToken = string(plain)
	}
	return nil
}

// SessionOpened tells of a session's first opening, and begins its recording, once.
func (l *Ledger) SessionOpened(ctx context.Context, call db.Call, session db.AiSession, recording string) error {
	return l.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		first, err := tx.Q.SessionOpened(ctx, call.TenantID, session.ID)
		if err != nil || first == 0 {
			return err
		}
		if recording != "" {
			if err := recordings.Continue(ctx, tx, call.TenantID, call.ID, recording, true, 0); err != nil {
				return err
			}
		}
		return emitSessionStarted(ctx, tx, call, session)
	})
}

// EndSession commits the outcome with ai_session.transferred, when it was, and ai_session.ended. It does nothing on a session that has ended.
func (l *Ledger) EndSession(ctx context.Context, call db.Call, end SessionEnd) error {
	return l.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		return endSession(ctx, tx, call, end)
	})
}

func endSession(ctx context.Context, tx *store.Tx, call db.Call, end SessionEnd) error {
	var session db.AiSession
	var rows []db.SessionLogsRow
	ended, other := false, false
	asks := []func(*db.Queries) error{func(q *db.Queries) (err error) {
		session, err = q.SessionEnd(ctx, end.params(call.TenantID))
		ended = err == nil
		return unlessNotFound(err)
	}, func(q *db.Queries) (err error) {
		rows, err = q.SessionLogs(ctx, call.TenantID, end.Session)
		return err
	}}
	if end.Unsure { // a start that still waits in the server has asked for the call's row before us
		asks = append([]func(*db.Queries) error{func(q *db.Queries) error {
			_, err := q.CallLockOpen(ctx, call.TenantID, call.ID)
			return unlessNotFound(err)
		}}, append(asks, func(q *db.Queries) error {
			_, err := q.SessionActiveOfCall(ctx, call.TenantID, call.ID)
			other = err == nil
			return unlessNotFound(err)
		})...)
	}
	if err := tx.Together(ctx, asks...); err != nil || !ended && !end.Unsure {
		return err // or ended already
	}
	if ended {
		if err := tellSessionEnded(ctx, tx, call, session, end, rows); err != nil {
			return err
		}
	}
	if other { // whose unit it is
		return nil
	}
	return tx.Later(ctx, func(q *db.Queries) error { // the events lock the call's row, which comes before its units
		_, err := q.LiveUnitClearVoiceAgent(ctx, call.TenantID, call.ID)
		return err
	})
}

// NoteSession writes a session of a voice agent whom the call was not connected with, and ends it as an error, for an entry of its log that says why. It
// counts against nothing, and the call is as it was. One that was written before is not written again.
func (l *Ledger) NoteSession(ctx context.Context, call db.Call, agent db.VoiceAgent, note LogEntry) error {
	note.Metadata = OrNull(note.Metadata)
	raw, err := json.Marshal([]LogEntry{note})
	if err != nil {
		return fmt.Errorf("switchctl: encode a session's note: %w", err)
	}
	return l.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		session, err := tx.Q.SessionNote(ctx, db.SessionNoteParams{
			TenantID: call.TenantID, ID: note.ID, CallID: call.ID, VoiceAgentID: agent.ID, ExternalAgentID: agent.ExternalAgentID, WsUrl: agent.WsUrl,
			Outcome: string(SessionError), At: note.At,
		})
		if err != nil {
			return unlessNotFound(err)
		}
		if err := tx.Later(ctx, func(q *db.Queries) error {
			_, err := q.SessionAppendLogs(ctx, call.TenantID, session.ID, raw)
			return err
		}); err != nil {
			return err
		}
		logs := []sessionLog{{ID: note.ID, At: note.At, Source: note.Source, Type: note.Type, Metadata: note.Metadata}}
		return emitSessionEnded(ctx, tx, call, session, SessionEnd{Session: session.ID, Outcome: SessionError, At: note.At}, logs)
	})
}

func tellSessionEnded(ctx context.Context, tx *store.Tx, call db.Call, session db.AiSession, end SessionEnd, rows []db.SessionLogsRow) error {
	if end.Revoke {
		if err := tx.Later(ctx, end.revoke(ctx, tx, call)); err != nil {
			return err
		}
	}
	logs := make([]sessionLog, len(rows))
	for i, r := range rows {
		logs[i] = sessionLog(r)
	}
	return emitSessionEnded(ctx, tx, call, session, end, logs)
}

func (end SessionEnd) params(tenant uuid.UUID) db.SessionEndParams {
	return db.SessionEndParams{TenantID: tenant, ID: end.Session, Outcome: string(end.Outcome), EndedAt: end.At, Final: end.Final}
}

// revoke takes the session's tokens back.
func (end SessionEnd) revoke(ctx context.Context, tx *store.Tx, call db.Call) func(*db.Queries) error {
	return func(q *db.Queries) error {
		ended, err := q.CallbackTokenRevokeOfSession(ctx, db.CallbackTokenRevokeOfSessionParams{
			RevokedAt: end.At, TenantID: call.TenantID, CallID: call.ID, SessionID: end.Session,
		})
		for _, hash := range ended {
			tx.ForgetTokenLater(hash)
		}
		return err
	}
}

// AddToken writes a further callback token of a session, which takes the place of the one before. It may be repeated where a commit's answer was lost.
func (l *Ledger) AddToken(ctx context.Context, call db.Call, session uuid.UUID, token callbacktoken.Token) error {
	return l.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		return errors.Join(insertToken(ctx, tx, call, session, token), tx.Later(ctx, func(q *db.Queries) error {
			_, err := q.SessionSetToken(ctx, token.Hash(), call.TenantID, session)
			return err
		}))
	})
}

// BeginRecording writes that the switch records the call, in mono, to the file at path, from offset after the answer on.
func (l *Ledger) BeginRecording(ctx context.Context, call db.Call, path string, offset time.Duration) error {
	return l.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		return recordings.Continue(ctx, tx, call.TenantID, call.ID, path, false, offset)
	})
}

// AddRecording begins a recording with the file, or adds it to the one that is there.
func (l *Ledger) AddRecording(ctx context.Context, call db.Call, path string, offset time.Duration) error {
	return l.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		err := recordings.AddPart(ctx, tx, call.TenantID, call.ID, path, offset)
		if errors.Is(err, store.ErrNotFound) {
			return recordings.Begin(ctx, tx, call.TenantID, call.ID, path, false)
		}
		return err
	})
}

// AddRecordingPart puts a file on the timeline of the call's recording.
func (l *Ledger) AddRecordingPart(ctx context.Context, call db.Call, path string, offset time.Duration) error {
	return l.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		return recordings.AddPart(ctx, tx, call.TenantID, call.ID, path, offset)
	})
}

// MoveRecordingPart corrects where the first sample of a file lies on the recording's timeline.
func (l *Ledger) MoveRecordingPart(ctx context.Context, call db.Call, path string, offset time.Duration) error {
	return l.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		return recordings.MovePart(ctx, tx, call.TenantID, call.ID, path, offset)
	})
}
