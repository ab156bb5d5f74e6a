package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringmaster/ringmaster/store/retry"
)

const (
	// fullLimit bounds the wait for a connection while the server takes no more of them. It is asked again every fullAgain, and idleAgain is how often
	// one of the pool's own is looked for.
	fullLimit = 3 * time.Second
	fullAgain = 500 * time.Millisecond
	idleAgain = 10 * time.Millisecond
)

// acquire gives a connection of a pool. A server that takes no more (max_connections, a role's or a database's CONNECTION LIMIT) isn't gone: those that the
// pool has are good, and one of them is waited for, as it is where the pool has all that it may have.
func acquire(ctx context.Context, pool *pgxpool.Pool) (*pgxpool.Conn, error) {
	end := time.Now().Add(fullLimit)
	for {
		conn, err := pool.Acquire(ctx)
		if !hasCode(err, codeTooManyConnections) || time.Now().After(end) {
			return conn, err
		}
		for again := time.Now().Add(retry.Jitter(fullAgain)); time.Now().Before(again) && pool.Stat().IdleConns() == 0; {
			if retry.Pause(ctx, idleAgain) != nil {
				return nil, err
			}
		}
	}
}

// connectionLost tells an error after which another connection is worth a try: the pool's may all be to a server that is gone. Of one that takes no more
// connections they are all that there is.
func connectionLost(err error) bool {
	return errors.Is(err, ErrUnavailable) && !hasCode(err, codeTooManyConnections)
}
