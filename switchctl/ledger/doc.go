// Package ledger writes calls to PostgreSQL. [Ledger] has a method for each change of a call, and each is one transaction: what a call
// becomes, the events that tell of it, and the units that it gives back are committed together or not at all.
//
// Read record.go for what a call's final record says and calls.go for how it is written; answer.go and events.go for what customers are told,
// sessions.go, logs.go and monitors.go for AI sessions, nodes.go for the controllers that share one database.
package ledger
