// Package agentbench is the load of people on the phone: agents with softphones, a progressive campaign that connects callees
// to them, failures on both sides, and an audit every second that holds agents, calls, the ledger, the switch's channels and
// the phones against each other. Whatever stands wrong for longer than a grace is a fault.
//
// pace.go runs a campaign in earnest instead, whose callees answer and whose agents talk as in the simulation of pacing, and gives
// the figures to hold against that.
//
// calls.go is a load of calls with little audio, and tells what one costs.
//
// Read bench.go for what is run, crowd.go for the agents and what befalls them, audit.go for what is compared, report.go for
// what is told.
package agentbench
