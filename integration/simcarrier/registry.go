package simcarrier

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// dialogKey names a dialog on our side: a carrier that calls itself has two with one Call-ID.
type dialogKey struct {
	callID, localTag string
}

// registry holds the live calls by dialog, all reports in the order of their INVITEs, and the totals. The server's mu
// guards it.
type registry struct {
	live     map[dialogKey]*call
	all      []*call
	stats    Stats
	answered int
}

// keepReports bounds the reports of ended calls that are kept.
const keepReports = 20_000

func newRegistry() registry {
	return registry{live: map[dialogKey]*call{}, stats: Stats{ByStatus: map[int]int64{}}}
}

// register admits a call; Close waits for it until unregister.
func (s *Server) register(c *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	r := &s.calls
	if _, ok := r.live[c.key()]; ok {
		return fmt.Errorf("register call %s: id is in use", c.callID)
	}
	s.wg.Add(1)
	r.live[c.key()] = c
	r.all = append(r.all, c)
	if c.role == Callee {
		r.stats.Received++
	} else {
		r.stats.Placed++
	}
	if over := len(r.all) - keepReports - len(r.live); over > 0 {
		r.forget(over)
	}
	return nil
}

// forget drops the n oldest reports of ended calls, as soon as their reports say so: their goroutines may still be on
// their way out.
func (r *registry) forget(n int) {
	r.all = slices.DeleteFunc(r.all, func(c *call) bool {
		if n == 0 || !c.hasEnded() {
			return false
		}
		n--
		return true
	})
}

func (s *Server) noteAnswered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.calls
	r.stats.Answered++
	r.answered++
	r.stats.PeakLive = max(r.stats.PeakLive, r.answered)
}

func (s *Server) noteForbidden() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls.stats.ForbiddenInvites++
}

// unregister ends what register began.
func (s *Server) unregister(c *call, answered bool, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.calls
	delete(r.live, c.key())
	r.stats.Ended++
	r.stats.ByStatus[status]++
	if answered {
		r.answered--
	}
	s.wg.Done()
}

// dialogCall finds the live call that an in-dialog request belongs to.
func (s *Server) dialogCall(callID, localTag string) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls.live[dialogKey{callID, localTag}]
}

// find is the latest call with a Call-ID or number.
func (s *Server) find(key string) (*call, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range slices.Backward(s.calls.all) {
		if c.callID == key {
			return c, nil
		}
	}
	for _, c := range slices.Backward(s.calls.all) {
		if sameNumber(c.number, key) {
			return c, nil
		}
	}
	return nil, fmt.Errorf("find call %q: %w", key, ErrUnknownCall)
}

// Filter narrows a list of reports.
type Filter struct {
	// Number keeps the calls of one subscriber.
	Number string
	// Live keeps the calls that are up or ringing.
	Live bool
}

// Calls lists the reports kept, the oldest first.
func (s *Server) Calls(f Filter) []Report {
	s.mu.Lock()
	calls := slices.Clone(s.calls.all)
	s.mu.Unlock()
	out := []Report{}
	for _, c := range calls {
		if f.Number != "" && !sameNumber(c.number, f.Number) {
			continue
		}
		if r := c.snapshot(); r.Live || !f.Live {
			out = append(out, r)
		}
	}
	return out
}

// Call is the report of the latest call with a Call-ID or number.
func (s *Server) Call(key string) (Report, error) {
	c, err := s.find(key)
	if err != nil {
		return Report{}, err
	}
	return c.snapshot(), nil
}

// Hangup makes the subscriber of the latest call with a Call-ID or number hang up. A call that has ended is left as it
// is.
func (s *Server) Hangup(key string) error {
	c, err := s.find(key)
	if err != nil {
		return err
	}
	c.askHangup()
	return nil
}

// Forget drops the reports of ended calls and returns how many there were.
func (s *Server) Forget() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.calls.all)
	s.calls.forget(before)
	return before - len(s.calls.all)
}

// Stats are the totals.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	out := s.calls.stats
	out.Live = len(s.calls.live)
	out.ByStatus = maps.Clone(out.ByStatus)
	calls := slices.Clone(s.calls.all)
	s.mu.Unlock()
	var trips []float64
	for _, c := range calls {
		trips = append(trips, c.roundTrips()...)
	}
	if n := len(trips); n > 0 {
		slices.SortFunc(trips, cmp.Compare)
		out.RoundTrip = RoundTrip{Count: n, P50: trips[(n-1)/2], P99: trips[(n-1)*99/100], Max: trips[n-1]}
	}
	return out
}
