// Package supervisors is what supervisors see and do: the floor with its live stream, their phones at calls, the calls that voice agents ask them
// to, calls taken from one agent to another, and the audit of all that.
//
// A session is a supervisor's phone that listens to a call, whispers into it or takes part in it, or does so with one agent's calls in turn. The
// call controller has the phone (switchctl.Supervisions); the session's row says that it is there, in which mode, and who has it: a supervisor
// has one session, on whatever controller. Nobody listens unaudited: the audit's row is committed before the phone rings, the mode changes or
// the next call is heard.
//
// Read service.go first, then session.go (start, mode, end), keep.go (what ends by itself, agents who are followed, controllers that are gone),
// escalations.go, transfer.go and audit.go. floor.go reads the floor, changes.go says what differs between two, and feed.go has one goroutine
// per tenant with listeners compare them.
//
// A new action is a method here that writes its row of the audit in the transaction that it tells of, with a name in audit.go (the constants and
// auditedActions) that 65_supervisors.yaml lists and describes, as it does the operation; that is a row in httpapi/supervisors.go, with the place of what it
// is about, which another controller may have, and an example in examples.yaml. What it has phones do is switchctl.Supervisions'; what it has a call do is
// a part of the call's actor as takeaway.go of switchctl/call is: its messages stand in state_up.go and state_unanswered.go, the part in parts.go, and
// what is left of it at the call's end and after a restart in ending.go and line.go. The index audit_of_supervisors names the audited actions.
package supervisors
