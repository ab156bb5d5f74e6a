package media

import (
	"errors"
	"net/netip"
	"time"

	"github.com/ringmaster/ringmaster/media/netio"
	"github.com/ringmaster/ringmaster/media/record"
	"github.com/ringmaster/ringmaster/media/rtp"
	"github.com/ringmaster/ringmaster/media/wav"
)

func (rx *fromCaller) resetCaller() {
	rx.caller.Reset()
	rx.keys.endKey(rx.leg.lastRTP)
	rx.rec.track.Flush(rx.rec.rec)
	rx.haveSSRC = false
}

// readRTP takes the packets that have arrived.
func (l *portLeg) readRTP(now int64) {
	for range 2 * rtp.Depth {
		b, from, wall, err := l.sh.rd.Read(l.rtp)
		if err != nil {
			if errors.Is(err, netio.ErrAgain) {
				break
			}
			continue // an ICMP error of an earlier send; the next read goes on
		}
		at := l.sh.arrival(now, wall)
		l.packet(b, from, at)
		if now-at < slotNS { // young: there can't be another one behind it
			break
		}
	}
	l.rx.pump(now)
}

// packet takes one datagram.
func (l *portLeg) packet(b []byte, from netip.AddrPort, at int64) {
	if !l.up || !l.accept(from) {
		l.stats.Strangers++
		l.sh.tally.stranger++
		return
	}
	if rtp.IsControl(b) {
		l.ctl.takeRTCP(b, at)
		return
	}
	payload, err := rtp.Parse(&l.rx.hdr, b)
	if err != nil {
		l.sh.tally.malformed++
		return
	}
	l.stats.PacketsIn++
	l.sh.tally.packetsIn++
	l.arrived(from, at)
	l.lastRTP, l.silent = at, false
	if !l.primed && at < l.speakAt {
		l.isRead(max(at, l.sh.now()-slotNS/4)) // a thread that is late makes up for it: its next slot may be at once
	}
	if !l.media.Dir.Recv {
		return
	}
	if l.rx.hdr.SSRC == l.tx.ssrc {
		l.ctl.collide(at)
	}
	if !l.rx.haveSSRC || l.rx.hdr.SSRC != l.rx.ssrcIn {
		l.rx.resetCaller()
		l.rx.ssrcIn, l.rx.haveSSRC = l.rx.hdr.SSRC, true
	}
	if !l.rx.caller.Packet(l.rx.hdr.SSRC, l.rx.hdr.SequenceNumber) {
		l.sh.tally.duplicate++
		return
	}
	l.content(payload, at)
}

// content sorts a packet by its payload type.
func (l *portLeg) content(payload []byte, at int64) {
	pt := l.rx.hdr.PayloadType
	if codec, ok := l.media.CodecOf(pt); ok {
		l.rx.caller.Mark = l.rx.hdr.Marker
		switch l.rx.caller.Audio(l.rx.hdr.SequenceNumber, l.rx.hdr.Timestamp, codec, payload, at) {
		case rtp.Queued:
		case rtp.Duplicate:
			l.sh.tally.duplicate++
		case rtp.Late:
			l.sh.tally.late++
		case rtp.Malformed:
			l.sh.tally.malformed++
		}
		return
	}
	switch {
	case pt == l.media.EventPT && pt != 0, pt >= 96 && len(payload) == 4:
		// In bypass the carrier's own number arrives, whatever we have negotiated with the switch.
		l.rx.caller.Hush()
		l.keys.events(l.rx.hdr.Timestamp, payload, at)
	case l.media.IsNoise(pt):
		l.rx.caller.Comfort(l.rx.hdr.SequenceNumber, l.rx.hdr.Timestamp, payload, at)
	default:
		l.sh.tally.badType++
	}
}

// accept lets packets in from the negotiated address alone. When only the port differs, the first packet decides it,
// and our own go there too: that is how a peer behind address translation looks.
func (l *portLeg) accept(from netip.AddrPort) bool {
	if l.heardFrom.IsValid() {
		if from == l.heardFrom {
			return true
		}
		if from != l.media.Remote {
			return false
		}
	} else if from.Addr() != l.media.Remote.Addr() || l.move.stray(from, l.media.Remote) {
		return false
	}
	l.heardFrom = from
	l.peer = netio.NewPeer(from)
	return true
}

// pump takes what the jitter buffer has ready.
func (rx *fromCaller) pump(now int64) {
	for rx.leg.up {
		// 1. The jitter buffer gives the next piece in order; what is missing is concealed.
		f, ok := rx.caller.Next(now, rx.sh.pcm[:])
		if !ok {
			return
		}
		rx.sh.tally.conceal += f.Concealed
		rx.frame(&f, now)
	}
}

// frame takes a piece of the caller's audio through the rest of its stages.
func (rx *fromCaller) frame(f *rtp.Frame, now int64) {
	// 2. At the recording's rate, which detectors use too.
	narrow := rx.caller.Narrow(f.PCM)
	// 3. Detection: who answered, and digits that come as tones; a muted caller is detected too.
	rx.detectMachine(narrow)
	rx.keys.detectTones(narrow, now)
	// 4. Mute and hold.
	if rx.muted[FromCaller] || rx.leg.tx.extra.held {
		clear(f.PCM)
		clear(narrow)
		f.Payload = nil
	}
	// 5. Recording, at the time at which it was spoken.
	if rx.rec.rec != nil {
		rx.rec.track.Put(rx.rec.rec, rx.rec.samplesAt(f.From)-wav.SamplesIn(record.CallerAdvance), narrow)
	}
	// 6. A tap's leg goes to its pair.
	if !rx.port.tapped(narrow, now) {
		rx.encode(f) // 7.
	}
	// 8. To the AI's socket, by its frames.
	for b := rx.up.frame(); b != nil; b = rx.up.frame() {
		rx.toAI.sendAudio(b, now)
	}
}

// encode is the seventh stage: tempo, resampling and encoding for the AI; the carrier's own payload where that is the same.
func (rx *fromCaller) encode(f *rtp.Frame) {
	if first := rx.caller.Smooth(f); first != nil {
		rx.up.feed(first)
	}
	switch {
	case f.Tempo == rtp.TempoDrop:
	case f.Payload != nil && rx.up.passes(f.Codec):
		rx.up.feedPayload(f.Payload)
	default:
		rx.up.feed(f.PCM)
	}
}

func (l *portLeg) watchSilence(now int64) {
	limit := int64(l.s.spec.MediaTimeout)
	if limit <= 0 || l.silent || !l.media.Dir.Recv || now-l.lastRTP < limit {
		return
	}
	l.silent = true
	l.s.emit(LegSilent{For: time.Duration(now - l.lastRTP)})
}
