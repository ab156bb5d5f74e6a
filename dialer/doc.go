// Package dialer decides what is dialed, when, and what becomes of it: campaigns, leads, voice agents, the
// do-not-call rules, the gate that stands before every call, and the pacers that work running campaigns off.
//
// Read api.go for the shapes and the errors, service.go for the wiring, campaigns.go, leads.go and
// voiceagents.go for what the public operations do, gate.go for the rules of dialing, pacer.go for the
// campaigns at work, people.go for the calls that go to agents, agentdesk.go and dispose.go for what agents do
// with leads and calls (package acd keeps the agents), and outcome.go for what an ended call means to its lead.
// Campaigns' figures are kept by the database with each change of a lead or a call (figures.go, stats.go).
// Package week knows calling windows and business hours. Flows are saved by flows.go, run by flow_run.go with the operations of
// flow_ops.go, and led to SIP URIs by gate_uri.go.
package dialer
