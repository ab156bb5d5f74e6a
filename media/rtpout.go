package media

import "encoding/binary"

// play sends the next 20 ms to the caller: what the AI has queued, comfort noise while its socket is being dialed
// again, else silence, which keeps the switch's own media timeout quiet.
func (p *port) play(due int64) {
	p.advanceClock(due)
	if p.playKeys() {
		return
	}
	frame := p.sh.pcm[:frameSamples]
	n := p.queue.pull(frame)
	heard := !p.muted[FromAgent] && p.leg.dir.send
	if p.muted[FromAgent] {
		clear(frame)
	} else if n == 0 && p.reconnecting && p.s.spec.tap == nil {
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
	p.endFrame()
}

// endFrame moves the outgoing stream on by a frame.
func (p *port) endFrame() {
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
