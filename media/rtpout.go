package media

import (
	"encoding/binary"

	"github.com/ringmaster/ringmaster/media/dsp"
)

// play sends the next 20 ms to the caller: what the AI has queued, comfort noise while its socket is being dialed
// again or is gone, since the caller may be on the way to somebody else, else silence, which keeps the switch's own media timeout quiet.
func (p *port) play(due int64) {
	p.advanceClock(due)
	if p.playKeys() {
		return
	}
	frame := p.sh.pcm[:p.queue.frame()]
	n := p.queue.pull(frame)
	heard := !p.muted[FromAgent] && p.leg.dir.send
	if p.muted[FromAgent] {
		clear(frame)
	} else if n == 0 && (p.reconnecting || p.socketGone) && p.s.spec.tap == nil {
		p.comfort(frame)
	}
	if p.wire != nil {
		p.wide = p.wire.Process(p.wide[:0], frame)
		frame = p.wide
	}
	p.record(frame, heard && (n > 0 || p.talking || p.reconnecting))
	start := n > 0 && !p.talking
	p.talking = n > 0
	if p.leg.dir.send && p.leg.remote.Port() != 0 {
		p.transmit(frame, start)
	}
	p.endFrame()
	if p.wire != nil {
		p.settle()
	}
}

// endFrame moves the outgoing stream on by a frame.
func (p *port) endFrame() {
	p.ts += uint32(p.leg.rate / framesPerSecond)
	p.playPos += frameSamples
}

// advanceClock lets timestamps and the recording go on over frames that the shard had to leave out.
func (p *port) advanceClock(due int64) {
	if p.count == 0 {
		p.playPos = p.samplesAt(due)
	} else if left := (p.sh.count-p.count)/slots - 1; left > 0 {
		p.ts += uint32(left) * uint32(p.leg.rate/framesPerSecond)
		p.playPos += left * frameSamples
	}
	p.count = p.sh.count
}

// transmit sends a frame of the leg's rate in its codec.
func (p *port) transmit(frame []int16, marker bool) {
	ts := p.ts
	for piece := p.leg.rate * p.leg.packetMS() / 1000; len(frame) > 0; marker = false {
		n := min(piece, len(frame))
		p.sendPacket(frame[:n], ts, marker)
		ts += uint32(n)
		frame = frame[n:]
	}
}

func (p *port) sendPacket(pcm []int16, ts uint32, marker bool) {
	b := p.header(p.leg.pt, ts, marker)
	at := len(b)
	switch p.leg.codec {
	case codecPCMU:
		b = b[:at+len(pcm)]
		dsp.EncodeULaw(b[at:], pcm)
	case codecPCMA:
		b = b[:at+len(pcm)]
		dsp.EncodeALaw(b[at:], pcm)
	case codecL16:
		for _, s := range pcm {
			b = binary.BigEndian.AppendUint16(b, uint16(s))
		}
	}
	p.sendRTP(b)
}

// header begins a packet in the shard's buffer.
func (p *port) header(pt uint8, ts uint32, marker bool) []byte {
	if marker {
		pt |= 0x80
	}
	b := p.sh.out[:0]
	b = append(b, 0x80, pt)
	b = binary.BigEndian.AppendUint16(b, p.seq)
	b = binary.BigEndian.AppendUint32(b, ts)
	return binary.BigEndian.AppendUint32(b, p.ssrc)
}

// sendRTP sends a packet and counts it.
func (p *port) sendRTP(b []byte) {
	p.seq++
	p.ctl.packets++
	p.ctl.octets += uint32(len(b) - rtpHeaderSize)
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
