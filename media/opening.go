package media

import "time"

// A switch that bridges begins to read a leg when it begins to write to it. What it got before waits, and is thrown away or reaches the caller late. FreeSWITCH
// throws away what it reads first of a leg that it has bridged, with all that waits behind it, and then one packet more if its timestamp is the next
// (switch_rtp.c, do_flush and read_rtp_packet). So the first word waits until the switch reads, and silence goes ahead of it.
const (
	// primeFrames is how many frames of silence go ahead of the first word.
	primeFrames = 2
	// primeWait is how long the first word stays behind them, so that they aren't thrown away together. FreeSWITCH reads a leg before it has told us that it
	// has bridged it: of 50 first words nothing was lost, half of them beside busy loops.
	primeWait = slotNS
	// speakLimit is how long we wait for either before we speak.
	speakLimit = int64(500 * time.Millisecond)
)

// LegBridged says that the switch has bridged the session's leg with the caller: what is sent to it is heard soon. A leg that is heard tells that by itself,
// but later: 50 ms on FreeSWITCH.
func (s *Session) LegBridged() {
	s.post(func() {
		if l := s.port.leg; l.up {
			l.isRead(s.sh.now())
		}
	})
}

// isRead lets the first word go, behind some silence, since the leg's other side reads.
func (l *portLeg) isRead(now int64) {
	if l.primed || now >= l.speakAt {
		return
	}
	l.primed = true
	l.tx.prime()
	l.speakAt = min(l.speakAt, now+primeWait)
	l.sh.opens = append(l.sh.opens, l.port)
}

// prime sends silence ahead of the first word.
func (tx *toCaller) prime() {
	if !tx.leg.media.Dir.Send || tx.leg.media.Remote.Port() == 0 {
		return
	}
	for range primeFrames {
		tx.ts += tx.transmitSilence()
	}
}
