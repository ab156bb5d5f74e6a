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
	// MusicURL is what the caller hears; empty for ringback.
	MusicURL string
	// Announce tells the caller the place in the queue, where there are prompts.
	Announce bool
	// WhisperURL is what the agent hears before the caller; empty for a short tone.
	WhisperURL string
	// Campaign: the call is one of a campaign's that is paced by its agents.
	Campaign bool
}

const (
	// writeTimeout bounds what must be written although the call, or the controller, is about to end.
	writeTimeout = 10 * time.Second
	// offerPause is the wait after an offer that failed by no fault of the agent.
	offerPause = time.Second
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
	noted bool // the call's row says that it waits
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
		call: call.ID, tenant: call.TenantID, agent: req.AgentID, tags: req.Tags, priority: req.Priority, since: s.now(),
		wake: make(chan struct{}, 1),
	}}
	owner := s.enter(v.c)
	defer s.gone(v.c)
	outcome, err := v.serve(ctx, owner)
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

// enter puts the caller in the queue. An agent whose row has this call already, who dialed it or had it before a restart, is
// returned: the call is theirs.
func (s *Service) enter(c *caller) *seat {
	s.mu.Lock()
	defer s.mu.Unlock()
	owner := s.desk.onCall(c.call)
	s.desk.enter(c)
	if owner != nil {
		c.seat, owner.offered = owner, c
		return owner
	}
	s.desk.match()
	return nil
}

// gone takes the caller away from the queue.
func (s *Service) gone(c *caller) {
	s.mu.Lock()
	before := s.desk.readyAgents(c.tenant)
	s.desk.gone(c)
	s.desk.match()
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
	deadline := time.NewTimer(v.req.MaxWait)
	defer deadline.Stop()
	announce := v.announcements()
	defer announce.Stop()
	for {
		seat, hopeless := v.s.place(v.c)
		switch {
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
		case <-deadline.C:
			v.s.abandon(ctx, v.call)
			return TimedOut, nil
		case <-ctx.Done():
			return Unavailable, ctx.Err()
		}
	}
}

// wait makes a caller who must wait hear something, and notes it.
func (v *serving) wait(ctx context.Context) error {
	if err := v.play(ctx); err != nil {
		return err
	}
	if v.noted {
		return nil
	}
	v.noted = true
	err := v.s.st.InTenant(ctx, v.call.TenantID, func(tx *store.Tx) error {
		return tx.Q.CallAsksAgent(ctx, v.c.since, v.call.TenantID, v.call.ID)
	})
	if err != nil && ctx.Err() == nil {
		v.s.log.WarnContext(ctx, "waiting call not noted", "call_id", v.call.ID, "error", err)
	}
	return nil
}

// play starts the music. A caller who can't hear any waits all the same.
func (v *serving) play(ctx context.Context) error {
	if v.music {
		return nil
	}
	v.music = true
	err := v.leg.StartMusic(ctx, v.req.MusicURL)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, switchctl.ErrCallEnded):
		return err
	case err != nil:
		v.s.log.WarnContext(ctx, "waiting caller hears nothing", "call_id", v.call.ID, "error", err)
	}
	return nil
}

// offer gives the caller to the agent chosen. Not done: the caller waits on.
func (v *serving) offer(ctx context.Context, a *seat, theirs bool) (done bool, outcome Outcome, err error) {
	s := v.s
	spec, ok := s.seatPhone(a)
	if theirs {
		s.answered(spec.AgentID)
	} else {
		err = s.claim(ctx, v.call, spec.AgentID, v.c.since)
	}
	var state *StateError
	switch {
	case errors.Is(err, errCallOver):
		return true, Unavailable, switchctl.ErrCallEnded
	case errors.As(err, &state), errors.Is(err, store.ErrNotFound):
		s.metrics.offers.WithLabelValues("refused").Inc()
		s.doubt(v.c)
		return false, "", nil
	case err != nil:
		s.log.WarnContext(ctx, "agent can't be claimed", "call_id", v.call.ID, "agent_id", spec.AgentID, "error", err)
		s.doubt(v.c)
		return false, "", pause(ctx, offerPause)
	case !ok:
		return false, "", v.settle(ctx, spec, TriggerPhoneLost, ReasonPhoneLost)
	}
	if spec.Mode == switchctl.PhoneOnHook {
		if err := v.play(ctx); err != nil {
			return true, Unavailable, err
		}
	}
	got, err := v.leg.ConnectAgent(ctx, switchctl.AgentConnect{
		Phone: spec, WhisperURL: v.req.WhisperURL, RingTimeout: s.cfg.RingTimeout,
		Connecting: func() { s.metrics.waited.Observe(s.now().Sub(v.c.since).Seconds()) },
	})
	return v.after(ctx, spec, got, err)
}

// after puts agent and caller where an offer's outcome leads.
func (v *serving) after(
	ctx context.Context, spec switchctl.PhoneSpec, got switchctl.AgentOutcome, failed error,
) (done bool, outcome Outcome, err error) {
	s := v.s
	if failed == nil {
		s.metrics.offers.WithLabelValues(string(got)).Inc()
	} else {
		s.metrics.offers.WithLabelValues("error").Inc()
	}
	v.music = false // the bridge has ended it
	switch {
	case ctx.Err() != nil:
		return true, Unavailable, ctx.Err() // the call is over or left to the next start: its end, or that, frees the agent
	case errors.Is(failed, switchctl.ErrCallEnded):
		return true, Unavailable, failed
	case errors.Is(failed, switchctl.ErrUnknownPhone):
		return false, "", v.settle(ctx, spec, TriggerPhoneLost, ReasonPhoneLost)
	case failed != nil:
		s.log.WarnContext(ctx, "agent can't be connected", "call_id", v.call.ID, "agent_id", spec.AgentID, "error", failed)
		if err := v.settle(ctx, spec, TriggerReturned, ""); err != nil {
			return true, Unavailable, err
		}
		return false, "", pause(ctx, offerPause)
	}
	switch got {
	case switchctl.AgentEnded:
		return true, Ended, v.settle(ctx, spec, TriggerEnded, "")
	case switchctl.AgentUnavailable:
		if v.music = spec.Mode == switchctl.PhoneOnHook; v.music {
			return false, "", v.settle(ctx, spec, TriggerUnanswered, ReasonUnanswered)
		}
		return false, "", v.settle(ctx, spec, TriggerPhoneLost, ReasonPhoneLost)
	case switchctl.AgentLost:
		v.music = true // the leg plays it by itself, at once
		return false, "", v.settle(ctx, spec, TriggerPhoneLost, ReasonPhoneLost)
	case switchctl.AgentCallerGone:
		return true, Unavailable, switchctl.ErrCallEnded
	default:
		return true, Unavailable, fmt.Errorf("acd: unknown outcome %q of an agent's connection", got)
	}
}

// seatPhone names the phone of an agent; false when the desk knows no extension.
func (s *Service) seatPhone(a *seat) (switchctl.PhoneSpec, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mode := switchctl.PhoneHeld
	if a.onHook {
		mode = switchctl.PhoneOnHook
	}
	return s.phoneSpec(a.row.TenantID, a.row.ID, a.extension, string(mode)), a.extension != ""
}

// doubt parts the caller from an agent whose row said no, and keeps the agent from being chosen until it was read again.
func (s *Service) doubt(c *caller) {
	s.mu.Lock()
	if c.seat != nil {
		c.seat.unsure = true
	}
	s.desk.free(c)
	s.desk.match()
	s.mu.Unlock()
	notify(s.kick)
}

// claim makes the call the agent's, in the database. Errors: *StateError when the agent can't take it, errCallOver.
func (s *Service) claim(ctx context.Context, call db.Call, agent uuid.UUID, since time.Time) error {
	var row db.Agent
	err := s.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		open, err := tx.Q.CallOffered(ctx, db.CallOfferedParams{TenantID: call.TenantID, ID: call.ID, At: since})
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
func (v *serving) settle(ctx context.Context, spec switchctl.PhoneSpec, t Trigger, reason string) error {
	s, call := v.s, v.call
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	var row db.Agent
	err := s.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		if t != TriggerEnded {
			_, err := tx.Q.CallOffered(ctx, db.CallOfferedParams{
				TenantID: call.TenantID, ID: call.ID, At: v.c.since, AwaitsAgent: v.req.Campaign,
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
		s.log.WarnContext(ctx, "agent's state is behind", "call_id", call.ID, "agent_id", spec.AgentID, "trigger", string(t),
			"error", err)
	} else {
		s.apply(row)
	}
	if t == TriggerEnded {
		return nil // the caller leaves, and with that the agent is nobody's
	}
	s.mu.Lock()
	before := s.desk.readyAgents(call.TenantID)
	if err != nil && v.c.seat != nil {
		v.c.seat.unsure = true
	}
	s.desk.free(v.c)
	s.desk.match()
	after := s.desk.readyAgents(call.TenantID)
	s.mu.Unlock()
	s.tellReady(call.TenantID, before, after)
	return nil
}

// wrapUp is the time limit of the wrap-up after a call; 0 for none. A campaign that can't be read has the service's own.
func (s *Service) wrapUp(ctx context.Context, tx *store.Tx, call db.Call) time.Duration {
	if call.CampaignID != nil {
		campaign, err := tx.Q.CampaignGet(ctx, call.TenantID, *call.CampaignID)
		if err == nil && campaign.WrapUpS != nil {
			return time.Duration(*campaign.WrapUpS) * time.Second
		}
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
		s.log.WarnContext(ctx, "abandoned call not noted", "call_id", call.ID, "error", err)
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
