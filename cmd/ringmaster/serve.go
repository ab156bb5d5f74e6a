package main

import (
	"context"
	"io"
	"log/slog"

	"github.com/ringmaster/ringmaster/cmd/controller"
)

type serveCmd struct{ configFlag }

// Run serves until the first signal, then drains.
func (cmd serveCmd) Run(ctx context.Context, e env) error {
	c, err := cmd.load(e)
	if err != nil {
		return err
	}
	lines := newLogQueue(e.stderr, sayLost(func(to io.Writer) slog.Handler { return logger(env{stderr: to}, c.Log).Handler() }))
	defer lines.Close()
	e.stderr = lines
	log := logger(e, c.Log)
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
			log.ErrorContext(ctx, "notification of the service manager failed", "error", err)
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
