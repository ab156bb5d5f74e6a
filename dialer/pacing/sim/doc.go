// Package sim is a seeded discrete-event simulation of a campaign's day: agents, calls that ring, are answered or not, persons
// who wait, conversations and after-call work, and shocks. The planner of package pacing works in it as in production, and
// beside it an oracle that knows every call's future.
//
// Read scenario.go for what a day is made of, dist.go for its distributions, world.go for what happens, oracle.go for the bound
// that no planner can pass, result.go for what is measured, grid.go for the table of many days, and plot.go for pictures.
package sim
