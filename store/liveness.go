package store

import (
	"net"
	"time"

	"github.com/jackc/pgx/v5"
)

// A machine or a network that vanishes closes no connection. Both ends give one up whose other end has not acknowledged anything for
// this long, neither data nor probes.
const (
	probeIdle     = 2 * time.Second
	probeInterval = time.Second
	probeCount    = 3
	silentLimit   = 5 * time.Second
)

// liveness has both ends notice when the other one has vanished. The server then ends the session, and what it held is free for
// other controllers: a campaign's lock, a tenant's gate, rows. This end comes to an error instead of waiting for a quarter of
// an hour. (Unix sockets have no such settings and no such fate.)
func liveness(cfg *pgx.ConnConfig) {
	for name, value := range map[string]string{
		"tcp_keepalives_idle": "2", "tcp_keepalives_interval": "1", "tcp_keepalives_count": "3", "tcp_user_timeout": "5000",
	} {
		if cfg.RuntimeParams[name] == "" {
			cfg.RuntimeParams[name] = value
		}
	}
	dialer := net.Dialer{
		Timeout:         cfg.ConnectTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: probeIdle, Interval: probeInterval, Count: probeCount},
		ControlContext:  boundSilence,
	}
	cfg.DialFunc = dialer.DialContext
}
