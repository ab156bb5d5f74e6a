// Package dbcost tells what a database costs whoever uses it: how often they wait for it, what CPU it takes, how much it writes; how that
// changes when it lies further away, and when it has years of calls behind it.
//
// Read wire.go for the connection that is counted and delayed, meter.go for CPU and WAL, history.go for the years of calls.
package dbcost
