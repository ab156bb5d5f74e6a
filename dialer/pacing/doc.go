// Package pacing decides how many calls a campaign dials now. It is pure: no clock, no I/O, no randomness; the same code runs in
// production and in the simulation of package sim. It is told when calls are answered or end, how long conversations and
// after-call work took, and at each plan (every second, and at every change) what the campaign's state is.
//
// Progressive: one call per ready agent, less those that ring or wait. Everybody who answers gets an agent, unless one pauses, logs out or loses the phone meanwhile.
//
// Predictive, per plan:
//
//  1. Demand. For each second of ringing, past calls give the share that is answered in it (hazard.go). So a call that has rung for 12 seconds has a
//     different chance from a new one, and calls that still ring don't count as unanswered. Recent answers are compared with those expected, call by
//     call while they ring (change.go): a changed answer rate shows after some ten answers, long before the calls that are not answered have run into
//     their time-out.
//  2. Supply. Likewise each age of a conversation, and of after-call work, has a rate of ending. From the ages of those under way follows when each
//     agent will be ready: first the conversation ends, then the work after it. Conversations that are still going on are learned from, too.
//  3. The comparison (view.go, forecast.go). At four moments, by which a new call is answered with 1/8, 3/8, 5/8, 7/8 of its
//     chances, the surplus of persons over agents (ready, or ready before the person has waited for MaxWait) has a mean and a
//     variance. The probability that the surplus isn't negative is the risk of one more call: that its callee gets no agent.
//  4. Calls are dialed as long as the risk of the last one is within the limit, which is one price for all moments: what may be
//     abandoned is spent where it keeps an agent busy.
//  5. Feedback (guard.go). The limit rises and falls with the credit, the abandoned calls that the aim (2.6% for a target of 3%)
//     still allows, in units of their own scatter; and drifts until the credit is used up. It stands still while the guard holds
//     the planner back.
//
// Others: inbound callers, and other campaigns' callees, may be ahead of the next callee. Those who wait get the agents who become ready first. How
// often others take an agent is learned (arrivals.go), and so many more are expected while a call rings. Where others come, one call per ready agent
// is too many, a progressive campaign's too: as many agents are left to them as bring the risk of each call below the aim. In a team of up to four
// that would often be all of them, and while no abandoned call can be afforded hardly any risk is small enough. There it is the other way round: an
// agent is reserved for each call, and others have to wait. A caller who waits so counts as having that agent already: when the call has ended, the
// agent is the caller's, and no other call is dialed for that agent before.
//
// What holds it back, whatever the limit:
//
//   - Spare: how many calls could all be abandoned with the rate of the last 24 hours and of the whole campaign still at or below
//     2.7%. Below one there is one call per agent: so until 37 persons have answered; below that, one abandoned call breaks the limit.
//   - The worst case must stay within the spare calls: all that ring now and the new ones have run out, three standard deviations (and the skew of
//     small numbers) more are answered than expected, at 1.2 times the highest recent answer rate (a rate that has halved may recover at any moment),
//     none of the new ones failing on the way, and agents are as slow as the small number of observations leaves possible.
//   - A second worst case must stay within what leads to a pause, 2.9%: half of the agents log off during their calls, which nobody
//     knows before these end, and two standard deviations more are answered. It is what binds in a large team's first hours.
//   - At 2.7% one call per agent until the rate is below 2.65%.
//   - At 2.9% the campaign, a progressive one too, has to be paused, when one more call was abandoned. With few answers bad
//     luck of up to three calls is not held against it: one call per agent brings the rate down, a pause would keep it where it is.
//
// Read planner.go for what it is told and what it answers, hazard.go and change.go for what it learns, view.go for the tables made of
// that, forecast.go for the comparison, arrivals.go for others, and guard.go for what the abandon rate allows.
package pacing
