package callbacktoken

import "time"

// How long callback tokens last.
const (
	Life       = 30 * time.Minute
	RefreshAt  = 25 * time.Minute
	socketLife = 24 * time.Hour

	// LifetimeSocket is that of a voice agent whose tokens end with its session.
	LifetimeSocket = "ws_session"
)

// LifeOf is how long a voice agent's tokens last.
func LifeOf(lifetime string) time.Duration {
	if lifetime == LifetimeSocket {
		return socketLife
	}
	return Life
}
