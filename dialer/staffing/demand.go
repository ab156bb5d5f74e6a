package staffing

import (
	"slices"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/flow"
)

// Demand lists the skill sets, or single agents, that a campaign's calls can require: each call one of them. Which one is known only after
// the answer, so no more calls may be in progress than there are agents for each of them.
type Demand []acd.Want

// AnyAgent is what a call requires that is connected to an agent without a flow.
func AnyAgent() []flow.Ask { return []flow.Ask{{}} }

// DemandOf is the demand of a flow's asks. Where a call's variables name the queue or the agent, any of these agents' queues, or any of
// the agents, can be required.
func DemandOf(asks []flow.Ask, agents []acd.Member) Demand {
	var out Demand
	one := func(m acd.Member) { out = append(out, acd.Want{Agent: &m.ID}) }
	for _, ask := range asks {
		switch {
		case ask.AnyExtension:
			for _, m := range agents {
				one(m)
			}
		case ask.AnyQueue:
			var tags []string
			for _, m := range agents {
				tags = append(tags, m.Tags...)
			}
			slices.Sort(tags)
			out = append(out, acd.Want{})
			for _, tag := range slices.Compact(tags) {
				out = append(out, acd.Want{Tags: []string{tag}})
			}
		case ask.Extension != "":
			i := slices.IndexFunc(agents, func(m acd.Member) bool { return m.Extension == ask.Extension })
			if i < 0 {
				return nil // an agent who isn't logged in
			}
			one(agents[i])
		default:
			out = append(out, acd.Want{Tags: QueueSkills(ask.Queue, ask.Tags)})
		}
	}
	return out
}

// DefaultQueue is the queue of all agents; any other queue's name is a tag of its agents.
const DefaultQueue = "default"

// QueueSkills are the skills that a queue requires, with those that are required besides.
func QueueSkills(queue string, tags []string) []string {
	if queue == "" || queue == DefaultQueue {
		return tags
	}
	return append([]string{queue}, tags...)
}

// Scarcest is the skill set that the fewest agents have, and how many have it.
func (w Demand) Scarcest(agents []acd.Member) (out acd.Want, fewest int) {
	for i, want := range w {
		n := 0
		for _, m := range agents {
			if m.Fits(want) {
				n++
			}
		}
		if i == 0 || n < fewest {
			out, fewest = want, n
		}
	}
	return out, fewest
}

// Pools are the skill sets for which a campaign is allocated agents: those that the flow names. Where a call's variable names the queue or
// the agent there would be as many as agents; then it is the scarcest alone.
func (w Demand) Pools(asks []flow.Ask, scarcest acd.Want) Demand {
	if slices.ContainsFunc(asks, func(a flow.Ask) bool { return a.AnyQueue || a.AnyExtension }) {
		return Demand{scarcest}
	}
	return w
}

// Countable are the agents that a campaign's plan counts, of those who are allocated to it: those with the scarcest skill set, in no state
// more than there are for any other. For skill sets without a pool all of the tenant's agents count.
func (w Demand) Countable(asks []flow.Ask, scarcest acd.Want, allocated, agents []acd.Member) []acd.Member {
	parts := w.Pools(asks, scarcest)
	mine := parts.bounded(Qualified(scarcest, allocated), allocated)
	if len(parts) == len(w) {
		return mine
	}
	return w.bounded(mine, agents)
}

// Qualified are the agents who may take a caller with these requirements.
func Qualified(want acd.Want, agents []acd.Member) []acd.Member {
	var out []acd.Member
	for _, m := range agents {
		if m.Fits(want) {
			out = append(out, m)
		}
	}
	return out
}

// Ready is the number of ready agents for the skill set that has the fewest of them.
func (w Demand) Ready(agents []acd.Member) int {
	fewest := 0
	for i, want := range w {
		n := 0
		for _, m := range agents {
			if m.Ready && m.Fits(want) {
				n++
			}
		}
		if i == 0 || n < fewest {
			fewest = n
		}
	}
	return fewest
}

// bounded reduces a campaign's agents, who have the scarcest skill set, to what each of the others allows: in no state more agents than it
// has.
func (w Demand) bounded(mine, agents []acd.Member) []acd.Member {
	for _, want := range w {
		left := map[acd.Status]int{}
		for _, m := range agents {
			if m.Fits(want) {
				left[planState(m)]++
			}
		}
		var kept []acd.Member
		for _, m := range mine {
			if state := planState(m); left[state] > 0 {
				left[state]--
				kept = append(kept, m)
			}
		}
		mine = kept
	}
	return mine
}

// planState is an agent's state as a plan counts it; empty for one who is available but can't get a call yet.
func planState(m acd.Member) acd.Status {
	if m.Status == acd.Available && !m.Ready {
		return ""
	}
	return m.Status
}
