package media

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/ringmaster/ringmaster/media/netio"
)

// portRest is how long a pair of ports rests between two calls: packets of the last one that still come then find nobody, and are not heard in the
// next.
const portRest = 5 * time.Second

// portRests keeps when pairs of ports were given back.
type portRests struct {
	mu    sync.Mutex
	since map[int]time.Time
}

// rest begins a pair's rest, by the port of its RTP.
func (p *portRests) rest(port int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since == nil {
		p.since = map[int]time.Time{}
	}
	p.since[port] = now
}

// restedFor tells for how long a pair has rested; one that has rested enough is forgotten.
func (p *portRests) restedFor(port int, now time.Time) (d time.Duration, rests bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	since, ok := p.since[port]
	if !ok {
		return 0, false
	}
	if d = now.Sub(since); d >= portRest || d < 0 { // the clock may have been set
		delete(p.since, port)
		return 0, false
	}
	return d, true
}

// bindRTP takes the next free pair of ports that doesn't rest; where all do, the one that has rested longest. The search goes round the range.
func (s *Server) bindRTP() (*netio.Socket, error) {
	first := (s.cfg.RTPPortMin + 1) &^ 1
	n := (s.cfg.RTPPortMax - first + 1) / 2
	now := s.cfg.Clock()
	var resting []restingPair
	for range n {
		port := first + 2*int(s.next.Add(1)%uint32(n))
		if d, rests := s.ports.restedFor(port, now); rests {
			resting = append(resting, restingPair{port, d})
			continue
		}
		sock, err := netio.OpenPair(s.rtpIP, port)
		if err == nil {
			return sock, nil
		}
		if !errors.Is(err, netio.ErrPortInUse) {
			return nil, err
		}
	}
	slices.SortFunc(resting, func(a, b restingPair) int { return cmp.Compare(b.since, a.since) })
	for _, p := range resting {
		sock, err := netio.OpenPair(s.rtpIP, p.port)
		if err == nil || !errors.Is(err, netio.ErrPortInUse) {
			return sock, err
		}
	}
	return nil, ErrNoPorts
}

// restingPair is a pair of ports, by that of its RTP, that has rested for so long.
type restingPair struct {
	port  int
	since time.Duration
}
