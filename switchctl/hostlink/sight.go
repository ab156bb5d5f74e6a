package hostlink

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// Sight is what is known of the switch's calls over the links to it, which come and go: whether they are known now, until when they were
// before, and whether the switch is still the process that had them. A link says nothing of calls before they have been compared with the
// switch's channels over it.
type Sight struct {
	mu        sync.Mutex
	core      string    // Core-UUID of the newest link's switch
	met       string    // that of the switch that this controller was connected to last, since its start
	restarted bool      // it is another process than the one that the calls were compared with last
	compared  uint64    // the link's generation over which the calls were compared last
	up        uint64    // the newest link's generation
	answered  time.Time // the switch's last answer over that link
	before    time.Time // until when, by the switch's clock, the calls were known over the links before; the zero time is never

	ahead atomic.Int64 // by how much our clock is ahead of the switch's, in ns; 0 while that is little, or not known yet
}

// Ours is the time of our clock at a time of the switch's.
func (s *Sight) Ours(t time.Time) time.Time { return t.Add(time.Duration(s.ahead.Load())) }

// Theirs is the time of the switch's clock at a time of ours.
func (s *Sight) Theirs(t time.Time) time.Time { return t.Add(-time.Duration(s.ahead.Load())) }

// NewSight is what a process knows that has met no switch; core is the Core-UUID of the one that the process before was connected to, if known.
func NewSight(core string) *Sight { return &Sight{core: core} }

// Ahead is by how much our clock is ahead of the switch's; 0 while that is little, or not known yet.
func (s *Sight) Ahead() time.Duration { return time.Duration(s.ahead.Load()) }

// SetAhead keeps that, and gives what it was before.
func (s *Sight) SetAhead(d time.Duration) (before time.Duration) {
	return time.Duration(s.ahead.Swap(int64(d)))
}

// Left takes what the process before us has left.
func (s *Sight) Left(before ledger.NodeBefore) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core, s.before = before.Core, before.Seen
}

// LinkUp begins a link.
func (s *Sight) LinkUp(generation uint64, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.up, s.answered = generation, at
}

// Answer keeps that the switch answers.
func (s *Sight) Answer(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered = at
}

// LinkDown ends the link. One that is lost before the calls were compared over it leaves nothing.
func (s *Sight) LinkDown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.compared == s.up {
		s.before = s.Theirs(s.answered)
	}
}

// Process notes the Core-UUID of the link's switch and gives the one before.
func (s *Sight) Process(core string) (before string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, s.core = s.core, core
	s.restarted = s.restarted || before != "" && before != core
	return before
}

// Unseen reports, once, that this process was not connected to that switch before.
func (s *Sight) Unseen(core string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.met != core
	s.met = core
	return first
}

// Compare notes that all calls have been compared with the switch's channels over a link, and gives the Core-UUID of its switch; false when
// the link is another by now.
func (s *Sight) Compare(generation uint64, at time.Time) (core string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if generation == 0 || generation != s.up {
		return "", false
	}
	s.compared, s.restarted, s.answered = generation, false, at
	return s.core, true
}

// Knows reports whether the calls were compared over this link.
func (s *Sight) Knows(generation uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return generation != 0 && s.compared == generation
}

// Last tells until when, by the switch's clock, the calls were known before the link that there is, and whether its switch is another process since.
func (s *Sight) Last() (seen time.Time, restarted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.before, s.restarted
}

// AheadOf is by how much our clock was ahead of the switch's when that made an event in reply to what was asked at one time and answered at
// another; 0 while that is little.
func AheadOf(ev *esl.Event, asked, answered time.Time) time.Duration {
	at := ev.Micros("Event-Date-Timestamp")
	if at.IsZero() {
		return 0
	}
	switch least, most := asked.Sub(at), answered.Sub(at); {
	case least >= MinSkew:
		return least
	case most <= -MinSkew:
		return most
	}
	return 0
}
