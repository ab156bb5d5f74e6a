// Package dialer decides what is dialed, when, and what becomes of it. It wires the rooms that do so, and works the running campaigns.
//
// What a tenant keeps: campaigns, leads, voiceagents, flows (package flow says what one may hold and runs it), suppressions, and account
// (tenants, users, keys, numbers, trunks). What is dialed: gate holds each leg against the rules, desk is where calls are asked for one by
// one, answer says what happens on a call that is up and what its end means, supervisors is who watches all that and steps in, scrub compares leads with the registry (package dnc). Below
// them: wake (who is told that something has changed), audio (what callees must hear), figures (what the database counts), week (calling
// windows and business hours), carrier (whose inbound calls and SIP URIs are a carrier's), leadfile, acd (agents and the queue), and, both
// pure, pacing and staffing. Each room's package comment (doc.go, or its main file) says how to read it. Rooms are named for what a tenant keeps of (campaigns, leads), or for
// what is done there (gate, answer). They import each other one way, which a lint rule keeps: what is kept, campaigns, gate, answer and desk.
//
// Read service.go first: the configuration, and which room is given what. The call controller is given the gate and the answers; the desk, the
// job workers and the pacers are given the call controller. So nothing is made in two steps. pacer.go is a campaign at work, pacer_plan.go
// its rounds, manager.go who paces what; stats.go has the figures of campaigns and tenants, settings.go what a tenant has set.
//
// # Rules of dialing
//
// No leg leaves without the gate's permission, whoever asks for it: a pacer, an agent who dials a lead or a number, a single call, a voice
// agent's or a flow's transfer. In the order in which they matter:
//
//   - The tenant's opt-outs and the do-not-call registry. They hold for the destinations of transfers and
//     conferences, too, by number or by a SIP URI that is one: that call is no telemarketing, but its destination comes from a customer's
//     program, which would be a way around the list.
//   - The kinds of calls for which the deployment has numbers checked (campaigns/modes.go): no call of another kind, which would reach numbers
//     that are barred for it alone.
//   - max_attempts, and the hours: the campaign's calling window or else the tenant's, never outside the law's, on none of the tenant's
//     holidays (gate/window.go). The last ring ends before they do.
//   - The daily cap (gate/dailycap.go): a number gets so many calls on one day of the callee's, over all the tenant's campaigns, agents and
//     single calls. A callback that was promised is made all the same, and legs to third parties neither count nor are refused.
//   - The campaign's announcement, which must be at hand (package audio): nobody is connected who could not be told what all are told. It is
//     fetched beside the pacer, and a callee who can't be told nevertheless is hung up on and counts as abandoned.
//   - The ceilings.
//   - The caller id (gate/callerid.go): one of the tenant's active numbers, fixed or in turn, of the series that the campaign's
//     call_category asks for.
//
// A leg is judged once more before another route is tried (gate/again.go). An opt-out and an admission of its number are in order by a
// lock (NumbersLock): whichever commits later sees the other, so the admission is refused, or the call that rings is ended (suppressions/unring.go).
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
// An admission has the lead before the agent, the end of a call the other way round: they meet where a lead's status was set while its call
// went on. PostgreSQL ends such a deadlock after a second, and InTenant repeats the transaction. Nothing waits for the gate while it has a
// lead's, an agent's or a trunk's row.
//
// # Pacing
//
// One controller paces a campaign: the one that holds its advisory lock, on a connection that PostgreSQL drops within seconds when
// the controller dies or its machine vanishes (manager.go); the others try for the lock each Poll. Which of them takes a free
// campaign is decided by rendezvous hashing, with an equal part and one more for each that can dial (assignment.go). Each campaign has one goroutine
// (pacer.go). Its rounds (pacer_plan.go) read how the campaign's calls stand (callbook.go), what the agents do (acd.Crew) and
// the abandon figures, decide how many leads to dial, claim and dial them. There is a round each second, at each end of a call
// and at each change of an agent. What has fallen due (callbacks, retries) is claimed before fresh leads, those by priority. A claim
// that its pacer doesn't live to use is taken by the next one; the gate's conditional update of the lead keeps any from being
// dialed twice. A campaign of people is left to the controller that has the tenant's agents.
//
//   - For people, package pacing decides: one call per ready agent, or, for a predictive campaign, more. The gate holds each call
//     against that plan again, under its lock (agentFree). A tenant's agents are divided between the campaigns that have
//     something to dial (staffing.Allocator): as many each, in turns where there are fewer agents than campaigns. Callers go to whoever is ready.
//     Where a flow asks for skills or for one agent, only agents who fit count (staffing.Demand). Of several whom it may ask for, on this
//     branch or that, the scarcest count, and a campaign has a part of the agents for each: then somebody is there
//     whichever branch the callee takes. Where a call's variable names the queue or the agent, it has that for the scarcest alone.
//     Inbound callers and other campaigns' callees who wait in front are left out of what the plan counts on, and so are the
//     agents whom inbound callers are likely to take while a call rings (staffing.OutsideCalls). In small teams, and while one abandoned call
//     would be too many, the agents for whom calls ring are kept for these instead (pacer_agents.go): other callers wait for the end of
//     a call, and are served before the next one is dialed.
//   - For a voice agent the free slots are filled up to the tightest ceiling, with a ramp (ramp.go).
//   - The account's channels and a voice agent's slots are divided between the campaigns that use them (staffing.Shares), as far as
//     one controller paces them.
//   - A call is abandoned if the campaign dialed it, a person answered, and no agent joined within 2 s, or within a shorter
//     predictive_max_wait_s. A longer one keeps callees waiting for an agent, and in the count: no setting loosens the cap.
//   - The guard (guard.go): at an abandon rate of 2.7% of the last 24 hours, or since the start, a predictive campaign goes
//     on with one call per ready agent until the rate has come down; at 2.9% it is paused, though of few answered calls up
//     to three may be abandoned before that. The rates are kept in the database, so that a restart forgets nothing. Whoever
//     starts such a campaign again gets one call per agent until the rate is below; only a further abandoned call above 2.9%
//     pauses it again. While predictive dialing is paused by an operator there is no over-dialing. A progressive campaign whose agents
//     others take away is paused likewise.
package dialer
