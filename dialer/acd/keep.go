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
	"github.com/ringmaster/ringmaster/switchctl/cluster"
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
	k := s.keeper(sw)
	var nodesAt, accountsAt time.Time
	for {
		k.look(ctx)
		if now := s.now(); now.Sub(nodesAt) >= nodesEvery {
			nodesAt = now
			k.lookAfterNodes(ctx)
		}
		if now := s.now(); now.Sub(accountsAt) >= accountsEvery {
			accountsAt = now
			k.voidAccounts(ctx)
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

// keeper sets right what agents' rows, calls and phones don't agree on. Run owns it.
type keeper struct {
	*Service
	sw    Switch
	nodes *cluster.Watch
	// phonesIn are the calls that agents' phones are in, as the call controller has it.
	phonesIn map[uuid.UUID]uuid.UUID
}

func (s *Service) keeper(sw Switch) *keeper {
	return &keeper{Service: s, sw: sw, nodes: cluster.NewWatch(s.cfg.NodeGrace, blindAfter)}
}

// look reads the agents of this controller, and sets right what the rows, the calls and the phones don't agree on.
func (k *keeper) look(ctx context.Context) {
	k.mu.Lock()
	began := k.desk.changes
	k.mu.Unlock()
	readAt := k.now()
	var rows []db.AgentsOfNodeRow
	err := k.st.InSystem(ctx, func(tx *store.Tx) error {
		var err error
		rows, err = tx.Q.AgentsOfNode(ctx, k.cfg.NodeID)
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			k.log.WarnContext(ctx, "reading the agents failed", "error", err)
		}
		return
	}
	changed := k.reseat(ctx, rows, began)
	k.once.Do(func() { close(k.loaded) })
	for tenant := range changed {
		k.tell(tenant)
	}
	k.renewPhones(ctx, k.sw)
	for _, r := range rows {
		if r.Extension != nil {
			k.hold(ctx, k.phoneSpec(r.TenantID, r.ID, *r.Extension, r.PhoneMode))
		}
	}
	k.seePhones()
	for _, r := range rows {
		if err := k.correct(ctx, r, readAt); err != nil && ctx.Err() == nil {
			k.log.WarnContext(ctx, "correcting the agent's state failed", "agent_id", r.ID, "error", err)
		}
	}
	k.quiet(ctx, k.sw)
}

// reseat brings the desk to what was read, but for what changed since. It gives the tenants whose agents have
// changed.
func (k *keeper) reseat(ctx context.Context, rows []db.AgentsOfNodeRow, began uint64) map[uuid.UUID]bool {
	k.mu.Lock()
	before := make(map[uuid.UUID]int)
	for tenant := range k.desk.rooms {
		before[tenant] = k.desk.readyAgents(tenant)
	}
	seen := make(map[uuid.UUID]bool, len(rows))
	changed := make(map[uuid.UUID]bool)
	for _, r := range rows {
		seen[r.ID] = true
		a := k.desk.agents[r.ID]
		fresh, was := a == nil, ""
		if !fresh {
			was = a.row.Status
		}
		a = k.desk.sit(agentRow(r))
		if !fresh && a.row.Status != was {
			changed[r.TenantID] = true
		}
		a.tags, a.onHook = r.Tags, r.PhoneMode == string(phone.OnHook)
		if a.extension = ""; r.Extension != nil {
			a.extension = *r.Extension
		}
		if fresh {
			a.downSince = k.now()
		}
	}
	k.phonesChanged()
	left := make(map[uuid.UUID]string) // and their extensions
	for id, a := range k.desk.agents {
		if !seen[id] && a.changed <= began {
			left[id] = a.extension
		}
	}
	k.desk.lapse(k.now())
	k.desk.match()
	for _, r := range rows {
		if k.desk.readyAgents(r.TenantID) != before[r.TenantID] {
			changed[r.TenantID] = true
		}
	}
	k.mu.Unlock()
	for id, extension := range left { // logged out at another controller, moved there, or deleted
		k.loggedOut(ctx, id)
		if extension != "" {
			k.forgetAccount(ctx, id, &extension)
			k.forgetPhone(ctx, id, &extension)
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
func (k *keeper) seePhones() {
	k.phonesIn = map[uuid.UUID]uuid.UUID{}
	for _, p := range k.sw.Phones() {
		if p.CallID != nil {
			k.phonesIn[p.AgentID] = *p.CallID
		}
		k.mu.Lock()
		a := k.desk.agents[p.AgentID]
		if a == nil || a.phoneUp == p.Up {
			k.mu.Unlock()
			continue
		}
		before := k.desk.readyAgents(p.TenantID)
		k.desk.phone(p.AgentID, p.Up, k.now())
		k.phonesChanged()
		k.desk.matchOf(p.TenantID)
		after := k.desk.readyAgents(p.TenantID)
		k.mu.Unlock()
		k.tellReady(p.TenantID, before, after)
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
func (k *keeper) correct(ctx context.Context, r db.AgentsOfNodeRow, readAt time.Time) error {
	now := k.now()
	k.mu.Lock()
	a := k.desk.agents[r.ID]
	outdated := a != nil && a.row.Version > r.Version
	lost, wasLost := k.lost[r.ID]
	phoneless := a != nil && !a.onHook && !a.phoneUp
	overdue := phoneless && now.Sub(a.downSince) >= k.cfg.PhoneGrace && now.Sub(r.LastStatusAt) >= k.cfg.PhoneGrace
	elsewhere := false // the call is here, but not with this agent
	if r.CurrentCallID != nil {
		if c := k.desk.callers[*r.CurrentCallID]; c != nil && (c.seat == nil || c.seat.row.ID != r.ID) {
			elsewhere = true
		}
	}
	served := r.CurrentCallID != nil && k.desk.callers[*r.CurrentCallID] != nil && !elsewhere
	if call, in := k.phonesIn[r.ID]; in && r.CurrentCallID != nil && call == *r.CurrentCallID {
		served = true // a conference, which is in no queue
	}
	k.mu.Unlock()
	if outdated { // the agent has gone on since it was read: the next look sees how
		return nil
	}
	old := readAt.Sub(r.LastStatusAt) >= settleTime
	if !phoneless {
		k.settled(r.ID)
	}
	switch Status(r.Status) {
	case OnCall:
		switch {
		case !r.CallOpen && old, elsewhere && old, !served && !r.CallIsTheirs && old:
			return k.setRight(ctx, r)
		case wasLost && phoneless && r.CallUnanswered:
			return k.phoneGone(ctx, r)
		case !r.CallUnanswered:
			k.settled(r.ID) // whoever serves the call sees to it
		}
		return nil
	case Available, Paused, WrapUp:
		switch {
		case r.Ended != "":
			return k.step(ctx, r, change{trigger: TriggerRetired, at: now, reason: r.Ended})
		case r.Status == string(WrapUp) && r.WrapUpUntil != nil && !now.Before(*r.WrapUpUntil):
			return k.step(ctx, r, change{trigger: TriggerWrapUpOver, at: now})
		case r.Status == string(Available) && (wasLost && lost.pauses() && phoneless || overdue):
			return k.step(ctx, r, change{trigger: TriggerPhoneLost, at: now, reason: ReasonPhoneLost})
		case r.Status != string(Available):
			k.settled(r.ID)
		}
		return nil
	case Offline:
		return nil
	default:
		return nil
	}
}

// step moves an agent whose row is still as it was read.
func (k *keeper) step(ctx context.Context, r db.AgentsOfNodeRow, c change) error {
	var row db.Agent
	err := k.st.InTenant(ctx, r.TenantID, func(tx *store.Tx) error {
		var err error
		if row, err = tx.Q.AgentLockStill(ctx, r.TenantID, r.ID, r.Version); err != nil {
			return err
		}
		row, err = k.move(ctx, tx, row, c)
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
	k.settled(r.ID)
	switch {
	case row.Status == string(Offline):
		k.loggedOut(ctx, row.ID)
		k.forgetAccount(ctx, row.ID, r.Extension)
		k.forgetPhone(ctx, row.ID, r.Extension)
	default:
		k.apply(row)
	}
	return nil
}

// setRight frees an agent from a call that is over, or that another agent has.
func (k *keeper) setRight(ctx context.Context, r db.AgentsOfNodeRow) error {
	c := change{trigger: TriggerReturned, at: k.now()}
	if r.CallIsTheirs {
		c.trigger, c.wrapUp = TriggerEnded, max(0, k.cfg.WrapUp)
	}
	k.log.WarnContext(ctx, "correcting the agent's state: the call is over or another agent's", "agent_id", r.ID, "call_id", r.CurrentCallID, "trigger", string(c.trigger))
	k.metrics.corrected.WithLabelValues(string(c.trigger)).Inc()
	return k.step(ctx, r, c)
}

// settled forgets that an agent's phone went: it is back, or what follows is done.
func (k *keeper) settled(agent uuid.UUID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.lost, agent)
}

// phoneGone: the agent's phone went while the agent's own call rang. It had better not be answered.
func (k *keeper) phoneGone(ctx context.Context, r db.AgentsOfNodeRow) error {
	err := k.sw.Hangup(ctx, r.TenantID, *r.CurrentCallID, ledger.CauseNormalClearing)
	if err != nil && !errors.Is(err, ledger.ErrCallEnded) && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	k.settled(r.ID)
	return nil
}

// voidAccounts ends the SIP accounts whose time is over, or whose users' sessions have ended. A call that is up goes on.
func (k *keeper) voidAccounts(ctx context.Context) {
	var ended []db.AgentAccountsEndRow
	err := k.st.InSystem(ctx, func(tx *store.Tx) error {
		var err error
		ended, err = tx.Q.AgentAccountsEnd(ctx, k.cfg.NodeID, k.now())
		return err
	})
	if err != nil && ctx.Err() == nil {
		k.log.WarnContext(ctx, "ending expired SIP accounts failed", "error", err)
		return
	}
	for _, a := range ended {
		k.forgetAccount(ctx, a.ID, a.Extension)
		if a.SignedOut {
			k.forgetPhone(ctx, a.ID, a.Extension)
		}
	}
}

// deadNodes gives the controllers that have been silent for the grace while this one could see, or that others have marked as lost.
func (k *keeper) deadNodes(ctx context.Context) ([]string, error) {
	var nodes []db.NodesOtherRow
	err := k.st.InSystem(ctx, func(tx *store.Tx) error {
		var err error
		nodes, err = tx.Q.NodesOther(ctx, k.cfg.NodeID)
		return err
	})
	if err != nil {
		k.nodes.Forget()
		return nil, err
	}
	dead := []string{}
	for _, n := range k.nodes.Look(nodes, k.now()) {
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
func (k *keeper) lookAfterNodes(ctx context.Context) {
	var due []db.AgentsOfDeadNodesRow
	dead, err := k.deadNodes(ctx)
	if err == nil {
		err = k.st.InSystem(ctx, func(tx *store.Tx) error {
			var err error
			due, err = tx.Q.AgentsOfDeadNodes(ctx, k.cfg.NodeID, dead)
			return err
		})
	}
	for _, a := range due {
		err = errors.Join(err, k.st.InTenant(ctx, a.TenantID, func(tx *store.Tx) error {
			row, err := tx.Q.AgentLockStill(ctx, a.TenantID, a.ID, a.Version)
			if errors.Is(err, store.ErrNotFound) {
				return nil // it has gone on, perhaps at a controller that lives
			}
			if err != nil {
				return err
			}
			if _, err = k.move(ctx, tx, row, change{trigger: TriggerNodeLost, at: k.now(), reason: ReasonNodeLost}); err != nil {
				return err
			}
			_, err = tx.Q.AgentSetAccount(ctx, nil, a.TenantID, a.ID)
			return err
		}))
	}
	if err != nil && ctx.Err() == nil {
		k.log.WarnContext(ctx, "putting agents of lost controllers offline failed", "error", err)
	}
}

// CallEnded frees the agents of a call, in the transaction that closes it, and notes a caller whom nobody took, with what the transaction sends
// next. call is the closed row, campaign its campaign's, nil for none, and on has the agents who are on it, whose rows are locked.
func (s *Service) CallEnded(ctx context.Context, tx *store.Tx, call db.Call, campaign *db.Campaign, on []db.Agent) error {
	if call.QueuedAt != nil && call.AgentID == nil && !call.Abandoned && !switchctl.MachineSure(call) {
		err := tx.Later(ctx, func(q *db.Queries) error { return q.CallAbandoned(ctx, call.TenantID, call.ID) })
		if err != nil {
			return err
		}
	}
	for _, row := range on {
		c := change{trigger: TriggerReturned, at: s.now()}
		if call.AgentID != nil && *call.AgentID == row.ID && !keptFromAgents(call, campaign) || s.joined.had(row.ID, call.ID) {
			c.trigger, c.wrapUp = TriggerEnded, s.wrapUpOf(campaign)
		}
		p, err := moved(row, c)
		if err != nil {
			return err
		}
		err = tx.Later(ctx, func(q *db.Queries) error {
			_, err := q.AgentMove(ctx, p)
			if err == nil {
				s.metrics.moves.WithLabelValues(string(c.trigger)).Inc()
				notify(s.kick)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
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
