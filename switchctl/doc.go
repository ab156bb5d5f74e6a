// Package switchctl runs calls on one FreeSWITCH host.
//
// A [Controller] holds the switch's two kinds of event-socket connections: the host link (inbound, one per
// host, of two connections: events of all channels and what runs in the background, and commands whose output is waited for) and the
// outbound sockets (one per answered leg: the call's control channel). One goroutine, the call actor, owns each call;
// everything else sends to its bounded mailbox. PostgreSQL holds what must outlive the process, the channel's own variables
// hold enough to find it again, and the registry is only a cache of live actors.
//
// Commands to the switch are values of package fs; mailboxes, timers and queues are those of package actor.
//
// How to read it: api.go (what others call and what they implement), controller.go (start, drain, close), registry.go and
// mailbox.go, actor.go and the state_*.go files (a function each for calls that are unanswered, up, and closing), originate.go, aisession*.go (the voice agent: its
// session, its media leg, what it reports), steer.go (a bridged call without its socket), verdict.go (who answered),
// machine.go (what becomes of a machine), bypass.go (the audio past the switch), transfer.go, leg_play.go, leg_announce.go,
// talk.go and leg_transfer.go (what a handler plays, asks, records, and where it leads its caller), control.go (verbs), tap.go
// and monitor.go (forks of a call's audio), final.go, cdr.go, cdr_delete.go and quality.go (how a call ends), hostlink.go,
// sight.go, skew.go, look.go, lived.go and resync.go (what is known of the switch, and how a call is found again), ledger.go
// (what is written, and when), nodes.go (other hosts, and those that are lost). Of people: phone_api.go (what others call),
// phone.go, phone_address.go, phone_events.go and phone_book.go (agents' phones, each with an owner goroutine), human.go (the
// bridge with an agent), human_music.go and human_record.go, and queue_handover.go (from the voice agent to the queue).
package switchctl
