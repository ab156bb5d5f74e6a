package supervisors

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
)

// maxBackOff bounds how long what failed for a session waits before it is tried again; the first time it waits followEvery.
const maxBackOff = 10 * time.Second

// follow has sessions led to their agents' next calls, and those ended that may not go on, which come first: of supervisors who may listen no
// more, and those that others have ended since they took this host for lost. All that is done beside Run: a phone that can't be reached delays
// nobody else's.
func (s *Service) follow(ctx context.Context, sw switchctl.Supervisions) {
	running := s.running() // before the rows are read: a session's row is there before its phone
	if len(running) == 0 {
		return
	}
	round := s.round.Add(1)
	rows, err := s.sessions(ctx)
	if err != nil {
		return
	}
	for _, r := range rows {
		delete(running, r.SupervisorSession.ID)
		if reason := unfit(r); reason != "" && r.SupervisorSession.BegunAt != nil {
			s.stop(ctx, sw, round, r.SupervisorSession, reason)
		}
	}
	for _, id := range s.dropped(running) {
		s.drop(ctx, sw, round, id)
	}
	for _, r := range rows {
		switch row := r.SupervisorSession; {
		case row.BegunAt == nil || unfit(r) != "" || row.AgentID == nil:
		case r.NextCallID != nil:
			s.lead(ctx, sw, round, row, *r.NextCallID)
		case row.CallID != nil:
			s.setMissed(row.ID, *row.CallID) // the agent may get the same caller again
		}
	}
}

// dropped are those of sessions that were running before the rows were read, and have none, whose end nobody here has begun meanwhile: its row may have
// been written, and only that.
func (s *Service) dropped(gone map[uuid.UUID]bool) (ids []uuid.UUID) {
	still := s.running()
	for id, goesOn := range gone {
		if goesOn && still[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

// unfit says why a session may not go on; empty when it may.
func unfit(r db.SupervisionsOfNodeRow) string {
	if r.Unfit == "" && r.SupervisorSession.AgentID != nil && r.AgentStatus == string(acd.Offline) {
		return ReasonAgentOffline
	}
	return r.Unfit
}

// do does something for a session beside Run, unless something is being done for it, or the same has failed a moment ago. now: what is being
// done for it is given up in favour of this. It was decided by what was read in a round.
func (s *Service) do(ctx context.Context, id, what uuid.UUID, round uint64, now bool, do func(ctx context.Context) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	live := s.live[id]
	if live == nil || live.work.round >= round {
		return
	}
	w := &live.work
	if w.cancel != nil {
		if now && w.what != what {
			w.cancel() // and Run looks again at its end
		}
		return
	}
	if w.what != what {
		w.what, w.wait, w.until = what, 0, time.Time{}
	}
	if time.Now().Before(w.until) {
		return
	}
	ctx, w.cancel = context.WithCancel(ctx)
	s.beside.Go(func() {
		ok := do(ctx)
		s.mu.Lock()
		w.cancel()
		w.cancel, w.round, w.wait = nil, s.round.Load(), min(max(2*w.wait, followEvery), maxBackOff)
		if w.until = time.Now().Add(w.wait); ok {
			w.wait, w.until = 0, time.Time{}
		}
		s.mu.Unlock()
		s.look()
	})
}

// stop ends a session for a reason of our own.
func (s *Service) stop(ctx context.Context, sw switchctl.Supervisions, round uint64, row db.SupervisorSession, reason string) {
	s.do(ctx, row.ID, row.ID, round, true, func(ctx context.Context) bool {
		s.stopping(row.ID, true)
		return s.endWith(ctx, sw, row.ID, row.TenantID, row.SupervisorID, reason)
	})
}

// drop hangs a session up whose row another host has ended.
func (s *Service) drop(ctx context.Context, sw switchctl.Supervisions, round uint64, id uuid.UUID) {
	s.do(ctx, id, id, round, true, func(ctx context.Context) bool {
		s.log.WarnContext(ctx, "another host has ended a supervisor's session, hanging up", "supervision_id", id)
		if !s.hangUp(ctx, sw, id) {
			return false
		}
		s.forget(id)
		return true
	})
}

// lead brings a session to its agent's call, if it is another one, which is audited before it is heard. One that could not be brought there is
// tried again as long as the agent has it.
func (s *Service) lead(ctx context.Context, sw switchctl.Supervisions, round uint64, row db.SupervisorSession, call uuid.UUID) {
	known := row.CallID != nil && *row.CallID == call
	if known && s.missed(row.ID) != call {
		return
	}
	s.do(ctx, row.ID, call, round, false, func(ctx context.Context) bool {
		again := s.setMissed(row.ID, call) == call
		if !known && !s.follows(ctx, row, call) {
			return false
		}
		ctx, cancel := context.WithTimeout(ctx, switchTimeout)
		defer cancel()
		err := sw.SuperviseCall(ctx, row.ID, call)
		if err == nil {
			s.setMissed(row.ID, uuid.Nil)
			return true
		}
		if !again {
			s.log.WarnContext(ctx, "following an agent to the next call failed, trying again", "supervision_id", row.ID, "call_id", call, "error", err)
		}
		return false
	})
}

// missed is the call that a session has not been brought to yet.
func (s *Service) missed(id uuid.UUID) uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if live := s.live[id]; live != nil {
		return live.missed
	}
	return uuid.Nil
}

// setMissed notes the call that a session has not been brought to yet, and gives the one of before.
func (s *Service) setMissed(id, call uuid.UUID) (was uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if live := s.live[id]; live != nil {
		was, live.missed = live.missed, call
	}
	return was
}

// follows writes that a session goes to another call; false when that couldn't be written, or the session has ended.
func (s *Service) follows(ctx context.Context, row db.SupervisorSession, call uuid.UUID) (goes bool) {
	err := s.st.InTenant(ctx, row.TenantID, func(tx *store.Tx) error {
		n, err := tx.Q.SupervisionSetCall(ctx, call, row.TenantID, row.ID)
		if goes = n > 0; err != nil || !goes {
			return err
		}
		next := row
		next.CallID = &call
		return s.audit(ctx, tx, ActionCallChanged, next, nil)
	})
	if err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "writing a supervisor's next call failed", "supervision_id", row.ID, "call_id", call, "error", err)
	}
	return err == nil && goes
}
