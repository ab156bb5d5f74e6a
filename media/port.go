package media

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/pion/rtp"

	"github.com/ringmaster/ringmaster/media/amd"
)

// port is one session as its shard sees it. All members belong to the shard's thread.
type port struct {
	s    *Session
	sh   *shard
	log  *slog.Logger
	slot int

	// The leg.
	rtp       *rtpSocket
	leg       legMedia
	legUp     bool
	hadLeg    bool
	peer      rtpPeer
	heardFrom netip.AddrPort // the address that packets are accepted from; not valid before the first
	ssrcIn    uint32
	haveSSRC  bool
	hdr       rtp.Header
	lastRTP   int64
	silent    bool  // LegSilent was reported
	speakAt   int64 // when we begin to send, unless the leg is heard before

	// Caller to AI.
	jitter  jitter
	conceal concealer
	amd     *amd.Detector // nil when nobody listens, or nothing more can come
	dtmf    dtmfReceiver
	up      *uplink

	// AI to caller.
	down    *downlink
	queue   playout
	seq     uint16
	ts      uint32
	ssrc    uint32
	talking bool
	count   int64 // the shard's slot count at the last tick
	noise   uint32

	muted [2]bool

	// The AI's socket, nil while there is none.
	sock           *socket
	waiting        [][]byte // text frames for the next socket
	reconnecting   bool
	redialDeadline int64 // when reconnecting ends
	stableAt       int64 // a socket that lives so long earns the whole time for reconnecting again
	unknownLogged  bool
	badLogged      bool

	// The recording.
	rec       *recorder
	recStart  int64 // its time zero on the monotonic clock
	callerClk callerClock
	playPos   int64 // where the next frame of the AI lies

	closing       bool
	closeDeadline int64
	gone          bool
	stats         Stats
}

// speakLimit is how long we wait for a leg's first packet before we send. A switch that bridges begins to read when it begins to
// write: what it gets before waits, and reaches the caller in a burst, or late for the whole call (two packets, 40 ms, seen on
// FreeSWITCH). Its first packet tells that it reads.
const speakLimit = int64(500 * time.Millisecond)

// samplesAt is a moment's position in the recording.
func (p *port) samplesAt(mono int64) int64 { return (mono - p.recStart) / nsPerSample }

// setLeg starts the leg, or changes what a re-INVITE has changed.
func (p *port) setLeg(m legMedia, now int64) {
	if p.rtp == nil {
		return
	}
	if !p.legUp {
		p.legUp, p.hadLeg = true, true
		p.seq, p.ts, p.ssrc = uint16(rand.Uint32()), rand.Uint32(), rand.Uint32()
		p.talking, p.count = false, 0
		p.playPos = 0
		p.speakAt = now + speakLimit
		p.resetCaller()
		p.sh.srv.metrics.legs.Inc()
	}
	if m.remote != p.leg.remote || !p.heardFrom.IsValid() {
		p.heardFrom = netip.AddrPort{}
		p.peer = newRTPPeer(m.remote)
	}
	p.leg, p.lastRTP, p.silent = m, now, false
}

// endLeg stops the leg's audio. What the AI has queued is for a caller who is not there.
func (p *port) endLeg() {
	if !p.legUp {
		return
	}
	p.legUp = false
	p.leg = legMedia{}
	p.heardFrom = netip.AddrPort{}
	p.killAudio()
	p.sh.srv.metrics.legs.Dec()
}

func (p *port) resetCaller() {
	p.jitter.reset()
	p.conceal = concealer{}
	p.dtmf = dtmfReceiver{}
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
		if d, ok := p.dtmf.push(p.hdr.Timestamp, payload, at); ok {
			p.digit(d)
		}
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
	} else if from.Addr() != p.leg.remote.Addr() {
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
			switch {
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
			if p.muted[FromCaller] {
				clear(pcm)
			}
			p.up.feed(pcm)
		}
		for f := p.up.frame(); f != nil; f = p.up.frame() {
			p.sendAudio(f, now)
		}
	}
}

// tick is the session's 20 ms. due is the moment of the grid, now the clock.
func (p *port) tick(now, due int64) {
	if p.closing {
		p.tickClosing(now)
		return
	}
	if p.legUp {
		p.pump(now)
		if d, ok := p.dtmf.expire(now); ok {
			p.digit(d)
		}
		p.watchSilence(now)
		p.answerMarks()
		if now >= p.speakAt {
			p.play(due)
		}
	}
	p.tickSocket(now)
	if p.rec != nil && p.rec.failed == nil {
		if err := p.rec.advance(p.samplesAt(now)); err != nil {
			p.log.Error("recording ended early", "error", err)
			p.sh.srv.metrics.recordings.WithLabelValues("failed").Inc()
			p.s.emit(RecordingFailed{Err: err})
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

// play sends the next 20 ms to the caller: what the AI has queued, comfort noise while its socket is being dialed
// again, else silence, which keeps the switch's own media timeout quiet.
func (p *port) play(due int64) {
	p.advanceClock(due)
	frame := p.sh.pcm[:frameSamples]
	n := p.queue.pull(frame)
	heard := !p.muted[FromAgent] && p.leg.dir.send
	if p.muted[FromAgent] {
		clear(frame)
	} else if n == 0 && p.reconnecting {
		p.comfort(frame)
	}
	if p.rec != nil && heard && (n > 0 || p.talking || p.reconnecting) {
		p.rec.put(rightChannel, p.playPos, frame)
	}
	start := n > 0 && !p.talking
	p.talking = n > 0
	if p.leg.dir.send && p.leg.remote.Port() != 0 {
		p.transmit(frame, start)
	}
	p.seq++
	p.ts += frameSamples
	p.playPos += frameSamples
}

// advanceClock lets timestamps and the recording go on over frames that the shard had to leave out.
func (p *port) advanceClock(due int64) {
	if p.count == 0 {
		p.playPos = p.samplesAt(due)
	} else if left := (p.sh.count-p.count)/slots - 1; left > 0 {
		p.ts += uint32(left) * frameSamples
		p.playPos += left * frameSamples
	}
	p.count = p.sh.count
}

func (p *port) transmit(frame []int16, marker bool) {
	b := p.sh.out[:0]
	m := p.leg.pt
	if marker {
		m |= 0x80
	}
	b = append(b, 0x80, m)
	b = binary.BigEndian.AppendUint16(b, p.seq)
	b = binary.BigEndian.AppendUint32(b, p.ts)
	b = binary.BigEndian.AppendUint32(b, p.ssrc)
	at := len(b)
	switch p.leg.codec {
	case codecPCMU:
		b = b[:at+len(frame)]
		EncodeULaw(b[at:], frame)
	case codecPCMA:
		b = b[:at+len(frame)]
		EncodeALaw(b[at:], frame)
	case codecL16:
		for _, s := range frame {
			b = binary.BigEndian.AppendUint16(b, uint16(s))
		}
	}
	if err := p.rtp.send(b, &p.peer); err != nil {
		return
	}
	p.stats.PacketsOut++
	p.sh.tally.packetsOut++
}

// comfort writes soft noise, about −66 dBm0, which tells a waiting caller that the line is not dead.
func (p *port) comfort(dst []int16) {
	x := p.noise | 1
	for i := range dst {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		dst[i] = int16(x&31) - 16
	}
	p.noise = x
}

func (p *port) digit(d dtmfDigit) {
	dur := time.Duration(int64(d.samples) * nsPerSample)
	p.s.emit(DTMF{Digit: string(rune(d.digit)), Duration: dur})
	p.sendText("dtmf", dtmfData{Digit: string(rune(d.digit)), DurationMS: int(dur.Milliseconds())})
}

// killAudio empties the playout queue at once. Marks whose audio was heard in full are played, the rest are cleared.
func (p *port) killAudio() {
	p.answerMarks()
	p.queue.clearAudio()
	p.down.reset()
	p.clearMarks()
}

func (p *port) clearMarks() {
	p.sh.marks = p.queue.dropMarks(p.sh.marks[:0])
	p.sendMarks()
}

func (p *port) answerMarks() {
	if len(p.queue.marks) == 0 {
		return
	}
	p.sh.marks = p.queue.played(p.sh.marks[:0])
	p.sendMarks()
}

func (p *port) sendMarks() {
	for _, m := range p.sh.marks {
		event := "playout"
		if m.cleared {
			event = "cleared"
		}
		p.sendText(textMark, markData{Name: m.name, Event: event})
	}
}
