package simswitch

import (
	"slices"
	"sync"
	"time"
)

// clockTick is the grain of the hop's delay and of playback.
const clockTick = 5 * time.Millisecond

// mediaClock is the one timer of the switch's audio: on each tick it sends what is due on every port. It stands still while there is none.
type mediaClock struct {
	mu    sync.Mutex
	ports []*mediaPort  // guarded by mu; replaced, never changed in place
	wake  chan struct{} // holds one when a port has come since the clock looked
}

func newMediaClock() *mediaClock { return &mediaClock{wake: make(chan struct{}, 1)} }

func (c *mediaClock) add(m *mediaPort) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ports = append(slices.Clone(c.ports), m)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *mediaClock) remove(m *mediaPort) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ports = slices.DeleteFunc(slices.Clone(c.ports), func(p *mediaPort) bool { return p == m })
}

// run ticks until stop closes.
func (c *mediaClock) run(stop <-chan struct{}) {
	tick := time.NewTicker(clockTick)
	defer tick.Stop()
	for {
		c.mu.Lock()
		ports := c.ports
		c.mu.Unlock()
		if len(ports) == 0 {
			tick.Stop()
			select {
			case <-stop:
				return
			case <-c.wake:
			}
			tick.Reset(clockTick)
			continue
		}
		select {
		case <-stop:
			return
		case now := <-tick.C:
			for _, m := range ports {
				m.tick(now)
			}
		}
	}
}

// tick sends what is due: digits before playback before relayed audio.
func (m *mediaPort) tick(now time.Time) {
	m.mu.Lock()
	p := m.play
	switch {
	case m.closed:
		m.mu.Unlock()
		return
	case len(m.digits) > 0:
		m.digitTick(now)
		p = nil
	case p != nil:
		if m.playTick(p, now) {
			p = nil
		}
	default:
		p = nil
		m.flush(now)
		m.fillHeard(now)
	}
	whispered := m.fillSaid(now)
	for _, r := range m.recorders {
		r.flush(now)
	}
	peer, c, ts, ssrc := m.peer, m.c, m.quiet.ts, m.ssrc
	m.mu.Unlock()
	if whispered != nil && peer != nil {
		peer.relay(whispered, c, ts, ssrc, now)
	}
	if p != nil {
		p.finish()
	}
}

// flush forwards relayed packets whose delay is over, half a tick early or late. The caller holds mu.
func (m *mediaPort) flush(now time.Time) {
	n := 0
	for n < len(m.delayed) && m.delayed[n].due.Sub(now) <= clockTick/2 {
		d := &m.delayed[n]
		m.forward(d.data[:d.n], d.codec, d.ts, d.ssrc, now)
		n++
	}
	if n > 0 {
		m.delayed = slices.Delete(m.delayed, 0, n)
	}
}

// player is what plays on a port. source fills a frame and says whether there is more.
type player struct {
	source func(frame []int16) bool
	next   time.Time
	done   chan struct{}
	once   sync.Once
	frame  [frameSamples]int16
	out    []byte
	frames int
	under  *player // what goes on when this ends: an application was run inside of another
	ended  bool
}

func (p *player) finish() { p.once.Do(func() { close(p.done) }) }

// startPlay plays source to the far end until it ends or stopPlay; the relay towards the port rests meanwhile, and so does what
// played before.
func (m *mediaPort) startPlay(source func(frame []int16) bool) *player {
	p := &player{source: source, done: make(chan struct{}), next: time.Now()}
	m.mu.Lock()
	closed := m.closed
	if !closed {
		p.under = m.play
		m.play = p
		m.delayed = m.delayed[:0]
		m.rebase(p.next)
	}
	m.mu.Unlock()
	if closed {
		p.finish()
	}
	return p
}

// plays says whether something plays.
func (m *mediaPort) plays() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.play != nil
}

// uncover takes p off, and lets what it lies on go on. The caller holds mu.
func (m *mediaPort) uncover(p *player) {
	for m.play = p.under; m.play != nil && m.play.ended; {
		m.play = m.play.under
	}
	m.mapped = false
	if m.play != nil {
		m.play.next = time.Now()
	}
}

// stopPlay ends p if it still plays, and tells how many samples were played.
func (m *mediaPort) stopPlay(p *player) int {
	m.mu.Lock()
	p.ended = true
	if m.play == p {
		m.uncover(p)
	}
	n := p.frames * frameSamples
	m.mu.Unlock()
	p.finish()
	return n
}

// playTick sends the frames that are due and says whether p goes on. The caller holds mu.
func (m *mediaPort) playTick(p *player, now time.Time) bool {
	if now.Sub(p.next) > 10*frameDuration { // the machine stood still: what was not played is skipped, and the timestamps tell of it
		p.next = now
		m.rebase(now)
	}
	for !p.next.After(now) {
		clear(p.frame[:])
		if !p.source(p.frame[:]) {
			m.uncover(p)
			return false
		}
		p.out = encode(m.c, p.out[:0], p.frame[:])
		m.sendAudio(p.out, m.ts, p.frames == 0, now)
		p.frames++
		p.next = p.next.Add(frameDuration)
	}
	return true
}
