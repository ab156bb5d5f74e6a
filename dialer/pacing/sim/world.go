package sim

import (
	"math/rand/v2"
	"time"

	"github.com/ringmaster/ringmaster/dialer/pacing"
)

const (
	// replan is the least time between two plans: state changes that come together are planned for together.
	replan = 500 * time.Millisecond
	// tick is the longest time between two plans.
	tick = time.Second
	// congested is how long a call takes to fail that the carrier has no line for.
	congested = time.Second
	// idCalls bounds the calls under way at once.
	idCalls = 1 << 20
)

// The streams of random numbers of a seed.
const (
	streamCalls = iota + 1
	streamTalks
	streamShocks
	streamAgents
	streamInbound
	streamMachines
)

type agentState uint8

const (
	agentReady agentState = iota
	agentTalking
	agentWrappingUp
	agentAway
)

type agent struct {
	state   agentState
	leaving bool // logs off after the call, and nobody knows it yet
	inbound bool // the call is one that came in
	machine bool // the callee is one
	since   time.Duration
}

// call is one under way; its slot is used again after its end.
type call struct {
	dialed  time.Duration
	answer  time.Duration
	giveUp  time.Duration
	ringing int // index in world.ringing
	waiting bool
	machine bool
	verdict time.Duration
}

// world is a day in progress.
type world struct {
	sc      Scenario
	shocks  []Shock
	planner *pacing.Planner
	calls   *rand.Rand
	talks   *rand.Rand
	people  *rand.Rand
	inbound *rand.Rand
	tapes   *rand.Rand

	now     time.Duration
	queue   queue
	agents  []agent
	ready   []int32 // longest ready first
	active  []call
	free    []int32
	ringing []int32
	waiting []int32   // longest waiting first
	lobby   []visitor // inbound callers, longest waiting first
	visits  int32
	others  pacing.Arrivals
	kept    int // of those who are ready, for the campaign's calls alone

	planAt  time.Duration // when the queued plan is due
	lastAt  time.Duration
	paused  bool
	stay    pacing.State
	day     window
	measure measure
}

// Run simulates one day. It is decided by the scenario, the mode and the seed alone.
func Run(sc Scenario, mode Mode, seed uint64) Result {
	if mode == Oracle {
		return runOracle(sc, seed)
	}
	w := newWorld(sc, mode, seed)
	for len(w.queue) > 0 {
		e := w.queue.pop()
		if e.at > sc.Hours {
			break
		}
		w.pass(e.at)
		w.happen(e)
	}
	w.pass(sc.Hours)
	return w.result(mode, seed)
}

func newWorld(sc Scenario, mode Mode, seed uint64) *world {
	w := &world{
		sc: sc, shocks: sc.shocks(seed),
		planner: pacing.New(pacing.Config{
			Predictive: mode == Predictive, TargetAbandon: sc.TargetAbandon, MaxWait: sc.MaxWait, RingTimeout: sc.RingTimeout,
		}),
		calls: rand.New(rand.NewPCG(seed, streamCalls)), talks: rand.New(rand.NewPCG(seed, streamTalks)),
		people: rand.New(rand.NewPCG(seed, streamAgents)), inbound: rand.New(rand.NewPCG(seed, streamInbound)),
		tapes:  rand.New(rand.NewPCG(seed, streamMachines)),
		agents: make([]agent, sc.Agents),
		lastAt: -replan,
	}
	w.day = newWindow(sc.Hours)
	w.stay.Room = idCalls
	for i := range w.agents {
		w.ready = append(w.ready, int32(i)) //nolint:gosec // bounded by Validate
	}
	for i, s := range w.shocks {
		if s.Kind == AgentsLeave {
			w.queue.push(event{at: s.At, kind: eventLeave, who: int32(i)})          //nolint:gosec // a handful
			w.queue.push(event{at: s.At + s.For, kind: eventReturn, who: int32(i)}) //nolint:gosec // a handful
		}
	}
	w.queue.push(event{kind: eventPlan})
	w.queue.push(event{at: time.Minute, kind: eventSample})
	w.nextVisitor()
	return w
}

func (w *world) happen(e event) {
	switch e.kind {
	case eventAnswer:
		w.answered(e.who)
	case eventNoAnswer:
		c := &w.active[e.who]
		w.planner.Unanswered(w.now - c.dialed)
		w.stopRinging(e.who)
		w.free = append(w.free, e.who)
	case eventGiveUp:
		w.giveUp(e)
	case eventTalked:
		w.talked(e.who)
	case eventWrappedUp:
		a := &w.agents[e.who]
		if !a.inbound {
			w.planner.WrappedUp(w.now - a.since)
		}
		w.measure.handled += w.now - a.since
		w.freed(e.who)
	case eventLeave:
		w.leave(w.shocks[e.who].Size)
	case eventReturn:
		w.comeBack()
	case eventCallIn:
		w.callIn()
	case eventHangUp:
		w.hangUp(e.who)
	case eventPlan:
		if e.at == w.planAt {
			w.plan()
		}
		return
	case eventSample:
		w.sample()
		w.queue.push(event{at: w.now + time.Minute, kind: eventSample})
		return
	}
	w.changed()
}

// changed sees to a plan for the state as it is now.
func (w *world) changed() {
	if at := max(w.now, w.lastAt+replan); at < w.planAt {
		w.planAt = at
		w.queue.push(event{at: at, kind: eventPlan})
	}
}

func (w *world) plan() {
	w.lastAt, w.planAt = w.now, w.now+tick
	w.queue.push(event{at: w.planAt, kind: eventPlan})
	w.keep(min(w.kept, len(w.ringing)+len(w.waiting)))
	w.look()
	plan := w.planner.Plan(w.stay)
	w.measure.planned(plan)
	w.keep(plan.Keep)
	if plan.Verdict == pacing.Pause {
		w.paused = true
	}
	if w.paused {
		return
	}
	for range plan.Dial {
		w.dial()
	}
}

// look brings the planner's view of the day up to date.
func (w *world) look() {
	s := &w.stay
	s.Talking, s.WrappingUp, s.Ringing = s.Talking[:0], s.WrappingUp[:0], s.Ringing[:0]
	for i := range w.agents {
		a := &w.agents[i]
		switch a.state {
		case agentTalking:
			s.Talking = append(s.Talking, w.now-a.since)
		case agentWrappingUp:
			s.WrappingUp = append(s.WrappingUp, w.now-a.since)
		case agentReady, agentAway:
		}
	}
	for _, id := range w.ringing {
		s.Ringing = append(s.Ringing, w.now-w.active[id].dialed)
	}
	s.Ready, s.Waiting, s.Arrivals = len(w.ready), len(w.waiting), w.others.PerSecond(w.now)
	s.KeptFrom = min(len(w.lobby), len(w.ready))
	s.Ahead = len(w.lobby) - s.KeptFrom
	s.Day, s.Total = w.day.tally(w.now), w.measure.tally
}

func (w *world) dial() {
	w.measure.dialed++
	id := int32(len(w.active)) //nolint:gosec // bounded by idCalls
	if n := len(w.free); n > 0 {
		id = w.free[n-1]
		w.free = w.free[:n-1]
	} else {
		w.active = append(w.active, call{})
	}
	w.active[id] = call{dialed: w.now, ringing: len(w.ringing)}
	w.ringing = append(w.ringing, id)
	after, answered := draw(&w.sc, w.shocks, w.calls, w.now)
	kind := eventNoAnswer
	if answered {
		kind = eventAnswer
	}
	w.queue.push(event{at: w.now + after, kind: kind, who: id})
}

// draw decides what becomes of a call that is dialed at this time.
func draw(sc *Scenario, shocks []Shock, r *rand.Rand, at time.Duration) (after time.Duration, answered bool) {
	luck, line := r.Float64(), r.Float64()
	rate := sc.AnswerRate
	for i := range shocks {
		if s := &shocks[i]; s.during(at) {
			switch s.Kind {
			case AnswerRate:
				rate *= s.Size
			case Congestion:
				if line < s.Size {
					return congested, false
				}
			case AgentsLeave:
			}
		}
	}
	if luck >= rate {
		return sc.RingTimeout, false
	}
	for range 100 {
		if after = sc.Ring.draw(r); after < sc.RingTimeout {
			return after, true
		}
	}
	return sc.RingTimeout - time.Millisecond, true
}

func (w *world) stopRinging(id int32) {
	i := w.active[id].ringing
	last := len(w.ringing) - 1
	w.ringing[i] = w.ringing[last]
	w.active[w.ringing[i]].ringing = i
	w.ringing = w.ringing[:last]
}

func (w *world) answered(id int32) {
	c := &w.active[id]
	w.planner.Answered(w.now - c.dialed)
	w.stopRinging(id)
	c.answer = w.now
	if w.sc.Machines > 0 && w.tapes.Float64() < w.sc.Machines {
		c.machine, c.verdict = true, w.now+w.sc.Verdict.draw(w.tapes)
	} else {
		w.measure.tally.Answered++
		w.day.add(w.now, 1, 0)
	}
	if len(w.ready) > 0 {
		w.connect(id)
		return
	}
	c.waiting = true
	w.waiting = append(w.waiting, id)
	c.giveUp = w.now + min(w.sc.Patience.draw(w.talks), w.sc.MaxWait)
	if c.machine {
		c.giveUp = c.verdict
	}
	w.queue.push(event{at: c.giveUp, kind: eventGiveUp, who: id})
}

func (w *world) giveUp(e event) {
	c := &w.active[e.who]
	if !c.waiting || c.giveUp != e.at {
		return // somebody else's, in the same slot
	}
	c.waiting = false
	for i, id := range w.waiting {
		if id == e.who {
			w.waiting = append(w.waiting[:i], w.waiting[i+1:]...)
			break
		}
	}
	if !c.machine {
		w.measure.tally.Abandoned++
		w.measure.waited(w.now - c.answer)
		w.day.add(w.now, 0, 1)
	}
	w.free = append(w.free, e.who)
}

// connect gives the person to the agent who has been ready for longest.
func (w *world) connect(id int32) {
	c := &w.active[id]
	w.free = append(w.free, id)
	w.kept = max(0, w.kept-1)
	if c.machine {
		w.take(c.verdict, agent{machine: true})
		return
	}
	w.measure.connected++
	w.measure.waited(w.now - c.answer)
	w.talk(false, w.talks)
}

// talk has the agent who has been ready for longest begin a conversation.
func (w *world) talk(inbound bool, r *rand.Rand) {
	w.take(w.now+w.sc.Talk.draw(r), agent{inbound: inbound})
}

// take has that agent be taken until a moment.
func (w *world) take(until time.Duration, by agent) {
	who := w.ready[0]
	w.ready = append(w.ready[:0], w.ready[1:]...)
	a := &w.agents[who]
	a.state, a.since, a.inbound, a.machine = agentTalking, w.now, by.inbound, by.machine
	w.queue.push(event{at: until, kind: eventTalked, who: who})
}

func (w *world) talked(who int32) {
	a := &w.agents[who]
	if !a.inbound {
		w.planner.Talked(w.now - a.since)
	}
	w.measure.handled += w.now - a.since
	if a.machine {
		w.planner.WrappedUp(0)
		w.freed(who)
		return
	}
	w.measure.talked += w.now - a.since
	a.state, a.since = agentWrappingUp, w.now
	w.queue.push(event{at: w.now + w.sc.WrapUp.draw(w.talks), kind: eventWrappedUp, who: who})
}

// freed brings an agent to the next person, to the ready ones, or home.
func (w *world) freed(who int32) {
	a := &w.agents[who]
	if a.leaving {
		a.leaving = false
		w.away(who)
		return
	}
	a.state, a.since = agentReady, w.now
	w.ready = append(w.ready, who)
	switch {
	case w.visitorFirst():
		w.admit()
	case len(w.waiting) > 0:
		id := w.waiting[0]
		w.waiting = append(w.waiting[:0], w.waiting[1:]...)
		w.active[id].waiting = false
		w.connect(id)
	}
}

func (w *world) away(who int32) {
	w.agents[who].state, w.agents[who].since = agentAway, w.now
}

// leave logs off a share of the agents: at once who is ready, the others after the call.
func (w *world) leave(share float64) {
	for _, i := range w.people.Perm(len(w.agents))[:int(share*float64(len(w.agents)))] {
		switch a := &w.agents[i]; a.state {
		case agentReady:
			for at, who := range w.ready {
				if int(who) == i {
					w.ready = append(w.ready[:at], w.ready[at+1:]...)
					break
				}
			}
			w.kept = min(w.kept, len(w.ready))
			w.away(int32(i)) //nolint:gosec // bounded by Validate
		case agentTalking, agentWrappingUp:
			a.leaving = true
		case agentAway:
		}
	}
}

func (w *world) comeBack() {
	for i := range w.agents {
		a := &w.agents[i]
		a.leaving = false
		if a.state == agentAway {
			w.measure.absent += w.now - a.since
			w.freed(int32(i)) //nolint:gosec // bounded by Validate
		}
	}
}
