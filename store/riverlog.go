package store

import (
	"context"
	"log/slog"
)

// riverLogger is a logger for River, whose lines at INFO count jobs every few seconds: it passes warnings and errors on.
func riverLogger(log *slog.Logger) *slog.Logger { return slog.New(warnings{log.Handler()}) }

// warnings is a handler of what is at least a warning.
type warnings struct{ slog.Handler }

func (h warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

func (h warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{h.Handler.WithAttrs(attrs)}
}
func (h warnings) WithGroup(name string) slog.Handler { return warnings{h.Handler.WithGroup(name)} }
