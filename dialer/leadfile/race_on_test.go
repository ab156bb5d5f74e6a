//go:build race

package leadfile

const raceEnabled = true
