package media

import (
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/netio"
	"github.com/ringmaster/ringmaster/media/playout"
	"github.com/ringmaster/ringmaster/media/record"
	"github.com/ringmaster/ringmaster/media/rtp"
	"github.com/ringmaster/ringmaster/media/ws"
)

const (
	// slots is how many parts the sessions of a shard are spread over, one part every slotNS. A shard wakes up once per
	// slot for all that has come in and for the playout of that slot's sessions.
	slots  = 4
	slotNS = dsp.FrameNS / slots
	// slotSlack is how many sessions more a slot may have than the one that a session leaves for it.
	slotSlack = 4
	// maxLag is how far a shard may fall behind and still catch up, slot by slot; beyond it slots are left out.
	maxLag = 3 * dsp.FrameNS
	// readBuffer is what is read from an AI's socket at a time.
	readBuffer = 64 << 10
	// talliesEvery is the number of slots between two updates of the metrics: 1 s.
	talliesEvery = 50 * slots
)

// shard is a tick thread and the sessions it serves. All their audio, sockets and timers are touched by this one thread,
// so nothing on the audio path is locked. Others reach it through do.
type shard struct {
	srv   *Server
	log   *slog.Logger
	inbox chan func()
	sleep netio.Sleeper // until the next slot, or until something is in the inbox
	quit  chan struct{}
	ended chan struct{} // closed when the thread has ended, after quit
	wg    sync.WaitGroup
	// sessions are those that are open or being opened: Server.open counts them, and remove.
	sessions atomic.Int64
	now      func() int64 // the monotonic clock, ns; of a shard that nobody runs it may be a test's own

	poll  *netio.Poller
	byFD  []*port // by descriptor
	ports [slots][]*port
	opens []*port            // who is about to speak for the first time
	held  map[*port]struct{} // ports whose socket may hold bytes that the poller can't tell of
	rd    netio.Reader
	buf   []byte
	out   []byte
	json  []byte // a text frame's payload, before it is framed
	raw   []byte // a text frame's audio, decoded
	pcm   [rtp.MaxPayload]int16
	slew  *record.SlewTable // of the recordings
	pool  playout.Pool
	tally tally
	slot  int
	count int64 // slots since the shard began, those left out included; 1 is the first
	wall  int64 // the wall clock minus the monotonic one, ns
}

func newShard(srv *Server) (*shard, error) {
	p, err := netio.NewPoller()
	if err != nil {
		return nil, err
	}
	return &shard{
		srv: srv, log: srv.log, now: netio.Monotonic, poll: p,
		inbox: make(chan func(), 256), quit: make(chan struct{}), ended: make(chan struct{}),
		count: 1, held: map[*port]struct{}{},
		slew: record.NewSlewTable(), buf: make([]byte, readBuffer), out: make([]byte, 0, 4096),
	}, nil
}

// do runs fn on the shard's thread and waits for it. It reports false when the shard has ended without running it: what fn would have taken is
// still the caller's, and nothing that it writes is written any more.
func (sh *shard) do(fn func()) bool {
	done := make(chan struct{})
	if !sh.post(func() { defer close(done); fn() }) {
		return false
	}
	select {
	case <-done:
		return true
	case <-sh.ended:
	}
	select { // it may have been the last that the thread did
	case <-done:
		return true
	default:
		return false
	}
}

// post hands fn to the shard's thread, waiting for room in its inbox.
func (sh *shard) post(fn func()) bool {
	select {
	case sh.inbox <- fn:
		sh.sleep.Wake()
		return true
	case <-sh.quit:
		return false
	}
}

// run is the tick thread.
func (sh *shard) run() {
	defer sh.wg.Done()
	defer close(sh.ended)
	defer sh.closeAll()
	// The thread ends with the goroutine, since its priority is of no use to others.
	runtime.LockOSThread()
	if err := netio.RaisePriority(); err != nil {
		sh.log.Debug("raising the media thread's priority failed", "error", err)
	}
	next := sh.now()
	for {
		sh.drain()
		if sh.idle() {
			select {
			case fn := <-sh.inbox:
				sh.guard(nil, fn)
			case <-sh.quit:
				return
			}
			next = sh.now()
			continue
		}
		select {
		case <-sh.quit:
			return
		default:
		}
		now := sh.now()
		if lag := now - next; lag > maxLag {
			skip := lag / slotNS
			next += skip * slotNS
			sh.count += skip
			sh.slot = int((int64(sh.slot) + skip) % slots)
			sh.srv.metrics.lateSlots.Add(float64(skip))
		}
		sh.step(now, next)
		next += slotNS
		// It never yields to other goroutines: it would wait behind all that compute, whatever its thread's priority. That the
		// runtime's monitor wakes up more often to take its processor away costs less than a thousandth of one.
		for sh.sleep.Until(next) && sh.now() < next {
			sh.drain()
		}
	}
}

// closeAll ends the sessions that are left, without their closing handshakes: one may have been opened meanwhile.
func (sh *shard) closeAll() {
	for _, p := range slices.Concat(sh.ports[:]...) {
		sh.guard(p, func() {
			p.ai.shutdown(ws.CloseGoingAway, CloseShutdown, sh.now())
			p.ai.finishClosing()
		})
	}
}

// end gives back what the shard holds, after its thread has ended.
func (sh *shard) end() {
	if err := sh.poll.Close(); err != nil {
		sh.log.Warn("closing a poller failed", "error", err)
	}
}

// step does one slot's work: the playout of this slot's sessions, behind the input that is there for them, and then the input
// of all others. So a packet leaves as near to its time as it can, and takes the AI's newest audio along.
func (sh *shard) step(now, due int64) {
	sh.wall = time.Now().UnixNano() - now
	ready := sh.poll.Ready()
	sh.Read(ready, now, true)
	for _, p := range slices.Backward(sh.ports[sh.slot]) { // a port may remove itself
		sh.guard(p, func() { p.tick(now, due) })
	}
	sh.Read(ready, now, false)
	sh.readHot(now)
	sh.beginSpeaking(now, due)
	sh.slot = (sh.slot + 1) % slots
	if sh.count++; sh.count%talliesEvery == 0 {
		sh.tally.flush(sh.srv.metrics)
	}
}

// beginSpeaking lets the sessions speak whose time has come, and keeps them in this slot: the caller hears the first word up to 20 ms sooner. A slot that
// has many already takes no more; they wait for their own.
func (sh *shard) beginSpeaking(now, due int64) {
	later := sh.opens[:0]
	for _, p := range sh.opens {
		if p.leg.up && now < p.leg.speakAt {
			later = append(later, p)
			continue
		}
		if p.slot == sh.slot || !p.leg.up || len(sh.ports[sh.slot]) > len(sh.ports[p.slot])+slotSlack || !sh.unslot(p) {
			continue
		}
		p.slot = sh.slot
		sh.ports[p.slot] = append(sh.ports[p.slot], p)
		sh.guard(p, func() { p.tick(now, due) })
	}
	clear(sh.opens[len(later):])
	sh.opens = later
}

// Read takes the input of this slot's sessions, or that of the others.
func (sh *shard) Read(ready []unix.EpollEvent, now int64, mine bool) {
	for _, ev := range ready {
		p := sh.watches(int(ev.Fd))
		if p == nil || (p.slot == sh.slot) != mine {
			continue
		}
		fd := ev.Fd
		if p.hot() && fd == int32(p.ai.sock.st.PollFD()) {
			continue
		}
		sh.guard(p, func() {
			switch {
			case p.leg.rtp != nil && fd == int32(p.leg.rtp.FD):
				p.leg.readRTP(now)
			case p.leg.rtp != nil && fd == int32(p.leg.rtp.Control.FD):
				p.ctl.readRTCP(now)
			default:
				p.ai.readSocket(now)
			}
		})
	}
	for p := range sh.held {
		if (p.slot == sh.slot) != mine || p.hot() {
			continue
		}
		sh.guard(p, func() { p.ai.readSocket(now) })
	}
}

// hot tells whether the port's socket had more to say than its share.
func (p *port) hot() bool { return p.ai.sock != nil && p.ai.sock.hot }

// readHot gives the sockets that have more to say than their share what time is left for them, in no order.
func (sh *shard) readHot(now int64) {
	end := int64(0)
	for p := range sh.held {
		if !p.hot() || p.ai.sock.hotSlot == sh.count {
			continue
		}
		at := sh.now()
		if end == 0 {
			end = at + hotBudget
		} else if at >= end {
			return
		}
		sh.guard(p, func() { p.ai.readSocket(now) })
	}
}

// arrival turns the kernel's time of a packet into the monotonic clock's; without one, or with one that makes no sense,
// the packet has arrived now.
func (sh *shard) arrival(now, wall int64) int64 {
	at := wall - sh.wall
	if wall == 0 || at > now+slotNS || now-at > int64(2*time.Second) {
		return now
	}
	return min(at, now)
}

// guard keeps a fault in one session from ending the others: it is logged and counted, and the session is closed.
func (sh *shard) guard(p *port, fn func()) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		sh.srv.metrics.panics.Inc()
		sh.log.Error("panic in a media thread", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
		if p == nil {
			return
		}
		if sh.srv.guard("end of a faulty session", p.ai.abandon) {
			sh.srv.guard("removal of a faulty session", p.ai.finishClosing)
		}
	}()
	fn()
}

// drain runs what others have asked for.
func (sh *shard) drain() {
	for range len(sh.inbox) {
		select {
		case fn := <-sh.inbox:
			sh.guard(nil, fn)
		default:
			return
		}
	}
}

func (sh *shard) idle() bool {
	for i := range sh.ports {
		if len(sh.ports[i]) > 0 {
			return false
		}
	}
	return true
}

// leastLoaded is the shard with the fewest sessions, of several the next one from a place on.
func leastLoaded(shards []*shard, from int) *shard {
	best := shards[from%len(shards)]
	for i := range shards {
		if sh := shards[(from+i)%len(shards)]; sh.sessions.Load() < best.sessions.Load() {
			best = sh
		}
	}
	return best
}

// add gives a session the emptiest slot.
func (sh *shard) add(p *port) {
	best := 0
	for i := range sh.ports {
		if len(sh.ports[i]) < len(sh.ports[best]) {
			best = i
		}
	}
	p.slot = best
	sh.ports[best] = append(sh.ports[best], p)
}

func (sh *shard) remove(p *port) {
	if sh.unslot(p) {
		sh.sessions.Add(-1)
	}
	if sh.idle() {
		sh.tally.flush(sh.srv.metrics)
	}
}

// unslot takes a session out of its slot, and reports whether it was there.
func (sh *shard) unslot(p *port) bool {
	list := sh.ports[p.slot]
	i := slices.Index(list, p)
	if i < 0 {
		return false
	}
	list[i] = list[len(list)-1]
	list[len(list)-1] = nil
	sh.ports[p.slot] = list[:len(list)-1]
	return true
}

// watch polls a descriptor for a port.
func (sh *shard) watch(fd int, p *port) error {
	if err := sh.poll.Add(fd); err != nil {
		return err
	}
	if fd >= len(sh.byFD) {
		sh.byFD = slices.Grow(sh.byFD, fd+1-len(sh.byFD))[:fd+1]
	}
	sh.byFD[fd] = p
	return nil
}

// watches is whose descriptor it is, nil when it is nobody's.
func (sh *shard) watches(fd int) *port {
	if fd >= len(sh.byFD) {
		return nil
	}
	return sh.byFD[fd]
}

// unwatch ends that, before the descriptor is closed: its number may be given to another socket at once.
func (sh *shard) unwatch(fd int) {
	if sh.watches(fd) == nil {
		return
	}
	sh.byFD[fd] = nil
	if err := sh.poll.Remove(fd); err != nil {
		sh.log.Warn("removing a descriptor from the poller failed", "error", err)
	}
}

// RaiseProcessors gives the scheduler of the process a processor for each tick thread and each job that computes, beside one for each
// that the machine has, and returns how many tick threads an endpoint should have. A tick thread sleeps in a system call and
// needs a processor of the scheduler's when it wakes: where goroutines that compute hold all of them, it waits its turn behind
// them, whatever its priority. With one to spare the kernel decides, which knows that priority. It is called once, at start.
func RaiseProcessors(jobs int) (shards int) {
	n := runtime.GOMAXPROCS(0)
	shards = defaultShards(n)
	runtime.GOMAXPROCS(n + shards + jobs)
	return shards
}

// defaultShards is one tick thread for every two processors.
func defaultShards(processors int) int { return max(1, processors/2) }
