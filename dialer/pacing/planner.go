package pacing

import (
	"math"
	"time"
)

// The bounds of the abandon rate. Nothing configures them away.
const (
	// Cap is what the abandon rate must not exceed.
	Cap = 0.03
	// FallbackAt is the rate at which the planner dials one call per ready agent until the rate has come down.
	FallbackAt = 0.027
	// PauseAt is the rate at which the campaign has to be paused.
	PauseAt = 0.029
)

// Config is what the planner must know of its campaign.
type Config struct {
	// Predictive lets the planner over-dial; without it there is one call per ready agent.
	Predictive bool
	// TargetAbandon is the share of the calls answered by a person that may be abandoned; 0 and more than Cap mean Cap.
	TargetAbandon float64
	// MaxWait is how long a person who has answered waits for an agent.
	MaxWait time.Duration
	// RingTimeout is how long a call rings at most.
	RingTimeout time.Duration
}

// Mode is how a plan came about.
type Mode string

// The modes of a plan.
const (
	Progressive Mode = "progressive" // one call per ready agent
	Predictive  Mode = "predictive"  // by the model
)

// Verdict is what the abandon rate says of over-dialing.
type Verdict string

// The verdicts of a plan.
const (
	Go       Verdict = "go"       // over-dial as the model says
	Fallback Verdict = "fallback" // one call per ready agent until the rate has come down
	Pause    Verdict = "pause"    // pause the campaign
)

// Tally counts calls answered by a person, and those of them that were abandoned.
type Tally struct {
	Answered  int
	Abandoned int
}

// Rate is the abandon rate, 0 while nobody has answered.
func (t Tally) Rate() float64 {
	if t.Answered <= 0 {
		return 0
	}
	return float64(t.Abandoned) / float64(t.Answered)
}

// State is the campaign at the moment of a plan. Ages tell for how long something has lasted.
type State struct {
	// Ready is the number of agents who could take a call now.
	Ready int
	// KeptFrom is the number of other callers who wait and would have one of these now, were they not kept for the campaign's calls.
	KeptFrom int
	// Talking has the age of the conversation of each agent who will be back when it ends.
	Talking []time.Duration
	// WrappingUp has the age of each agent's after-call work.
	WrappingUp []time.Duration
	// Ringing has the age of each call that was dialed and is neither answered nor ended.
	Ringing []time.Duration
	// Waiting is the number of persons who have answered and wait for an agent. Listening is how many of these ask for nobody yet, and
	// may never do: for them no agent is kept.
	Waiting, Listening int
	// Ahead is the number of other callers, inbound ones or another campaign's, who wait for these agents and come first. Those who are
	// ready now don't suit them, or they had one. Not of those whom KeptFrom counts.
	Ahead int
	// Arrivals is how many of these agents such callers take in a second.
	Arrivals float64
	// Day counts the last 24 hours, Total all since the campaign's start.
	Day, Total Tally
	// Room is how many calls the ceilings leave; a plan dials no more.
	Room int
}

// Plan is what to do now.
type Plan struct {
	// Dial is the number of calls to dial now.
	Dial int
	// Keep is how many agents are to be kept for the campaign's calls, of those who are ready, if there are so many: no other caller is
	// given one of them. When a call has ended its agent is let go before the next State is read: so whoever waits has the agent before
	// another call is dialed.
	Keep int
	// HeldBack is set when agents are ready, nothing is under way, and nothing is dialed: other callers are too likely to take them.
	HeldBack bool
	// Lines is the number of calls under way per agent when these are dialed.
	Lines   float64
	Mode    Mode
	Verdict Verdict
}

// Planner decides how many calls one campaign dials. It keeps no time: it learns from what it is told and plans for the
// state it is given. Not for concurrent use.
type Planner struct {
	cfg    Config
	ring   ringModel
	talk   hazard
	wrap   hazard
	change changeDetector
	view   view
	table  *normal

	answers, talks float64 // observations, up to known
	stale          int     // observations since the view was built
	fresh          bool    // the view was built for this plan
	peak           float64 // the highest answer rate of late

	limit    float64 // natural logarithm of the limit of the marginal risk, without the credit's part
	free     bool    // the last plan was the limit's, not the guard's
	counted  Tally   // Total as of the last plan
	begun    bool    // counted is set
	fallback bool
	paused   bool
}

// New makes the planner of a campaign that has no history.
func New(cfg Config) *Planner {
	p := &Planner{
		talk: newHazard(usualTalk), wrap: newHazard(usualWrapUp), table: newNormal(), limit: math.Log(firstLimit),
	}
	p.Configure(cfg)
	return p
}

// Configure takes changed settings. What was learned stays, unless the ring time-out is another one.
func (p *Planner) Configure(cfg Config) {
	if cfg.TargetAbandon <= 0 || cfg.TargetAbandon > Cap {
		cfg.TargetAbandon = Cap
	}
	if cfg.RingTimeout <= 0 {
		cfg.RingTimeout = usualRingTimeout
	}
	cfg.MaxWait = max(cfg.MaxWait, 0)
	if cfg.RingTimeout != p.cfg.RingTimeout {
		p.ring = newRingModel(cfg.RingTimeout)
		p.change, p.view = changeDetector{}, view{}
		p.answers, p.peak = 0, 0
	}
	p.cfg = cfg
	p.stale = rebuildAlways
}

// Answered learns of a call that was answered and wants an agent, after so much ringing: a machine, too, that an agent had before anybody knew. How
// long such calls keep agents is learned with all others (Talked).
func (p *Planner) Answered(after time.Duration) { p.rang(after, true) }

// Unanswered learns of a call that ended without wanting an agent: not answered, refused, or taken by a machine that was known
// before an agent had it.
func (p *Planner) Unanswered(after time.Duration) { p.rang(after, false) }

func (p *Planner) rang(after time.Duration, answered bool) {
	p.ring.observe(after.Seconds(), answered)
	if len(p.view.ringing) > 0 {
		p.change.ended(p.view.of(after).expected, answered)
	}
	if answered {
		p.answers = min(p.answers+1, known)
		p.peak *= peakKeep
	}
	p.stale++
}

// Talked learns of a conversation's length.
func (p *Planner) Talked(d time.Duration) {
	p.talk.observe(d.Seconds())
	p.talks = min(p.talks+1, known)
	p.stale++
}

// WrappedUp learns how long an agent's after-call work took; 0 when the agent was ready at once.
func (p *Planner) WrappedUp(d time.Duration) {
	p.wrap.observe(d.Seconds())
	p.stale++
}

// Ring is the end of one call's ringing.
type Ring struct {
	After    time.Duration
	Answered bool
}

// History is the recent past of a campaign, oldest first.
type History struct {
	Rings   []Ring
	Talks   []time.Duration
	WrapUps []time.Duration
}

// Seed restores the model of a campaign that was paced before. The abandoned calls come with each State.
func (p *Planner) Seed(h History) {
	for _, r := range h.Rings {
		p.rang(r.After, r.Answered)
	}
	for _, d := range h.Talks {
		p.Talked(d)
	}
	for _, d := range h.WrapUps {
		p.WrappedUp(d)
	}
	p.change = changeDetector{}
	p.stale = rebuildAlways
}

// Plan decides how many calls to dial now. It is due every second and at every change of the state.
func (p *Planner) Plan(s State) Plan {
	plan := Plan{Mode: Progressive, Verdict: Go}
	agents := s.Ready + len(s.Talking) + len(s.WrappingUp)
	keeps := p.keeps(s, agents)
	s.Ready = max(0, s.Ready-s.KeptFrom)
	idle := s.Ready - len(s.Ringing) - s.Waiting
	dial := idle
	if p.cfg.Predictive {
		p.adapt(s)
	}
	if verdict := p.judge(s); p.cfg.Predictive || verdict == Pause { // one call per agent finds nobody when others take the agents
		plan.Verdict = verdict
	}
	if p.cfg.Predictive || s.Arrivals > 0 && !keeps {
		if p.stale >= rebuildAfter+int(p.answers) {
			p.rebuild(s)
		}
		f := p.forecast(s)
		if s.Arrivals > 0 && !keeps {
			dial = p.heldBack(&f, dial)
		}
		if p.cfg.Predictive && plan.Verdict == Go && s.KeptFrom == 0 {
			plan.Mode = Predictive
			dial = max(dial, p.overdial(s, &f, agents))
		}
	}
	if plan.Verdict == Pause || agents == 0 {
		dial = 0
	}
	plan.HeldBack = dial <= 0 && idle == s.Ready && idle > 0 && s.Room > 0 && plan.Verdict != Pause
	plan.Dial = max(0, min(dial, s.Room))
	if keeps {
		plan.Keep = len(s.Ringing) + s.Waiting - s.Listening + plan.Dial
	}
	if agents > 0 {
		plan.Lines = float64(len(s.Talking)+s.Waiting+len(s.Ringing)+plan.Dial) / float64(agents)
	}
	return plan
}

// overdial is the largest number of calls that keeps the risk of the last one below the limit, and the guard content.
func (p *Planner) overdial(s State, f *forecast, agents int) int {
	p.free = false
	room := min(s.Room, maxLines*agents-len(s.Ringing), maxAtOnce)
	limit, spare, slack := p.marginalLimit(s), p.spare(s), p.slack(s)
	if spare < 1 {
		return 0
	}
	n := 0
	for n < room && f.risk(n) <= limit {
		if f.unlucky(n+1) > spare || f.deserted(n+1) > slack {
			return n
		}
		n++
	}
	p.free = true
	return n
}
