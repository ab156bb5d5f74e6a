//go:build race

package sim

// The race detector makes days ten times as long: fewer of them, with smaller teams, then.
const underRace = true
