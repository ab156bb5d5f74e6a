// Package dialer decides what is dialed, when, and what becomes of it. It wires the packages that do so, and runs the pacers of the running campaigns.
//
// What a tenant keeps: campaigns, leads, voiceagents, flows (package flow says what one may hold and runs it), suppressions, and account (tenants,
// users, keys, numbers, trunks). What is dialed: gate checks each leg against the rules, desk places single calls and agents' calls, answer decides
// what happens on a call that is up and what its end means, supervisors has the floor and the supervisors' sessions, scrub checks leads against the
// registry (package dnc). Below them: wake (who is told that something has changed), audio (what callees must hear), figures (what the database
// counts), week (calling windows and business hours), carrier (whose inbound calls and SIP URIs are a carrier's), leadfile, acd (agents and the
// queue), and, both pure, pacing and staffing. Each package's comment (doc.go, or its main file) says how to read it. Packages are named for what a
// tenant has several of (campaigns, leads), or for what is done there (gate, answer). They import each other one way, which a lint rule keeps: what
// is kept, campaigns, gate, answer and desk.
//
// Read service.go first: the configuration, and which package depends on which. The call controller is given the gate and the answers; the desk, the
// job workers and the pacers are given the call controller. So nothing is constructed in two steps. pacer.go is a running campaign, pacer_plan.go its
// rounds, manager.go who paces what; stats.go has the figures of campaigns and tenants, settings.go what a tenant has set.
//
// # Dialing rules
//
// No leg is dialed without the gate's permission, whoever asks for it: a pacer, an agent who dials a lead or a number, a single call, a voice
// agent's or a flow's transfer. In the order in which they matter:
//
//   - The tenant's opt-outs and the do-not-call registry. They also hold for the destinations of transfers and conferences, whether given as a number
//     or as a SIP URI with a number: such a call is not telemarketing, but its destination comes from a customer's program, which would be a way
//     around the list.
//   - The kinds of calls for which the deployment has numbers checked (campaigns/modes.go). Calls of another kind are refused: they could reach
//     numbers that are barred only for that kind.
//   - max_attempts, and the hours: the campaign's calling window or else the tenant's, never outside the law's, on none of the tenant's
//     holidays (gate/window.go). Ringing stops before they end.
//   - The daily cap (gate/dailycap.go): the most calls that a number gets per day in the callee's zone, over all the tenant's campaigns, agents and
//     single calls. A scheduled callback is made even beyond it, and legs to third parties neither count nor are refused.
//   - The campaign's announcement, which must have been fetched (package audio): nobody is connected who can't hear it. It is fetched apart from the
//     pacer. If it can't be played after all, the callee is hung up on, and the call counts as abandoned.
//   - The ceilings.
//   - The caller id (gate/callerid.go): one of the tenant's active numbers, fixed or in rotation, of the series that the campaign's call_category requires.
//
// A leg is checked again before another route is tried (gate/again.go). A lock (NumbersLock) orders an opt-out and an admission of the same number:
// whichever commits later sees the other, so either the admission is refused, or the ringing call is ended (suppressions/unring.go).
//
// Retries wait longer each time (leads/retry.go).
//
// # Locks
//
// A transaction takes its locks in one of these orders, and may leave some out:
//
//   - An admission: the tenant's gate, the number, its caller id's row, lead, unit and call, agent, trunk.
//   - A leg on another route: gate, number, trunk, call, unit.
//   - The answer of a call: call, trunk, lead.
//   - The start of an AI session: call, unit, and before the unit the gate where the call holds none of the voice agent's. The call is answered by
//     then, so no admission and no other route waits for it.
//   - The end of a call: call, unit, session, trunk, agent, lead.
//   - A supervisor who claims an escalation: escalation, supervisor's session.
//   - What an agent does with a call: the number where its owner opts out, call, agent, lead.
//   - Suppressions: numbers in the order of their keys, leads by id, calls.
//   - A claim takes leads that nobody has locked (SKIP LOCKED). Pushes, scrubs and the nightly sweep take leads alone.
//
// An admission has the lead before the agent, the end of a call the other way round: they can deadlock where a lead's status is set while its call
// goes on. PostgreSQL ends such a deadlock after a second, and InTenant repeats the transaction. Nothing waits for the gate while it has a lead's, an
// agent's or a trunk's row.
//
// # Pacing
//
// One controller paces a campaign: the one that holds its advisory lock, on a connection that PostgreSQL drops within seconds when the controller
// dies or its machine vanishes (manager.go); the others try for the lock each Poll. Which of them takes a free campaign is decided by rendezvous
// hashing; each controller that can dial may have an equal share, and one more (assignment.go). Each campaign has one goroutine (pacer.go). Its
// rounds (pacer_plan.go) read how the campaign's calls stand (callbook.go), what the agents do (acd.Crew) and the abandon figures, decide how many
// leads to dial, claim and dial them. There is a round each second, at each end of a call and at each change of an agent. What has fallen due
// (callbacks, retries) is claimed before fresh leads, those by priority. If a pacer ends before it has used a claim, the next pacer takes it over;
// the gate's conditional update of the lead keeps a lead from being dialed twice. A campaign for human agents is left to the controller that has the
// tenant's agents.
//
//   - For human agents, package pacing decides: one call per ready agent, or, for a predictive campaign, more. The gate checks each call against that
//     plan again, under its lock (agentFree). A tenant's agents are divided between the campaigns that have something to dial (staffing.Allocator):
//     equally, and in turns where there are fewer agents than campaigns. Callers go to whoever is ready. Where a flow asks for skills or for one
//     agent, only agents who fit count (staffing.Demand). If different branches of the flow ask for different agents, the scarcest group counts, and
//     the campaign has a share of each group: then somebody is available whichever branch the callee takes. Where a variable of the call names the
//     queue or the agent, it has a share of the scarcest group only. The plan doesn't count on agents for whom inbound callers or other campaigns'
//     callees are ahead in the queue, nor on those whom inbound callers are likely to take while a call rings (staffing.OutsideCalls). In small
//     teams, and while one abandoned call would be too many, the agents for whom calls ring are reserved for these calls instead (pacer_agents.go):
//     other callers wait for the end of a call, and are served before the next one is dialed.
//   - For a voice agent the free slots are filled up to the tightest ceiling, with a ramp (ramp.go).
//   - The account's channels and a voice agent's slots are divided between the campaigns that use them (staffing.Shares), as far as
//     one controller paces them.
//   - A call is abandoned if the campaign dialed it, a person answered, and no agent joined within 2 s, or within predictive_max_wait_s if that is
//     shorter. With a longer one callees wait longer for an agent, but still count as abandoned after 2 s: no setting loosens the cap.
//   - The guard (guard.go): at an abandon rate of 2.7% in the last 24 hours, or since the campaign's start, a predictive campaign goes on with one
//     call per ready agent until the rate has come down; at 2.9% it is paused; while few calls were answered, up to three may be abandoned before
//     that. The rates are kept in the database, so that a restart forgets nothing. Whoever starts such a campaign again gets one call per agent until
//     the rate is below; only a further abandoned call above 2.9% pauses it again. While predictive dialing is paused by an operator there is no
//     over-dialing. A progressive campaign whose agents are taken by other calls is paused in the same way.
package dialer
