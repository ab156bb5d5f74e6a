// Package acd brings callers to the people who take them: it owns the agents' states, the queue, and the matching of both.
//
// An agent's row in the database is the truth of the agent's state. It changes here alone, under its lock, by the table of
// state.go, and each change leaves a row of history. What this process keeps in memory (desk.go) is a copy of the rows of its
// own node, good for choosing; a choice counts once the row says so. A transaction that locks a call and an agent locks the
// call first.
//
// Read state.go for the states and what moves them, agents.go for what an agent does (login, logout, status), desk.go for the
// choice of agent and caller, reserve.go for agents who are kept for calls on the way, connect.go for how a caller is served, and
// keep.go for what keeps rows, calls and phones in agreement. sipaccount.go derives the accounts of the agents' phones.
package acd
