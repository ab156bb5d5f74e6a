package media

import (
	"time"

	"github.com/ringmaster/ringmaster/media/dtmf"
	"github.com/ringmaster/ringmaster/media/rtp"
	"github.com/ringmaster/ringmaster/media/sip"
)

// legOwner is a session as its SIP leg sees it.
type legOwner struct{ s *Session }

// callee is an open session with an id, as SIP's INVITEs name it.
func (s *Server) callee(id string) (sip.Callee, bool) {
	sess := s.find(id)
	if sess == nil {
		return sip.Callee{}, false
	}
	return sip.Callee{ID: id, RTPAddr: sess.rtpAddr, Log: sess.log, Owner: legOwner{sess}}, true
}

// Claim makes a leg the session's own, unless it has one.
func (o legOwner) Claim(l *sip.Leg) bool {
	s := o.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.leg != nil {
		return false
	}
	s.leg = l
	return true
}

// Release takes a leg off the session.
func (o legOwner) Release(l *sip.Leg) {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	o.release(l)
}

func (o legOwner) release(l *sip.Leg) {
	if o.s.leg == l {
		o.s.leg = nil
	}
}

// Negotiated gives the shard what was agreed on.
func (o legOwner) Negotiated(m sip.Media) {
	s := o.s
	s.post(func() { s.port.leg.setLeg(m, s.sh.now()) })
}

// Answered reports the leg.
func (o legOwner) Answered(codec rtp.Codec) {
	o.s.emit(LegAnswered{At: o.s.srv.cfg.Clock(), Codec: codec.String()})
}

// Ended stops the leg's audio, and then takes it off the session and tells of it: what the next leg does comes behind both.
func (o legOwner) Ended(l *sip.Leg, cause string, byPeer bool) {
	s := o.s
	s.post(s.port.leg.endLeg)
	s.mu.Lock()
	defer s.mu.Unlock()
	o.release(l)
	s.tell(LegEnded{Cause: cause, ByPeer: byPeer})
}

// Digit takes one that came by SIP INFO.
func (o legOwner) Digit(digit byte, dur time.Duration) {
	s := o.s
	s.post(func() { s.port.keys.reportKey(keyPress{digit: digit, dur: dur}, dtmf.ByINFO, s.sh.now()) })
}

// endLeg hangs the session's leg up, if it has one.
func (s *Session) endLeg(cause string) {
	s.mu.Lock()
	l := s.leg
	s.mu.Unlock()
	if l != nil {
		l.Hangup(cause)
	}
}
