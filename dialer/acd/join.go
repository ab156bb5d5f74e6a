package acd

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// Join has an agent who is free join a call that others talk in, which waits in no queue. connect brings the agent's phone there, and returns when
// the agent has left. Errors: switchctl.ErrAgentBusy, before connect is called.
func (s *Service) Join(
	ctx context.Context, call db.Call, agent uuid.UUID, connect func(ctx context.Context, req switchctl.AgentConnect) (switchctl.AgentOutcome, error),
) error {
	select {
	case <-s.loaded:
	case <-ctx.Done():
		return fmt.Errorf("join agent: %w", ctx.Err())
	}
	c := &caller{call: call.ID, tenant: call.TenantID, agent: &agent, since: s.now(), wake: make(chan struct{}, 1)}
	seat := s.take(c)
	if seat == nil {
		return switchctl.ErrAgentBusy
	}
	defer s.gone(c)
	spec, _, ok := s.seatPhone(seat)
	if !ok {
		return switchctl.ErrAgentBusy
	}
	err := s.joins(ctx, call, agent)
	if state := (*StateError)(nil); errors.As(err, &state) || errors.Is(err, store.ErrNotFound) {
		s.doubt(c)
		return switchctl.ErrAgentBusy
	}
	if err != nil {
		return fmt.Errorf("join agent: %w", err)
	}
	got, err := connect(ctx, switchctl.AgentConnect{
		Phone: spec, RingTimeout: s.cfg.RingTimeout, Connecting: func() { s.joining(agent, call.ID) },
	})
	if errors.Is(err, switchctl.ErrDraining) {
		return nil // they talk on, and the next start finds them
	}
	if err != nil {
		s.log.WarnContext(ctx, "connecting the agent failed", "call_id", call.ID, "agent_id", agent, "error", err)
	} else {
		s.metrics.offers.WithLabelValues(string(got)).Inc()
	}
	s.left(ctx, call, spec, got)
	return nil
}

// take keeps a free agent for a caller who is in no queue; nil when the agent isn't free.
func (s *Service) take(c *caller) *seat {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.desk.agents[*c.agent]
	if a == nil || a.row.TenantID != c.tenant || !a.ready() {
		return nil
	}
	c.seat, a.offered, a.kept = a, c, uuid.Nil
	return a
}

// joins makes the call the agent's, in the database. Errors: *StateError.
func (s *Service) joins(ctx context.Context, call db.Call, agent uuid.UUID) error {
	var row db.Agent
	err := s.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		var err error
		if row, err = tx.Q.AgentLock(ctx, call.TenantID, agent); err != nil {
			return err
		}
		if row.Node != s.cfg.NodeID {
			return &StateError{Status: Status(row.Status), Trigger: TriggerOffer, Detail: "The agent is at another host."}
		}
		row, err = s.move(ctx, tx, row, change{trigger: TriggerOffer, at: s.now(), call: &call.ID})
		return err
	})
	if err != nil {
		return err
	}
	s.apply(row)
	return nil
}

// joining: the agent's phone is in the call.
func (s *Service) joining(agent, call uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joined[agent] = call
}

// left gives an agent who had joined a call the state that follows. One whom the call's end has freed is left alone.
func (s *Service) left(ctx context.Context, call db.Call, spec phone.Spec, got switchctl.AgentOutcome) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	c := change{trigger: TriggerReturned, at: s.now()}
	switch {
	case got == switchctl.AgentEnded:
		c.trigger = TriggerEnded
	case got == switchctl.AgentLost, got == switchctl.AgentUnavailable && spec.Mode != phone.OnHook:
		c.trigger, c.reason = TriggerPhoneLost, ReasonPhoneLost
	case got == switchctl.AgentUnavailable:
		c.trigger, c.reason = TriggerUnanswered, ReasonUnanswered
	}
	var row db.Agent
	err := s.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		var err error
		row, err = tx.Q.AgentLock(ctx, spec.TenantID, spec.AgentID)
		if err != nil || row.CurrentCallID == nil || *row.CurrentCallID != call.ID {
			return err
		}
		if c.trigger == TriggerEnded {
			c.wrapUp = s.wrapUp(ctx, tx, call)
		}
		row, err = s.move(ctx, tx, row, c)
		return err
	})
	s.mu.Lock()
	if s.joined[spec.AgentID] == call.ID {
		delete(s.joined, spec.AgentID)
	}
	s.mu.Unlock()
	if err != nil {
		s.log.WarnContext(ctx, "writing the agent's state failed", "call_id", call.ID, "agent_id", spec.AgentID, "trigger", string(c.trigger),
			"error", err)
		return
	}
	s.apply(row)
}

// hadJoined tells whether an agent talks, or has just talked, in somebody else's call.
func (s *Service) hadJoined(agent, call uuid.UUID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.joined[agent] == call
}

// WrapsUp tells whether an agent is in the wrap-up of a call.
func (s *Service) WrapsUp(ctx context.Context, tx *store.Tx, tenant, agent, call uuid.UUID) (bool, error) {
	row, err := tx.Q.AgentLock(ctx, tenant, agent)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil && row.Status == string(WrapUp) && row.LastCallID != nil && *row.LastCallID == call, err
}

// ManagerPhone is the phone of the supervisor or administrator who has an extension. Errors: switchctl.ErrUnknownExtension.
func (s *Service) ManagerPhone(ctx context.Context, tenant uuid.UUID, extension string) (phone.Spec, error) {
	var who db.User
	err := s.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		var err error
		who, err = tx.Q.AgentUserOfExtension(ctx, tenant, extension)
		return err
	})
	if errors.Is(err, store.ErrNotFound) || err == nil && who.Role == "agent" {
		return phone.Spec{}, switchctl.ErrUnknownExtension
	}
	if err != nil {
		return phone.Spec{}, fmt.Errorf("find supervisor by extension: %w", err)
	}
	return s.phoneSpec(tenant, who.ID, extension, string(phone.OnHook)), nil
}
