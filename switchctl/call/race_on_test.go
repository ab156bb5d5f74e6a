//go:build race

package switchctl

const raceEnabled = true
