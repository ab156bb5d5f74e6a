package store_test

import (
	"bytes"
	"log/slog"
)

// logs hands each log line to the test.
type logs struct {
	slog.Handler
	lines chan string
}

func newLogs() *logs {
	l := &logs{lines: make(chan string, 1000)}
	l.Handler = slog.NewTextHandler(lineWriter(l.lines), nil)
	return l
}

type lineWriter chan string

func (w lineWriter) Write(b []byte) (int, error) {
	w <- string(bytes.TrimSpace(b))
	return len(b), nil
}
