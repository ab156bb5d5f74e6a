package acd

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// CodePhoneNotReady refuses what needs the agent's phone (409).
const CodePhoneNotReady = "phone_not_ready"

// CanDial tells early whether the agent may dial; Dials decides. A phone that is being connected is waited for: a login's takes
// half a second. Errors: *StateError, with CodePhoneNotReady when the phone was not there within Config.PhoneWait,
// store.ErrNotFound, the context's.
func (s *Service) CanDial(ctx context.Context, tenant, agent uuid.UUID) error {
	a, err := s.GetAgent(ctx, tenant, agent)
	if err != nil {
		return err
	}
	if _, ok := next(a.Status, TriggerDial); !ok {
		return &StateError{Status: a.Status, Trigger: TriggerDial}
	}
	limit := time.NewTimer(s.cfg.PhoneWait)
	defer limit.Stop()
	for {
		s.mu.Lock()
		seat, changed := s.desk.agents[agent], s.phoneNews
		up := seat != nil && (seat.onHook || seat.phoneUp)
		s.mu.Unlock()
		if up {
			return nil
		}
		select {
		case <-changed:
		case <-limit.C:
			return &StateError{
				Status: a.Status, Trigger: TriggerDial, Code: CodePhoneNotReady, Detail: "The agent's phone is not connected here.",
			}
		case <-ctx.Done():
			return fmt.Errorf("wait for the agent's phone: %w", context.Cause(ctx))
		}
	}
}

// phonesChanged wakes those who wait for a phone. The caller holds mu.
func (s *Service) phonesChanged() {
	close(s.phoneNews)
	s.phoneNews = make(chan struct{})
}

// Dials makes a call that the agent places theirs, in the transaction that writes the call. Errors: *StateError,
// store.ErrNotFound.
func (s *Service) Dials(ctx context.Context, tx *store.Tx, tenant, agent, call uuid.UUID, at time.Time) error {
	row, err := tx.Q.AgentLock(ctx, tenant, agent)
	if err != nil {
		return err
	}
	if row.Node != s.cfg.NodeID {
		return &StateError{Status: Status(row.Status), Trigger: TriggerDial, Detail: "The agent is at another host."}
	}
	_, err = s.move(ctx, tx, row, change{trigger: TriggerDial, at: at, call: &call})
	return err
}

// Dialed takes a placed call into account, and lets its agent hear that it rings.
func (s *Service) Dialed(ctx context.Context, tenant, agent, call uuid.UUID) {
	var row db.Agent
	err := s.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		var err error
		row, err = tx.Q.AgentLock(ctx, tenant, agent)
		return err
	})
	if err != nil {
		s.log.WarnContext(ctx, "reading the dialing agent failed", "agent_id", agent, "error", err)
		notify(s.kick)
		return
	}
	s.apply(row)
	s.mu.Lock()
	phones, seat := s.phones, s.desk.agents[agent]
	rings := phones != nil && seat != nil && !seat.onHook && row.CurrentCallID != nil && *row.CurrentCallID == call
	if rings {
		s.ringing[agent] = call
	}
	s.mu.Unlock()
	if !rings {
		return
	}
	if err := phones.RingPhone(ctx, agent, true); err != nil {
		s.log.WarnContext(ctx, "playing ringback to the dialing agent failed", "agent_id", agent, "error", err)
	}
}

// answered tells that the agent's own call was answered: the bridge ends the ringback.
func (s *Service) answered(agent uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ringing, agent)
}

// quiet ends the ringback of agents whose call was not answered.
func (s *Service) quiet(ctx context.Context, sw Switch) {
	var over []uuid.UUID
	s.mu.Lock()
	for agent, call := range s.ringing {
		seat := s.desk.agents[agent]
		if seat == nil || seat.row.CurrentCallID == nil || *seat.row.CurrentCallID != call {
			over = append(over, agent)
			delete(s.ringing, agent)
		}
	}
	s.mu.Unlock()
	for _, agent := range over {
		if err := sw.RingPhone(ctx, agent, false); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "stopping the agent's ringback failed", "agent_id", agent, "error", err)
		}
	}
}

// Disposes ends the agent's wrap-up of a call, in the transaction that keeps what the agent says of it. After the wrap-up it
// changes nothing: what was said is corrected. Errors: *StateError while the call goes on, or when the agent is offline.
func (s *Service) Disposes(ctx context.Context, tx *store.Tx, tenant, agent, call uuid.UUID, at time.Time) (db.Agent, error) {
	row, err := tx.Q.AgentLock(ctx, tenant, agent)
	if err != nil {
		return row, err
	}
	switch {
	case row.Status == string(Offline), row.CurrentCallID != nil && *row.CurrentCallID == call:
		return row, &StateError{Status: Status(row.Status), Trigger: TriggerDispose}
	case row.Status != string(WrapUp) || row.LastCallID == nil || *row.LastCallID != call:
		return row, nil
	}
	row, err = s.move(ctx, tx, row, change{trigger: TriggerDispose, at: at, call: &call})
	if err != nil {
		return row, fmt.Errorf("end the wrap-up: %w", err)
	}
	return row, nil
}

// Applied takes a row that Disposes gave into account, once it is committed.
func (s *Service) Applied(row db.Agent) { s.apply(row) }
