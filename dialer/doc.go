// Package dialer decides what is dialed, when, and what becomes of it: campaigns, leads, voice agents, the
// do-not-call rules, the gate that stands before every call, and the pacers that work running campaigns off.
//
// Read api.go for the shapes and codes.go for the codes of errors, parts.go for what the dialer is made of and who works with whom, service.go for its configuration.
// campaigns.go, leads.go and voiceagents.go are what the public operations do, gate_rules.go is the table of
// the rules of dialing (a row says what follows from each), gate_checks.go has their checks, campaign_fields.go the table of a campaign's members, pacer.go the campaigns at work, people.go
// the calls that go to agents, placing.go the one way from there to the switch (can it originate, is it admitted, dial), single.go calls of no campaign, agentdesk.go and dispose.go what agents do with leads and calls (package acd keeps the
// agents), and outcome.go what an ended call means to its lead.
//
// Campaigns' figures are kept by the database with each change of a lead or a call (figures.go, stats.go). scrub.go checks leads against the
// do-not-call registry (package dnc), scrub_pass.go all of a campaign's, behind the request if it takes long; suppressions.go keeps the tenant's own
// list. Package week knows calling windows and business hours. Flows are saved by flows.go, run by flow_run.go with the operations of flow_ops.go, and
// led to SIP URIs by gate_uri.go. What comes first on an answered call (machines, announcements) stands in answered.go.
//
// Rooms beside it: account (tenants, users, keys, numbers, trunks), acd (agents and the queue), carrier (whose inbound calls and SIP URIs are a
// carrier's), dnc, flow, leadfile, pacing and staffing (both pure), week.
//
// # Rules of dialing
//
// No leg leaves without the gate's leave, whoever wants it: a pacer, an agent who dials a lead or a number, a single call, a voice
// agent's or a flow's transfer. In the order in which they matter:
//
//   - The tenant's opt-outs and the do-not-call registry. They hold for third parties, too, to whom a caller is led by transfer or
//     conference, by number or by a SIP URI that is one: that call is no telemarketing, but its destination comes from a customer's
//     program, which would be a way around the list.
//   - The kinds of calls for which the deployment has numbers checked (modes.go): no call of another kind, which would reach numbers
//     that are barred for it alone.
//   - max_attempts, and the hours: the campaign's calling window or else the tenant's, never outside the law's, on none of the tenant's
//     holidays (window.go). The last ring ends before they do.
//   - The daily cap (dailycap.go): a number gets so many calls on one day of the callee's, over all the tenant's campaigns, agents and
//     single calls. A callback that was promised is made all the same, and legs to third parties neither count nor are refused.
//   - The campaign's announcement, which must be at hand (audio.go): nobody is connected who could not be told what all are told. It is
//     fetched beside the pacer, and a callee who can't be told nevertheless is hung up on and counts as abandoned.
//   - The ceilings.
//   - The caller id (callerid.go): one of the tenant's active numbers, fixed or in turn, of the series that the campaign's
//     call_category asks for.
//
// A leg is judged once more before another route is tried (gate_again.go). An opt-out and an admission of its number are in order by a
// lock (NumbersLock): whichever commits later sees the other, so the admission is refused, or the call that rings is ended (unring.go).
//
// Retries wait longer each time (retry.go).
//
// # Locks
//
// A transaction takes its locks in one of these orders, and may leave some out:
//
//   - An admission: the tenant's gate, the number, its caller id's row, lead, unit and call, agent, trunk.
//   - A leg on another route: gate, number, trunk, call, unit.
//   - The start of an AI session: call, gate, unit. The call is answered by then, so no admission and no other route waits for it.
//   - The end of a call: call, unit, session, trunk, agent, lead.
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
//     branch or that, those count that the fewest agents fit, and a campaign has a part of the agents for each: then somebody is there
//     whichever branch the callee takes. Where a call's variable names the queue or the agent, it has that for the scarcest alone.
//     Inbound callers and other campaigns' callees who wait in front are left out of what the plan counts on, and so are the
//     agents whom inbound callers are likely to take while a call rings (staffing.OutsideCalls). In small teams, and while one abandoned call
//     would be too many, the agents for whom calls ring are kept for these instead (pacer_agents.go): other callers wait for the end of
//     a call, and are served before the next one is dialed.
//   - For a voice agent the free slots are filled up to the tightest ceiling, with a ramp (ramp.go).
//   - The account's channels and a voice agent's slots are divided between the campaigns that use them (staffing.Shares), as far as
//     one controller paces them.
//   - Abandoned is whom a campaign has called, who has answered, and who isn't with an agent within 2 s, or within a shorter
//     predictive_max_wait_s. A longer one keeps callees waiting for an agent, and in the count: no setting loosens the cap.
//   - The guard (guard.go): at an abandon rate of 2.7% of the last 24 hours, or since the start, a predictive campaign goes
//     on with one call per ready agent until the rate has come down; at 2.9% it is paused, though of few answered calls up
//     to three may be abandoned before that. The rates are kept in the database, so that a restart forgets nothing. Whoever
//     starts such a campaign again gets one call per agent until the rate is below; only a further abandoned call above 2.9%
//     pauses it again. While predictive dialing is paused by an operator there is no over-dialing. A progressive campaign whose agents
//     others take away is paused likewise.
package dialer
