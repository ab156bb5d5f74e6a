package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/cmd/controller"
	"github.com/ringmaster/ringmaster/cmd/logqueue"
)

type serveCmd struct{ configFlag }

// Run serves until the first signal, then drains.
func (cmd serveCmd) Run(ctx context.Context, e env) error {
	c, err := cmd.load(e)
	if err != nil {
		return err
	}
	lessCollecting()
	lines := logqueue.New(e.stderr, logqueue.SayLost(func(to io.Writer) slog.Handler { return logger(env{stderr: to}, c.Log).Handler() }))
	defer lines.Close()
	e.stderr = lines
	log := logger(e, c.Log)
	if err := slackenMonitor(); err != nil {
		log.DebugContext(ctx, "slowing the Go runtime's monitor failed", "error", err)
	}
	for _, w := range controller.FileWarnings(cmd.file(e)) {
		log.WarnContext(ctx, "configuration warning", "key", w.Key, "warning", w.Message)
	}
	ctl, err := controller.New(ctx, c, version, log)
	if err != nil {
		return err
	}
	n := newNotifier(e, c)
	ctl.Tell(func(ctx context.Context, state controller.State) {
		if err := n.tell(ctx, state); err != nil {
			log.ErrorContext(ctx, "notifying the service manager failed", "error", err)
		}
	})
	return ctl.Run(ctx)
}

func logger(e env, c controller.LogConfig) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.Level)) // validated with the configuration
	options := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(e.stderr, options))
	}
	return slog.New(slog.NewTextHandler(e.stderr, options))
}

// notifier tells the service manager how the controller stands: sd_notify(3), a datagram to the socket that NOTIFY_SOCKET names. Without
// that variable it tells nobody.
type notifier struct {
	socket string
	// stopping is how long a stop may take.
	stopping time.Duration
}

// stopMargin is what a stop takes after its drain: the limits of closing the parts, and some more.
const stopMargin = 25 * time.Second

func newNotifier(e env, c controller.Config) notifier {
	n := notifier{stopping: c.Drain.Timeout + stopMargin}
	for _, v := range e.environ {
		if socket, ok := strings.CutPrefix(v, "NOTIFY_SOCKET="); ok {
			n.socket = socket
		}
	}
	return n
}

// tell sends a state of the controller. That it is stopping carries how long it may take, so that a drain longer than the unit's
// TimeoutStopSec is not cut off.
func (n notifier) tell(ctx context.Context, state controller.State) error {
	if n.socket == "" {
		return nil
	}
	message := "READY=1"
	if state == controller.Draining {
		message = fmt.Sprintf("STOPPING=1\nEXTEND_TIMEOUT_USEC=%d", n.stopping.Microseconds())
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unixgram", n.socket) // "@…" is of the abstract namespace, as net has it, too
	if err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	_, err = conn.Write([]byte(message))
	if closed := conn.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	return nil
}
