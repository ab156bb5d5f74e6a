package dialer

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/figures"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/pacing"
	"github.com/ringmaster/ringmaster/dialer/staffing"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/retry"
	"github.com/ringmaster/ringmaster/switchctl/admission"
)

const (
	// claimHold bounds how long a pacer keeps leads that it has claimed, behind a slow trunk for one, or from round to round (stock): agents can't
	// dial them meanwhile. It gives them back then, and claims anew.
	claimHold = 10 * time.Second
	// claimLease outlives claimHold and the admission that is under way at its end; the gate ends a claim with the call's row.
	claimLease = 2 * time.Minute
	// afterWake is when a woken pacer looks again: the signal of a call's end comes before that end is committed.
	afterWake = 100 * time.Millisecond
	// roundGap bounds the rounds of a pacer that is woken all the time.
	roundGap   = 50 * time.Millisecond
	maxBackoff = 30 * time.Second
	// restPolls is how many Polls a pacer rests that has nothing to dial, if the manager doesn't wake it.
	restPolls = 15
	// releaseTimeout bounds the giving back of what was claimed.
	releaseTimeout = 3 * time.Second
)

// pacer dials the leads of one running campaign. One goroutine owns it.
type pacer struct {
	leads.Claimer
	s          *pacers
	originator gate.Originator
	wake       <-chan struct{}
	log        *slog.Logger
	hold       time.Duration // claimHold
	size       claimSize
	stock      stock

	failures  int          // originates in a row that failed
	served    time.Time    // when the gate last had an answer other than a trunk's calls per second
	resumeAt  time.Time    // nothing is dialed before
	exhausted bool         // ends run: the campaign is no longer running
	yielded   bool         // ends run, too: the campaign's agents are at another controller
	askedAt   time.Time    // when that was last asked
	people    *atomic.Bool // whether its callees talk to people, for the manager; may be nil
	dry       bool         // the last claim found fewer leads than were wanted
	sated     bool         // this round found nothing to dial and no calls
	taker     *uuid.UUID   // the voice agent that took the calls of the round before
	byFlow    bool         // a flow says who takes them

	// What it knows of its calls. The planner is that of a campaign whose callees talk to people.
	book    *callBook
	ramp    ramp
	planner *pacing.Planner
	planned pacing.Config // the planner's
	seeded  bool          // the planner knows the campaign's last calls
	agents  map[uuid.UUID]staffing.Sighting
	others  staffing.OutsideCalls
	manned  bool            // somebody is at work here whom its callees may ask for
	parts   staffing.Demand // whom agents are kept for, as last planned
	// hearing fetches what callees are to hear.
	hearing *hearing
	// idle is why this round dials nothing; idleTold is what was made known of it, at idleToldAt, nil when nothing was.
	idle       idleness
	idleTold   *idleness
	idleToldAt time.Time
	begun      int // calls that this round has begun
	// resting are the voice agents whose callbacks wait, and until when.
	resting map[uuid.UUID]time.Time
	// rates are the campaign's answered and abandoned calls as they were read at ratesAt; ratesOld when there are others since.
	rates    figures.Tallies
	ratesAt  time.Time
	ratesOld bool
	// telling is what is to be written of the pace, written what was, at writtenAt.
	telling   *Pacing
	written   Pacing
	writtenAt time.Time
}

func newPacer(s *pacers, originator gate.Originator, tenant, campaign uuid.UUID, wake <-chan struct{}) *pacer {
	return &pacer{
		Claimer: leads.Claimer{
			Leads: s.leads, Tenant: tenant, Campaign: campaign, Claimant: "pacer:" + s.cfg.NodeID + ":" + store.NewID().String(), Lease: claimLease,
		},
		s:          s,
		hearing:    &hearing{s: s, tenant: tenant, campaign: campaign, kick: make(chan struct{}, 1)},
		originator: originator, wake: wake, hold: claimHold, size: leads.ClaimBatch, log: s.log.With("tenant_id", tenant, "campaign_id", campaign),
	}
}

func (p *pacer) run(ctx context.Context) {
	p.log.InfoContext(ctx, "pacing campaign")
	defer p.log.InfoContext(ctx, "campaign no longer paced")
	defer p.s.paces.drop(p.Campaign)
	defer p.rest()
	defer func() { p.empty(ctx) }()
	defer p.scrubBeside(ctx)()
	defer p.hearBeside(ctx)()
	timer := time.NewTimer(0)
	defer timer.Stop()
	woken := false
	for ctx.Err() == nil && !p.exhausted && !p.yielded {
		began := time.Now()
		wait := p.round(ctx)
		if woken { // the round may have come too early for what woke us; one more comes soon after
			wait = min(wait, afterWake)
		}
		resting := !woken && p.mayRest()
		if resting {
			wait = restPolls * p.s.cfg.Poll
			p.s.signals.Rest(p.Campaign, true)
		}
		timer.Reset(wait)
		woken = false
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-p.wake:
			woken = true
			_ = retry.Pause(ctx, roundGap-time.Since(began))
		}
		if resting {
			p.s.signals.Rest(p.Campaign, false)
		}
	}
}

// mayRest tells that the campaign has nothing to dial, no calls, and nothing to make known: the manager asks for all such campaigns at once
// whether leads have come, which costs less than each looking for itself.
func (p *pacer) mayRest() bool {
	return p.sated && p.wake != nil && p.telling == nil && p.idleTold != nil && *p.idleTold == p.idle && (p.idle.on == gate.ReasonLeads || p.idle.on == "")
}

// round dials as many leads as there is room for, makes known why it dials none, and returns how long to wait for the next one.
func (p *pacer) round(ctx context.Context) time.Duration {
	now := p.s.now()
	if p.sated = false; !time.Now().Before(p.stock.until) {
		p.empty(ctx)
	}
	if now.Before(p.resumeAt) {
		p.tellIdle(ctx)
		return min(p.resumeAt.Sub(now), p.s.cfg.Poll)
	}
	p.idle, p.begun = idleness{}, 0
	wait := p.work(ctx, now)
	if p.begun > 0 {
		p.idle = idleness{}
	}
	p.tellIdle(ctx)
	return wait
}

func (p *pacer) work(ctx context.Context, now time.Time) time.Duration {
	next, err := p.plan(ctx, now)
	if err != nil {
		return p.backOff(ctx, "campaign can't be planned", err)
	}
	wait := cmp.Or(next.wait, p.s.cfg.Poll)
	p.idle = next.idle
	if next.free <= 0 || p.exhausted || p.yielded {
		return wait
	}
	defer p.letGo()
	n := min(next.free, int(p.size))
	list := p.stock.take(n)
	more := len(list) > 0 && len(list) < next.free
	if len(list) == 0 {
		var taken int
		if list, taken, err = p.Claim(ctx, n, now); err != nil {
			return p.backOff(ctx, "leads can't be claimed", err)
		}
		p.stock = stock{claimed: len(list), until: time.Now().Add(p.hold)}
		if p.dry = taken < n; taken == 0 {
			p.idle = p.idleBefore() // the next look says what is there
			p.rest()
			return wait
		}
		if p.Unopened > 0 {
			p.idle = idleness{gate.ReasonNumber, now.Add(leads.NumberRetry)}
		}
		more = taken == n && (n < next.free || n == leads.ClaimBatch)
	}
	if inTime := p.dial(ctx, list, next); (more || !inTime) && ctx.Err() == nil {
		return 0
	}
	return wait
}

// backOff logs a failure and keeps the campaign quiet for a while, longer with each failure in a row.
func (p *pacer) backOff(ctx context.Context, message string, err error) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	p.rest()
	p.failedFor(err)
	wait := min(maxBackoff, time.Second<<min(p.failures, 5))
	p.failures++
	p.resumeAt = p.s.now().Add(wait)
	p.log.WarnContext(ctx, "pacing failed, retrying", "reason", message, "retry_in", wait, "error", err)
	return min(wait, p.s.cfg.Poll)
}

// dial originates the claimed leads in their order, until one meets a ceiling, or the plan or the claim has grown old, which it tells by
// false. What was not dialed is kept for the next rounds, or goes back.
func (p *pacer) dial(ctx context.Context, leads []leads.Claimed, by plan) (inTime bool) {
	until := time.Now().Add(p.hold)
	if by.holds > 0 {
		until = time.Now().Add(min(by.holds, p.hold))
	}
	if claim := p.stock.until; !claim.IsZero() && claim.Before(until) {
		until = claim
	}
	done := 0
	defer func() { p.keep(ctx, leads[done:]) }()
	for _, lead := range leads {
		if !time.Now().Before(until) {
			return false
		}
		if !p.dialOne(ctx, lead, by.agent, until) {
			return time.Now().Before(until)
		}
		done++
	}
	return true
}

// dialOne tells whether the lead is settled and the next may follow. It waits for a trunk's calls per second as long as the claim is held and the
// plan is good for. What the registry takes doesn't count: a slow one would keep a plan for people from ever being dialed.
func (p *pacer) dialOne(ctx context.Context, lead leads.Claimed, agent *uuid.UUID, until time.Time) bool {
	ofCampaign := agent
	agent, ok := p.callbackAgent(ctx, lead, ofCampaign)
	if !ok {
		return true
	}
	var listing *gate.Listing
	var turn *rateTurn
	for ctx.Err() == nil {
		err := p.originator.CanOriginate()
		if err == nil && turn == nil {
			asked := time.Now()
			listing = p.listing(ctx, lead)
			until = until.Add(time.Since(asked))
			turn = p.s.rates.turn(p.Tenant, p.served)
			defer turn.leave()
			queued, ok := p.awaitTurn(ctx, until, turn.enter)
			if !ok {
				return false
			}
			if queued {
				continue
			}
		}
		if err == nil {
			err = p.originate(ctx, lead, p.named(agent, ofCampaign), listing, turn.admitted)
		}
		var refusal *gate.RefusalError
		isRefusal := errors.As(err, &refusal)
		if isRefusal && turn != nil && refusal.Reason == gate.ReasonTrunkRate && time.Now().Before(until) {
			at := time.Now().Add(max(refusal.RetryAt.Sub(p.s.now()), time.Millisecond))
			if _, ok := p.awaitTurn(ctx, until, func(ctx context.Context) (bool, error) { return true, turn.refused(ctx, at) }); !ok {
				return false
			}
			continue
		}
		p.served = time.Now()
		switch {
		case err == nil:
			p.failures = 0
			return true
		case !isRefusal:
			p.backOff(ctx, "call can't be originated", err)
			return false
		case agent != ofCampaign && ofCallbackAgent(refusal):
			if !p.agentRefused(ctx, lead, refusal) {
				return true
			}
			agent = ofCampaign
		default:
			return p.refused(ctx, lead, refusal)
		}
	}
	return false
}

// named is the voice agent whom the gate is told of. Whom a flow begins with the gate asks it again: it may have changed since the plan was made.
func (p *pacer) named(agent, ofCampaign *uuid.UUID) *uuid.UUID {
	if p.byFlow && agent == ofCampaign {
		return nil
	}
	return agent
}

// awaitTurn waits for the pacer's turn among those who wait for a trunk's calls per second, until then; queued tells whether it had to.
func (p *pacer) awaitTurn(ctx context.Context, until time.Time, wait func(context.Context) (queued bool, err error)) (queued, ok bool) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	queued, err := wait(ctx)
	if err != nil || queued && !time.Now().Before(until) {
		p.idle = idleness{on: gate.ReasonTrunkRate}
		return queued, false
	}
	return queued, true
}

// ask asks the do-not-call registry about a lead's number.
func (p *pacer) ask(ctx context.Context, lead leads.Claimed) *gate.Listing {
	ctx, cancel := context.WithTimeout(ctx, gate.PlaceTimeout)
	defer cancel()
	return p.s.gate.Ask(ctx, p.Tenant, lead.Number)
}

// originate finishes what it began also when the pacer is being stopped: a commit that is cut off leaves it unknown
// whether the call was admitted, and its unit taken until the reconciliation finds it. admitted is told before the switch is asked, which the
// next admission needn't wait for, and of how many calls the trunks begin at once, or when the next.
func (p *pacer) originate(ctx context.Context, lead leads.Claimed, agent *uuid.UUID, listing *gate.Listing, admitted func(room int64, next time.Time)) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), gate.PlaceTimeout)
	defer cancel()
	adm, err := p.s.gate.AdmitListed(ctx, admission.Request{
		TenantID: p.Tenant, CampaignID: &p.Campaign, LeadID: &lead.ID, VoiceAgentID: agent, To: lead.Number, Claimant: p.Claimant,
		Purpose: admission.PurposeLead, Environment: string(campaigns.EnvironmentLive),
	}, listing)
	if err != nil {
		return err
	}
	terms := adm.Terms()
	if !terms.NextAt.IsZero() {
		terms.NextAt = time.Now().Add(max(terms.NextAt.Sub(p.s.now()), time.Millisecond))
	}
	admitted(terms.Room, terms.NextAt)
	call, err := p.originator.Originate(ctx, adm)
	if err == nil {
		p.book.dialed(call)
		p.begun++
	}
	return err
}

// refused decides over a lead that the gate sent back.
func (p *pacer) refused(ctx context.Context, lead leads.Claimed, refusal *gate.RefusalError) bool {
	p.log.DebugContext(ctx, "lead not dialed", "lead_id", lead.ID, "reason", refusal.Reason)
	if w, ok := waitOf(refusal); ok {
		p.idle = w
	}
	switch refusal.Fate() {
	case gate.FatePostponed:
		at := refusal.RetryAt
		if at.IsZero() {
			at = p.s.now().Add(time.Hour)
		}
		if refusal.Reason == gate.ReasonNumber {
			p.idle.until = at
			p.s.metrics.unusable.Inc()
			p.log.ErrorContext(ctx, "lead not dialed: its number doesn't match its stored hash", "lead_id", lead.ID, "tried_again_at", at)
		}
		p.postpone(ctx, lead, at)
		return true
	case gate.FateReleased:
		p.release(ctx, []leads.Claimed{lead})
		return true
	case gate.FateBacksOff:
		p.backOff(ctx, "no call can be made", refusal)
		return false
	case gate.FateStops:
		return false
	default:
		return false
	}
}

// release gives claimed leads back as they were, also when the pacer is being stopped.
func (p *pacer) release(ctx context.Context, list []leads.Claimed) {
	if len(list) == 0 {
		return
	}
	p.At = leads.Position{}
	ids := make([]uuid.UUID, len(list))
	for i, lead := range list {
		ids[i] = lead.ID
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	err := p.s.st.InTenant(ctx, p.Tenant, func(tx *store.Tx) error {
		return tx.Q.LeadsRelease(ctx, p.Tenant, ids, p.Claimant)
	})
	if err != nil {
		p.log.WarnContext(ctx, "releasing claimed leads failed, they wait until the claim expires", "leads", len(ids), "error", err)
	}
}

func (p *pacer) postpone(ctx context.Context, lead leads.Claimed, at time.Time) {
	err := p.s.st.InTenant(ctx, p.Tenant, func(tx *store.Tx) error {
		return tx.Q.LeadPostpone(ctx, db.LeadPostponeParams{
			TenantID: p.Tenant, ID: lead.ID, NextAttemptAt: at, Claimant: p.Claimant,
		})
	})
	if err != nil && ctx.Err() == nil {
		p.log.WarnContext(ctx, "postponing the lead failed, it waits until the claim expires", "lead_id", lead.ID, "error", err)
	}
}

// scrubBeside scrubs beside the pacer until what it returns is called.
func (p *pacer) scrubBeside(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var scrubbing sync.WaitGroup
	scrubbing.Go(func() { p.s.scrubs.Keep(ctx, p.Tenant, p.Campaign) })
	return func() {
		cancel()
		scrubbing.Wait()
	}
}
