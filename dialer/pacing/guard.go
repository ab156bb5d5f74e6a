package pacing

import "math"

const (
	// aim is the share of the target that is aimed at: below FallbackAt when the target is the cap.
	aim = 0.87
	// firstLimit is the limit of the marginal risk before the campaign has taught a better one.
	firstLimit = 0.12
	// The limit's bounds.
	lowestLimit, highestLimit = 0.002, 0.6
	// creditGain is how much one call of credit moves the limit's logarithm, creditDrift how much of that stays for each answered call.
	creditGain, creditDrift = 0.15, 0.002
	// fewAnswers is the number of answered calls below which the rate of so many is taken for a pause: two abandoned
	// calls of twenty are too few to judge by, and one call per agent brings the rate down by itself.
	fewAnswers = 100
	// resumeAt is the rate at which over-dialing begins again after a fallback.
	resumeAt = 0.0265
)

// judge compares the abandon rate with the bounds.
func (p *Planner) judge(s State) Verdict {
	if !p.cfg.Predictive {
		return Go
	}
	worst := max(s.Day.Rate(), s.Total.Rate())
	if s.Total.Abandoned > p.counted.Abandoned && max(cautious(s.Day), cautious(s.Total)) >= PauseAt {
		p.counted = s.Total
		p.fallback = true
		return Pause
	}
	p.counted = s.Total
	p.fallback = worst >= FallbackAt || p.fallback && worst >= resumeAt
	if p.fallback {
		return Fallback
	}
	return Go
}

// cautious is the rate that decides on a pause.
func cautious(t Tally) float64 {
	return float64(t.Abandoned) / float64(max(t.Answered, fewAnswers))
}

// credit is the number of calls that may still be abandoned before the rate is as aimed at; negative when it is above.
func (p *Planner) credit(s State) float64 {
	rate := aim * p.cfg.TargetAbandon
	return min(rate*float64(s.Day.Answered)-float64(s.Day.Abandoned), rate*float64(s.Total.Answered)-float64(s.Total.Abandoned))
}

// adapt moves the limit towards the one that uses the target up.
func (p *Planner) adapt(s State) {
	answered := s.Total.Answered - p.counted.Answered
	if answered <= 0 {
		return
	}
	p.limit += creditDrift * float64(answered) * max(-5, min(5, p.credit(s)))
	p.limit = max(math.Log(lowestLimit), min(math.Log(highestLimit), p.limit))
}

// marginalLimit is the risk that the next call to dial may bear of being abandoned once answered.
func (p *Planner) marginalLimit(s State) float64 {
	return min(highestLimit, math.Exp(p.limit+creditGain*max(-20, min(10, p.credit(s)))))
}

// spare is the number of calls that could all be abandoned with the rate still below the fallback's.
func spare(s State) float64 {
	one := func(t Tally) float64 {
		return math.Floor((FallbackAt*float64(t.Answered)-float64(t.Abandoned))/(1-FallbackAt) + 1e-9)
	}
	return min(one(s.Day), one(s.Total))
}
