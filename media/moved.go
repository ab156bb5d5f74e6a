package media

import (
	"net/netip"
	"time"
)

// LegMoved reports that a re-INVITE has led the caller's audio to us on another way, and that the first packet has come on
// it: into bypass, when Remote is the carrier's, and back, when it is the switch's.
type LegMoved struct {
	Remote netip.AddrPort
	// Gap lies between the last packet on the old way and the first one on the new.
	Gap time.Duration
}

func (LegMoved) mediaEvent() {}

// move is a leg's change to another address, between the re-INVITE and the first packet.
type move struct {
	from netip.AddrPort // where the audio came from before; not valid while nothing moves
	last int64          // when the last packet came from there
}

// begin starts a move from the address that was heard last, or was agreed on.
func (m *move) begin(heard, agreed netip.AddrPort, last int64) {
	if !m.from.IsValid() {
		m.last = last
	}
	m.from = heard
	if !heard.IsValid() {
		m.from = agreed
	}
}

// stray tells a packet that still comes on the old way. One from the address that is agreed on now never is: a port that was
// another session's before may have heard that one first.
func (m *move) stray(from, agreed netip.AddrPort) bool { return from == m.from && from != agreed }

// arrived ends a move by its first packet.
func (l *portLeg) arrived(from netip.AddrPort, at int64) {
	if !l.move.from.IsValid() {
		return
	}
	gap := time.Duration(max(0, at-l.move.last))
	l.move = move{}
	l.s.emit(LegMoved{Remote: from, Gap: gap})
}
