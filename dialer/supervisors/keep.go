package supervisors

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
)

// Why a session has ended. The switch's own reasons (switchctl.SupervisionHungUp and so on) come beside them.
const (
	// ReasonStopped: by request.
	ReasonStopped = "stopped"
	// ReasonNotAnswered: the phone never picked up. ReasonFailed: it could not be brought to the call.
	ReasonNotAnswered = "not_answered"
	ReasonFailed      = "failed"
	// ReasonAgentOffline: the agent who was followed has logged out.
	ReasonAgentOffline = "agent_offline"
	// ReasonDeactivated and ReasonSuspended: the supervisor, or the tenant, may have none any more.
	ReasonDeactivated = "deactivated"
	ReasonSuspended   = "suspended"
	// ReasonSignedOut: the supervisor has signed out since, or has another password, address or role.
	ReasonSignedOut = "signed_out"
	// ReasonShutdown: the controller has stopped.
	ReasonShutdown = "shutdown"
)

const (
	// followEvery is how often the sessions of this controller are compared with what their agents do.
	followEvery = 500 * time.Millisecond
	// sweepEvery is how often sessions are looked for that nobody is behind: those of lost controllers, and this one's own that are older than
	// orphanAge.
	sweepEvery = 10 * time.Second
	orphanAge  = time.Minute
	// reopenFor is how long after the claim an escalation is open again if the session that has it is lost.
	reopenFor = 2 * time.Minute
	// writeTimeout bounds what must be written although the request is over.
	writeTimeout = 10 * time.Second
	// switchTimeout bounds what is asked of the switch behind a request.
	switchTimeout = 5 * time.Second
)

// Run has sessions begin and end, agents followed and the floor told, until ctx ends. sw has the phones; nil begins no session.
func (s *Service) Run(ctx context.Context, sw switchctl.Supervisions) {
	s.mu.Lock()
	s.sw = sw
	s.mu.Unlock()
	defer s.shutDown(context.WithoutCancel(ctx), sw)
	wait := s.feeds.accept(ctx)
	defer wait()
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	if sw != nil {
		s.beside.Go(func() { s.sweep(ctx, sw) })
	}
	defer s.beside.Wait()
	for {
		if sw != nil {
			s.follow(ctx, sw)
		}
		s.writeFallen(ctx)
		s.writeEnds(ctx)
		select {
		case <-ctx.Done():
			return
		case <-s.kick:
		case <-tick.C:
		}
	}
}

// sweep ends sessions that nobody is behind, until ctx ends: at first all that this controller had before its start.
func (s *Service) sweep(ctx context.Context, sw switchctl.Supervisions) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for begun := false; ; {
		age := orphanAge
		if !begun {
			age = 0
		}
		begun = s.endOrphans(ctx, sw, age) || begun
		s.endLost(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// shutDown begins no session any more, and ends those that there are.
func (s *Service) shutDown(ctx context.Context, sw switchctl.Supervisions) {
	ctx, cancel := context.WithTimeout(ctx, switchTimeout)
	defer cancel()
	s.mu.Lock()
	s.sw = nil
	left := maps.Clone(s.live)
	for _, live := range left {
		live.stopping = true
	}
	s.mu.Unlock()
	var ending sync.WaitGroup
	defer ending.Wait()
	for id, live := range left {
		ending.Go(func() { s.endWith(ctx, sw, id, live.tenant, live.supervisor, ReasonShutdown) })
	}
}

// endWith hangs a session's phone up and writes its end; false when the phone may still be there.
func (s *Service) endWith(ctx context.Context, sw switchctl.Supervisions, id, tenant, supervisor uuid.UUID, reason string) bool {
	if !s.hangUp(ctx, sw, id) {
		return false
	}
	s.endRow(ctx, id, ending{tenant: tenant, supervisor: supervisor, reason: reason, at: s.now()})
	return true
}

// SupervisionEnded implements [switchctl.SupervisionWatcher].
func (s *Service) SupervisionEnded(session uuid.UUID, reason string) { s.ends(session, reason) }

// ends has Run write a session's end.
func (s *Service) ends(session uuid.UUID, reason string) {
	s.mu.Lock()
	if live := s.live[session]; live != nil {
		if live.stopping {
			reason = ReasonStopped
		}
		s.over[session] = ending{tenant: live.tenant, supervisor: live.supervisor, reason: reason, at: s.now()}
	}
	s.mu.Unlock()
	s.look()
}

// look has Run look at once.
func (s *Service) look() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// begin notes a session whose row is about to be written.
func (s *Service) begin(id uuid.UUID, by Supervisor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[id] = &liveSession{tenant: by.TenantID, supervisor: by.ID, turn: make(chan struct{}, 1)}
}

// begun notes that a session's phone is there.
func (s *Service) begun(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if live := s.live[id]; live != nil {
		live.begun = true
	}
}

// running are the sessions whose phones are there, as far as is known; true for those that nobody is about to end.
func (s *Service) running() map[uuid.UUID]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make(map[uuid.UUID]bool, len(s.live))
	for id, live := range s.live {
		if _, over := s.over[id]; live.begun && !over {
			ids[id] = !live.stopping
		}
	}
	return ids
}

func (s *Service) forget(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, id)
	delete(s.over, id)
}

// stopping notes whether a session is being ended on purpose.
func (s *Service) stopping(id uuid.UUID, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if live := s.live[id]; live != nil {
		live.stopping = is
	}
}

// has tells whether a session is this controller's.
func (s *Service) has(id uuid.UUID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[id] != nil
}

// hangUp ends a session's phone, whether or not the request for it is still there.
func (s *Service) hangUp(ctx context.Context, sw switchctl.Supervisions, id uuid.UUID) bool {
	ctx, cancel := context.WithTimeout(ctx, switchTimeout)
	defer cancel()
	if err := sw.EndSupervision(ctx, id); err != nil && !errors.Is(err, store.ErrNotFound) {
		s.log.WarnContext(ctx, "hanging up a supervisor's phone failed", "supervision_id", id, "error", err)
		return false
	}
	return true
}

// endRow writes a session's end with its audit row, and gives back what it was to claim. What can't be written now is written by Run.
func (s *Service) endRow(ctx context.Context, id uuid.UUID, e ending) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := s.writeEnd(ctx, id, e)
	if err == nil {
		s.forget(id)
		return
	}
	s.log.WarnContext(ctx, "writing the end of a supervisor's session failed, trying again", "supervision_id", id, "error", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over[id] = e
}

func (s *Service) writeEnd(ctx context.Context, id uuid.UUID, e ending) error {
	ended := false
	err := s.st.InTenant(ctx, e.tenant, func(tx *store.Tx) error {
		ended = false
		row, err := tx.Q.SupervisionEnd(ctx, db.SupervisionEndParams{TenantID: e.tenant, ID: id, At: e.at, Reason: e.reason})
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		ended = true
		if row.BegunAt == nil && row.CallID != nil {
			if err := tx.Q.EscalationGiveBack(ctx, e.tenant, *row.CallID, id); err != nil {
				return err
			}
		}
		if e.reason == switchctl.SupervisionLost && row.CallID != nil {
			if err := reopen(ctx, tx, row, e.at); err != nil {
				return err
			}
		}
		return s.audit(ctx, tx, ActionEnded, row, map[string]any{"reason": e.reason})
	})
	if err == nil && ended {
		s.metrics.ended.WithLabelValues(e.reason).Inc()
	}
	return err
}

// writeEnds writes the ends of sessions that have ended by themselves.
func (s *Service) writeEnds(ctx context.Context) {
	s.mu.Lock()
	due := maps.Clone(s.over)
	s.mu.Unlock()
	for id, e := range due {
		s.endRow(ctx, id, e)
	}
}

// endOrphans ends the sessions of this controller's name that it doesn't have and that are older than age: those from before its start, and
// those whose commit was thought to have failed. False when that couldn't be done yet.
func (s *Service) endOrphans(ctx context.Context, sw switchctl.Supervisions, age time.Duration) bool {
	rows, err := s.sessions(ctx)
	if err != nil {
		return false
	}
	for _, r := range rows {
		if row := r.SupervisorSession; !s.has(row.ID) && s.now().Sub(row.StartedAt) >= age {
			s.hangUp(ctx, sw, row.ID)
			s.endRow(ctx, row.ID, ending{tenant: row.TenantID, supervisor: row.SupervisorID, reason: switchctl.SupervisionLost, at: s.now()})
		}
	}
	return true
}

// sessions reads those of this controller.
func (s *Service) sessions(ctx context.Context) (rows []db.SupervisionsOfNodeRow, err error) {
	err = s.st.InSystem(ctx, func(tx *store.Tx) error {
		rows, err = tx.Q.SupervisionsOfNode(ctx, s.cfg.NodeID)
		return err
	})
	if err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "reading supervisors' sessions failed", "error", err)
	}
	return rows, err
}

// endLost ends the sessions of controllers that are lost: nobody else would.
func (s *Service) endLost(ctx context.Context) {
	var rows []db.SupervisionsOfLostNodesRow
	err := s.st.InSystem(ctx, func(tx *store.Tx) error {
		var err error
		rows, err = tx.Q.SupervisionsOfLostNodes(ctx, s.cfg.NodeID)
		return err
	})
	if err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "reading supervisor sessions of lost hosts failed", "error", err)
	}
	for _, r := range rows {
		s.endRow(ctx, r.ID, ending{tenant: r.TenantID, reason: switchctl.SupervisionLost, at: s.now()})
	}
}
