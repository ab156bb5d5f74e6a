//go:build race

package dialer

const raceEnabled = true
