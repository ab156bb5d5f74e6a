package dialer

import (
	"slices"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/flow"
)

// sought is whom a campaign's callees may ask for: each of them for one of these. Which one is known only once the callee has answered, so
// that no more calls may be on the way than agents are there for each of them.
type demand []acd.Want

// anybody is what a callee wants who is connected to an agent without a flow.
func anyAgent() []flow.Ask { return []flow.Ask{{}} }

// soughtOf tells whom a flow asks for. Where the call's variables name the queue or the agent, it may be any that these agents
// make up.
func demandOf(asks []flow.Ask, agents []acd.Member) demand {
	var out demand
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
				return nil // an agent who isn't at work
			}
			one(agents[i])
		default:
			out = append(out, acd.Want{Tags: queueSkills(ask.Queue, ask.Tags)})
		}
	}
	return out
}

// queueDefault is the queue of all agents; another queue's name is a tag that its agents carry.
const defaultQueue = "default"

// queueTags are the skills that a queue asks for, with those that are asked for besides.
func queueSkills(queue string, tags []string) []string {
	if queue == "" || queue == defaultQueue {
		return tags
	}
	return append([]string{queue}, tags...)
}

// scarcest is the want that the fewest agents fit, and how many those are; none when nobody at all can be asked for.
func (w demand) scarcest(agents []acd.Member) (out acd.Want, fewest int) {
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

// parts are the wants for each of which a campaign has a part of the agents for itself: those that the flow names. Where a call's
// variable names the queue or the agent they are as many as there are agents; then it has a part for the scarcest alone.
func (w demand) pools(asks []flow.Ask, scarcest acd.Want) demand {
	if slices.ContainsFunc(asks, func(a flow.Ask) bool { return a.AnyQueue || a.AnyExtension }) {
		return demand{scarcest}
	}
	return w
}

// dealt are the agents a campaign counts on, of those who were dealt to it: who fit the scarcest want, of no state more than there are for
// any other. Those for wants that it has no part for are the tenant's.
func (w demand) countable(asks []flow.Ask, scarcest acd.Want, dealt, agents []acd.Member) []acd.Member {
	parts := w.pools(asks, scarcest)
	mine := parts.bounded(qualified(scarcest, dealt), dealt)
	if len(parts) == len(w) {
		return mine
	}
	return w.bounded(mine, agents)
}

// fitting are the agents whom a caller who wants this may be given to.
func qualified(want acd.Want, agents []acd.Member) []acd.Member {
	var out []acd.Member
	for _, m := range agents {
		if m.Fits(want) {
			out = append(out, m)
		}
	}
	return out
}

// ready is the number of agents who are ready for the want that has the fewest of those.
func (w demand) ready(agents []acd.Member) int {
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

// spread bounds a campaign's agents, who fit the scarcest want, by those agents who fit each of the others: of no state are there more than
// for any of them.
func (w demand) bounded(mine, agents []acd.Member) []acd.Member {
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

// crewState is an agent's state as a plan counts it; empty for one who is available and can't be given a caller yet.
func planState(m acd.Member) acd.Status {
	if m.Status == acd.Available && !m.Ready {
		return ""
	}
	return m.Status
}
