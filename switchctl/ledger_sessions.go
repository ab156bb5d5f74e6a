package switchctl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl/callbacktoken"
	"github.com/ringmaster/ringmaster/switchctl/recordings"
)

func (l *pgLedger) StartSession(ctx context.Context, s sessionStart) (sessionGrant, error) {
	g := sessionGrant{agent: s.agent, token: s.token}
	err := l.st.InTenant(ctx, s.call.TenantID, func(tx *store.Tx) error {
		if _, err := tx.Q.CallLockOpen(ctx, s.call.TenantID, s.call.ID); err != nil {
			if errors.Is(err, store.ErrNotFound) {
				return ErrCallEnded
			}
			return err
		}
		existing, err := tx.Q.SessionActiveOfCall(ctx, s.call.TenantID, s.call.ID)
		switch {
		case err == nil && existing.ID == s.id:
			g.session = existing // the commit before this try did arrive
		case err == nil:
			return fmt.Errorf("switchctl: start AI session: call has another that is active: %s", existing.ID)
		case !errors.Is(err, store.ErrNotFound):
			return err
		default:
			if g.session, err = insertSession(ctx, tx, s); err != nil {
				return err
			}
		}
		return l.complete(ctx, tx, s.call, &g)
	})
	return g, err
}

func insertSession(ctx context.Context, tx *store.Tx, s sessionStart) (db.AiSession, error) {
	if err := takeAgentUnit(ctx, tx, s); err != nil {
		return db.AiSession{}, err
	}
	session, err := tx.Q.SessionInsert(ctx, db.SessionInsertParams{
		TenantID: s.call.TenantID, ID: s.id, CallID: s.call.ID, VoiceAgentID: s.agent.ID,
		ExternalAgentID: s.agent.ExternalAgentID, WsUrl: s.agent.WsUrl, StartedAt: s.at, TokenHash: new(s.token.Hash()),
	})
	if err != nil {
		return db.AiSession{}, err
	}
	return session, insertToken(ctx, tx, s.call, s.id, s.token)
}

// takeAgentUnit counts the call against the voice agent, unless it does so already, from its admission on. An earlier session
// of the call's has given that back. It counts under the gate's lock, as the gate does.
func takeAgentUnit(ctx context.Context, tx *store.Tx, s sessionStart) error {
	if err := tx.Q.GateLock(ctx, s.call.TenantID); err != nil {
		return err
	}
	agent, err := tx.Q.SessionVoiceAgentLimit(ctx, s.call.TenantID, s.call.ID, s.agent.ID)
	if err != nil {
		return err
	}
	if agent.Held != nil && *agent.Held == s.agent.ID {
		return nil
	}
	used, err := tx.Q.LiveUnitVoiceAgentUsage(ctx, s.call.TenantID, s.agent.ID, s.call.ID)
	if err != nil {
		return err
	}
	if used >= int64(agent.MaxConcurrent) {
		return ErrAgentBusy
	}
	if _, err := tx.Q.LiveUnitSetVoiceAgent(ctx, s.agent.ID, s.call.TenantID, s.call.ID); err != nil {
		return err
	}
	_, err = tx.Q.CallSetVoiceAgent(ctx, s.agent.ID, s.call.TenantID, s.call.ID)
	return err
}

func insertToken(ctx context.Context, tx *store.Tx, call db.Call, session uuid.UUID, t callbacktoken.Token) error {
	return tx.Q.CallbackTokenInsert(ctx, db.CallbackTokenInsertParams{
		TenantID: call.TenantID, JtiHash: t.Hash(), CallID: call.ID, SessionID: session, Jwt: t.Kept, Scope: callbacktoken.Scope,
		ExpiresAt: t.ExpiresAt, CreatedAt: t.CreatedAt,
	})
}

func (l *pgLedger) ResumeSession(ctx context.Context, call db.Call, session db.AiSession) (sessionGrant, error) {
	g := sessionGrant{session: session}
	err := l.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		agent, err := tx.Q.SessionVoiceAgent(ctx, call.TenantID, session.VoiceAgentID)
		if err != nil {
			return err
		}
		g.agent = agent
		g.agent.WsUrl = session.WsUrl // the session goes on where it began
		if session.TokenHash != nil {
			row, err := tx.Q.CallbackTokenGet(ctx, call.TenantID, *session.TokenHash)
			if err != nil {
				return err
			}
			if g.token, err = callbacktoken.Restore(l.keys(), row); err != nil {
				return err
			}
		}
		usage, err := tx.Q.SessionLogUsage(ctx, call.TenantID, session.ID)
		if err != nil {
			return err
		}
		g.logEntries, g.logBytes = int(usage.Entries), int(usage.Bytes)
		return l.complete(ctx, tx, call, &g)
	})
	return g, err
}

// complete adds what the metadata frame and the dial need.
func (l *pgLedger) complete(ctx context.Context, tx *store.Tx, call db.Call, g *sessionGrant) error {
	var err error
	if g.lead, err = leadOf(ctx, tx, call); err != nil {
		return err
	}
	if call.TrunkID != nil {
		g.bypass, err = tx.Q.TrunkBypass(ctx, call.TenantID, *call.TrunkID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	g.from, g.to = call.FromNumber.Reveal(), call.ToNumber.Reveal()
	if len(call.PeerSealed) > 0 {
		// A strict tenant's row shows the mask; the voice agent gets the number while the call lasts.
		peer, err := tx.OpenPhone(ctx, call.TenantID, call.PeerSealed)
		if err != nil {
			return err
		}
		if call.Direction == directionInbound {
			g.from = peer.E164()
		} else {
			g.to = peer.E164()
		}
	}
	if len(g.agent.AuthTokenSealed) > 0 {
		plain, err := l.st.Unseal(store.AuthToken(g.agent.ID), g.agent.AuthTokenSealed)
		if err != nil {
			return fmt.Errorf("switchctl: open the voice agent's auth token: %w", err)
		}
		g.authToken = string(plain)
	}
	return nil
}

// SessionOpened tells of a session's first opening, and begins its recording, once.
func (l *pgLedger) SessionOpened(ctx context.Context, call db.Call, session db.AiSession, recording string) error {
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

func (l *pgLedger) EndSession(ctx context.Context, call db.Call, end sessionEnd) error {
	return l.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		return endSession(ctx, tx, call, end)
	})
}

func endSession(ctx context.Context, tx *store.Tx, call db.Call, end sessionEnd) error {
	session, err := tx.Q.SessionEnd(ctx, db.SessionEndParams{
		TenantID: call.TenantID, ID: end.session, Outcome: string(end.outcome), EndedAt: end.at, Final: end.final,
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil // ended already
	}
	if err != nil {
		return err
	}
	if _, err := tx.Q.LiveUnitClearVoiceAgent(ctx, call.TenantID, call.ID); err != nil {
		return err
	}
	if end.revoke {
		if _, err := tx.Q.CallbackTokenRevokeOfSession(ctx, db.CallbackTokenRevokeOfSessionParams{
			RevokedAt: end.at, TenantID: call.TenantID, CallID: call.ID, SessionID: end.session,
		}); err != nil {
			return err
		}
	}
	return emitSessionEnded(ctx, tx, call, session, end)
}

func (l *pgLedger) AddToken(ctx context.Context, call db.Call, session uuid.UUID, token callbacktoken.Token) error {
	return l.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		if err := insertToken(ctx, tx, call, session, token); err != nil {
			return err
		}
		_, err := tx.Q.SessionSetToken(ctx, token.Hash(), call.TenantID, session)
		return err
	})
}

func (l *pgLedger) BeginRecording(ctx context.Context, call db.Call, path string, offset time.Duration) error {
	return l.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		return recordings.Continue(ctx, tx, call.TenantID, call.ID, path, false, offset)
	})
}

// AddRecording begins a recording with the file, or adds it to the one that is there.
func (l *pgLedger) AddRecording(ctx context.Context, call db.Call, path string, offset time.Duration) error {
	return l.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		err := recordings.AddPart(ctx, tx, call.TenantID, call.ID, path, offset)
		if errors.Is(err, store.ErrNotFound) {
			return recordings.Begin(ctx, tx, call.TenantID, call.ID, path, false)
		}
		return err
	})
}

func (l *pgLedger) AddRecordingPart(ctx context.Context, call db.Call, path string, offset time.Duration) error {
	return l.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		return recordings.AddPart(ctx, tx, call.TenantID, call.ID, path, offset)
	})
}
