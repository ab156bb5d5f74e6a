package media

import (
	"encoding/binary"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/playout"
	"github.com/ringmaster/ringmaster/media/rtp"
)

// play takes a frame through its stages from the AI to the caller: it sends the next 20 ms to the caller: what the AI has queued, comfort noise while its socket is being dialed
// again or is gone, since the caller may be on the way to somebody else, else silence, which keeps the switch's own media timeout quiet.
func (tx *toCaller) play(due int64) {
	tx.advanceClock(due)
	if tx.keys.playKeys() {
		return
	}
	// 1. The playout queue gives the next frame; delay that has settled in it is shed.
	frame := tx.sh.pcm[:tx.queue.Frame()]
	n := tx.queue.Pull(frame)
	// 2. Mute and hold, or comfort noise while the AI is away.
	silenced := tx.muted[FromAgent] || tx.extra.held
	heard := (!silenced || !tx.silenced) && tx.leg.media.Dir.Send
	was := tx.silenced
	tx.silenced = silenced
	tx.account(!silenced && tx.leg.media.Dir.Send)
	switch {
	case silenced && was:
		clear(frame)
	case silenced:
		playout.FadeOut(frame, tx.queue.Rate)
	case was:
		playout.FadeIn(frame, tx.queue.Rate)
	case n == 0 && (tx.ai.reconnecting || tx.ai.socketGone) && tx.s.spec.tap == nil:
		tx.comfort(frame)
	}
	// 3. At the leg's rate.
	if tx.wire != nil {
		tx.wide = tx.wire.Process(tx.wide[:0], frame)
		frame = tx.wide
	}
	// 4. What is played besides: clips, a held caller's music, ringback. The second leg of a tap sends what the first one does.
	tx.extra.listen(frame)
	extra := tx.extra.active()
	if extra {
		tx.extra.mix(frame)
	}
	sounds := tx.s.spec.tap.speak(frame, n > 0 || extra)
	// 5. Recording, at the time at which it is heard.
	tx.rec.record(frame, heard && (n > 0 || tx.talking || tx.ai.reconnecting) || extra && tx.leg.media.Dir.Send)
	// 6. To the leg, encoded, in its packets.
	tx.talking = sounds
	if tx.leg.media.Dir.Send && tx.leg.media.Remote.Port() != 0 {
		tx.transmit(frame)
	}
	tx.endFrame()
	if tx.wire != nil {
		tx.settle()
	}
}

// endFrame moves the outgoing stream on by a frame.
func (tx *toCaller) endFrame() {
	tx.ts += uint32(tx.leg.media.Rate / dsp.FramesPerSecond)
	tx.rec.playPos += dsp.FrameSamples
}

// advanceClock lets timestamps and the recording go on over frames that the shard had to leave out.
func (tx *toCaller) advanceClock(due int64) {
	if tx.count == 0 {
		tx.rec.playPos = tx.rec.samplesAt(due)
	} else if left := (tx.sh.count-tx.count)/slots - 1; left > 0 {
		tx.ts += uint32(left) * uint32(tx.leg.media.Rate/dsp.FramesPerSecond)
		tx.rec.playPos += left * dsp.FrameSamples
	}
	tx.count = tx.sh.count
}

// transmit sends a frame of the leg's rate in its codec. The marker is never set: silence is sent, too (RFC 3551 section 4.1), and FreeSWITCH drops a
// packet of audio that has it (switch_rtp.c, read_rtp_packet: it flushes what it has read).
func (tx *toCaller) transmit(frame []int16) {
	ts := tx.ts
	for piece := tx.leg.media.Rate * tx.leg.media.PacketMS() / 1000; len(frame) > 0; {
		n := min(piece, len(frame))
		tx.sendPacket(frame[:n], ts)
		ts += uint32(n)
		frame = frame[n:]
	}
}

// transmitSilence sends a frame of silence, and gives its length in samples.
func (tx *toCaller) transmitSilence() uint32 {
	frame := tx.sh.pcm[:tx.leg.media.Rate/dsp.FramesPerSecond]
	clear(frame)
	tx.transmit(frame)
	return uint32(len(frame)) //nolint:gosec // a frame's samples
}

func (tx *toCaller) sendPacket(pcm []int16, ts uint32) {
	b := tx.header(tx.leg.media.PT, ts, false)
	at := len(b)
	switch tx.leg.media.Codec {
	case rtp.PCMU:
		b = b[:at+len(pcm)]
		dsp.EncodeULaw(b[at:], pcm)
	case rtp.PCMA:
		b = b[:at+len(pcm)]
		dsp.EncodeALaw(b[at:], pcm)
	case rtp.L16:
		for _, s := range pcm {
			b = binary.BigEndian.AppendUint16(b, uint16(s))
		}
	}
	tx.sendRTP(b)
}

// header begins a packet in the shard's buffer.
func (tx *toCaller) header(pt uint8, ts uint32, marker bool) []byte {
	return rtp.AppendHeader(tx.sh.out[:0], pt, marker, tx.seq, ts, tx.ssrc)
}

// sendRTP sends a packet and counts it.
func (tx *toCaller) sendRTP(b []byte) {
	tx.seq++
	tx.ctl.Sent(len(b) - rtp.HeaderSize)
	if err := tx.leg.rtp.Send(b, &tx.leg.peer); err != nil {
		return
	}
	tx.stats.PacketsOut++
	tx.sh.tally.packetsOut++
}

// comfort writes soft noise, about −66 dBm0, which tells a waiting caller that the line is not dead.
func (tx *toCaller) comfort(dst []int16) {
	x := tx.noise | 1
	for i := range dst {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		dst[i] = int16(x&31) - 16
	}
	tx.noise = x
}
