package rtp

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

// slot is how often the stream is asked for what is due.
const slot = 5 * dsp.Millisecond

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
			var c Inbound
			require.NoError(t, c.SetRate(dsp.SampleRate))
			track := record.NewTrack(record.NewSlewTable())
			rec := record.NewRecorder(nil, 0, false)
			payload, pcm, buf := make([]byte, dsp.FrameSamples), make([]int16, dsp.FrameSamples), make([]int16, MaxPayload)
			var toAI, worstHold, worstStep int64
			for now := int64(0); now < hour; now += slot {
				for _, f := range net.arrivals(now) {
					// A click a second, with a pause behind it, in which the pace may be mended.
					clear(pcm)
					if f.n%50 == 0 {
						copy(pcm, dsptest.Tone(1000, dsp.SampleRate, 40))
					}
					dsp.EncodeULaw(payload, pcm)
					c.Packet(1, uint16(f.n))
					c.Audio(uint16(f.n), uint32(f.n)*dsp.FrameSamples, PCMU, payload, f.at)
				}
				for f, ok := c.Next(now, buf); ok; f, ok = c.Next(now, buf) {
					if c.held != nil {
						worstHold = max(worstHold, now-c.held.at)
						if now > 10_000*dsp.Millisecond {
							// The click's place: the packet's number tells when it was sent by our clock.
							n := int64(c.held.ts / dsp.FrameSamples)
							step := track.End()*dsp.SampleNS - net.at(n)
							worstStep = max(worstStep, step, -step)
						}
					}
					track.Put(rec, f.From/dsp.SampleNS, c.Narrow(f.PCM))
					_ = rec.Advance(track.End()) // nothing is written
					if before := c.Smooth(&f); before != nil {
						toAI += int64(len(before))
					}
					if f.Tempo != TempoDrop {
						toAI += int64(len(f.PCM))
					}
				}
			}
			end := track.Pos + int64(len(track.Buf)-track.At)
			q := c.Quality(0, 20)
			t.Logf("recording's end %.1f ms, worst place %.1f ms, worst hold %.1f ms, to the AI %+.1f ms, target %d ms; %+v",
				float64(end-hour/dsp.SampleNS)/8, float64(worstStep)/1e6, float64(worstHold)/1e6,
				float64(toAI-hour/dsp.SampleNS)/8, c.jit.delay.wait()/dsp.Millisecond, q)
			require.Less(t, worstStep, 12*dsp.Millisecond, "in step at every moment")
			require.InDelta(t, hour/dsp.SampleNS, end, 20*8+130*8, "and at the end, but for what is in flight")
			require.LessOrEqual(t, worstHold, targetMax+reorderGrace+slot)
			require.InDelta(t, hour/dsp.SampleNS, toAI, 250*8, "an uncorrected stream would be 720 ms off, after half the time 360")
			require.InDelta(t, 1.0, q.LossPct, 0.1)
			require.Less(t, q.LatePct, 1.5)
			require.InDelta(t, 1.0+q.LatePct, q.ConcealedPct, 0.5)
			require.InDelta(t, 30, q.JitterMS, 15)
			require.Zero(t, rec.Late())
		})
	}
}

// TestPacketTimes takes packets of any length; what is missing between them is as long as they are.
func TestPacketTimes(t *testing.T) {
	t.Parallel()
	for _, packetMS := range []int{10, 20, 30, 40, 60, 120} {
		n := 8 * packetMS
		var c Inbound
		require.NoError(t, c.SetRate(dsp.SampleRate))
		buf, total := make([]int16, MaxPayload), 0
		payload := make([]byte, n)
		count := 6000 / packetMS
		for i := range count {
			at := int64(i*packetMS) * dsp.Millisecond
			c.Packet(1, uint16(i))
			if i%10 != 5 {
				dsp.EncodeULaw(payload, dsptest.Tone(425, 8000, n))
				require.Equal(t, Queued, c.Audio(uint16(i), uint32(i*n), PCMU, payload, at))
			}
			for now := at; now < at+int64(packetMS)*dsp.Millisecond; now += slot {
				for f, ok := c.Next(now, buf); ok; f, ok = c.Next(now, buf) {
					total += len(f.PCM)
				}
			}
		}
		require.InDelta(t, count*n, total, float64(n), "%d ms", packetMS)
		require.Zero(t, c.Late)
		if packetMS <= 60 { // longer ones are filled in before the next one tells how long they were
			require.EqualValues(t, n, c.jit.burstSamples/c.jit.bursts, "%d ms", packetMS)
		}
	}
}

// TestPaceOfTone forces the pace where nobody ever pauses: no clicks, and the clock is kept.
func TestPaceOfTone(t *testing.T) {
	t.Parallel()
	for _, ppm := range []int64{-1000, 1000} {
		var c Inbound
		require.NoError(t, c.SetRate(dsp.SampleRate))
		buf, b := make([]int16, MaxPayload), make([]byte, 2*dsp.FrameSamples)
		pcm := dsptest.Tone(400, dsp.SampleRate, dsp.FrameSamples) // whole periods
		for i, s := range pcm {
			binary.BigEndian.PutUint16(b[2*i:], uint16(s))
		}
		var out []int16
		const packets = 15_000 // 5 minutes
		for i := range int64(packets) {
			now := i * dsp.FrameNS * (1_000_000 + ppm) / 1_000_000
			c.Packet(1, uint16(i))
			c.Audio(uint16(i), uint32(i)*dsp.FrameSamples, L16, b, now)
			for f, ok := c.Next(now, buf); ok; f, ok = c.Next(now, buf) {
				if before := c.Smooth(&f); before != nil {
					out = append(out, before...)
				}
				if f.Tempo != TempoDrop {
					out = append(out, f.PCM...)
				}
			}
		}
		require.InDelta(t, packets*dsp.FrameSamples*(1_000_000+ppm)/1_000_000, len(out), 90*8, "%d ppm", ppm)
		require.LessOrEqual(t, dsptest.Steepest(out), dsptest.Steepest(append(append([]int16{}, pcm...), pcm...))*11/10)
		require.InDelta(t, dsptest.Power(pcm, 400, dsp.SampleRate), dsptest.Power(out[:8000*200], 400, dsp.SampleRate), 0.2)
	}
}
