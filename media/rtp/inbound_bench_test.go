package rtp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/record"
)

// BenchmarkCaller is what a packet of the caller costs until its audio is ready for the AI and laid down in the recording.
func BenchmarkCaller(b *testing.B) {
	for name, tc := range map[string]struct {
		lossEvery uint16
		ppm       int64
	}{
		"undisturbed":       {0, 0},
		"1000 ppm":          {0, 1000}, // the recording is led back to its place for most of the time
		"2% loss":           {50, 0},
		"2% loss, 1000 ppm": {50, 1000},
	} {
		b.Run(name, func(b *testing.B) {
			var c Inbound
			require.NoError(b, c.SetRate(dsp.SampleRate))
			track := record.NewTrack(record.NewSlewTable())
			rec := record.NewRecorder(nil, 0, false)
			payload, buf := make([]byte, dsp.FrameSamples), make([]int16, MaxPayload)
			dsp.EncodeULaw(payload, dsptest.Vowel(140, dsp.SampleRate, dsp.FrameSamples))
			seq, ts, now := uint16(0), uint32(0), int64(0)
			b.ReportAllocs()
			for b.Loop() {
				seq, ts, now = seq+1, ts+dsp.FrameSamples, now+dsp.FrameNS+dsp.FrameNS*tc.ppm/1_000_000
				c.Packet(1, seq)
				if tc.lossEvery == 0 || seq%tc.lossEvery != 0 {
					c.Audio(seq, ts, PCMU, payload, now)
				}
				for f, ok := c.Next(now, buf); ok; f, ok = c.Next(now, buf) {
					track.Put(rec, f.From/dsp.SampleNS, c.Narrow(f.PCM))
					_ = rec.Advance(track.End()) // nothing is written
					c.Smooth(&f)
				}
			}
		})
	}
}
