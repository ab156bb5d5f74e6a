package aikit

import (
	"sync"
	"time"
)

// opNone is of what is shown and crosses no socket.
const opNone = 0xff

// crossed is a frame that has crossed the socket, or a word on the socket itself.
type crossed struct {
	at      time.Time
	sent    bool
	op      byte
	payload []byte
	bytes   int
	last    bool
	// kind and note are of opNone.
	kind, note string
}

// The queue holds so many frames, and so many bytes.
const queueFrames, queueBytes = 1 << 14, 64 << 20

// queue takes frames off the endpoint's tick thread, which may not wait, to a goroutine of their own, which judges them. What finds no room is counted, and judged
// by nobody.
type queue struct {
	frames chan crossed
	done   chan struct{}

	mu     sync.Mutex
	bytes  int // that wait
	missed int
	over   bool
}

func (q *queue) start(take func(crossed)) {
	q.frames, q.done = make(chan crossed, queueFrames), make(chan struct{})
	go func() {
		defer close(q.done)
		for c := range q.frames {
			take(c)
			q.mu.Lock()
			q.bytes -= len(c.payload)
			q.mu.Unlock()
		}
	}()
}

func (q *queue) put(c crossed) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over {
		return
	}
	if q.bytes > 0 && q.bytes+len(c.payload) > queueBytes {
		q.missed++
		return
	}
	select {
	case q.frames <- c:
		q.bytes += len(c.payload)
	default:
		q.missed++
	}
}

// finish waits until all is judged; what comes later isn't taken. It returns how many frames were missed, and may be called more than once.
func (q *queue) finish() int {
	q.mu.Lock()
	if !q.over {
		q.over = true
		close(q.frames)
	}
	missed := q.missed
	q.mu.Unlock()
	<-q.done
	return missed
}
