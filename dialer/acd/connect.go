package acd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// Outcome is how a caller's time with the queue ended: a connect_agent node's outcome.
type Outcome string

// The outcomes of Connect.
const (
	// Ended: caller and agent talked, and that is over.
	Ended Outcome = "ended"
	// TimedOut: no agent was free in time.
	TimedOut Outcome = "timeout"
	// Unavailable: nobody who could take the caller is logged in.
	Unavailable Outcome = "unavailable"
)

// Request says for whom a caller waits, and how.
type Request struct {
	// AgentID is the one agent who is wanted; nil for any.
	AgentID *uuid.UUID
	// Tags are the skills that the agent must have.
	Tags     []string
	Priority int
	// MaxWait bounds the wait; 0 is the service's own limit.
	MaxWait time.Duration
	// Due is when the caller counts as abandoned without an agent, and also with one who comes later; zero for never.
	Due time.Time
	// MusicURL is what the caller hears; empty for ringback.
	MusicURL string
	// Announce tells the caller the place in the queue, where there are prompts.
	Announce bool
	// WhisperURL is what the agent hears before the caller; empty for a short tone.
	WhisperURL string
	// Campaign: the call is one that a campaign has dialed. While it waits, a free agent is no reason to dial another.
	Campaign bool
	// CallerName is what a phone that rings shows besides the caller's number.
	CallerName string
	// KeepCaller has Connect return with the caller still there when the agent hangs up.
	KeepCaller bool
}

// due is Due as the call's row has it.
func (r Request) due() *time.Time {
	if r.Due.IsZero() {
		return nil
	}
	return &r.Due
}

const (
	// writeTimeout bounds what must be written although the call, or the controller, is about to end.
	writeTimeout = 10 * time.Second
	// offerPause is the wait after an offer that failed by no fault of the agent.
	offerPause = time.Second
	// lostWait is the least that a caller waits who was in a conversation: the seconds of a campaign are for callees who have
	// talked to nobody.
	lostWait = time.Minute
)

// errCallOver says that a call ended before an agent could have it.
var errCallOver = errors.New("acd: the call is over")

// service of one caller.
type serving struct {
	s     *Service
	leg   switchctl.Leg
	call  db.Call
	req   Request
	c     *caller
	music bool
	noted bool // the call's row says that it has asked
	waits bool // the call's unit says that it waits
	// since is when this wait began, and until when it ends: one for an agent, and one more for each that is lost in mid-call.
	since    time.Time
	until    time.Time
	deadline *time.Timer
}

// Connect brings a caller to an agent and returns when they have parted, or when nobody took the caller. An error other than
// the context's own says that the leg could not be served; the caller may be gone by then.
func (s *Service) Connect(ctx context.Context, leg switchctl.Leg, req Request) (Outcome, error) {
	select {
	case <-s.loaded:
	case <-ctx.Done():
		return Unavailable, fmt.Errorf("connect agent: %w", ctx.Err())
	}
	if req.MaxWait <= 0 {
		req.MaxWait = s.cfg.MaxWait
	}
	call := leg.Call()
	v := &serving{s: s, leg: leg, call: call, req: req, c: &caller{
		call: call.ID, tenant: call.TenantID, agent: req.AgentID, tags: req.Tags, priority: req.Priority, dialed: req.Campaign,
		since: s.now(),
		wake:  make(chan struct{}, 1),
	}}
	v.since = v.c.since
	if call.CampaignID != nil {
		v.c.campaign = *call.CampaignID
	}
	if call.AgentID != nil {
		s.learnOwner(ctx, call.TenantID, *call.AgentID, call.ID)
	}
	owner, former := s.enter(v.c)
	defer s.gone(v.c)
	if former != nil {
		s.takeFrom(ctx, call, *former)
	}
	outcome, err := v.serve(ctx, owner)
	v.waitsNoMore(ctx)
	if errors.Is(context.Cause(ctx), switchctl.ErrMachine) {
		s.Forgo(ctx, call)
	}
	switch {
	case ctx.Err() != nil:
		s.metrics.served.WithLabelValues(resultGone).Inc()
	case err == nil:
		s.metrics.served.WithLabelValues(string(outcome)).Inc()
	}
	if err != nil {
		return outcome, fmt.Errorf("connect agent: %w", err)
	}
	return outcome, nil
}

// learnOwner reads the row of the agent who has dialed a call, or had it, where the desk doesn't know that it is theirs.
func (s *Service) learnOwner(ctx context.Context, tenant, agent, call uuid.UUID) {
	s.mu.Lock()
	known := s.desk.onCall(tenant, call) != nil
	s.mu.Unlock()
	if known {
		return
	}
	var row db.Agent
	err := s.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		var err error
		row, err = tx.Q.AgentLock(ctx, tenant, agent)
		return err
	})
	switch {
	case err == nil:
		s.apply(row)
	case ctx.Err() == nil && !errors.Is(err, store.ErrNotFound):
		s.log.WarnContext(ctx, "reading the agent of a call failed", "call_id", call, "agent_id", agent, "error", err)
	}
}

// enter puts the caller in the queue. An agent whose row has this call already, who dialed it or had it before a restart, is the
// owner: the call is theirs. If it is another one who is wanted, they are the former owner.
func (s *Service) enter(c *caller) (owner *seat, former *uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	owner = s.desk.onCall(c.tenant, c.call)
	s.desk.enter(c)
	switch {
	case owner == nil:
	case c.agent == nil || *c.agent == owner.row.ID:
		c.seat, owner.offered = owner, c
		return owner, nil
	default:
		former = new(owner.row.ID)
	}
	s.desk.matchOf(c.tenant)
	return nil, former
}

// takeFrom writes that an agent has lost a call that goes to another one, where whoever took it away could not.
func (s *Service) takeFrom(ctx context.Context, call db.Call, agent uuid.UUID) {
	var row db.Agent
	err := s.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		var err error
		row, err = tx.Q.AgentLock(ctx, call.TenantID, agent)
		if err != nil || row.CurrentCallID == nil || *row.CurrentCallID != call.ID {
			return err
		}
		row, err = s.move(ctx, tx, row, change{trigger: TriggerEnded, at: s.now(), wrapUp: s.wrapUp(ctx, tx, call)})
		return err
	})
	switch {
	case err == nil:
		s.apply(row)
	case ctx.Err() == nil:
		s.log.WarnContext(ctx, "freeing the agent whose call was transferred failed", "call_id", call.ID, "agent_id", agent, "error", err)
	}
}

// gone takes the caller away from the queue.
func (s *Service) gone(c *caller) {
	s.mu.Lock()
	before := s.desk.readyAgents(c.tenant)
	s.desk.gone(c)
	s.desk.matchOf(c.tenant)
	after := s.desk.readyAgents(c.tenant)
	s.mu.Unlock()
	s.tellReady(c.tenant, before, after)
}

// place reads what the desk has for the caller.
func (s *Service) place(c *caller) (*seat, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.seat, c.hopeless
}

func (v *serving) serve(ctx context.Context, owner *seat) (Outcome, error) {
	if err := v.leg.Answer(ctx); err != nil {
		return Unavailable, err
	}
	v.until = time.Now().Add(v.req.MaxWait)
	v.deadline = time.NewTimer(v.req.MaxWait)
	defer v.deadline.Stop()
	announce := v.announcements()
	defer announce.Stop()
	for {
		seat, hopeless := v.s.place(v.c)
		switch {
		case seat != nil && seat != owner && time.Until(v.until) <= 0:
			return v.late(ctx)
		case seat != nil:
			done, outcome, err := v.offer(ctx, seat, seat == owner)
			if owner = nil; done || err != nil {
				return outcome, err
			}
			continue
		case hopeless:
			v.s.abandon(ctx, v.call)
			return Unavailable, nil
		}
		if err := v.wait(ctx); err != nil {
			return Unavailable, err
		}
		select {
		case <-v.c.wake:
		case <-announce.C:
			v.announce(ctx)
			announce.Reset(v.s.cfg.AnnounceEvery)
		case <-v.deadline.C:
			return v.late(ctx)
		case <-ctx.Done():
			return Unavailable, ctx.Err()
		}
	}
}

// waitsNoMore notes that a caller whom no agent has has left the queue.
func (v *serving) waitsNoMore(ctx context.Context) {
	if !v.waits {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	err := v.s.st.InTenant(ctx, v.call.TenantID, func(tx *store.Tx) error {
		return tx.Q.CallWaitsNoMore(ctx, v.call.TenantID, v.call.ID, v.c.since)
	})
	if err != nil {
		v.s.log.WarnContext(ctx, "writing that a caller has left the queue failed", "call_id", v.call.ID, "error", err)
	}
}

// late ends a wait that nobody has ended in time.
func (v *serving) late(ctx context.Context) (Outcome, error) {
	v.s.abandon(ctx, v.call)
	return TimedOut, nil
}

// again begins the wait of a caller whose agent was lost in mid-call.
func (v *serving) again() {
	limit := max(v.req.MaxWait, lostWait)
	v.since, v.until = v.s.now(), time.Now().Add(limit)
	v.deadline.Reset(limit)
}

// wait makes a caller who must wait hear something, and notes it.
func (v *serving) wait(ctx context.Context) error {
	if err := v.play(ctx, v.req.MusicURL); err != nil {
		return err
	}
	if v.noted {
		return nil
	}
	v.noted, v.waits = true, true
	err := v.s.st.InTenant(ctx, v.call.TenantID, func(tx *store.Tx) error {
		return tx.Q.CallAsksAgent(ctx, db.CallAsksAgentParams{
			TenantID: v.call.TenantID, ID: v.call.ID, At: v.c.since, Due: v.req.due(), AwaitsAgent: v.req.Campaign,
			Priority: int32(v.req.Priority),
		})
	})
	if err != nil && ctx.Err() == nil {
		v.s.log.WarnContext(ctx, "writing a call's wait for an agent failed", "call_id", v.call.ID, "error", err)
	}
	return nil
}

// play starts the music. A caller who can't hear any waits all the same.
func (v *serving) play(ctx context.Context, url string) error {
	if v.music {
		return nil
	}
	v.music = true
	err := v.leg.StartMusic(ctx, url)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, ledger.ErrCallEnded):
		return err
	case err != nil:
		v.s.log.WarnContext(ctx, "starting the waiting caller's music failed", "call_id", v.call.ID, "error", err)
	}
	return nil
}

// doubt parts the caller from an agent whose row said no, and keeps the agent from being chosen until it was read again.
func (s *Service) doubt(c *caller) {
	s.mu.Lock()
	if c.seat != nil {
		c.seat.unsure = true
	}
	s.desk.free(c)
	s.desk.matchOf(c.tenant)
	s.mu.Unlock()
	notify(s.kick)
}

// claim makes the call the agent's, in the database. Errors: *StateError when the agent can't take it, errCallOver.
func (s *Service) claim(ctx context.Context, call db.Call, agent uuid.UUID, since time.Time, due *time.Time) error {
	var row db.Agent
	err := s.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		open, err := tx.Q.CallOffered(ctx, db.CallOfferedParams{TenantID: call.TenantID, ID: call.ID, At: since, Due: due})
		if err != nil {
			return err
		}
		if open == 0 {
			return errCallOver
		}
		if row, err = tx.Q.AgentLock(ctx, call.TenantID, agent); err != nil {
			return err
		}
		if row.Node != s.cfg.NodeID {
			return &StateError{Status: Status(row.Status), Trigger: TriggerOffer, Detail: "The agent is at another host."}
		}
		row, err = s.move(ctx, tx, row, change{trigger: TriggerOffer, at: s.now(), call: &call.ID})
		return err
	})
	if err == nil {
		s.apply(row)
	}
	return err
}

// settle gives the agent the state that the outcome of an offer leads to. An agent whose row has gone on is left alone. The
// caller who isn't done waits again, in the old place.
func (v *serving) settle(ctx context.Context, spec phone.Spec, t Trigger, reason string) {
	s, call := v.s, v.call
	v.waits = t != TriggerEnded
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	var row db.Agent
	err := s.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		if t != TriggerEnded {
			_, err := tx.Q.CallOffered(ctx, db.CallOfferedParams{
				TenantID: call.TenantID, ID: call.ID, At: v.c.since, AwaitsAgent: v.req.Campaign, WaitsSince: &v.c.since,
			})
			if err != nil {
				return err
			}
		}
		var err error
		row, err = tx.Q.AgentLock(ctx, spec.TenantID, spec.AgentID)
		if err != nil || row.CurrentCallID == nil || *row.CurrentCallID != call.ID {
			return err
		}
		row, err = s.move(ctx, tx, row, change{
			trigger: t, at: s.now(), reason: reason, wrapUp: s.wrapUp(ctx, tx, call),
		})
		return err
	})
	if err != nil {
		s.log.WarnContext(ctx, "writing the agent's state failed", "call_id", call.ID, "agent_id", spec.AgentID, "trigger", string(t),
			"error", err)
	} else {
		s.apply(row)
	}
	if t == TriggerEnded {
		return // the caller leaves, and with that the agent is nobody's
	}
	s.mu.Lock()
	before := s.desk.readyAgents(call.TenantID)
	if err != nil && v.c.seat != nil {
		v.c.seat.unsure = true
	}
	s.desk.free(v.c)
	s.desk.matchOf(call.TenantID)
	after := s.desk.readyAgents(call.TenantID)
	s.mu.Unlock()
	s.tellReady(call.TenantID, before, after)
}

// wrapUp is the time limit of the wrap-up after a call; 0 for none. A campaign that can't be read has the service's own.
func (s *Service) wrapUp(ctx context.Context, tx *store.Tx, call db.Call) time.Duration {
	if call.CampaignID != nil {
		if campaign, err := tx.Q.CampaignGet(ctx, call.TenantID, *call.CampaignID); err == nil {
			return s.wrapUpOf(&campaign)
		}
	}
	return s.wrapUpOf(nil)
}

func (s *Service) wrapUpOf(campaign *db.Campaign) time.Duration {
	if campaign != nil && campaign.WrapUpS != nil {
		return time.Duration(*campaign.WrapUpS) * time.Second
	}
	return max(0, s.cfg.WrapUp)
}

// abandon notes that nobody took a caller in time.
func (s *Service) abandon(ctx context.Context, call db.Call) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	err := s.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		_, err := tx.Q.CallOffered(ctx, db.CallOfferedParams{TenantID: call.TenantID, ID: call.ID, At: s.now()})
		if err != nil {
			return err
		}
		return tx.Q.CallAbandoned(ctx, call.TenantID, call.ID)
	})
	if err != nil {
		s.log.WarnContext(ctx, "writing an abandoned call failed", "call_id", call.ID, "error", err)
	}
}

// Forgo notes that a call asks for no agent any more, though it goes on: a machine has answered.
func (s *Service) Forgo(ctx context.Context, call db.Call) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	err := s.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		return tx.Q.CallForgoesAgent(ctx, call.TenantID, call.ID)
	})
	if err != nil {
		s.log.WarnContext(ctx, "ending a machine's wait for an agent failed", "call_id", call.ID, "error", err)
	}
}
