//go:build !race

package leadfile

const raceEnabled = false
