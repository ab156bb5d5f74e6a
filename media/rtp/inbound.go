package rtp

import (
	"time"

	"github.com/ringmaster/ringmaster/media/dsp"
)

const (
	// paceFrame is how far the AI's stream may run off the clock before a silent frame is left out or repeated, paceForce
	// how far before an audible one is: at 200 ppm, 100 and 300 s.
	paceFrame, paceForce = 20 * dsp.Millisecond, 60 * dsp.Millisecond
	// pauseCounted is how much of a gap without packets counts as concealed: beyond it, nobody spoke.
	pauseCounted = 100 * dsp.Millisecond
)

// Tempo says how often a frame goes to the AI.
type Tempo uint8

// How often.
const (
	TempoOnce Tempo = iota
	TempoDrop
	TempoTwice
)

// Frame is a piece of the caller's stream, valid until the next one is taken.
type Frame struct {
	PCM     []int16 // at the leg's rate
	Payload []byte  // as it came, nil when it was filled in or changed
	Codec   Codec
	// From is when its first sample would have come on the shortest path, monotonic ns: its place in time.
	From int64
	// Concealed is how much of it was lost or late, in ns; a pause is 0.
	Concealed int64
	Tempo     Tempo
}

// Inbound turns RTP packets into the continuous stream of what the caller says: in order, gaps concealed, pauses filled
// with comfort noise. It is pure: packets and the clock go in, frames come out.
type Inbound struct {
	Rate  int
	jit   jitter
	plc   *dsp.Concealer
	noise dsp.ComfortNoise
	rx    receiver
	Mark  bool           // of the packet at hand: it begins a talk spurt
	held  *jitterPacket  // whose payload is with the frame's taker
	wide  *dsp.Resampler // from the leg's rate to that of the recording; nil when they are the same
	thin  []int16

	// The pace towards the AI.
	blend   []int16 // the head of an audible frame that was left out
	blended bool
	before  []int16 // the frame before, kept when one is about to be repeated
	again   []int16

	Late, Duplicates uint64 // packets
	Concealed        int64  // ns of all that was concealed
	spoken           int64  // ns of all that went out
	gap              int64  // ns of the present gap
	held0, heldN     int64  // ns that packets were behind the shortest path when they left, and their number
}

// SetRate prepares for a leg's rate. The stream begins anew when it changes.
func (c *Inbound) SetRate(rate int) error {
	if c.Rate == rate {
		return nil
	}
	c.Reset()
	c.Rate, c.jit.rate, c.plc = rate, rate, dsp.NewConcealer(rate)
	c.blend = make([]int16, dsp.BlendSamples*rate/dsp.SampleRate)
	c.before = make([]int16, 0, rate/dsp.FramesPerSecond)
	c.wide = nil
	if rate == dsp.SampleRate {
		return nil
	}
	var err error
	c.wide, err = dsp.NewResampler(rate, dsp.SampleRate)
	return err
}

// Reset forgets the stream, not its counts.
func (c *Inbound) Reset() {
	c.giveBack()
	c.jit.reset()
	c.rx.fold()
	c.blended = false
	c.noise.Stop()
	c.before, c.again = c.before[:0], c.again[:0]
	if c.plc != nil {
		c.plc.Reset()
	}
	if c.wide != nil {
		c.wide.Reset()
	}
}

// Packet takes the numbers of a packet of any kind; it reports false for a duplicate.
func (c *Inbound) Packet(ssrc uint32, seq uint16) bool {
	if c.rx.packet(ssrc, seq) {
		return true
	}
	c.Duplicates++
	return false
}

// block describes the present source since the report before.
func (c *Inbound) block() Block { return c.rx.block(c.Rate) }

// Hush tells that the sender sends something else than audio for a while: a digit.
func (c *Inbound) Hush() { c.jit.quiet = true }

// Audio takes an audio packet.
func (c *Inbound) Audio(seq uint16, ts uint32, codec Codec, payload []byte, at int64) Pushed {
	n := len(payload) / codec.bytesPerSample()
	if n == 0 || len(payload) > MaxPayload {
		return Malformed
	}
	c.rx.time(at, int64(ts)*int64(1e9)/int64(c.Rate)) // differences alone count
	did := c.jit.push(packetHead{seq: seq, ts: ts, mark: c.Mark, codec: codec, samples: n, at: at}, payload)
	switch did {
	case Queued, Malformed:
	case Duplicate:
		c.Duplicates++
	case Late:
		c.Late++
	}
	return did
}

// Comfort takes a comfort-noise packet.
func (c *Inbound) Comfort(seq uint16, ts uint32, payload []byte, at int64) {
	c.jit.push(packetHead{kind: packetNoise, seq: seq, ts: ts, at: at}, payload[:min(len(payload), dsp.NoiseOrder+1)])
}

func (c *Inbound) giveBack() {
	if c.held != nil {
		c.jit.release(c.held)
		c.held = nil
	}
}

// Next takes the piece that is due, decoded into buf.
func (c *Inbound) Next(now int64, buf []int16) (Frame, bool) {
	c.giveBack()
	p := c.jit.pop(now)
	for p.verdict == popNoise {
		c.noise.Describe(p.pkt.payload[:p.pkt.n])
		c.jit.release(p.pkt)
		p = c.jit.pop(now)
	}
	if p.verdict == popNothing {
		return Frame{}, false
	}
	f := Frame{From: c.jit.line.expect(p.ts, c.Rate)}
	d := c.jit.span(p.samples)
	c.spoken += d
	if p.verdict == popAudio {
		c.held = p.pkt
		f.Codec, f.Payload = p.pkt.codec, p.pkt.payload[:p.pkt.n]
		f.PCM = buf[:decodePayload(buf, f.Codec, f.Payload)]
		if c.plc.Concealing() {
			f.Payload = nil // its head is blended
		}
		c.plc.Receive(f.PCM)
		c.gap = 0
		c.noise.Stop()
		c.held0 += max(now-f.From, 0)
		c.heldN++
	} else {
		f.PCM = buf[:p.samples]
		c.plc.Conceal(f.PCM)
		c.noise.Add(f.PCM)
		if p.verdict == popConceal && c.gap < pauseCounted {
			f.Concealed = d
			c.Concealed += d
		}
		c.gap += d
	}
	f.Tempo = c.keepPace(f.PCM, d)
	return f, true
}

// keepPace keeps the stream in step with our clock although the caller's differs: 20 ms are repeated or left out where
// nothing is said, or, when somebody speaks for minutes without a pause, anywhere.
func (c *Inbound) keepPace(pcm []int16, d int64) Tempo {
	off := c.jit.line.drift
	far := max(off, -off)
	if far < max(paceFrame, d) {
		return TempoOnce
	}
	if !dsp.IsSilent(pcm) {
		if far < paceForce || off > 0 && len(c.before) != len(pcm) {
			c.before = append(c.before[:0], pcm...)
			return TempoOnce
		}
	}
	if off < 0 {
		c.jit.line.drift += d
		return TempoDrop
	}
	c.jit.line.drift -= d
	return TempoTwice
}

// Smooth prepares a frame for the AI, after all others have had it. It returns what goes before it, if anything.
func (c *Inbound) Smooth(f *Frame) []int16 {
	if c.blended {
		c.blended = false
		dsp.Crossfade(f.PCM, c.blend, len(c.blend))
		f.Payload = nil
	}
	switch f.Tempo {
	case TempoOnce:
	case TempoDrop: // its head goes on where the frame before ended, and leads to the frame after it
		n := copy(c.blend, f.PCM)
		clear(c.blend[n:])
		c.blended = !dsp.IsSilent(f.PCM)
	case TempoTwice:
		if dsp.IsSilent(f.PCM) || len(c.before) != len(f.PCM) {
			return f.PCM
		}
		c.again = append(c.again[:0], c.before...) // leads to this frame, as it did before
		dsp.Crossfade(c.again, f.PCM, len(c.blend))
		return c.again
	}
	return nil
}

// Narrow returns the samples at the recording's rate.
func (c *Inbound) Narrow(pcm []int16) []int16 {
	if c.wide == nil {
		return pcm
	}
	c.thin = c.wide.Process(c.thin[:0], pcm)
	return c.thin
}

// meanHold is how long packets were behind the shortest path when they left: the network's jitter and our waiting.
func (c *Inbound) meanHold() time.Duration {
	if c.heldN == 0 {
		return 0
	}
	return time.Duration(c.held0 / c.heldN)
}

// Quality judges the stream; roundTrip is that of the network, 0 when unknown, and packets last for packetTime.
func (c *Inbound) Quality(roundTrip, packetTime time.Duration) Quality {
	got, expected := c.rx.totals()
	if got == 0 {
		return Quality{}
	}
	lost := expected - got
	// Numbers without a gap may be those of a switch that has numbered anew what it got. Then the timestamps tell what never came:
	// all that is missing, but for what came too late.
	if missing := c.jit.missing / uint64(max(c.jit.perPacket, 1)); lost == 0 && missing > c.Late {
		lost = missing - c.Late
		expected += lost
	}
	i := impairment{
		delay: roundTrip/2 + packetTime + c.meanHold(),
		loss:  float64(lost+c.Late) / float64(expected),
	}
	if c.jit.bursts > 0 {
		i.bursts = float64(c.jit.burstSamples) / float64(c.jit.bursts) / float64(max(c.jit.perPacket, 1))
	}
	return Quality{
		Measured: true, MOS: mos(i.rating()), LossPct: percent(lost, expected), JitterMS: tenths(c.rx.meanJitter()),
		LatePct: percent(c.Late, expected), ConcealedPct: percent(uint64(c.Concealed), uint64(max(c.spoken, 1))), Packets: got,
	}
}
