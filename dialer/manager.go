package dialer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/retry"
)

// managerBackoff is the wait after the connection that holds the pacers' locks was lost.
const managerBackoff = time.Second

// Run paces all running campaigns that no other controller paces, until ctx ends. When it returns no pacer runs and
// no lead is claimed. Beside them it does the scrubs that outlasted their requests.
func (p *pacers) Run(ctx context.Context, originator gate.Originator) error {
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { p.scrubs.Run(ctx) })
	for {
		if err := p.manage(ctx, originator); ctx.Err() == nil {
			p.log.WarnContext(ctx, "running the pacers failed, starting them again", "error", err)
		}
		if retry.Pause(ctx, managerBackoff) != nil {
			return nil
		}
	}
}

// manager holds the advisory locks of the campaigns that this controller paces, all on one connection of its own:
// when that breaks, all locks are gone, and so must be all pacers. The locks of a controller that dies are free at once, those of one
// whose machine or network vanishes when the server gives the connection up (see store/liveness.go); another controller looks for
// free campaigns each Poll, so that they are paced again within 10 s either way. Which of several takes which is decided in assignment.go.
type manager struct {
	s          *pacers
	originator gate.Originator
	locks      *store.Locks
	pacers     map[uuid.UUID]*runningPacer
	// present: the lock that says that this controller can dial is held. unlinkedAt is when its switch was lost, zero while it isn't.
	present    bool
	unlinkedAt time.Time
	// freeAt is since when a campaign is seen that nobody paces.
	freeAt map[uuid.UUID]time.Time
	// left are the campaigns that were left to other controllers, with when their locks are tried for again.
	left map[uuid.UUID]time.Time
}

// leftFor is how long a campaign is left to the controller that has its agents before this one would pace it again.
const leftFor = 15 * time.Second

type runningPacer struct {
	cancel context.CancelFunc
	done   chan struct{}
	// yielded is set before done is closed: the campaign is left to the controller that has its agents.
	yielded bool
	// updatedAt is the campaign's as last seen.
	updatedAt time.Time
	// people: its callees talk to agents, who may be here alone.
	people atomic.Bool
}

func (p *pacers) manage(ctx context.Context, originator gate.Originator) (err error) {
	locks, err := p.st.OpenLocks(ctx, "ringmaster pacers", lockTimeout)
	if err != nil {
		return err
	}
	m := &manager{
		s: p, originator: originator, locks: locks, pacers: make(map[uuid.UUID]*runningPacer), left: make(map[uuid.UUID]time.Time),
		freeAt: make(map[uuid.UUID]time.Time),
	}
	defer func() { err = errors.Join(err, m.close(ctx)) }()
	tick := time.NewTicker(p.cfg.Poll)
	defer tick.Stop()
	for {
		if err := m.round(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case <-p.signals.Kick:
		}
	}
}

// round starts and stops pacers as the campaigns' states say. A database that can't be read now stops nothing: the
// gate holds.
func (m *manager) round(ctx context.Context) error {
	var campaigns []db.CampaignsToPaceRow
	if err := m.show(ctx); err != nil {
		return err
	}
	listCtx, cancelList := context.WithTimeout(ctx, lockTimeout)
	defer cancelList()
	err := m.s.st.InSystem(listCtx, func(tx *store.Tx) error {
		var err error
		campaigns, err = tx.Q.CampaignsToPace(listCtx)
		return err
	})
	if err != nil && ctx.Err() == nil {
		m.s.log.WarnContext(ctx, "listing the running campaigns failed", "error", err)
	}
	if err == nil {
		nodes, err := m.nodes(ctx, len(campaigns))
		if err != nil {
			return err
		}
		m.s.rates.among(slices.ContainsFunc(nodes, func(id string) bool { return id != m.s.cfg.NodeID }))
		if err := m.assign(ctx, campaigns, assignment{node: m.s.cfg.NodeID, nodes: nodes, running: len(campaigns)}); err != nil {
			return err
		}
	}
	m.wake(ctx)
	return m.locks.Ping(ctx)
}

// wake ends the rest of pacers whose campaigns have leads to dial again. Where that can't be seen now, they look for themselves in time.
func (m *manager) wake(ctx context.Context) {
	tenants, resting := m.s.signals.Resting()
	if len(resting) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	var ready []uuid.UUID
	err := m.s.st.InSystem(ctx, func(tx *store.Tx) error {
		var err error
		ready, err = tx.Q.CampaignsWithLeads(ctx, tenants, resting, m.s.now())
		return err
	})
	if err != nil {
		m.s.log.WarnContext(ctx, "checking idle campaigns for due leads failed", "campaigns", len(resting), "error", err)
	}
	for _, id := range ready {
		m.s.signals.Campaign(id)
	}
}

// show holds the lock that tells others that this controller can dial, and gives it back when it has had no link for too long.
func (m *manager) show(ctx context.Context) error {
	switch {
	case m.originator.CanOriginate() == nil:
		m.unlinkedAt = time.Time{}
	case m.unlinkedAt.IsZero():
		m.unlinkedAt = time.Now()
	}
	can := m.unlinkedAt.IsZero() || time.Since(m.unlinkedAt) < linkGrace
	if can == m.present {
		return nil
	}
	change := m.locks.Unshare
	if can {
		change = m.locks.Share
	}
	if err := change(ctx, pacingLock+m.s.cfg.NodeID); err != nil {
		return fmt.Errorf("show that this controller paces: %w", err)
	}
	m.present = can
	return nil
}

// nodes are the controllers that can dial, if campaigns run.
func (m *manager) nodes(ctx context.Context, running int) ([]string, error) {
	if running == 0 {
		return nil, nil // there is nothing to share
	}
	return m.locks.Nodes(ctx, pacingLock)
}

// assign keeps, takes and gives back campaigns. A controller that can't dial leaves all of them to others, if there are any.
func (m *manager) assign(ctx context.Context, campaigns []db.CampaignsToPaceRow, among assignment) error {
	if !m.present && !among.alone() {
		if len(m.pacers) > 0 {
			m.s.log.WarnContext(ctx, "no link to the switch, campaigns are left to other controllers", "campaigns", len(m.pacers))
		}
		return m.stopAll(ctx, slices.Collect(maps.Keys(m.pacers)))
	}
	wanted := make(map[uuid.UUID]bool, len(campaigns))
	var free []db.CampaignsToPaceRow
	for _, c := range campaigns {
		wanted[c.ID] = true
		mine, err := m.keep(ctx, c)
		if err != nil {
			return err
		}
		if mine {
			delete(m.freeAt, c.ID)
		} else {
			free = append(free, c)
		}
	}
	var ended, givable []uuid.UUID
	for id, p := range m.pacers {
		switch {
		case !wanted[id]:
			ended = append(ended, id)
		case !p.people.Load():
			givable = append(givable, id)
		}
	}
	if err := m.stopAll(ctx, ended); err != nil {
		return err
	}
	maps.DeleteFunc(m.freeAt, func(id uuid.UUID, _ time.Time) bool { return !wanted[id] })
	maps.DeleteFunc(m.left, func(id uuid.UUID, _ time.Time) bool { return !wanted[id] })
	back := among.surplus(givable, len(m.pacers))
	for _, id := range back {
		m.left[id] = time.Now().Add(surplusLeftFor)
	}
	if len(back) > 0 {
		m.s.log.InfoContext(ctx, "campaigns given back to other controllers", "campaigns", len(back), "kept", len(m.pacers)-len(back))
	}
	if err := m.stopAll(ctx, back); err != nil {
		return err
	}
	return m.take(ctx, free, among)
}

// lockTimeout bounds each statement on the locks' connection. It is also how long a controller that has lost the database goes
// on pacing at most, which does nothing: the gate needs the database.
const lockTimeout = 3 * time.Second

// pacingLock and a controller's id name the lock that says that the controller can dial.
const pacingLock = "ringmaster.pacing:"

// lockName names the lock of whoever paces a campaign.
func lockName(campaign uuid.UUID) string { return "ringmaster.pacer:" + campaign.String() }

func lockNames(campaigns []db.CampaignsToPaceRow) []string {
	names := make([]string, len(campaigns))
	for i, c := range campaigns {
		names[i] = lockName(c.ID)
	}
	return names
}

// keep sees to the pacer of a campaign whose lock is held; false when that may be tried for.
func (m *manager) keep(ctx context.Context, c db.CampaignsToPaceRow) (mine bool, err error) {
	p := m.pacers[c.ID]
	if p == nil {
		if time.Now().Before(m.left[c.ID]) {
			return true, nil
		}
		delete(m.left, c.ID)
		return false, nil
	}
	select {
	case <-p.done:
		if p.yielded {
			m.left[c.ID] = time.Now().Add(leftFor)
			return true, m.stop(ctx, c.ID)
		}
		p.cancel() // it saw the campaign halted, and the campaign runs again
		m.spawn(ctx, c)
	default:
		if !p.updatedAt.Equal(c.UpdatedAt) { // by whichever controller
			p.updatedAt = c.UpdatedAt
			m.s.signals.Campaign(c.ID)
		}
	}
	return true, nil
}

// take tries for the locks of the campaigns that nobody paces and that are this controller's to take, and paces those that it gets.
func (m *manager) take(ctx context.Context, others []db.CampaignsToPaceRow, among assignment) error {
	free, err := m.free(ctx, others, among)
	if err != nil || len(free) == 0 {
		return err
	}
	got, err := m.locks.Try(ctx, lockNames(free))
	if err != nil {
		return err
	}
	for i, c := range free {
		if got[i] {
			delete(m.freeAt, c.ID)
			m.spawn(ctx, c)
		}
	}
	return nil
}

// free are those of the campaigns that this controller takes if it gets them.
func (m *manager) free(ctx context.Context, others []db.CampaignsToPaceRow, among assignment) ([]db.CampaignsToPaceRow, error) {
	if len(others) == 0 || among.alone() {
		return others, nil
	}
	held, err := m.locks.Held(ctx, lockNames(others))
	if err != nil {
		return nil, err
	}
	var free []db.CampaignsToPaceRow
	now, paced := time.Now(), len(m.pacers)
	for i, c := range others {
		if held[i] {
			delete(m.freeAt, c.ID)
			continue
		}
		if m.freeAt[c.ID].IsZero() {
			m.freeAt[c.ID] = now
		}
		if among.takes(c.ID, paced, now.Sub(m.freeAt[c.ID])) {
			free, paced = append(free, c), paced+1
		}
	}
	return free, nil
}

func (m *manager) spawn(ctx context.Context, c db.CampaignsToPaceRow) {
	pacerCtx, cancel := context.WithCancel(ctx)
	p := &runningPacer{cancel: cancel, done: make(chan struct{}), updatedAt: c.UpdatedAt}
	m.pacers[c.ID] = p
	m.s.metrics.pacers.Set(float64(len(m.pacers)))
	wake := m.s.signals.Open(c.TenantID, c.ID)
	go func() {
		defer close(p.done)
		pacer := newPacer(m.s, m.originator, c.TenantID, c.ID, wake)
		pacer.people = &p.people
		pacer.run(pacerCtx)
		if p.yielded = pacer.yielded; p.yielded {
			m.s.signals.Changed()
		}
	}()
}

// stopAll stops pacers beside each other, which end the calls that they began to place first.
func (m *manager) stopAll(ctx context.Context, ids []uuid.UUID) error {
	for _, id := range ids {
		m.pacers[id].cancel()
	}
	for _, id := range ids {
		if err := m.stop(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

func (m *manager) stop(ctx context.Context, id uuid.UUID) error {
	p := m.pacers[id]
	p.cancel()
	<-p.done
	delete(m.pacers, id)
	m.s.signals.Close(id)
	m.s.metrics.pacers.Set(float64(len(m.pacers)))
	return m.locks.Unlock(ctx, lockName(id))
}

// close ends all pacers and then the connection, which frees the locks for another controller.
func (m *manager) close(ctx context.Context) error {
	for _, p := range m.pacers {
		p.cancel()
	}
	for id, p := range m.pacers {
		<-p.done
		m.s.signals.Close(id)
	}
	m.s.metrics.pacers.Set(0)
	return m.locks.Close(ctx)
}
