package sim

import (
	"slices"
	"time"

	"github.com/ringmaster/ringmaster/dialer/pacing"
)

// Result is what one day came to. Durations are in seconds.
type Result struct {
	Mode          Mode     `json:"mode"`
	Seed          uint64   `json:"seed"`
	Dialed        int      `json:"dialed"`
	Answered      int      `json:"answered"`
	Connected     int      `json:"connected"`
	Abandoned     int      `json:"abandoned"`
	Utilisation   float64  `json:"utilisation"`    // share of the logged-in time in conversation and after-call work
	Talking       float64  `json:"talking"`        // share of the logged-in time in conversation
	AbandonTotal  float64  `json:"abandon_total"`  // abandoned / answered over the day
	AbandonWorst  float64  `json:"abandon_worst"`  // the highest in any 24 hours up to a moment, of 100 answers or more
	CallsPerHour  float64  `json:"calls_per_hour"` // connected calls per agent and logged-in hour
	WaitMean      float64  `json:"wait_mean_s"`    // of all who answered
	Wait95        float64  `json:"wait_p95_s"`     // 95th percentile
	WaitMax       float64  `json:"wait_max_s"`     //
	AgentIdleMean float64  `json:"agent_idle_s"`   // an agent's mean wait for a call
	FallbackShare float64  `json:"fallback_share"` // share of the plans made one call per agent by the abandon rate
	Inbound       int      `json:"inbound"`        // callers who called in
	InboundTaken  int      `json:"inbound_taken"`  // those of them whom an agent took
	InboundWait   float64  `json:"inbound_wait_s"` // mean of those
	InboundKept   float64  `json:"inbound_kept_s"` // mean wait of all who called in while an agent was ready, and kept for a call
	Paused        bool     `json:"paused"`         // the abandon rate has paused the campaign
	Shocks        []Shock  `json:"shocks,omitempty"`
	Series        []Sample `json:"series,omitempty"` // one a minute
}

// Summary is what several days of one mode came to: means, and the worst.
type Summary struct {
	Result
	AbandonMost float64 // the highest total of a day
	PausedDays  int
}

// Mean sums days up. The embedded result has means, but the longest wait and the worst 24 hours of all.
func Mean(days []Result) Summary {
	var s Summary
	for _, d := range days {
		s.Mode = d.Mode
		s.Dialed += d.Dialed
		s.Answered += d.Answered
		s.Connected += d.Connected
		s.Abandoned += d.Abandoned
		s.Utilisation += d.Utilisation
		s.Talking += d.Talking
		s.AbandonTotal += d.AbandonTotal
		s.CallsPerHour += d.CallsPerHour
		s.WaitMean += d.WaitMean
		s.Wait95 += d.Wait95
		s.AgentIdleMean += d.AgentIdleMean
		s.Inbound += d.Inbound
		s.InboundTaken += d.InboundTaken
		s.InboundWait += d.InboundWait
		s.InboundKept += d.InboundKept
		s.FallbackShare += d.FallbackShare
		s.AbandonWorst = max(s.AbandonWorst, d.AbandonWorst)
		s.AbandonMost = max(s.AbandonMost, d.AbandonTotal)
		s.WaitMax = max(s.WaitMax, d.WaitMax)
		if d.Paused {
			s.PausedDays++
		}
	}
	n := max(1, len(days))
	for _, sum := range []*int{&s.Dialed, &s.Answered, &s.Connected, &s.Abandoned, &s.Inbound, &s.InboundTaken} {
		*sum /= n
	}
	for _, sum := range []*float64{
		&s.Utilisation, &s.Talking, &s.AbandonTotal, &s.CallsPerHour, &s.WaitMean, &s.Wait95, &s.AgentIdleMean, &s.FallbackShare, &s.InboundWait, &s.InboundKept,
	} {
		*sum /= float64(n)
	}
	return s
}

// Sample is the state of a day at the end of a minute.
type Sample struct {
	At          time.Duration `json:"at"`
	Utilisation float64       `json:"utilisation"` // of this minute
	AbandonRate float64       `json:"abandon_rate"`
	Lines       float64       `json:"lines"`
	Ready       int           `json:"ready"`
	Away        int           `json:"away"`
}

// enough is the number of answered calls from which the worst rate is taken.
const enough = 100

// measure is what is counted during a day.
type measure struct {
	dialed, connected       int
	tally                   pacing.Tally
	handled, talked, absent time.Duration
	waits                   []float32 // seconds, of those who waited
	waitSum                 time.Duration
	plans, fallbacks        int
	visitors                int // taken
	visitorWaits            time.Duration
	visitorsKept            time.Duration // while an agent was kept for a call
	lines                   float64
	worst                   float64
	series                  []Sample
	sampled                 time.Duration // handled as of the last sample
}

func (m *measure) planned(p pacing.Plan) {
	m.plans++
	if p.Verdict != pacing.Go {
		m.fallbacks++
	}
	m.lines = p.Lines
}

func (m *measure) waited(d time.Duration) {
	if d > 0 {
		m.waits = append(m.waits, float32(d.Seconds()))
		m.waitSum += d
	}
}

func (m *measure) visitorWaited(d time.Duration) {
	m.visitors++
	m.visitorWaits += d
}

func (w *world) sample() {
	m := &w.measure
	if t := w.day.tally(w.now); t.Answered >= enough {
		m.worst = max(m.worst, t.Rate())
	}
	busy, away := m.handled, 0
	for i := range w.agents {
		switch a := &w.agents[i]; a.state {
		case agentTalking, agentWrappingUp:
			busy += w.now - a.since
		case agentAway:
			away++
		case agentReady:
		}
	}
	out := Sample{At: w.now, AbandonRate: m.tally.Rate(), Lines: m.lines, Ready: len(w.ready), Away: away}
	if here := len(w.agents) - away; here > 0 {
		out.Utilisation = min(1, (busy-m.sampled).Minutes()/float64(here))
	}
	m.sampled = busy
	m.series = append(m.series, out)
}

// result closes the day: what is under way counts as far as it has come.
func (w *world) result(mode Mode, seed uint64) Result {
	m := &w.measure
	for i := range w.agents {
		d := w.now - w.agents[i].since
		switch w.agents[i].state {
		case agentTalking:
			m.talked += d
			m.handled += d
		case agentWrappingUp:
			m.handled += d
		case agentAway:
			m.absent += d
		case agentReady:
		}
	}
	return w.summary(mode, seed)
}

func (w *world) summary(mode Mode, seed uint64) Result {
	m := &w.measure
	present := time.Duration(len(w.agents))*w.sc.Hours - m.absent
	out := Result{
		Mode: mode, Seed: seed, Dialed: m.dialed, Answered: m.tally.Answered, Connected: m.connected, Abandoned: m.tally.Abandoned,
		AbandonTotal: m.tally.Rate(), AbandonWorst: m.worst, Paused: w.paused, Shocks: w.shocks, Series: m.series,
	}
	if m.tally.Answered >= enough {
		out.AbandonWorst = max(out.AbandonWorst, w.day.tally(w.now).Rate())
	}
	if present > 0 {
		out.Utilisation = float64(m.handled) / float64(present)
		out.Talking = float64(m.talked) / float64(present)
		out.CallsPerHour = float64(m.connected) / present.Hours()
	}
	if m.connected > 0 {
		out.AgentIdleMean = (present - m.handled).Seconds() / float64(m.connected)
	}
	if out.Inbound, out.InboundTaken = int(w.visits), m.visitors; m.visitors > 0 {
		out.InboundWait = m.visitorWaits.Seconds() / float64(m.visitors)
		out.InboundKept = m.visitorsKept.Seconds() / float64(w.visits)
	}
	if m.plans > 0 {
		out.FallbackShare = float64(m.fallbacks) / float64(m.plans)
	}
	if n := m.tally.Answered; n > 0 {
		out.WaitMean = m.waitSum.Seconds() / float64(n)
		slices.Sort(m.waits)
		if behind := n - int(0.95*float64(n)); behind <= len(m.waits) && behind > 0 {
			out.Wait95 = float64(m.waits[len(m.waits)-behind])
		}
		if len(m.waits) > 0 {
			out.WaitMax = float64(m.waits[len(m.waits)-1])
		}
	}
	return out
}

// window counts over the last 24 hours, by the minute.
type window struct {
	minutes []pacing.Tally
	sum     pacing.Tally
	at      int // the minute that is being counted, since the day's beginning
}

const windowMinutes = 24 * 60

// newWindow makes the window of a simulation so long; one that is not longer than the window needs no minutes.
func newWindow(hours time.Duration) window {
	if hours <= windowMinutes*time.Minute {
		return window{}
	}
	return window{minutes: make([]pacing.Tally, windowMinutes)}
}

func (w *window) move(now time.Duration) {
	for minute := int(now / time.Minute); w.at < minute; {
		w.at++
		gone := &w.minutes[w.at%windowMinutes]
		w.sum.Answered -= gone.Answered
		w.sum.Abandoned -= gone.Abandoned
		*gone = pacing.Tally{}
	}
}

func (w *window) add(now time.Duration, answered, abandoned int) {
	w.sum.Answered += answered
	w.sum.Abandoned += abandoned
	if w.minutes != nil {
		w.move(now)
		w.minutes[w.at%windowMinutes].Answered += answered
		w.minutes[w.at%windowMinutes].Abandoned += abandoned
	}
}

func (w *window) tally(now time.Duration) pacing.Tally {
	if w.minutes != nil {
		w.move(now)
	}
	return w.sum
}
