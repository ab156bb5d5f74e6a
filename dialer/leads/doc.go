// Package leads keeps a campaign's leads: those that come in singly, in bulk and by file, each checked against the do-not-call registry and
// the tenant's opt-outs; what is shown and edited of them; who claims the next one; and how a lead ends.
//
// Read shapes.go for what a lead looks like outside, and status.go for its states. leads.go is how leads come in and how they finish,
// together.go those that are pushed one a request, input.go what a push may have, upload.go and slots.go files, view.go lists and edits. claim.go has the [Claimer], by which pacers and
// agents take the next leads in their order; retry.go says what a call's outcome is called and how long a lead waits after it;
// disposition.go sets what is said of a call on the call and on its lead.
//
// It knows campaigns by their rows alone, and nothing of gates, pacers and calls: all of these use it.
package leads
