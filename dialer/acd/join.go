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
	seat := s.joined.take(c)
	if seat == nil {
		return switchctl.ErrAgentBusy
	}
	defer s.gone(c)
	spec, _, ok := s.seatPhone(seat)
	if !ok {
		return switchctl.ErrAgentBusy
	}
	err := s.joined.claim(ctx, call, agent)
	if state := (*StateError)(nil); errors.As(err, &state) || errors.Is(err, store.ErrNotFound) {
		s.doubt(c)
		return switchctl.ErrAgentBusy
	}
	if err != nil {
		return fmt.Errorf("join agent: %w", err)
	}
	got, err := connect(ctx, switchctl.AgentConnect{
		Phone: spec, RingTimeout: s.cfg.RingTimeout, Connecting: func() { s.joined.joining(agent, call.ID) },
	})
	if errors.Is(err, switchctl.ErrDraining) {
		return nil // they talk on, and the next start finds them
	}
	if err != nil {
		s.log.WarnContext(ctx, "connecting the agent failed", "call_id", call.ID, "agent_id", agent, "error", err)
	} else {
		s.metrics.offers.WithLabelValues(string(got)).Inc()
	}
	s.joined.left(ctx, call, spec, got)
	return nil
}

// joined are the agents who talk in a conference.
type joined struct {
	s *Service
	// in is their call; the service's mutex guards it.
	in map[uuid.UUID]uuid.UUID
}

// take keeps a free agent for a caller who is in no queue; nil when the agent isn't free.
func (g *joined) take(c *caller) *seat {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	a := g.s.desk.agents[*c.agent]
	if a == nil || a.row.TenantID != c.tenant || !a.ready() {
		return nil
	}
	c.seat, a.offered, a.kept = a, c, uuid.Nil
	return a
}

// claim makes the call the agent's, in the database. Errors: *StateError.
func (g *joined) claim(ctx context.Context, call db.Call, agent uuid.UUID) error {
	var row db.Agent
	err := g.s.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		var err error
		if row, err = tx.Q.AgentLock(ctx, call.TenantID, agent); err != nil {
			return err
		}
		if row.Node != g.s.cfg.NodeID {
			return &StateError{Status: Status(row.Status), Trigger: TriggerOffer, Detail: "The agent is at another host."}
		}
		row, err = g.s.move(ctx, tx, row, change{trigger: TriggerOffer, at: g.s.now(), call: &call.ID})
		return err
	})
	if err != nil {
		return err
	}
	g.s.apply(row)
	return nil
}

// joining: the agent's phone is in the call.
func (g *joined) joining(agent, call uuid.UUID) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.in[agent] = call
}

// left gives an agent who had joined a call the state that follows. One whom the call's end has freed is left alone.
func (g *joined) left(ctx context.Context, call db.Call, spec phone.Spec, got switchctl.AgentOutcome) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	c := change{trigger: TriggerReturned, at: g.s.now()}
	switch {
	case got == switchctl.AgentEnded:
		c.trigger = TriggerEnded
	case got == switchctl.AgentLost, got == switchctl.AgentUnavailable && spec.Mode != phone.OnHook:
		c.trigger, c.reason = TriggerPhoneLost, ReasonPhoneLost
	case got == switchctl.AgentUnavailable:
		c.trigger, c.reason = TriggerUnanswered, ReasonUnanswered
	}
	var row db.Agent
	err := g.s.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		var err error
		row, err = tx.Q.AgentLock(ctx, spec.TenantID, spec.AgentID)
		if err != nil || row.CurrentCallID == nil || *row.CurrentCallID != call.ID {
			return err
		}
		if c.trigger == TriggerEnded {
			c.wrapUp = g.s.wrapUp(ctx, tx, call)
		}
		row, err = g.s.move(ctx, tx, row, c)
		return err
	})
	g.s.mu.Lock()
	if g.in[spec.AgentID] == call.ID {
		delete(g.in, spec.AgentID)
	}
	g.s.mu.Unlock()
	if err != nil {
		g.s.log.WarnContext(ctx, "writing the agent's state failed", "call_id", call.ID, "agent_id", spec.AgentID, "trigger", string(c.trigger),
			"error", err)
		return
	}
	g.s.apply(row)
}

// had tells whether an agent talks, or has just talked, in somebody else's call.
func (g *joined) had(agent, call uuid.UUID) bool {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	return g.in[agent] == call
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
