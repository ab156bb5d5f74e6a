package media

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"github.com/pion/rtp"
)

func (p *port) resetCaller() {
	p.jitter.reset()
	p.conceal = concealer{}
	p.endKey(p.lastRTP)
	p.callerClk = callerClock{}
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
	if len(b) >= 2 && b[1] >= 200 && b[1] <= 207 { // RTCP on the same port (RFC 5761 section 4)
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
	if !p.haveSSRC || p.hdr.SSRC != p.ssrcIn {
		p.resetCaller()
		p.ssrcIn, p.haveSSRC = p.hdr.SSRC, true
	}
	pt := p.hdr.PayloadType
	switch {
	case pt == p.leg.pt:
		p.audio(payload, at)
	case pt == p.leg.dtmfPT && pt != 0, pt >= 96 && len(payload) == 4:
		// In bypass the carrier's own number arrives, whatever we have negotiated with the switch.
		p.events(p.hdr.Timestamp, payload, at)
	case pt == 13: // comfort noise (RFC 3389): the gap is filled with silence
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
	} else if from.Addr() != p.leg.remote.Addr() || from == p.move.from {
		return false
	}
	p.heardFrom = from
	p.peer = newRTPPeer(from)
	return true
}

// audio records a packet's samples where they belong and queues them for the AI.
func (p *port) audio(payload []byte, at int64) {
	samples := len(payload) / p.leg.codec.bytesPerSample()
	if samples == 0 || len(payload) > maxPayload {
		p.sh.tally.malformed++
		return
	}
	if p.rec != nil {
		pos := p.callerClk.place(p.hdr.Timestamp, p.samplesAt(at)-samplesIn(callerAdvance))
		if !p.muted[FromCaller] {
			p.rec.put(leftChannel, pos, p.decode(payload))
		}
	}
	switch p.jitter.push(p.hdr.Timestamp, samples, payload, at) {
	case pushQueued:
	case pushDuplicate:
		p.stats.Duplicates++
		p.sh.tally.duplicate++
	case pushLate:
		p.stats.Late++
		p.sh.tally.late++
	}
}

// decode returns a payload's samples, valid until the next use of the shard's buffer.
func (p *port) decode(payload []byte) []int16 {
	pcm := p.sh.pcm[:]
	switch p.leg.codec {
	case codecPCMU:
		return pcm[:DecodeULaw(pcm, payload)]
	case codecPCMA:
		return pcm[:DecodeALaw(pcm, payload)]
	case codecL16:
		n := min(len(payload)/2, len(pcm))
		for i := range n {
			pcm[i] = int16(binary.BigEndian.Uint16(payload[2*i:]))
		}
		return pcm[:n]
	}
	return nil
}

// pump moves what the jitter buffer has ready to the AI.
func (p *port) pump(now int64) {
	for p.legUp {
		v, pkt, n := p.jitter.pop(now)
		switch v {
		case popNothing:
			return
		case popAudio:
			pcm := p.decode(pkt.payload[:pkt.n])
			p.conceal.heard(pcm)
			p.hearAMD(pcm)
			p.hearTones(pcm, now)
			switch {
			case p.tapped(pcm, now):
			case p.muted[FromCaller]:
				clear(pcm)
				p.up.feed(pcm)
			case p.up.passes(p.leg.codec):
				p.up.feedPayload(pkt.payload[:pkt.n])
			default:
				p.up.feed(pcm)
			}
			p.jitter.release(pkt)
		case popConceal:
			p.sh.tally.conceal++
			p.stats.Concealed++
			pcm := p.sh.pcm[:n]
			p.conceal.conceal(pcm)
			p.hearAMD(pcm)
			p.hearTones(pcm, now)
			if p.muted[FromCaller] {
				clear(pcm)
			}
			if !p.tapped(pcm, now) {
				p.up.feed(pcm)
			}
		}
		for f := p.up.frame(); f != nil; f = p.up.frame() {
			p.sendAudio(f, now)
		}
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
