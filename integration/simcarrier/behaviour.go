package simcarrier

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Behaviour is what a subscriber does, decided by the last two digits of its number.
type Behaviour int

// The rows of the number table: from Busy on in the order of the two digits, from 60 on. Talks is 00–59, 76–89, and what has no two digits.
const (
	// Talks answers after a second, speaks, and stays until hung up.
	Talks Behaviour = iota
	// Busy refuses with 486: 60.
	Busy
	// NoAnswer rings until it is cancelled: 61.
	NoAnswer
	// Declines refuses with 603: 62.
	Declines
	// Congested refuses with 503: 63.
	Congested
	// RingsLong rings for 8 s, then talks: 64.
	RingsLong
	// Refuses488, Refuses491 and Refuses500 talk, and refuse each re-INVITE with that status: 65, 66, 67.
	Refuses488
	Refuses491
	Refuses500
	// ReinvitedLate talks, and answers each re-INVITE after 400 ms: 68.
	ReinvitedLate
	// OtherEvents talks, and has telephone events under payload type 109: 69.
	OtherEvents
	// Unallocated refuses with 404: 70.
	Unallocated
	// HangsUp answers, talks, and hangs up after 3 s: 71.
	HangsUp
	// Machine plays a long greeting and a beep, then stays silent: 72.
	Machine
	// PressesKeys talks, and presses 1 2 3 two seconds after answer: 73.
	PressesKeys
	// Silent answers and sends silence: 74.
	Silent
	// Lossy talks over a line with 5% loss and jitter: 75.
	Lossy
	// Forbidden is on the do-not-call registry and must never be called: 90–99.
	Forbidden
)

const (
	ringsLong    = 8 * time.Second
	hangsUpAfter = 3 * time.Second
	keysAfter    = 2 * time.Second
	// reinvitedLate is how long a ReinvitedLate thinks about a re-INVITE.
	reinvitedLate = 400 * time.Millisecond
	lossRatio     = 0.05
	// ringsFrom and ringsTo bound what a detector may take for ringing, in Hz; unlikeRinging is none, and as low as speech.
	ringsFrom, ringsTo = 370.0, 505.0
	unlikeRinging      = 550.0
)

// BehaviourOf reads the last two digits of a number.
func BehaviourOf(number string) Behaviour {
	digits := digitsOf(number)
	if len(digits) < 2 {
		return Talks
	}
	n := int(digits[len(digits)-2]-'0')*10 + int(digits[len(digits)-1]-'0')
	row := Busy + Behaviour(n-60)
	switch {
	case n >= 90:
		return Forbidden
	case row >= Busy && row <= Lossy:
		return row
	}
	return Talks
}

// refusal is the final SIP status of a callee that never answers, or 0.
func (b Behaviour) refusal() int {
	return map[Behaviour]int{Busy: 486, Declines: 603, Forbidden: 603, Congested: 503, Unallocated: 404}[b]
}

// reinviteRefusal is what a re-INVITE is refused with, or 0.
func (b Behaviour) reinviteRefusal() int {
	return map[Behaviour]int{Refuses488: 488, Refuses491: 491, Refuses500: 500}[b]
}

// phrase is the text of a SIP status that subscribers answer with.
func phrase(status int) string {
	return map[int]string{
		200: "OK", 180: "Ringing", 400: "Bad Request", 404: "Not Found", 480: "Temporarily Unavailable", 481: "Call/Transaction Does Not Exist",
		486: "Busy Here", 487: "Request Terminated", 488: "Not Acceptable Here", 491: "Request Pending", 500: "Server Internal Error",
		503: "Service Unavailable", 603: "Decline",
	}[status]
}

// eventType is the payload type of telephone events that a subscriber offers and answers with.
func (b Behaviour) eventType() uint8 {
	if b == OtherEvents {
		return otherEvent
	}
	return defaultEvent
}

// plan is what a subscriber makes of a call.
type plan struct {
	// agent is the softphone that was called; nil for a number of the carrier.
	agent *agent
	// refusal is the final status of one that never answers, or 0.
	refusal int
	// ring is how long it rings before it answers, when rings is set; otherwise for ever.
	ring  time.Duration
	rings bool
	// givesUp: the ringing ends without an answer.
	givesUp bool
	// hangUp ends an answered call, unless it is 0.
	hangUp time.Duration
	voice  voiceSpec
	// steady speaks without a pause.
	steady bool
}

// planFor is what the number table says.
func (s *Server) planFor(b Behaviour) plan {
	p := plan{voice: b.voice(s.spec), ring: s.cfg.AnswerAfter, rings: b != NoAnswer, refusal: b.refusal()}
	if b == RingsLong {
		p.ring = ringsLong
	}
	if b == HangsUp {
		p.hangUp = hangsUpAfter
	}
	return p
}

// voice is what a subscriber speaks with where others speak with spec. Those by whom detection is tried have no tone like ringing's: a
// hello or a phrase of it that the line, or a busy machine, has drawn out can't be told from ringing.
func (b Behaviour) voice(spec voiceSpec) voiceSpec {
	tried := b == HangsUp || b == Machine || b == PressesKeys || b == Lossy
	if tried && spec.kind == voiceTone && spec.hz > ringsFrom && spec.hz < ringsTo {
		spec.hz = unlikeRinging
	}
	return spec
}

// digitsOf keeps the digits of a number.
func digitsOf(number string) string {
	out := make([]byte, 0, len(number))
	for i := range len(number) {
		if c := number[i]; c >= '0' && c <= '9' {
			out = append(out, c)
		}
	}
	return string(out)
}

// sameNumber compares two numbers by their last ten digits, so that +91…, 91…, 0… and the national form agree.
func sameNumber(a, b string) bool {
	a, b = digitsOf(a), digitsOf(b)
	return a != "" && b != "" && a[max(0, len(a)-10):] == b[max(0, len(b)-10):]
}

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
