// Package switchctl is what the rest of the program sees of the telephony switch: the calls it can ask for and what it is told of them.
//
//   - api.go: the [AnswerHandler] that decides what happens on a call, the [Leg] that it uses to do so, and the control verbs' request; agents_api.go: an
//     agent on a caller's leg. Package admission: requests to the gate, which is the dialer's, and its permission to dial.
//   - errors.go; quality.go and machine_verdict.go: what a call's record says of its audio, and of who answered.
//
// How calls are run is in packages below it, which import it and which it doesn't import: package call (one goroutine per call, on one FreeSWITCH
// host), and beneath that phone (agents' phones), hostlink (the link to the switch), cdr (the switch's call records), fs (its commands and events),
// esl (the socket to it), actor (mailboxes, timers, queues), ledger (what is written to the database, in which transaction), cluster (other hosts),
// mediapath, recordings and callbacktoken.
package switchctl
