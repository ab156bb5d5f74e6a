package dialer

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/figures"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/pacing"
	"github.com/ringmaster/ringmaster/dialer/staffing"
	"github.com/ringmaster/ringmaster/dialer/voiceagents"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

const (
	// planEvery is how often calls for people are planned anew, at least.
	planEvery = time.Second
	// tellEvery bounds how often a pace is written that changes.
	tellEvery = 2 * time.Second
	// ratesEvery bounds how often the abandon rate is read anew, which sums the minutes of a day, however many callees answer.
	ratesEvery = time.Second
	// askEvery is how often a pacer without agents asks whether another controller has them.
	askEvery = 5 * time.Second
	// tellStep is a change of the lines per agent that is worth writing.
	tellStep = 0.1
)

// plan is what one round may do.
type plan struct {
	agent *uuid.UUID
	free  int
	wait  time.Duration // with free = 0: when to look again
	holds time.Duration // how long it is good for; 0: until it is worked off
	idle  idleness      // with free = 0: why
}

// sight is what a pacer reads in one transaction.
type sight struct {
	row    db.Campaign
	taker  campaigns.Target
	facts  db.GateFactsRow
	trunks []db.GateTrunksRow
	calls  []db.PacedCallsRow
	// rates is nil where nothing has changed since they were read; history where the planner knows it.
	rates   *figures.Tallies
	history *pacing.History
	// elsewhere: the agents whom callees may ask for are at work at another controller, and not here.
	elsewhere bool
	// hungry: there is something to dial. open: now is a time for that.
	hasLeads, open bool
	opensAt        time.Time
	// heard: callees can hear what they have to; lacks is the member that names what can't be fetched.
	heard bool
	lacks string
	// unscrubbed: there are leads that the registry hasn't cleared yet; known where none is to be dialed.
	unscrubbed bool
}

// plan looks at the campaign and decides how many leads to dial. The gate decides again for each call.
func (p *pacer) plan(ctx context.Context, now time.Time) (plan, error) {
	var seen sight
	err := p.s.st.InTenant(ctx, p.Tenant, func(tx *store.Tx) error {
		seen = sight{}
		return p.look(ctx, tx, now, &seen)
	})
	if err != nil {
		return plan{}, err
	}
	if p.exhausted {
		return plan{}, nil
	}
	p.learn(&seen)
	p.byFlow = seen.row.PostAnswerAction == string(campaigns.ActionRunFlow)
	switch {
	case seen.row.DialMode == string(campaigns.DialPreview):
		return plan{}, nil // agents ask for its leads
	case seen.taker.People:
		return p.planPeople(ctx, &seen, now)
	default:
		return p.planOthers(&seen, now), nil
	}
}

// look reads what a plan needs, in one round trip as long as the same voice agent takes the calls. A campaign that has nothing to dial and no
// calls costs two queries.
func (p *pacer) look(ctx context.Context, tx *store.Tx, now time.Time, seen *sight) error {
	working := p.book != nil && (!p.dry || len(p.book.calls) > 0) // else it is likely to be idle
	var wait db.LeadsWaitRow
	there, voiceAgent := true, p.taker
	asks := []func(*db.Queries) error{func(q *db.Queries) (err error) {
		seen.row, err = q.CampaignGet(ctx, p.Tenant, p.Campaign)
		if there = !errors.Is(err, store.ErrNotFound); !there {
			return nil
		}
		return err
	}}
	if p.dry {
		asks = append(asks, func(q *db.Queries) (err error) {
			wait, err = q.LeadsWait(ctx, p.Tenant, p.Campaign, now)
			return err
		})
	}
	if working {
		asks = append(asks, p.facts(ctx, seen, voiceAgent), p.trunks(ctx, seen), p.paced(ctx, seen))
	}
	var agent voiceagents.Look
	if voiceAgent != nil {
		asks = append(asks, agent.Read(ctx, p.Tenant, *voiceAgent))
	}
	if err := tx.Together(ctx, asks...); err != nil {
		return err
	}
	if !there || seen.row.Status != string(campaigns.StatusRunning) {
		p.exhausted = true
		return nil
	}
	if p.sated = seen.row.DialMode == string(campaigns.DialPreview); p.sated {
		seen.calls = nil
		return nil
	}
	seen.heard, seen.lacks = p.hears(seen.row, now)
	seen.hasLeads = seen.heard
	if p.dry && seen.heard {
		seen.hasLeads, seen.unscrubbed = wait.Waiting || len(p.stock.leads) > 0, wait.Unscrubbed
	}
	var err error
	if seen.taker, err = p.s.campaigns.TargetOfSeen(ctx, tx, seen.row, agent); err != nil {
		return err
	}
	p.taker = seen.taker.VoiceAgent
	if p.people != nil {
		p.people.Store(seen.taker.People)
	}
	idle := !seen.hasLeads && (p.book == nil || len(p.book.calls) == 0)
	p.sated = idle && seen.heard && !seen.unscrubbed
	if idle && !seen.taker.People {
		return nil
	}
	if p.book == nil || p.book.people != seen.taker.People {
		p.open(seen)
		working = false // its calls are others
	}
	if !idle {
		if err := p.lookAgain(ctx, tx, seen, working, voiceAgent); err != nil {
			return err
		}
		seen.open, seen.opensAt = p.s.gate.MayRing(
			seen.facts.TenantWindow, seen.facts.CampaignWindow, seen.facts.Holidays, now, campaigns.RingTimeout(seen.facts.RingTimeoutS),
		)
	}
	if seen.taker.People {
		return p.lookAtPeople(ctx, tx, now, seen)
	}
	return nil
}

// lookAgain reads what look has not read already, or for another voice agent.
func (p *pacer) lookAgain(ctx context.Context, tx *store.Tx, seen *sight, read bool, voiceAgent *uuid.UUID) error {
	facts := p.facts(ctx, seen, seen.taker.VoiceAgent)
	switch taker := seen.taker.VoiceAgent; {
	case !read:
		return tx.Together(ctx, facts, p.trunks(ctx, seen), p.paced(ctx, seen))
	case taker == nil && voiceAgent == nil, taker != nil && voiceAgent != nil && *taker == *voiceAgent:
		return nil
	default:
		return facts(tx.Q)
	}
}

func (p *pacer) facts(ctx context.Context, seen *sight, voiceAgent *uuid.UUID) func(*db.Queries) error {
	return func(q *db.Queries) (err error) {
		seen.facts, err = q.GateFacts(ctx, db.GateFactsParams{
			TenantID: p.Tenant, CampaignID: &p.Campaign, VoiceAgentID: voiceAgent, Node: p.s.cfg.NodeID,
		})
		return err
	}
}

func (p *pacer) trunks(ctx context.Context, seen *sight) func(*db.Queries) error {
	return func(q *db.Queries) (err error) {
		seen.trunks, err = store.TrunksInUse(ctx, q, p.Tenant)
		return err
	}
}

func (p *pacer) paced(ctx context.Context, seen *sight) func(*db.Queries) error {
	return func(q *db.Queries) (err error) {
		seen.calls, err = q.PacedCalls(ctx, db.PacedCallsParams{
			TenantID: p.Tenant, CampaignID: p.Campaign, Known: p.book.known(), AnsweredToo: p.book.people,
			FromID: store.IDFloor(time.Now().Add(-figures.LongestCall)),
		})
		return err
	}
}

// lookAtPeople reads what the planner begins with and what the guard goes by, and writes what the pace has become.
func (p *pacer) lookAtPeople(ctx context.Context, tx *store.Tx, now time.Time, seen *sight) error {
	if !p.seeded {
		h, err := paceHistory(ctx, tx, p.Tenant, p.Campaign, now)
		if err != nil {
			return err
		}
		seen.history = &h
	}
	if age := now.Sub(p.ratesAt); age >= time.Minute || p.ratesOld && age >= ratesEvery {
		kept, err := figures.Read(ctx, tx, p.Tenant, p.Campaign, now)
		if err != nil {
			return err
		}
		t := kept.Tallies()
		seen.rates = &t
	}
	if seen.hasLeads && now.Sub(p.askedAt) >= askEvery && !p.manned {
		p.askedAt = now
		if err := p.lookElsewhere(ctx, tx, seen); err != nil {
			return err
		}
	}
	if p.telling == nil {
		return nil
	}
	return tx.Q.PaceSet(ctx, db.PaceSetParams{
		TenantID: p.Tenant, CampaignID: p.Campaign, Node: p.s.cfg.NodeID, Mode: string(p.telling.Mode),
		LinesPerAgent: p.telling.LinesPerAgent, At: now,
	})
}

// lookElsewhere finds out whether the agents whom the campaign's callees may ask for are at work at another controller.
func (p *pacer) lookElsewhere(ctx context.Context, tx *store.Tx, seen *sight) error {
	rows, err := tx.Q.AgentsAtWork(ctx, p.Tenant)
	if err != nil {
		return err
	}
	var here, elsewhere []acd.Member
	for _, r := range rows {
		m := acd.Member{ID: r.ID, Tags: r.Tags}
		if r.Extension != nil {
			m.Extension = *r.Extension
		}
		if r.Node == p.s.cfg.NodeID {
			here = append(here, m)
		} else {
			elsewhere = append(elsewhere, m)
		}
	}
	_, atWork := staffing.DemandOf(seen.taker.Demands, here).Scarcest(here)
	_, there := staffing.DemandOf(seen.taker.Demands, elsewhere).Scarcest(elsewhere)
	seen.elsewhere = there > 0 && atWork == 0
	return nil
}

// open begins the book and the planner of a campaign.
func (p *pacer) open(seen *sight) {
	p.book = newCallBook(p.s.cfg.NodeID, seen.taker.People)
	p.ramp = newRamp()
	p.planner, p.planned, p.seeded, p.ratesOld = nil, pacing.Config{}, !seen.taker.People, true
}

// learn takes what was read into account.
func (p *pacer) learn(seen *sight) {
	if p.book == nil || seen.row.DialMode == string(campaigns.DialPreview) {
		return
	}
	if seen.taker.People {
		p.configure(seen)
	}
	if seen.rates != nil {
		p.rates, p.ratesOld, p.ratesAt = *seen.rates, false, p.s.now()
	}
	for _, f := range p.book.read(seen.calls) {
		switch f.kind {
		case factAnswered, factMachine, factAbandoned:
			p.ratesOld = true
		case factUnanswered, factWanted, factConnected, factGone:
		}
		p.ramp.take(f)
		if p.planner == nil || !f.own {
			continue
		}
		switch f.kind {
		case factWanted:
			p.planner.Answered(f.answered.Sub(f.dialed))
		case factUnanswered:
			p.planner.Unanswered(f.at.Sub(f.dialed))
		case factMachine:
			if !f.wanted {
				p.planner.Unanswered(f.answered.Sub(f.dialed))
			}
		case factAnswered, factConnected, factAbandoned, factGone:
		}
	}
}

// configure keeps the planner at the campaign's settings.
func (p *pacer) configure(seen *sight) {
	row := seen.row
	cfg := pacing.Config{
		// Where nobody at all may be abandoned, nobody is dialed ahead of a free agent.
		Predictive:    row.DialMode == string(campaigns.DialPredictive) && !row.PredictivePaused && row.PredictiveTargetAbandon > 0,
		TargetAbandon: row.PredictiveTargetAbandon, MaxWait: campaigns.InTime(row), RingTimeout: time.Duration(row.RingTimeoutS) * time.Second,
	}
	switch {
	case p.planner == nil:
		p.planner = pacing.New(cfg)
	case cfg != p.planned:
		p.planner.Configure(cfg)
	}
	p.planned = cfg
	if seen.history != nil {
		p.planner.Seed(*seen.history)
		p.seeded = true
	}
}

// planPeople plans the calls of a campaign whose callees talk to people.
func (p *pacer) planPeople(ctx context.Context, seen *sight, now time.Time) (plan, error) {
	out := plan{wait: min(p.s.cfg.Poll, planEvery), holds: planEvery}
	if p.s.cfg.Agents == nil {
		out.idle.on = gate.ReasonLogin
		return out, nil
	}
	members := p.crew(now)
	asked := staffing.DemandOf(seen.taker.Demands, members)
	want, fits := asked.Scarcest(members)
	manned := fits > 0
	p.parts = asked.Pools(seen.taker.Demands, want)
	fit := staffing.Qualified(want, members)
	p.others.Observe(now, fit, p.agents)
	p.watch(members)
	if p.manned = manned; seen.elsewhere && !manned {
		p.log.InfoContext(ctx, "campaign left to the controller that has its agents")
		p.yielded = true
		return out, nil
	}
	hungry := seen.hasLeads && seen.open
	members = staffing.AvailableTo(p.Campaign, members)
	dealt := p.s.crews.Allocate(p.Tenant, p.Campaign, hungry && manned, p.parts, members)
	mine := asked.Countable(seen.taker.Demands, want, dealt, members)
	state := p.stateOf(mine, members, now)
	wanted, waiting := p.wanted(members)
	state.KeptFrom = len(wanted)
	state.Ahead = staffing.CallersAhead(waiting, p.book.waits, seen.taker.Demands, mine, members)
	state.Arrivals = p.others.PerSecond(now, len(mine), len(fit))
	var tightest idleness
	if hungry {
		state.Room, tightest = p.channelRoom(seen, 2*len(mine)+len(state.Ringing), leads.ClaimBatch, now)
	} else {
		p.s.shares.Leave(p.Tenant, p.Campaign)
	}
	planned := p.planner.Plan(state)
	p.s.metrics.plans.WithLabelValues(string(planned.Mode), string(planned.Verdict)).Inc()
	if planned.Verdict == pacing.Pause {
		return out, p.s.pauseForAbandons(ctx, p.Tenant, p.Campaign, p.rates)
	}
	p.reserve(&planned, dealt, members, wanted, now)
	p.told(planned, state, now)
	switch {
	case !hungry:
		out.idle = p.idleFor(seen, now)
	case !manned:
		out.idle.on = gate.ReasonLogin
	default:
		out.idle = p.idleForPeople(planned, state, mine, tightest)
	}
	out.free = planned.Dial
	return out, nil
}

// told makes a plan known: to the gate, to the metrics, and to whoever asks for the campaign's figures.
func (p *pacer) told(planned pacing.Plan, state pacing.State, now time.Time) {
	mode := campaigns.DialProgressive
	if planned.Mode == pacing.Predictive {
		mode = campaigns.DialPredictive
	}
	c := campaignPace{
		tenant: p.Tenant, mode: mode, lines: planned.Lines, ready: state.Ready, until: now.Add(paceHolds), rate: p.rates.Day.Rate(),
		bound: len(state.Ringing) + state.Waiting + planned.Dial, heldBack: planned.HeldBack,
	}
	p.s.paces.set(p.Campaign, c)
	if p.telling != nil { // it was written
		p.written, p.writtenAt, p.telling = *p.telling, now, nil
	}
	shown := c.shown()
	if shown.Mode != p.written.Mode || math.Abs(shown.LinesPerAgent-p.written.LinesPerAgent) >= tellStep && now.Sub(p.writtenAt) >= tellEvery {
		p.telling = &shown
	}
}

// planOthers plans the calls of a campaign whose callees talk to a voice agent, or to nobody.
func (p *pacer) planOthers(seen *sight, now time.Time) plan {
	switch {
	case !seen.hasLeads:
		p.s.shares.Leave(p.Tenant, p.Campaign)
		return plan{idle: p.idleFor(seen, now)}
	case !seen.open:
		p.s.shares.Leave(p.Tenant, p.Campaign)
		return plan{wait: min(seen.opensAt.Sub(now), p.s.cfg.Poll), idle: p.idleFor(seen, now)}
	}
	limit := math.MaxInt32
	if seen.taker.VoiceAgent != nil {
		limit = int(seen.facts.AgentMax)
	}
	free, tightest := p.channelRoom(seen, limit, leads.ClaimBatch, now)
	if agent := seen.taker.VoiceAgent; agent != nil {
		slots := int(int64(seen.facts.AgentMax) - seen.facts.AgentUsed)
		if n := p.s.shares.Room(p.Tenant, p.Campaign, *agent, slots); n < free {
			free, tightest = n, idleness{on: gate.ReasonAgentCeiling}
		}
	}
	ringing, _ := p.book.onTheWay(nil)
	out := plan{agent: seen.taker.VoiceAgent, free: p.ramp.room(now, len(ringing), free)}
	if free <= 0 {
		out.idle = tightest
	}
	return out
}

// channelRoom is how many calls more the campaign may begin under its ceilings and its share of the account's channels, at most
// most, and which of them is the tightest. limit is how many calls it has use for.
func (p *pacer) channelRoom(seen *sight, limit, most int, now time.Time) (free int, tightest idleness) {
	f := seen.facts
	if f.CampaignMax != nil {
		limit = min(limit, int(*f.CampaignMax))
	}
	st := staffing.Usage{Used: int(f.CampaignUsed), Limit: limit}
	if seen.taker.VoiceAgent != nil {
		st.VoiceAgent = *seen.taker.VoiceAgent
	}
	p.s.shares.Set(p.Tenant, p.Campaign, st)
	free, tightest = room(f, seen.trunks, seen.taker.VoiceAgent != nil, now)
	free = min(most, free)
	if len(seen.trunks) > 0 {
		if n := p.s.shares.Room(p.Tenant, p.Campaign, uuid.Nil, int(gate.Channels(seen.trunks)-f.ChannelsUsed)); n < free {
			free, tightest = n, idleness{on: gate.ReasonChannels}
		}
	}
	return free, tightest
}

// rest gives up the campaign's part of what it shares, while it can't dial.
func (p *pacer) rest() {
	p.s.crews.Release(p.Tenant, p.Campaign)
	p.s.shares.Leave(p.Tenant, p.Campaign)
}

// room is the number of calls that the tightest ceiling leaves, a voice agent's when one takes the calls, and which one that is.
func room(f db.GateFactsRow, trunks []db.GateTrunksRow, voiceAgent bool, now time.Time) (n int, tightest idleness) {
	free := int64(leads.ClaimBatch)
	bound := func(n int64, by gate.Reason) {
		if n < free {
			free, tightest = n, idleness{on: by}
		}
	}
	if voiceAgent {
		bound(int64(f.AgentMax)-f.AgentUsed, gate.ReasonAgentCeiling)
	}
	if f.CampaignMax != nil {
		bound(int64(*f.CampaignMax)-f.CampaignUsed, gate.ReasonCampaignCeiling)
	}
	if len(trunks) == 0 {
		if f.CampaignMax == nil {
			bound(gate.FallbackChannels-f.CampaignUsedHere, gate.ReasonFallback)
		}
		return int(free), tightest
	}
	var inTrunks int64
	var tried *time.Time // when the first of the trunks that rest is tried
	resting := 0
	for _, t := range trunks {
		n := max(0, int64(t.MaxChannels)-t.ChannelsUsed)
		if t.RestsUntil != nil {
			resting++
			if tried == nil || t.RestsUntil.Before(*tried) {
				tried = t.RestsUntil
			}
			if n = min(n, 1); now.Before(*t.RestsUntil) {
				n = 0
			}
		}
		inTrunks += n
	}
	bound(gate.Channels(trunks)-f.ChannelsUsed, gate.ReasonChannels)
	bound(inTrunks, gate.ReasonTrunkChannels)
	if inTrunks == 0 && tightest.on == gate.ReasonTrunkChannels && resting == len(trunks) {
		tightest = idleness{gate.ReasonTrunkFailures, *tried}
	}
	return int(free), tightest
}
