package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringmaster/ringmaster/store/retry"
)

// listener hears PostgreSQL's notifications.
type listener struct {
	pool                   *pgxpool.Pool // whose configuration it connects with
	application, statement string
	// listening is called whenever nothing is missed from now on, told for each notification, lost whenever the connection is gone, at the end too.
	listening func()
	told      func(payload string)
	lost      func(err error, retryIn time.Duration)
}

// keep listens until ctx ends, with another connection whenever one is lost.
func (l listener) keep(ctx context.Context) {
	for wait := firstRetryWait; ; wait = min(wait*2, maxRetryWait) {
		began := time.Now()
		err := l.listen(ctx)
		if time.Since(began) > maxRetryWait {
			wait = firstRetryWait
		}
		l.lost(err, wait)
		if ctx.Err() != nil || retry.Pause(ctx, retry.Jitter(wait)) != nil {
			return
		}
	}
}

// listen has a connection of its own on which it waits for notifications. It returns when that is lost or ctx ends.
func (l listener) listen(ctx context.Context) error {
	cfg := l.pool.Config().ConnConfig.Copy()
	cfg.RuntimeParams["application_name"] = l.application
	cfg.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) { l.told(n.Payload) }
	conn, err := pgconn.ConnectConfig(ctx, &cfg.Config)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listenPing)
		defer cancel()
		_ = conn.Close(ctx) // it may be lost
	}()
	if _, err := within(ctx, func(ctx context.Context) ([]*pgconn.Result, error) {
		return conn.Exec(ctx, l.statement).ReadAll()
	}); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	l.listening()
	for {
		quiet, cancel := context.WithTimeout(ctx, listenQuiet)
		err := conn.WaitForNotification(quiet)
		cancel()
		if err != nil && ctx.Err() == nil && pgconn.Timeout(err) {
			_, err = within(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, conn.Ping(ctx) })
		}
		if err != nil {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// within bounds an exchange on the connection.
func within[T any](ctx context.Context, do func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, listenPing)
	defer cancel()
	return do(ctx)
}
