package media

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

// tempo says how often a frame goes to the AI.
type tempo uint8

const (
	tempoOnce tempo = iota
	tempoDrop
	tempoTwice
)

// callerFrame is a piece of the caller's stream, valid until the next one is taken.
type callerFrame struct {
	pcm     []int16 // at the leg's rate
	payload []byte  // as it came, nil when it was filled in or changed
	codec   legCodec
	// from is when its first sample would have come on the shortest path, monotonic ns: its place in time.
	from int64
	// concealed is how much of it was lost or late, in ns; a pause is 0.
	concealed int64
	tempo     tempo
}

// caller turns RTP packets into the continuous stream of what the caller says: in order, gaps concealed, pauses filled
// with comfort noise. It is pure: packets and the clock go in, frames come out.
type caller struct {
	rate  int
	jit   jitter
	plc   *dsp.Concealer
	noise dsp.ComfortNoise
	rx    receiver
	mark  bool           // of the packet at hand: it begins a talk spurt
	held  *jitterPacket  // whose payload is with the frame's taker
	wide  *dsp.Resampler // from the leg's rate to that of the recording; nil when they are the same
	thin  []int16

	// The pace towards the AI.
	blend   []int16 // the head of an audible frame that was left out
	blended bool
	before  []int16 // the frame before, kept when one is about to be repeated
	again   []int16

	late, duplicate uint64 // packets
	concealed       int64  // ns of all that was concealed
	spoken          int64  // ns of all that went out
	gap             int64  // ns of the present gap
	held0, heldN    int64  // ns that packets were behind the shortest path when they left, and their number
}

// setRate prepares for a leg's rate. The stream begins anew when it changes.
func (c *caller) setRate(rate int) error {
	if c.rate == rate {
		return nil
	}
	c.reset()
	c.rate, c.jit.rate, c.plc = rate, rate, dsp.NewConcealer(rate)
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

// reset forgets the stream, not its counts.
func (c *caller) reset() {
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

// packet takes the numbers of a packet of any kind; it reports false for a duplicate.
func (c *caller) packet(ssrc uint32, seq uint16) bool {
	if c.rx.packet(ssrc, seq) {
		return true
	}
	c.duplicate++
	return false
}

// block describes the present source since the report before.
func (c *caller) block() rtcpBlock { return c.rx.block(c.rate) }

// hush tells that the sender sends something else than audio for a while: a digit.
func (c *caller) hush() { c.jit.quiet = true }

// audio takes an audio packet.
func (c *caller) audio(seq uint16, ts uint32, codec legCodec, payload []byte, at int64) pushed {
	n := len(payload) / codec.bytesPerSample()
	if n == 0 || len(payload) > maxPayload {
		return pushMalformed
	}
	c.rx.time(at, int64(ts)*int64(1e9)/int64(c.rate)) // differences alone count
	did := c.jit.push(packetHead{seq: seq, ts: ts, mark: c.mark, codec: codec, samples: n, at: at}, payload)
	switch did {
	case pushQueued, pushMalformed:
	case pushDuplicate:
		c.duplicate++
	case pushLate:
		c.late++
	}
	return did
}

// comfort takes a comfort-noise packet.
func (c *caller) comfort(seq uint16, ts uint32, payload []byte, at int64) {
	c.jit.push(packetHead{kind: packetNoise, seq: seq, ts: ts, at: at}, payload[:min(len(payload), dsp.NoiseOrder+1)])
}

func (c *caller) giveBack() {
	if c.held != nil {
		c.jit.release(c.held)
		c.held = nil
	}
}

// next takes the piece that is due, decoded into buf.
func (c *caller) next(now int64, buf []int16) (callerFrame, bool) {
	c.giveBack()
	p := c.jit.pop(now)
	for p.verdict == popNoise {
		c.noise.Describe(p.pkt.payload[:p.pkt.n])
		c.jit.release(p.pkt)
		p = c.jit.pop(now)
	}
	if p.verdict == popNothing {
		return callerFrame{}, false
	}
	f := callerFrame{from: c.jit.line.expect(p.ts, c.rate)}
	d := c.jit.span(p.samples)
	c.spoken += d
	if p.verdict == popAudio {
		c.held = p.pkt
		f.codec, f.payload = p.pkt.codec, p.pkt.payload[:p.pkt.n]
		f.pcm = buf[:decodePayload(buf, f.codec, f.payload)]
		if c.plc.Concealing() {
			f.payload = nil // its head is blended
		}
		c.plc.Receive(f.pcm)
		c.gap = 0
		c.noise.Stop()
		c.held0 += max(now-f.from, 0)
		c.heldN++
	} else {
		f.pcm = buf[:p.samples]
		c.plc.Conceal(f.pcm)
		c.noise.Add(f.pcm)
		if p.verdict == popConceal && c.gap < pauseCounted {
			f.concealed = d
			c.concealed += d
		}
		c.gap += d
	}
	f.tempo = c.keepPace(f.pcm, d)
	return f, true
}

// keepPace keeps the stream in step with our clock although the caller's differs: 20 ms are repeated or left out where
// nothing is said, or, when somebody speaks for minutes without a pause, anywhere.
func (c *caller) keepPace(pcm []int16, d int64) tempo {
	off := c.jit.line.drift
	far := max(off, -off)
	if far < max(paceFrame, d) {
		return tempoOnce
	}
	if !dsp.IsSilent(pcm) {
		if far < paceForce || off > 0 && len(c.before) != len(pcm) {
			c.before = append(c.before[:0], pcm...)
			return tempoOnce
		}
	}
	if off < 0 {
		c.jit.line.drift += d
		return tempoDrop
	}
	c.jit.line.drift -= d
	return tempoTwice
}

// smooth prepares a frame for the AI, after all others have had it. It returns what goes before it, if anything.
func (c *caller) smooth(f *callerFrame) []int16 {
	if c.blended {
		c.blended = false
		dsp.Crossfade(f.pcm, c.blend, len(c.blend))
		f.payload = nil
	}
	switch f.tempo {
	case tempoOnce:
	case tempoDrop: // its head goes on where the frame before ended, and leads to the frame after it
		n := copy(c.blend, f.pcm)
		clear(c.blend[n:])
		c.blended = !dsp.IsSilent(f.pcm)
	case tempoTwice:
		if dsp.IsSilent(f.pcm) || len(c.before) != len(f.pcm) {
			return f.pcm
		}
		c.again = append(c.again[:0], c.before...) // leads to this frame, as it did before
		dsp.Crossfade(c.again, f.pcm, len(c.blend))
		return c.again
	}
	return nil
}

// narrow returns the samples at the recording's rate.
func (c *caller) narrow(pcm []int16) []int16 {
	if c.wide == nil {
		return pcm
	}
	c.thin = c.wide.Process(c.thin[:0], pcm)
	return c.thin
}

// meanHold is how long packets were behind the shortest path when they left: the network's jitter and our waiting.
func (c *caller) meanHold() time.Duration {
	if c.heldN == 0 {
		return 0
	}
	return time.Duration(c.held0 / c.heldN)
}

// quality judges the stream; roundTrip is that of the network, 0 when unknown, and packets last for packetTime.
func (c *caller) quality(roundTrip, packetTime time.Duration) DirectionQuality {
	got, expected := c.rx.totals()
	if got == 0 {
		return DirectionQuality{}
	}
	lost := expected - got
	// Numbers without a gap may be those of a switch that has numbered anew what it got. Then the timestamps tell what never came:
	// all that is missing, but for what came too late.
	if missing := c.jit.missing / uint64(max(c.jit.perPacket, 1)); lost == 0 && missing > c.late {
		lost = missing - c.late
		expected += lost
	}
	i := impairment{
		delay: roundTrip/2 + packetTime + c.meanHold(),
		loss:  float64(lost+c.late) / float64(expected),
	}
	if c.jit.bursts > 0 {
		i.bursts = float64(c.jit.burstSamples) / float64(c.jit.bursts) / float64(max(c.jit.perPacket, 1))
	}
	return DirectionQuality{
		Measured: true, MOS: mos(i.rating()), LossPct: percent(lost, expected), JitterMS: tenths(c.rx.meanJitter()),
		LatePct: percent(c.late, expected), ConcealedPct: percent(uint64(c.concealed), uint64(max(c.spoken, 1))), Packets: got,
	}
}
