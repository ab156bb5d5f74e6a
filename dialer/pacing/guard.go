package pacing

import "math"

const (
	// aim is the share of the target that is aimed at, guarded the share that the worst case must not pass: 2.6% and 2.7% when
	// the target is the cap.
	aim, guarded = 0.87, FallbackAt / Cap
	// resumeAt is the rate at which over-dialing begins again after a fallback.
	resumeAt = 0.0265
	// ManyAnswers is how many answers a rate needs before it says much. With fewer a handful of abandoned calls is bad luck that one call
	// per agent makes good soon, which a pause would keep from happening: from ManyAnswers on every abandoned call counts for a pause, below
	// it all but up to badLuck.
	ManyAnswers, badLuck = 1000, 3

	// firstLimit is the limit of the marginal risk before the campaign has taught a better one, then its bounds.
	firstLimit, lowestLimit, highestLimit = 0.04, 0.002, 0.6
	// creditGain is how much one unit of credit moves the limit's logarithm, creditDrift how much of that stays for each
	// answered call, mostCredit and mostDebt the bounds of the credit.
	creditGain, creditDrift, mostCredit, mostDebt = 0.7, 0.002, 3.0, 4.0
)

// judge compares the abandon rate with the bounds. A pause is due when one more call was abandoned at such a rate: a campaign
// that somebody starts again goes on with one call per agent.
func (p *Planner) judge(s State) Verdict {
	if !p.begun {
		p.begun, p.counted = true, s.Total
	}
	more := s.Total.Abandoned > p.counted.Abandoned
	p.counted = s.Total
	p.paused = p.paused || more && (pauseDue(s.Day) || pauseDue(s.Total))
	worst := max(s.Day.Rate(), s.Total.Rate())
	p.fallback = worst >= FallbackAt || p.fallback && worst >= resumeAt
	switch {
	case p.paused:
		return Pause
	case p.fallback:
		return Fallback
	default:
		return Go
	}
}

// pauseDue tells whether the campaign has to be paused.
func pauseDue(t Tally) bool {
	luck := badLuck * max(0, 1-float64(t.Answered)/ManyAnswers)
	return float64(t.Abandoned)-luck >= PauseAt*float64(max(1, t.Answered))
}

// spare is the number of calls that could all be abandoned with the rate still within the guard's share of the target.
func (p *Planner) spare(s State) float64 {
	rate := guarded * p.cfg.TargetAbandon
	one := func(t Tally) float64 {
		return math.Floor((rate*float64(t.Answered)-float64(t.Abandoned))/(1-rate) + 1e-9)
	}
	return min(one(s.Day), one(s.Total))
}

// slack is the number of calls that could all be abandoned before the campaign has to be paused.
func (p *Planner) slack(s State) float64 {
	rate := PauseAt / Cap * p.cfg.TargetAbandon
	one := func(t Tally) float64 { return (rate*float64(t.Answered) - float64(t.Abandoned)) / (1 - rate) }
	return min(one(s.Day), one(s.Total))
}

// credit is the number of calls that may still be abandoned before the rate is as aimed at, negative when it is above, in units
// of the number's own scatter.
func (p *Planner) credit(s State) float64 {
	rate := aim * p.cfg.TargetAbandon
	one := func(t Tally) float64 {
		expected := rate * float64(t.Answered)
		return (expected - float64(t.Abandoned)) / math.Sqrt(1+expected)
	}
	return max(-mostDebt, min(mostCredit, one(s.Day), one(s.Total)))
}

// adapt moves the limit towards the one that uses the target up, as long as it is the limit that decides.
func (p *Planner) adapt(s State) {
	answered := s.Total.Answered - p.counted.Answered
	if !p.begun || answered <= 0 || !p.free {
		return
	}
	p.limit += creditDrift * float64(answered) * p.credit(s)
	p.limit = max(math.Log(lowestLimit), min(math.Log(highestLimit), p.limit))
}

// marginalLimit is the risk of being abandoned once answered that the next call may bear.
func (p *Planner) marginalLimit(s State) float64 {
	return min(highestLimit, math.Exp(p.limit+creditGain*p.credit(s)))
}
