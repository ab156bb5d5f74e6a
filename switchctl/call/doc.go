// Package call runs calls on one FreeSWITCH host.
//
// A [Controller] holds the switch's two kinds of event-socket connections: the host link (inbound, one per
// host, of two connections: events of all channels and what runs in the background, and commands whose output is waited for) and the
// outbound sockets (one per answered leg: the call's control channel). One goroutine, the call actor, owns each call;
// everything else sends to its bounded mailbox. PostgreSQL holds what must outlive the process, the channel's own variables
// hold enough to find it again, and the registry is only a cache of live actors.
//
// Commands to the switch are values of package fs; mailboxes, timers and queues are those of package actor.
//
// How to read it: package switchctl (what others call and what they implement), controller.go (start, drain, close), registry.go and mailbox.go, then a call:
//
//   - host.go: what calls have of their machine; core.go and core_switch.go: what every part of a call works with; facts.go: what changes in its
//     record; actor.go and the state_*.go files: each message goes to its part, by a function each for calls that are unanswered and up; parts.go:
//     the parts, and who works with whom; timers.go.
//   - How it begins, stands and ends: origination.go, line.go (its channel and socket), handling.go, ending.go, served.go, verdict.go (who answered).
//   - Who may have the caller: voice*.go (the voice agent: its session, its media leg, what it reports; sipagent.go: one that is a SIP endpoint, refer*.go: its REFERs), agents*.go, transfers*.go (a number, a SIP URI,
//     the queue, for the voice agent or for a handler), takeaway.go (a supervisor gives them to an agent),
//     conference*.go (caller, voice agent, and guests: who was added), talking*.go (what a handler plays and asks), machine.go, music.go.
//   - What goes on beside: recorder*.go, bypass*.go (the audio past the switch), keypad.go, taps*.go and monitors*.go (forks of a call's audio, and who hears
//     whoever has one), supervised.go (supervisors who listen to the call; their sessions are supervision*.go),
//     outsiders.go (nobody whispers while somebody outside is on the call),
//     verbtable.go (a row for each control verb: what it takes, when it may run, which part runs it), verbs.go and verbrate.go, sessionlog.go, quality_call.go.
//
// The switch: package hostlink (the link to it), outbound.go, skew.go, look.go, lived.go and resync.go (how a call is found again),
// package cdr (its call records). When something is written: journal.go; what, and in which transaction: package ledger. Other hosts, and those that
// are lost: package cluster, and cluster_calls.go. Agents' phones, each with an owner goroutine: package phone.
package call
