package acd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/retry"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

const (
	// settleTime is how old a state must be before it is set right by what the call's row says: its own transaction may be on
	// the way.
	settleTime = 2 * time.Second
	// kickDelay lets the transaction that told of itself commit.
	kickDelay = 50 * time.Millisecond
	// nodesEvery is how often other controllers' agents are looked after.
	nodesEvery = 10 * time.Second
	// accountsEvery is how often SIP accounts whose time is over, or whose users' sessions have ended, are ended.
	accountsEvery = time.Second
	// blindAfter without a look at them what was seen of them before counts no more.
	blindAfter = 3 * nodesEvery
)

// Run keeps agents, calls and phones in agreement until ctx ends. Callers are served from its first look on.
func (s *Service) Run(ctx context.Context, sw Switch) error {
	s.mu.Lock()
	s.phones = sw
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.phones = nil
		clear(s.held)
		clear(s.renew)
		s.mu.Unlock()
	}()
	tick := time.NewTicker(s.cfg.Every)
	defer tick.Stop()
	var nodesAt, accountsAt time.Time
	for {
		s.look(ctx, sw)
		if now := s.now(); now.Sub(nodesAt) >= nodesEvery {
			nodesAt = now
			s.lookAfterNodes(ctx)
		}
		if now := s.now(); now.Sub(accountsAt) >= accountsEvery {
			accountsAt = now
			s.voidAccounts(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-s.kick:
			if retry.Pause(ctx, kickDelay) != nil {
				return nil
			}
		}
	}
}

// look reads the agents of this controller, and sets right what the rows, the calls and the phones don't agree on.
func (s *Service) look(ctx context.Context, sw Switch) {
	s.mu.Lock()
	began := s.desk.changes
	s.mu.Unlock()
	readAt := s.now()
	var rows []db.AgentsOfNodeRow
	err := s.st.InSystem(ctx, func(tx *store.Tx) error {
		var err error
		rows, err = tx.Q.AgentsOfNode(ctx, s.cfg.NodeID)
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			s.log.WarnContext(ctx, "agents can't be read", "error", err)
		}
		return
	}
	changed := s.reseat(ctx, rows, began)
	s.once.Do(func() { close(s.loaded) })
	for tenant := range changed {
		s.tell(tenant)
	}
	s.renewPhones(ctx, sw)
	for _, r := range rows {
		if r.Extension != nil {
			s.hold(ctx, s.phoneSpec(r.TenantID, r.ID, *r.Extension, r.PhoneMode))
		}
	}
	s.seePhones(sw)
	for _, r := range rows {
		if err := s.correct(ctx, sw, r, readAt); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "agent's state can't be set right", "agent_id", r.ID, "error", err)
		}
	}
	s.quiet(ctx, sw)
}

// reseat brings the desk to what was read, but for what changed since. It gives the tenants whose agents have
// changed.
func (s *Service) reseat(ctx context.Context, rows []db.AgentsOfNodeRow, began uint64) map[uuid.UUID]bool {
	s.mu.Lock()
	before := make(map[uuid.UUID]int)
	for tenant := range s.desk.rooms {
		before[tenant] = s.desk.readyAgents(tenant)
	}
	seen := make(map[uuid.UUID]bool, len(rows))
	changed := make(map[uuid.UUID]bool)
	for _, r := range rows {
		seen[r.ID] = true
		a := s.desk.agents[r.ID]
		fresh, was := a == nil, ""
		if !fresh {
			was = a.row.Status
		}
		a = s.desk.sit(agentRow(r))
		if !fresh && a.row.Status != was {
			changed[r.TenantID] = true
		}
		a.tags, a.onHook = r.Tags, r.PhoneMode == string(phone.OnHook)
		if a.extension = ""; r.Extension != nil {
			a.extension = *r.Extension
		}
		if fresh {
			a.downSince = s.now()
		}
	}
	s.phonesChanged()
	left := make(map[uuid.UUID]string) // and their extensions
	for id, a := range s.desk.agents {
		if !seen[id] && a.changed <= began {
			left[id] = a.extension
		}
	}
	s.desk.lapse(s.now())
	s.desk.match()
	for _, r := range rows {
		if s.desk.readyAgents(r.TenantID) != before[r.TenantID] {
			changed[r.TenantID] = true
		}
	}
	s.mu.Unlock()
	for id, extension := range left { // logged out at another controller, moved there, or deleted
		s.loggedOut(ctx, id)
		if extension != "" {
			s.forgetAccount(ctx, id, &extension)
			s.forgetPhone(ctx, id, &extension)
		}
	}
	return changed
}

func agentRow(r db.AgentsOfNodeRow) db.Agent {
	return db.Agent{
		TenantID: r.TenantID, ID: r.ID, Status: r.Status, Reason: r.Reason, CurrentCallID: r.CurrentCallID,
		LastCallID: r.LastCallID, Node: r.Node, Version: r.Version, LastStatusAt: r.LastStatusAt, LoggedInAt: r.LoggedInAt,
		IdleSince: r.IdleSince, WrapUpUntil: r.WrapUpUntil, SipEpoch: r.SipEpoch, SipExpiresAt: r.SipExpiresAt,
	}
}

// seePhones takes up changes of phones that were told while nobody listened.
func (s *Service) seePhones(sw Switch) {
	for _, p := range sw.Phones() {
		s.mu.Lock()
		a := s.desk.agents[p.AgentID]
		changed := a != nil && a.phoneUp != p.Up
		before := s.desk.readyAgents(p.TenantID)
		if changed {
			s.desk.phone(p.AgentID, p.Up, s.now())
			s.phonesChanged()
			s.desk.matchOf(p.TenantID)
		}
		after := s.desk.readyAgents(p.TenantID)
		s.mu.Unlock()
		s.tellReady(p.TenantID, before, after)
	}
}

// loss is how an agent's phone went, and what the agent was doing.
type loss struct {
	status Status
	reason string
}

// pauses tells whether the agent is paused for it. Who hangs up the phone to end a call gets the leg back at once, or is
// overdue later.
func (l loss) pauses() bool { return l.status != OnCall || l.reason != phone.HungUp }

// correct moves an agent whose state the facts have left behind. readAt is when r was read at the earliest: how old a state was then counts,
// not how old it has become since.
func (s *Service) correct(ctx context.Context, sw Switch, r db.AgentsOfNodeRow, readAt time.Time) error {
	now := s.now()
	s.mu.Lock()
	a := s.desk.agents[r.ID]
	outdated := a != nil && a.row.Version > r.Version
	lost, wasLost := s.lost[r.ID]
	phoneless := a != nil && !a.onHook && !a.phoneUp
	overdue := phoneless && now.Sub(a.downSince) >= s.cfg.PhoneGrace && now.Sub(r.LastStatusAt) >= s.cfg.PhoneGrace
	elsewhere := false // the call is here, but not with this agent
	if r.CurrentCallID != nil {
		if c := s.desk.callers[*r.CurrentCallID]; c != nil && (c.seat == nil || c.seat.row.ID != r.ID) {
			elsewhere = true
		}
	}
	served := r.CurrentCallID != nil && s.desk.callers[*r.CurrentCallID] != nil && !elsewhere
	s.mu.Unlock()
	if outdated { // the agent has gone on since it was read: the next look sees how
		return nil
	}
	old := readAt.Sub(r.LastStatusAt) >= settleTime
	if !phoneless {
		s.settled(r.ID)
	}
	switch Status(r.Status) {
	case OnCall:
		switch {
		case !r.CallOpen && old, elsewhere && old, !served && !r.CallIsTheirs && old:
			return s.setRight(ctx, r)
		case wasLost && phoneless && r.CallUnanswered:
			return s.phoneGone(ctx, sw, r)
		case !r.CallUnanswered:
			s.settled(r.ID) // whoever serves the call sees to it
		}
		return nil
	case Available, Paused, WrapUp:
		switch {
		case r.Ended != "":
			return s.step(ctx, r, change{trigger: TriggerRetired, at: now, reason: r.Ended})
		case r.Status == string(WrapUp) && r.WrapUpUntil != nil && !now.Before(*r.WrapUpUntil):
			return s.step(ctx, r, change{trigger: TriggerWrapUpOver, at: now})
		case r.Status == string(Available) && (wasLost && lost.pauses() && phoneless || overdue):
			return s.step(ctx, r, change{trigger: TriggerPhoneLost, at: now, reason: ReasonPhoneLost})
		case r.Status != string(Available):
			s.settled(r.ID)
		}
		return nil
	case Offline:
		return nil
	default:
		return nil
	}
}

// step moves an agent whose row is still as it was read.
func (s *Service) step(ctx context.Context, r db.AgentsOfNodeRow, c change) error {
	var row db.Agent
	err := s.st.InTenant(ctx, r.TenantID, func(tx *store.Tx) error {
		var err error
		if row, err = tx.Q.AgentLockStill(ctx, r.TenantID, r.ID, r.Version); err != nil {
			return err
		}
		row, err = s.move(ctx, tx, row, c)
		if err == nil && row.Status == string(Offline) {
			row, err = tx.Q.AgentSetAccount(ctx, nil, row.TenantID, row.ID)
		}
		return err
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil // it has gone on
	case err != nil:
		return fmt.Errorf("%s: %w", c.trigger, err)
	}
	s.settled(r.ID)
	switch {
	case row.Status == string(Offline):
		s.loggedOut(ctx, row.ID)
		s.forgetAccount(ctx, row.ID, r.Extension)
		s.forgetPhone(ctx, row.ID, r.Extension)
	default:
		s.apply(row)
	}
	return nil
}

// setRight frees an agent from a call that is over, or that another agent has.
func (s *Service) setRight(ctx context.Context, r db.AgentsOfNodeRow) error {
	c := change{trigger: TriggerReturned, at: s.now()}
	if r.CallIsTheirs {
		c.trigger, c.wrapUp = TriggerEnded, max(0, s.cfg.WrapUp)
	}
	s.log.WarnContext(ctx, "agent was left with a call", "agent_id", r.ID, "call_id", r.CurrentCallID, "trigger", string(c.trigger))
	s.metrics.corrected.WithLabelValues(string(c.trigger)).Inc()
	return s.step(ctx, r, c)
}

// settled forgets that an agent's phone went: it is back, or what follows is done.
func (s *Service) settled(agent uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.lost, agent)
}

// phoneGone: the agent's phone went while the agent's own call rang. It had better not be answered.
func (s *Service) phoneGone(ctx context.Context, sw Switch, r db.AgentsOfNodeRow) error {
	err := sw.Hangup(ctx, r.TenantID, *r.CurrentCallID, ledger.CauseNormalClearing)
	if err != nil && !errors.Is(err, ledger.ErrCallEnded) && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	s.settled(r.ID)
	return nil
}

// voidAccounts ends the SIP accounts whose time is over, or whose users' sessions have ended. A call that is up goes on.
func (s *Service) voidAccounts(ctx context.Context) {
	var ended []db.AgentAccountsEndRow
	err := s.st.InSystem(ctx, func(tx *store.Tx) error {
		var err error
		ended, err = tx.Q.AgentAccountsEnd(ctx, s.cfg.NodeID, s.now())
		return err
	})
	if err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "expired SIP accounts not ended", "error", err)
		return
	}
	for _, a := range ended {
		s.forgetAccount(ctx, a.ID, a.Extension)
		if a.SignedOut {
			s.forgetPhone(ctx, a.ID, a.Extension)
		}
	}
}

// deadNodes gives the controllers that have been silent for the grace while this one could see, or that others have marked as lost.
func (s *Service) deadNodes(ctx context.Context) ([]string, error) {
	var nodes []db.NodesOtherRow
	err := s.st.InSystem(ctx, func(tx *store.Tx) error {
		var err error
		nodes, err = tx.Q.NodesOther(ctx, s.cfg.NodeID)
		return err
	})
	if err != nil {
		s.nodes.Forget()
		return nil, err
	}
	dead := []string{}
	for _, n := range s.nodes.Look(nodes, s.now()) {
		dead = append(dead, n.ID)
	}
	for _, n := range nodes {
		if n.LostAt != nil {
			dead = append(dead, n.ID)
		}
	}
	return dead, nil
}

// lookAfterNodes puts the agents of controllers that are gone offline, so that they can log in elsewhere.
func (s *Service) lookAfterNodes(ctx context.Context) {
	var due []db.AgentsOfDeadNodesRow
	dead, err := s.deadNodes(ctx)
	if err == nil {
		err = s.st.InSystem(ctx, func(tx *store.Tx) error {
			var err error
			due, err = tx.Q.AgentsOfDeadNodes(ctx, s.cfg.NodeID, dead)
			return err
		})
	}
	for _, a := range due {
		err = errors.Join(err, s.st.InTenant(ctx, a.TenantID, func(tx *store.Tx) error {
			row, err := tx.Q.AgentLock(ctx, a.TenantID, a.ID)
			if err != nil || row.Node != a.Node || row.Status == string(Offline) {
				return err
			}
			if _, err = s.move(ctx, tx, row, change{trigger: TriggerNodeLost, at: s.now(), reason: ReasonNodeLost}); err != nil {
				return err
			}
			_, err = tx.Q.AgentSetAccount(ctx, nil, a.TenantID, a.ID)
			return err
		}))
	}
	if err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "agents of lost controllers not put offline", "error", err)
	}
}

// CallEnded frees the agent of a call, in the transaction that closes it, and notes a caller whom nobody took. call is the closed
// row.
func (s *Service) CallEnded(ctx context.Context, tx *store.Tx, call db.Call) error {
	if call.QueuedAt != nil && call.AgentID == nil && !call.Abandoned && !switchctl.MachineSure(call) {
		if err := tx.Q.CallAbandoned(ctx, call.TenantID, call.ID); err != nil {
			return err
		}
	}
	row, err := tx.Q.AgentLockOnCall(ctx, call.TenantID, call.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	c := change{trigger: TriggerReturned, at: s.now()}
	if call.AgentID != nil && *call.AgentID == row.ID && !s.wasMachine(ctx, tx, call) {
		c.trigger, c.wrapUp = TriggerEnded, s.wrapUp(ctx, tx, call)
	}
	if _, err := s.move(ctx, tx, row, c); err != nil {
		return err
	}
	notify(s.kick)
	return nil
}

// move is the package's move, counted.
func (s *Service) move(ctx context.Context, tx *store.Tx, row db.Agent, c change) (db.Agent, error) {
	row, err := move(ctx, tx, row, c)
	if err == nil {
		s.metrics.moves.WithLabelValues(string(c.trigger)).Inc()
	}
	return row, err
}
