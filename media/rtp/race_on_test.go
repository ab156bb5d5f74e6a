//go:build race

package rtp

// underRace tells that computing costs several times what it should: what proves itself by its length is shorter then.
const underRace = true
