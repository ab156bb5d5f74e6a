package media

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/ringmaster/ringmaster/media/netio"
	"github.com/ringmaster/ringmaster/media/rtp"
)

// rtcpReads bounds the control packets of one slot.
const rtcpReads = 4

// watchRTP polls a session's RTP and RTCP sockets.
func (l *portLeg) watchRTP() error {
	return errors.Join(l.sh.watch(l.rtp.FD, l.port), l.sh.watch(l.rtp.Control.FD, l.port))
}

// closeRTP ends that and closes them.
func (l *portLeg) closeRTP() {
	if l.rtp == nil {
		return
	}
	l.sh.unwatch(l.rtp.FD)
	l.sh.unwatch(l.rtp.Control.FD)
	if l.had { // before another session can bind them
		l.sh.srv.ports.rest(int(l.rtp.Local.Port()), l.sh.srv.cfg.Clock())
	}
	if err := l.rtp.Close(); err != nil {
		l.log.Debug("closing an RTP socket failed", "error", err)
	}
	l.rtp = nil
}

// readRTCP takes the control packets that have arrived on their own port.
func (rc *reports) readRTCP(now int64) {
	for range rtcpReads {
		b, from, wall, err := rc.sh.rd.Read(rc.leg.rtp.Control)
		if err != nil {
			if errors.Is(err, netio.ErrAgain) {
				return
			}
			continue
		}
		if !rc.leg.up || !rc.acceptControl(from) {
			rc.stats.Strangers++
			rc.sh.tally.stranger++
			continue
		}
		rc.takeRTCP(b, rc.sh.arrival(now, wall))
	}
}

// acceptControl lets reports in from the negotiated address alone; when only the port differs, the first packet decides.
func (rc *reports) acceptControl(from netip.AddrPort) bool {
	if rc.heardFrom.IsValid() {
		if from == rc.heardFrom {
			return true
		}
		if from != rc.leg.media.RTCP {
			return false
		}
	} else if from.Addr() != rc.leg.media.RTCP.Addr() {
		return false
	}
	rc.heardFrom, rc.peer = from, netio.NewPeer(from)
	return true
}

// takeRTCP takes one control packet.
func (rc *reports) takeRTCP(b []byte, at int64) {
	n, err := rtp.ParseControl(b, rc.tx.ssrc, rc.rx.ssrcIn)
	if err != nil {
		rc.sh.tally.malformed++
		return
	}
	rc.sh.tally.rtcpIn++
	if n.Sent && rc.rx.haveSSRC && n.Sender == rc.rx.ssrcIn {
		rc.SenderReport(n, at)
	}
	if n.Bye && rc.rx.haveSSRC {
		rc.rx.haveSSRC = false // whoever sends next begins anew
	}
	if n.Reported {
		rc.Reported(n.Sender, n.Block, uint32(rtp.NTPTime(at+rc.sh.wall)>>16), rc.stats.PacketsOut)
		rc.ReportedJitter(n.Block, rc.leg.media.Remote.Addr(), rc.leg.media.Rate)
	}
}

// tickRTCP sends a report when one is due.
func (rc *reports) tickRTCP(now int64) {
	if rc.Due(now) {
		rc.report(now, false)
	}
}

// report sends what we have sent and how we receive; bye ends our SSRC.
func (rc *reports) report(now int64, bye bool) {
	if rc.leg.rtp == nil || rc.leg.media.RTCP.Port() == 0 {
		return
	}
	var in *rtp.Inbound
	if rc.rx.haveSSRC {
		in = &rc.rx.caller
	}
	b := rc.Append(rc.sh.out[:0], rc.tx.ssrc, rc.tx.ts, in, now, now+rc.sh.wall, bye)
	sock, peer := rc.leg.rtp.Control, &rc.peer
	if rc.leg.media.Mux {
		sock, peer = rc.leg.rtp, &rc.leg.peer
	}
	if err := sock.Send(b, peer); err != nil {
		return
	}
	rc.sh.tally.rtcpOut++
}

// collide takes another SSRC when the peer uses ours (RFC 3550 section 8.2). One that always does so sends our own packets
// back, as a carrier's echo test may: it is left to.
func (rc *reports) collide(now int64) {
	if !rc.Collides() {
		return
	}
	rc.report(now, true)
	rc.Renew(rc.stats.PacketsOut, rc.tx.seq)
	rc.tx.ssrc = rand.Uint32()
}

// quality is how both directions have done so far.
func (rc *reports) quality() Quality {
	packet := 20 * time.Millisecond
	return Quality{
		Inbound:  rc.rx.caller.Quality(rc.RoundTrip, packet),
		Outbound: rc.Quality(packet),
	}
}
