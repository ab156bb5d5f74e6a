package call

import (
	"context"

	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// A caller's new socket and the events of the host link come over two connections, with no order between them: an endpoint's REFER, or the end of its
// bridge, can be here before its answer is. So a caller who comes while an endpoint is dialed is held until it is known whether that has answered,
// by its events or by what the switch says when asked, whichever comes first.

// legFound is what the switch says of a voice agent's leg when asked.
type legFound struct {
	leg *esl.Event // nil when the switch has no such channel
	err error
	// up is the held socket that it was asked for; nil where that is not why.
	up *socketUp
}

func (legFound) Name() string    { return "voice agent's leg found" }
func (legFound) Essential() bool { return true }

// holds keeps a caller who comes while nobody knows whether the endpoint has answered. It reports whether it does. Of two the later one counts: the
// channel has left the earlier socket.
func (f *referrals) holds(ctx context.Context, m socketUp) bool {
	held := f.drop()
	s := f.voice.ai
	if !s.live() || !s.overSIP() || !s.bridging && !held || s.answered || f.killCause != "" {
		return false
	}
	if f.sock != nil {
		closeQuietly(f.sock)
	}
	f.sock, s.bridging = nil, false // they have left the dial, and that socket
	f.held = &m
	f.disarm(timerSocket)
	f.arm(timerLeg, legUpTimeout)
	link, leg, up := f.c.link, s.leg, f.held
	f.beside(func() {
		ev, err := fs.FindChannel(ctx, link, leg)
		f.post(legFound{leg: ev, err: err, up: up})
	})
	return true
}

// looked: the switch has said what has become of the endpoint's leg.
func (f *referrals) looked(ctx context.Context, m legFound) (state, error) {
	s := f.voice.ai
	if m.leg != nil && s.live() && s.overSIP() && s.leg == m.leg.UUID() && fs.Answered(m.leg) {
		return f.voice.sipAnswers(ctx, m.leg), nil
	}
	switch {
	case m.up == nil || m.up != f.held: // it is known by now
	case m.err != nil && m.up.refers(): // the switch refuses it, and bridges both
		f.log.WarnContext(ctx, "reading the voice agent's leg failed, its REFER is refused", "error", m.err)
		f.drop()
		f.stillDialed()
	case m.leg == nil && m.err == nil:
		f.arm(timerLeg, legGone) // its end tells, and is on the way
	default:
		f.letGo()
	}
	return f.state, nil
}

// letGo has a caller who is held come now: it is known whether the endpoint has answered. It reports whether there is one.
func (f *referrals) letGo() bool {
	m := f.held
	if m == nil {
		return false
	}
	f.held = nil
	f.post(*m)
	return true
}

// drop closes the socket of a caller who is held, and reports whether there is one.
func (f *referrals) drop() bool {
	m := f.held
	if m == nil {
		return false
	}
	f.held = nil
	f.beside(func() { closeQuietly(m.sock) })
	return true
}

// lost: a socket has closed. It reports whether it is that of a caller who is held. What the endpoint has done isn't known: whoever comes next is held, too.
func (f *referrals) lost(sock socket) bool {
	if f.held == nil || f.held.sock != sock {
		return false
	}
	f.held, f.lostHeld = nil, true
	f.stillDialed()
	return true
}

// stillDialed takes the endpoint for one that is dialed: the caller is on no socket of ours.
func (f *referrals) stillDialed() {
	s := f.voice.ai
	s.bridging = true
	f.arm(timerLeg, s.sip.RingTimeout()+fs.OriginateSlack)
}

// pending reports whether a caller is on a socket of theirs with which nothing is done yet.
func (f *referrals) pending() bool {
	return f.held != nil || f.voice.ai != nil && f.voice.ai.referring != nil
}

// refers reports whether a caller comes because their voice agent has sent a REFER. One that was refused leaves its variables.
func (m *socketUp) refers() bool {
	return m.ev.Var(varReferrer) != "" && m.ev.Get("Caller-Context") == referContext
}
