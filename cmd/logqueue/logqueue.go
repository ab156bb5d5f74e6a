// Package logqueue writes a log beside those who log: a journal that stalls holds up no call and no audio.
package logqueue

import (
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	// maxBytes bounds what waits to be written. It is some ten thousand lines.
	maxBytes = 4 << 20
	// flushTimeout bounds the wait for the log's reader at the end.
	flushTimeout = 2 * time.Second
)

// Queue takes log lines and writes them from a goroutine of its own. While it is full, lines are dropped and counted, and the next line says
// how many. Safe for concurrent use.
type Queue struct {
	out io.Writer
	// lost writes of dropped lines, in the log's own format.
	lost func(to io.Writer, lines int)

	mu      sync.Mutex
	pending []byte
	dropped int
	closed  bool

	wake chan struct{} // of capacity 1
	done chan struct{}
}

// New begins to write to out. Close it.
func New(out io.Writer, lost func(to io.Writer, lines int)) *Queue {
	q := &Queue{out: out, lost: lost, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go q.run()
	return q
}

// Write implements io.Writer. It doesn't wait and doesn't fail.
func (q *Queue) Write(line []byte) (int, error) {
	q.mu.Lock()
	if len(q.pending)+len(line) > maxBytes {
		q.dropped++
	} else {
		q.pending = append(q.pending, line...)
	}
	q.mu.Unlock()
	q.signal()
	return len(line), nil
}

// Close writes what waits, for a while.
func (q *Queue) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
	select {
	case <-q.done:
	case <-time.After(flushTimeout):
	}
}

func (q *Queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *Queue) run() {
	defer close(q.done)
	var lines []byte
	for {
		q.mu.Lock()
		lines, q.pending = q.pending, lines[:0]
		dropped, closed := q.dropped, q.closed
		q.dropped = 0
		q.mu.Unlock()
		if len(lines) > 0 {
			_, _ = q.out.Write(lines) // a log that cannot be written has nowhere to be reported
		}
		if dropped > 0 {
			q.lost(q.out, dropped)
		}
		if len(lines) > 0 || dropped > 0 {
			continue
		}
		if closed {
			return
		}
		<-q.wake
	}
}

// SayLost writes that lines were dropped, by handler.
func SayLost(handler func(io.Writer) slog.Handler) func(io.Writer, int) {
	return func(to io.Writer, lines int) {
		slog.New(handler(to)).Error("log lines dropped: the log's reader was too slow", "lines", lines)
	}
}
