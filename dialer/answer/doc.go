// Package answer says what happens on a call that is up, and what its end means: where an inbound call belongs, what follows answer, and what
// becomes of the lead. Its [Service] is what the call controller asks (switchctl.AnswerHandler); it acts on a call through its leg alone.
//
// Read handler.go first: the way of an inbound call, and who takes an answered one. greet.go is what comes before anybody is connected
// (machines, announcements), people.go the calls that go to agents, flow_run.go and flow_ops.go those that a flow takes, voiceverbs.go what a
// voice agent says of its call. outcome.go is a call's end: the lead's outcome, with unserved.go (who has answered and met nobody) and
// trunks.go (what the end says of the trunk).
package answer
