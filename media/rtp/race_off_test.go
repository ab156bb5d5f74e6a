//go:build !race

package rtp

const underRace = false
