package media

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/playout"
	"github.com/ringmaster/ringmaster/media/record"
	"github.com/ringmaster/ringmaster/media/rtp"
	"github.com/ringmaster/ringmaster/media/ws"
)

// TestHotPathAllocs proves that the step functions of a frame allocate nothing.
func TestHotPathAllocs(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts the whole process
	pcm, buf := dsptest.Tone(425, 8000, dsp.FrameSamples), make([]byte, dsp.FrameSamples)
	up, err := newUplink(AudioFormat{Encoding: EncodingPCM, SampleRateHz: 16000, Channels: 1, FrameMS: 20})
	require.NoError(t, err)
	down, err := newDownlink(AudioFormat{Encoding: EncodingPCM, SampleRateHz: 16000, Channels: 1, FrameMS: 20})
	require.NoError(t, err)
	down.res, err = down.filter(dsp.SampleRate)
	require.NoError(t, err)
	audio := pcmBytes(dsptest.Tone(1000, 16000, 320))
	q := playout.New(new(playout.Pool), dsp.SampleRate)
	var c rtp.Inbound
	require.NoError(t, c.SetRate(dsp.SampleRate))
	track := record.NewTrack(record.NewSlewTable())
	rec := record.NewRecorder(nil, 0, false)
	var out []byte
	decoded := make([]int16, rtp.MaxPayload)
	frame := make([]int16, dsp.FrameSamples)
	seq, ts, now := uint16(0), uint32(0), int64(0)
	step := func() {
		dsp.EncodeULaw(buf, pcm)
		seq, ts, now = seq+1, ts+dsp.FrameSamples, now+dsp.FrameNS+4000 // a sender whose clock is 200 ppm slow
		c.Packet(1, seq)
		if seq%50 != 0 {
			c.Audio(seq, ts, rtp.PCMU, buf, now)
		}
		for h, ok := c.Next(now, decoded); ok; h, ok = c.Next(now, decoded) {
			track.Put(rec, h.From/dsp.SampleNS, c.Narrow(h.PCM))
			_ = rec.Advance(track.End()) // nothing is written
			c.Smooth(&h)
			up.feed(h.PCM)
		}
		for f := up.frame(); f != nil; f = up.frame() {
			out = ws.AppendFrame(out[:0], ws.OpBinary, f)
		}
		q.Push(down.feed(audio))
		q.Pull(frame)
	}
	for range 200 {
		step()
	}
	require.Zero(t, testing.AllocsPerRun(1000, step))
}
