// Package gate holds every leg that is to be dialed against the rules of dialing, and admits it: its row, its unit, its lead's state and
// call.started are committed together, under the tenant's lock. Nothing is dialed without an admission, and nobody else makes one.
//
// Read rules.go first: the table of the rules, in the order in which they are asked, with what follows from each (the answer to whoever asked,
// the lead's end, what the pacer does, what the campaign waits for). checks.go has the checks, refusal.go the reasons. gate.go admits
// a leg, again.go judges one once more before its next route, open.go writes what an admission consists of, taker.go asks who would take
// the call, placing.go is the one way from a request to the switch, turns.go
// has those wait for a trunk's calls per second for whom somebody is on the phone. window.go, dailycap.go, modes.go, callerid.go, routes.go and uri.go
// are a rule's matter each.
//
// It uses campaigns, flows, voice agents and leads, and knows the pacers by [Plans] alone: how far a campaign may over-dial.
package gate
