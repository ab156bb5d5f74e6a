// Package pacing decides how many calls a campaign dials now. It is pure: no clock, no I/O, no randomness; the same code runs
// in production and in the simulation of package sim.
//
// Read planner.go for what it is told and what it answers, hazard.go for what it learns, forecast.go for how it compares
// the persons who will have answered with the agents who will be ready, and guard.go for what the abandon rate allows.
package pacing
