//go:build race

package dtmf

const raceEnabled = true
