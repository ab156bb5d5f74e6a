package simcarrier

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// ErrNoPort says that the RTP port range is used up.
var ErrNoPort = errors.New("no RTP port is free")

const (
	frameTime    = 20 * time.Millisecond
	slotsPerTick = 4
	threads      = 2 // that pace RTP
	slotTime     = frameTime / slotsPerTick
)

// portPool hands out the even ports of a range, in turn, so that a port rests before it is used again.
type portPool struct {
	mu   sync.Mutex
	free []int
}

func newPortPool(low, high int) *portPool {
	p := &portPool{}
	for port := low + low%2; port <= high; port += 2 {
		p.free = append(p.free, port)
	}
	return p
}

// open binds the next free port that the system grants.
func (p *portPool) open(ip netip.Addr) (*rtpSocket, int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var last error
	for i, port := range p.free {
		s, err := openRTPSocket(netip.AddrPortFrom(ip, uint16(port)))
		if err == nil {
			p.free = slices.Concat(p.free[i+1:], p.free[:i])
			return s, port, nil
		}
		last = err
	}
	return nil, 0, errors.Join(ErrNoPort, last)
}

func (p *portPool) put(port int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, port)
}

// pump drives every stream from a few threads. Each thread wakes every 5 ms for a quarter of its streams, so that
// packets leave spread over the 20 ms, not in one volley.
type pump struct {
	ports  *portPool
	log    *slog.Logger
	shards []*shard
	done   chan struct{}
	wg     sync.WaitGroup

	mu      sync.Mutex // guards what follows
	next    int
	started bool
	closed  bool
}

// shard is the work of one thread. Streams enter through joining; only the thread closes and removes them.
type shard struct {
	mu      sync.Mutex
	joining []*stream

	joined chan struct{} // holds one when a stream has come since the thread looked
	slots  [slotsPerTick][]*stream
	jumpy  []*stream // streams with jitter, whose held packets are looked at in every slot
	buf    []byte
}

func newPump(ports *portPool, log *slog.Logger) *pump {
	p := &pump{ports: ports, log: log, done: make(chan struct{})}
	for range threads {
		p.shards = append(p.shards, &shard{joined: make(chan struct{}, 1), buf: make([]byte, 2048)})
	}
	return p
}

func (p *pump) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started || p.closed {
		return
	}
	p.started = true
	for _, sh := range p.shards {
		p.wg.Go(func() { p.run(sh) })
	}
}

// close ends the threads and frees every stream's socket.
func (p *pump) close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	p.mu.Unlock()
	close(p.done)
	p.wg.Wait()
}

// add gives a stream to the next thread. After close the stream is freed at once.
func (p *pump) add(st *stream) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || !p.started {
		p.free(st)
		return fmt.Errorf("start RTP stream: %w", ErrClosed)
	}
	sh := p.shards[p.next%len(p.shards)]
	st.slot = p.next / len(p.shards) % slotsPerTick
	p.next++
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.joining = append(sh.joining, st)
	select {
	case sh.joined <- struct{}{}:
	default:
	}
	return nil
}

func (p *pump) free(st *stream) {
	if err := st.socket.close(); err != nil {
		p.log.Error("closing an RTP socket failed", "error", err)
	}
	p.ports.put(st.port)
}

// run serves a shard's streams until the pump is closed; it waits without a clock while there are none.
func (p *pump) run(sh *shard) {
	ticker := time.NewTicker(slotTime)
	defer ticker.Stop()
	started, turn := time.Now(), int64(0)
	for {
		tick := ticker.C
		if sh.idle() {
			ticker.Stop()
			tick = nil
		}
		select {
		case <-p.done:
			sh.admit()
			for _, slot := range sh.slots {
				for _, st := range slot {
					p.free(st)
				}
			}
			return
		case <-sh.joined:
			if tick == nil {
				ticker.Reset(slotTime)
			}
			sh.admit()
			continue
		case <-tick:
		}
		sh.admit()
		// A tick that came late stands for all that were missed.
		due := int64(time.Since(started) / slotTime)
		turn = max(turn, due-slotsPerTick)
		for ; turn < due; turn++ {
			p.turn(sh, int(turn%slotsPerTick))
		}
	}
}

// idle tells that the thread has no stream.
func (sh *shard) idle() bool {
	for _, slot := range sh.slots {
		if len(slot) > 0 {
			return false
		}
	}
	return true
}

func (sh *shard) admit() {
	sh.mu.Lock()
	joining := sh.joining
	sh.joining = nil
	sh.mu.Unlock()
	for _, st := range joining {
		sh.slots[st.slot] = append(sh.slots[st.slot], st)
		if st.lossy {
			sh.jumpy = append(sh.jumpy, st)
		}
	}
}

func (p *pump) turn(sh *shard, slot int) {
	now := time.Now()
	for _, st := range sh.jumpy {
		st.flush(now)
	}
	gone := false
	for _, st := range sh.slots[slot] {
		if st.closed.Load() {
			st.receive(sh.buf)
			p.free(st)
			st.freed, gone = true, true
			continue
		}
		st.receive(sh.buf)
		st.send(now)
	}
	if gone {
		isFreed := func(st *stream) bool { return st.freed }
		sh.slots[slot] = slices.DeleteFunc(sh.slots[slot], isFreed)
		sh.jumpy = slices.DeleteFunc(sh.jumpy, isFreed)
	}
}
