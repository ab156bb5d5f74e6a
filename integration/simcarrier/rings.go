package simcarrier

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// maxRings bounds what SetRings takes.
const maxRings = 8000

// rings is how long subscribers ring who are called one after the other.
type rings struct {
	ms   []int
	next int
}

// SetRings says how ordinary numbers behave from now on, one after the other and then from the beginning: a positive number of
// milliseconds rings for so long and answers, a negative one rings for so long and then ends unanswered (480). None brings
// the number table back. Errors: ErrInvalidRequest.
func (s *Server) SetRings(ms []int) error {
	if len(ms) > maxRings {
		return fmt.Errorf("%w: %d rings, at most %d", ErrInvalidRequest, len(ms), maxRings)
	}
	for _, m := range ms {
		if m == 0 || m < -120_000 || m > 120_000 {
			return fmt.Errorf("%w: a ring of %d ms", ErrInvalidRequest, m)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rings = rings{ms: ms}
	return nil
}

// nextRing changes the plan of an ordinary number that is called.
func (s *Server) nextRing(p *plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.rings.ms) == 0 {
		return
	}
	ms := s.rings.ms[s.rings.next%len(s.rings.ms)]
	s.rings.next++
	p.ring, p.rings = time.Duration(ms)*time.Millisecond, true
	if ms < 0 {
		p.ring, p.givesUp = -p.ring, true
	}
}

func (s *surface) putRings(w http.ResponseWriter, r *http.Request) {
	var req struct {
		MS []int `json:"ms"`
	}
	err := decode(w, r, &req)
	if err == nil {
		err = s.SetRings(req.MS)
	}
	s.reply(w, map[string]bool{"ok": true}, err)
}

// SetRings says how ordinary numbers behave from now on; see Server.SetRings.
func (c *Client) SetRings(ctx context.Context, ms []int) error {
	return c.do(ctx, http.MethodPut, "/rings", map[string]any{"ms": ms}, nil)
}
