package media

import (
	"errors"
	"net/netip"
	"time"

	"github.com/pion/rtp"

	"github.com/ringmaster/ringmaster/media/wav"
)

func (p *port) resetCaller() {
	p.in.reset()
	p.endKey(p.lastRTP)
	p.track.flush(p.rec)
	p.haveSSRC = false
}

// readRTP takes the packets that have arrived.
func (p *port) readRTP(now int64) {
	for range 2 * jitterDepth {
		b, from, wall, err := p.sh.rd.read(p.rtp)
		if err != nil {
			if errors.Is(err, errAgain) {
				break
			}
			continue // an ICMP error of an earlier send; the next read goes on
		}
		at := p.sh.arrival(now, wall)
		p.packet(b, from, at)
		if now-at < slotNS { // young: there can't be another one behind it
			break
		}
	}
	p.pump(now)
}

// packet takes one datagram.
func (p *port) packet(b []byte, from netip.AddrPort, at int64) {
	if !p.legUp || !p.accept(from) {
		p.stats.Strangers++
		p.sh.tally.stranger++
		return
	}
	if len(b) >= 2 && b[1] >= 192 && b[1] <= rtcpLast { // RTCP on the same port (RFC 5761 section 4)
		p.takeRTCP(b, at)
		return
	}
	payload, err := parseRTP(&p.hdr, b)
	if err != nil {
		p.sh.tally.malformed++
		return
	}
	p.stats.PacketsIn++
	p.sh.tally.packetsIn++
	p.arrived(from, at)
	p.lastRTP, p.silent = at, false
	p.speakAt = 0
	if !p.leg.dir.recv {
		return
	}
	if p.hdr.SSRC == p.ssrc {
		p.collide(at)
	}
	if !p.haveSSRC || p.hdr.SSRC != p.ssrcIn {
		p.resetCaller()
		p.ssrcIn, p.haveSSRC = p.hdr.SSRC, true
	}
	if !p.in.rx.packet(p.hdr.SSRC, p.hdr.SequenceNumber) {
		p.in.duplicate++
		p.sh.tally.duplicate++
		return
	}
	p.content(payload, at)
}

// content sorts a packet by its payload type.
func (p *port) content(payload []byte, at int64) {
	pt := p.hdr.PayloadType
	if codec, ok := p.leg.codecOf(pt); ok {
		p.in.mark = p.hdr.Marker
		switch p.in.audio(p.hdr.SequenceNumber, p.hdr.Timestamp, codec, payload, at) {
		case pushQueued:
		case pushDuplicate:
			p.sh.tally.duplicate++
		case pushLate:
			p.sh.tally.late++
		case pushMalformed:
			p.sh.tally.malformed++
		}
		return
	}
	switch {
	case pt == p.leg.dtmfPT && pt != 0, pt >= 96 && len(payload) == 4:
		// In bypass the carrier's own number arrives, whatever we have negotiated with the switch.
		p.in.jit.hush()
		p.events(p.hdr.Timestamp, payload, at)
	case pt == staticNoise, pt == p.leg.noisePT && pt != 0:
		p.in.comfort(p.hdr.SequenceNumber, p.hdr.Timestamp, payload, at)
	default:
		p.sh.tally.badType++
	}
}

// parseRTP reads a packet's header and returns its payload without padding.
func parseRTP(h *rtp.Header, b []byte) ([]byte, error) {
	if len(b) < 12 || b[0]>>6 != 2 {
		return nil, errors.New("not an RTP packet")
	}
	n, err := h.Unmarshal(b)
	if err != nil {
		return nil, err
	}
	payload := b[n:]
	if h.Padding {
		if len(payload) == 0 || int(payload[len(payload)-1]) > len(payload) {
			return nil, errors.New("RTP padding is longer than the payload")
		}
		payload = payload[:len(payload)-int(payload[len(payload)-1])]
	}
	return payload, nil
}

// accept lets packets in from the negotiated address alone. When only the port differs, the first packet decides it,
// and our own go there too: that is how a peer behind address translation looks.
func (p *port) accept(from netip.AddrPort) bool {
	if p.heardFrom.IsValid() {
		if from == p.heardFrom {
			return true
		}
		if from != p.leg.remote {
			return false
		}
	} else if from.Addr() != p.leg.remote.Addr() || p.move.stray(from, p.leg.remote) {
		return false
	}
	p.heardFrom = from
	p.peer = newRTPPeer(from)
	return true
}

// pump moves what of the caller's stream is due.
func (p *port) pump(now int64) {
	for p.legUp {
		f, ok := p.in.next(now, p.sh.pcm[:])
		if !ok {
			return
		}
		p.sh.tally.conceal += f.concealed
		p.hear(&f, now)
		for b := p.up.frame(); b != nil; b = p.up.frame() {
			p.sendAudio(b, now)
		}
	}
}

// hear gives a piece of the caller's stream to all who listen.
func (p *port) hear(f *callerFrame, now int64) {
	narrow := p.in.narrow(f.pcm)
	p.hearAMD(narrow)
	p.hearTones(narrow, now)
	if p.muted[FromCaller] {
		clear(f.pcm)
		clear(narrow)
		f.payload = nil
	}
	if p.rec != nil {
		p.track.put(p.rec, p.samplesAt(f.from)-wav.SamplesIn(callerAdvance), narrow)
	}
	if p.tapped(narrow, now) {
		return
	}
	if first := p.in.smooth(f); first != nil {
		p.up.feed(first)
	}
	switch {
	case f.tempo == tempoDrop:
	case f.payload != nil && p.up.passes(f.codec):
		p.up.feedPayload(f.payload)
	default:
		p.up.feed(f.pcm)
	}
}

func (p *port) watchSilence(now int64) {
	limit := int64(p.s.spec.MediaTimeout)
	if limit <= 0 || p.silent || !p.leg.dir.recv || now-p.lastRTP < limit {
		return
	}
	p.silent = true
	p.s.emit(LegSilent{For: time.Duration(now - p.lastRTP)})
}
