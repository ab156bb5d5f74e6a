package media

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/record"
)

// network sends a caller's 20 ms packets with loss and jitter, in simulated time.
type network struct {
	rate    int
	ppm     int64 // how much slower than ours the caller's clock is
	loss    float64
	jitter  float64 // ms, standard deviation of a delay that is never negative
	rng     *rand.Rand
	sent    int64
	flights []flight // by arrival
}

type flight struct {
	n  int64
	at int64
}

// at is when a packet is sent.
func (n *network) at(packet int64) int64 {
	d := packet * dsp.FrameNS
	return d + d/1_000_000*n.ppm
}

// arrivals are the packets that come before a moment.
func (n *network) arrivals(now int64) []flight {
	for ; n.at(n.sent) <= now; n.sent++ {
		if n.rng.Float64() < n.loss {
			continue
		}
		late := math.Abs(n.rng.NormFloat64()) * n.jitter
		f := flight{n: n.sent, at: n.at(n.sent) + int64(late*float64(dsp.Millisecond))}
		i, _ := slices.BinarySearchFunc(n.flights, f.at, func(f flight, at int64) int { return int(f.at - at) })
		n.flights = slices.Insert(n.flights, i, f)
	}
	k := 0
	for k < len(n.flights) && n.flights[k].at <= now {
		k++
	}
	out := slices.Clone(n.flights[:k])
	n.flights = slices.Delete(n.flights, 0, k)
	return out
}

// TestHour runs one hour of a caller whose clock is 200 ppm off, with 1% loss and 30 ms of jitter: the recording stays in
// step, nothing is ever held for long, the AI's stream keeps to our clock, and the statistics are right. Under the race detector,
// where an hour costs several times as much, half of one has to do.
func TestHour(t *testing.T) {
	t.Parallel()
	for name, ppm := range map[string]int64{"slow": 200, "fast": -200} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hour := int64(3600 * 1000 * dsp.Millisecond)
			if underRace {
				hour /= 2
			}
			net := &network{rate: dsp.SampleRate, ppm: ppm, loss: 0.01, jitter: 30, rng: rand.New(rand.NewPCG(4, uint64(ppm)))}
			var c caller
			require.NoError(t, c.setRate(dsp.SampleRate))
			track := record.NewTrack(record.NewSlewTable())
			rec := record.NewRecorder(nil, 0, false)
			payload, pcm, buf := make([]byte, dsp.FrameSamples), make([]int16, dsp.FrameSamples), make([]int16, maxPayload)
			var toAI, worstHold, worstStep int64
			for now := int64(0); now < hour; now += slotNS {
				for _, f := range net.arrivals(now) {
					// A click a second, with a pause behind it, in which the pace may be mended.
					clear(pcm)
					if f.n%50 == 0 {
						copy(pcm, dsptest.Tone(1000, dsp.SampleRate, 40))
					}
					dsp.EncodeULaw(payload, pcm)
					c.rx.packet(1, uint16(f.n))
					c.audio(uint16(f.n), uint32(f.n)*dsp.FrameSamples, codecPCMU, payload, f.at)
				}
				for f, ok := c.next(now, buf); ok; f, ok = c.next(now, buf) {
					if c.held != nil {
						worstHold = max(worstHold, now-c.held.at)
						if now > 10_000*dsp.Millisecond {
							// The click's place: the packet's number tells when it was sent by our clock.
							n := int64(c.held.ts / dsp.FrameSamples)
							step := track.End()*dsp.SampleNS - net.at(n)
							worstStep = max(worstStep, step, -step)
						}
					}
					track.Put(rec, f.from/dsp.SampleNS, c.narrow(f.pcm))
					_ = rec.Advance(track.End()) // nothing is written
					if before := c.smooth(&f); before != nil {
						toAI += int64(len(before))
					}
					if f.tempo != tempoDrop {
						toAI += int64(len(f.pcm))
					}
				}
			}
			end := track.Pos + int64(len(track.Buf)-track.At)
			q := c.quality(0, 20)
			t.Logf("recording's end %.1f ms, worst place %.1f ms, worst hold %.1f ms, to the AI %+.1f ms, target %d ms; %+v",
				float64(end-hour/dsp.SampleNS)/8, float64(worstStep)/1e6, float64(worstHold)/1e6,
				float64(toAI-hour/dsp.SampleNS)/8, c.jit.delay.wait()/dsp.Millisecond, q)
			require.Less(t, worstStep, 12*dsp.Millisecond, "in step at every moment")
			require.InDelta(t, hour/dsp.SampleNS, end, 20*8+130*8, "and at the end, but for what is in flight")
			require.LessOrEqual(t, worstHold, targetMax+reorderGrace+slotNS)
			require.InDelta(t, hour/dsp.SampleNS, toAI, 250*8, "an uncorrected stream would be 720 ms off, after half the time 360")
			require.InDelta(t, 1.0, q.LossPct, 0.1)
			require.Less(t, q.LatePct, 1.5)
			require.InDelta(t, 1.0+q.LatePct, q.ConcealedPct, 0.5)
			require.InDelta(t, 30, q.JitterMS, 15)
			require.Zero(t, rec.Late())
		})
	}
}

// TestConcealedIsNoPause counts what was lost, not the pauses of a caller who sends nothing while he is silent.
func TestConcealedIsNoPause(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, AudioFormat{})
	r.connect()
	r.call()
	r.p.leg.media.codec, r.p.leg.media.pt = codecPCMU, 0
	seq, ts := uint16(0), uint32(0)
	talk := func(frames int) {
		for range frames {
			b := append([]byte{0x80, 0, byte(seq >> 8), byte(seq)}, 0, 0, 0, 0, 0, 0, 0, 7)
			binary.BigEndian.PutUint32(b[4:], ts)
			r.p.leg.packet(append(b, make([]byte, 160)...), r.caller.Local, r.now)
			seq, ts = seq+1, ts+160
			for !r.step() {
			}
		}
	}
	talk(20)
	seq, ts = seq+2, ts+320
	for range 2 {
		for !r.step() {
		}
	}
	talk(20)
	lost := r.p.snapshot().Concealed
	require.EqualValues(t, 2, lost)
	for range 500 { // he sends nothing for 10 s
		for !r.step() {
		}
	}
	ts += 500 * 160
	talk(20)
	require.LessOrEqual(t, r.p.snapshot().Concealed, lost+uint64(pauseCounted/dsp.FrameNS))
	require.Equal(t, int64(r.p.snapshot().Concealed), r.p.sh.tally.conceal/dsp.FrameNS)
}
