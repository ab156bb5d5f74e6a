package store

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringmaster/ringmaster/store/retry"
)

const (
	// fullLimit bounds the wait for a connection while the server takes no more of them. It is asked again every fullAgain, and idleAgain is how often
	// one of the pool's own is looked for.
	fullLimit = 3 * time.Second
	fullAgain = 500 * time.Millisecond
	idleAgain = 500 * time.Microsecond
)

// connections are those of a pool. A server that takes no more (max_connections, a role's or a database's CONNECTION LIMIT) isn't gone: those that the
// pool has are good, and one of them is waited for, as it is where the pool has all that it may have. Then whoever came first has the turn, and looks for
// one; the others wait for the turn. Each of them would ask the server for another: a process there, and a handshake, for nothing.
type connections struct {
	pool    *pgxpool.Pool
	turn    chan struct{}
	waiting atomic.Int32
	refusal atomic.Pointer[refusal]
}

// refusal is the server's newest, and when it is worth while to ask again.
type refusal struct {
	err   error
	again time.Time
}

func newConnections(pool *pgxpool.Pool) *connections {
	return &connections{pool: pool, turn: make(chan struct{}, 1)}
}

// acquire gives a connection.
func (c *connections) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	if r := c.refusal.Load(); c.waiting.Load() == 0 && (r == nil || time.Now().After(r.again)) {
		conn, err := c.ask(ctx)
		if !hasCode(err, codeTooManyConnections) {
			return conn, err
		}
	}
	c.waiting.Add(1)
	defer c.waiting.Add(-1)
	limited, cancel := context.WithTimeout(ctx, fullLimit)
	defer cancel()
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-limited.Done():
		return nil, c.refusal.Load().err
	}
	for {
		if r := c.refusal.Load(); time.Now().Before(r.again) && c.pool.Stat().IdleConns() == 0 {
			if retry.Pause(limited, idleAgain) != nil {
				return nil, r.err
			}
			continue
		}
		conn, err := c.ask(ctx)
		if !hasCode(err, codeTooManyConnections) {
			return conn, err
		}
	}
}

// ask takes an idle connection, or asks the server for another.
func (c *connections) ask(ctx context.Context) (*pgxpool.Conn, error) {
	conn, err := c.pool.Acquire(ctx)
	if hasCode(err, codeTooManyConnections) {
		c.refusal.Store(&refusal{err: err, again: time.Now().Add(retry.Jitter(fullAgain))})
	}
	return conn, err
}

// connectionLost tells an error after which another connection is worth a try: the pool's may all be to a server that is gone. Of one that takes no more
// connections they are all that there is.
func connectionLost(err error) bool {
	return errors.Is(err, ErrUnavailable) && !hasCode(err, codeTooManyConnections)
}
