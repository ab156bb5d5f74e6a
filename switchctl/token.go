package switchctl

import "time"

// How long callback tokens, and the sessions that they are of, last.
const (
	tokenLife       = 30 * time.Minute
	tokenRefreshAt  = 25 * time.Minute
	socketTokenLife = 24 * time.Hour

	lifetimeSocket = "ws_session"
)

// tokenLifeOf is how long a voice agent's tokens last.
func tokenLifeOf(lifetime string) time.Duration {
	if lifetime == lifetimeSocket {
		return socketTokenLife
	}
	return tokenLife
}
