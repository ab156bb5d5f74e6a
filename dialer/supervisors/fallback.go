package supervisors

import (
	"context"
	"errors"
	"maps"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/switchctl"
)

// SupervisionFellBack implements [switchctl.SupervisionWatcher]: somebody outside would hear the whisper.
func (s *Service) SupervisionFellBack(session uuid.UUID) {
	s.mu.Lock()
	s.fallen[session] = true
	s.mu.Unlock()
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// writeFallen writes the mode of sessions that have fallen back, with its audit row.
func (s *Service) writeFallen(ctx context.Context) {
	s.mu.Lock()
	due := maps.Clone(s.fallen)
	s.mu.Unlock()
	for id := range due {
		s.mu.Lock()
		live := s.live[id]
		s.mu.Unlock()
		if live != nil {
			if err := s.writeFall(ctx, live.tenant, id); err != nil {
				s.log.WarnContext(ctx, "writing the mode of a supervisor's session failed, trying again", "supervision_id", id, "error", err)
				continue
			}
		}
		s.mu.Lock()
		delete(s.fallen, id)
		s.mu.Unlock()
	}
}

// writeFall writes it of one session, unless the supervisor has another mode by now.
func (s *Service) writeFall(ctx context.Context, tenant, id uuid.UUID) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return s.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		row, err := tx.Q.SupervisionLock(ctx, tenant, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil
		case err != nil:
			return err
		case row.EndedAt != nil || row.Mode != string(switchctl.SupervisorWhispers):
			return nil
		}
		row, err = tx.Q.SupervisionSetMode(ctx, string(switchctl.SupervisorListens), tenant, id)
		if err != nil {
			return err
		}
		return s.audit(ctx, tx, ActionModeChanged, row, map[string]any{"previous_mode": switchctl.SupervisorWhispers, "reason": "outsider_on_call"})
	})
}
