package dialer

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/pacing"
	"github.com/ringmaster/ringmaster/dialer/staffing"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// callsIn has somebody call in and ask for an agent. The first who takes the caller is told; they talk until over is closed.
func (p *people) callsIn(t *testing.T, req acd.Request) *talkLeg {
	t.Helper()
	id := storetest.NewID(t)
	storetest.Exec(t, p.st, p.tenant, `INSERT INTO calls (tenant_id, id, node, fs_uuid, direction, status, from_number, to_number, answer_time)
		VALUES ($1, $2::uuid, 'node-1', $2::uuid::text, 'inbound', 'answered', '+911', '+912', now())`, p.tenant, id)
	leg := &talkLeg{fakeLeg: fakeLeg{call: p.call(t, id)}, agent: make(chan uuid.UUID, 1), over: make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = p.agents.Connect(t.Context(), leg, req) // the test's end may be that of the wait
	}()
	t.Cleanup(func() {
		select {
		case <-leg.over:
		default:
			close(leg.over)
		}
		<-done
	})
	return leg
}

// waiting waits until so many callers wait for an agent.
func (p *people) waiting(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return len(p.agents.Waiting(p.tenant)) == n }, waitFor, every)
}

// answers has a callee answer, and whoever takes the call be told.
func (p *people) answers(t *testing.T, call db.Call) *talkLeg {
	t.Helper()
	storetest.Exec(t, p.st, p.tenant, "UPDATE calls SET status = 'answered', answer_time = $2 WHERE id = $1", call.ID, p.clock.Now())
	leg := &talkLeg{fakeLeg: fakeLeg{call: p.call(t, call.ID)}, agent: make(chan uuid.UUID, 1), over: make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.svc.Answers.Answered(t.Context(), leg) // so may that of the conversation
	}()
	t.Cleanup(func() {
		close(leg.over)
		<-done
	})
	return leg
}

// keptBy counts the agents who are kept for a campaign.
func (p *people) keptBy(campaign uuid.UUID) int {
	n := 0
	for _, m := range p.agents.Crew(p.tenant) {
		if m.Kept == campaign {
			n++
		}
	}
	return n
}

// TestAgentIsKeptForACall: who calls in waits while a call rings for the only agent, has the agent as soon as that has rung out, and no
// other is dialed meanwhile.
func TestAgentIsKeptForACall(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	agent, campaign := p.person(t), p.campaign(t, campaigns.DialProgressive)
	for _, number := range []string{"9876543201", "9876543202"} {
		p.push(t, campaign, number)
	}
	pacer := newPacer(p.svc.Pacers, p.sw, p.tenant, campaign, nil)
	pacer.round(t.Context())
	require.Len(t, p.sw.dialed(), 1)
	require.Equal(t, 1, p.keptBy(campaign))
	caller := p.callsIn(t, acd.Request{MaxWait: time.Minute})
	p.waiting(t, 1)
	pacer.round(t.Context())
	require.Len(t, p.sw.dialed(), 1)
	require.Len(t, p.agents.Waiting(p.tenant), 1)
	require.Equal(t, acd.Available, p.status(t, agent), "an agent who is kept is what they were")
	p.end(t, p.sw.dialed()[0], "failed", "NO_ANSWER")
	pacer.round(t.Context())
	require.Equal(t, agent, <-caller.agent)
	require.Len(t, p.sw.dialed(), 1, "the agent was another's")
	require.Zero(t, p.keptBy(campaign))
}

// TestWhoWaitsForOneAgentIsServed: calls that ring are no reason to keep that agent, where another is ready.
func TestWhoWaitsForOneAgentIsServed(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	agents := []uuid.UUID{p.person(t), p.person(t), p.person(t)}
	campaign := p.campaign(t, campaigns.DialProgressive)
	for i := range 9 {
		p.push(t, campaign, fmt.Sprintf("98765432%02d", i))
	}
	pacer := newPacer(p.svc.Pacers, p.sw, p.tenant, campaign, nil)
	pacer.round(t.Context())
	require.Equal(t, 3, p.keptBy(campaign))
	for i, agent := range agents[:2] {
		caller := p.callsIn(t, acd.Request{MaxWait: time.Minute, AgentID: &agent})
		p.waiting(t, 1)
		pacer.round(t.Context())
		require.Len(t, p.agents.Waiting(p.tenant), 1)
		p.end(t, p.sw.dialed()[i], "failed", "NO_ANSWER")
		pacer.round(t.Context())
		require.Equal(t, agent, <-caller.agent, "the first to be let go")
		require.Len(t, p.sw.dialed(), 3)
	}
	require.Equal(t, 1, p.keptBy(campaign))
}

// TestNobodyIsDialedBesideWhoWaits: of several calls for one agent the ones that end are not replaced while somebody waits for that agent.
func TestNobodyIsDialedBesideWhoWaits(t *testing.T) {
	t.Parallel()
	p, campaign := crowd(t, 2, 300, 0)
	pacer := newPacer(p.svc.Pacers, p.sw, p.tenant, campaign, nil)
	pacer.round(t.Context())
	calls := p.sw.dialed()
	require.Greater(t, len(calls), 2)
	require.Equal(t, 2, p.keptBy(campaign))
	caller := p.callsIn(t, acd.Request{MaxWait: time.Minute})
	p.waiting(t, 1)
	for _, call := range calls[:len(calls)-1] {
		require.Len(t, p.agents.Waiting(p.tenant), 1)
		p.end(t, call, "failed", "NO_ANSWER")
		pacer.round(t.Context())
		require.Len(t, p.sw.dialed(), len(calls))
	}
	<-caller.agent
	require.Equal(t, 1, p.keptBy(campaign), "for the last call")
}

// TestAgentIsKeptForWhoAnswers: the callee comes before a caller who has waited for longer.
func TestAgentIsKeptForWhoAnswers(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	agent, campaign := p.person(t), p.campaign(t, campaigns.DialPredictive)
	storetest.Exec(t, p.st, p.tenant, "UPDATE campaigns SET predictive_max_wait_s = 30 WHERE id = $1", campaign)
	p.push(t, campaign, "9876543201")
	pacer := newPacer(p.svc.Pacers, p.sw, p.tenant, campaign, nil)
	pacer.round(t.Context())
	require.Equal(t, 1, p.keptBy(campaign))
	p.callsIn(t, acd.Request{MaxWait: time.Minute})
	p.waiting(t, 1)
	callee := p.answers(t, p.sw.dialed()[0])
	require.Equal(t, agent, <-callee.agent)
	require.Len(t, p.agents.Waiting(p.tenant), 1)
	require.Zero(t, p.keptBy(campaign))
}

// TestAgentIsKeptForOneCampaign: what a campaign keeps is nobody else's, also when it has no leads left; the next has it after the call.
func TestAgentIsKeptForOneCampaign(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	p.person(t)
	one, two := p.campaign(t, campaigns.DialProgressive), p.campaign(t, campaigns.DialProgressive)
	last := p.push(t, one, "9876543201")
	lead := p.push(t, two, "9876543202")
	first, second := newPacer(p.svc.Pacers, p.sw, p.tenant, one, nil), newPacer(p.svc.Pacers, p.sw, p.tenant, two, nil)
	first.round(t.Context())
	first.round(t.Context())
	for range 3 {
		second.round(t.Context())
	}
	require.Len(t, p.sw.dialed(), 1)
	require.Equal(t, last.ID, *p.sw.dialed()[0].LeadID)
	require.Equal(t, []int{1, 0}, []int{p.keptBy(one), p.keptBy(two)})
	require.Zero(t, p.svc.Pacers.paces.of[two].ready)
	_, err := passGate(t.Context(), p.svc.Gate, p.request(t, two, lead))
	require.Equal(t, gate.ReasonAgents, reason(t, err))
	p.end(t, p.sw.dialed()[0], "failed", "NO_ANSWER")
	first.round(t.Context())
	require.Zero(t, p.keptBy(one))
	second.round(t.Context())
	require.Len(t, p.sw.dialed(), 2)
	require.Equal(t, 1, p.keptBy(two))
}

// TestNobodyIsKeptForNothing: not for calls that were not dialed after all, not for a machine, and not for who listens for minutes.
func TestNobodyIsKeptForNothing(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	p.person(t)
	campaign := p.campaign(t, campaigns.DialProgressive)
	p.push(t, campaign, "9876543201")
	pacer := newPacer(p.svc.Pacers, originatorFunc(func() error { return errors.New("no line") }), p.tenant, campaign, nil)
	pacer.round(t.Context())
	require.Empty(t, p.sw.dialed())
	require.Zero(t, p.keptBy(campaign))

	book, now := newCallBook("node-1", true), p.clock.Now()
	call := db.Call{ID: uuid.New(), DialTime: &now}
	book.dialed(call)
	count := func(at time.Duration) int { return book.listening(now.Add(at), nil) }
	require.Zero(t, count(time.Hour), "it rings")
	book.calls[call.ID].answered, book.calls[call.ID].person = now, true
	require.Zero(t, count(keptAnswered))
	require.Equal(t, 1, count(keptAnswered+time.Second))
	require.Zero(t, book.listening(now.Add(time.Hour), map[uuid.UUID]bool{call.ID: true}), "with an agent")
	book.calls[call.ID].person = false
	require.Equal(t, 1, count(0))
}

// TestWhoIsTakenMeanwhileIsDialedForNoMore: between the look at the agents and the plan somebody else was given one.
func TestWhoIsTakenMeanwhileIsDialedForNoMore(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	taken, left := p.person(t), p.person(t)
	pacer := newPacer(p.svc.Pacers, p.sw, p.tenant, p.campaign(t, campaigns.DialProgressive), nil)
	pacer.parts = staffing.Demand{{}}
	members := p.agents.Crew(p.tenant)
	require.Equal(t, 1, p.agents.Keep(p.tenant, uuid.New(), []uuid.UUID{taken}, p.clock.Now().Add(time.Minute)))
	planned := pacing.Plan{Dial: 2, Keep: 2}
	pacer.reserve(&planned, members, members, nil, p.clock.Now())
	require.Equal(t, 1, planned.Dial)
	for _, m := range p.agents.Crew(p.tenant) {
		require.Equal(t, m.ID == left, m.Kept == pacer.Campaign)
	}
}
