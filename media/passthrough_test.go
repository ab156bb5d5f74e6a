package media

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	pion "github.com/pion/rtp"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/record"
	"github.com/ringmaster/ringmaster/media/rtp"
	"github.com/ringmaster/ringmaster/media/sip"
	"github.com/ringmaster/ringmaster/media/ws"
	"github.com/ringmaster/ringmaster/media/ws/wstest"
)

// allCodes is some frames of G.711 in which every code occurs, both zeros of μ-law among them.
func allCodes(seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 0))
	var b []byte
	for range 5 {
		for _, c := range rng.Perm(256) {
			b = append(b, byte(c), 0x7f)
		}
	}
	return b[:len(b)/dsp.FrameSamples*dsp.FrameSamples]
}

// TestPassThrough proves that G.711 is not transcoded between a leg and an AI of the same law: every byte arrives as it was
// sent, in both directions, although the recording and the detectors hear it as well.
func TestPassThrough(t *testing.T) {
	t.Parallel()
	for name, law := range map[string]struct {
		encoding Encoding
		codec    rtp.Codec
		pt       uint8
	}{"mu": {EncodingPCMU, rtp.PCMU, 0}, "a": {EncodingPCMA, rtp.PCMA, 8}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newPortRig(t, AudioFormat{Encoding: law.encoding})
			w := record.NewWriter(record.NewMetrics())
			file := r.record(w, &record.Spec{Path: t.TempDir() + "/call.wav", Start: time.Unix(1000, 0)})
			r.connect()
			r.p.leg.setLeg(sip.Media{
				Remote: r.caller.Local, Codec: law.codec, Rate: dsp.SampleRate, PT: law.pt, Dir: sip.Direction{Send: true, Recv: true},
			}, r.now)

			down, up := allCodes(1), allCodes(2)
			r.send(wstest.Frame(0x82, down[:1000])) // cut where frames are not
			r.send(wstest.Frame(0x82, down[1000:]))
			var heard []byte
			h := pion.Header{Version: 2, SSRC: 7, PayloadType: law.pt}
			for rest := up; len(heard) < 2*len(down); r.turn() {
				if len(rest) > 0 {
					r.packet(h, rest[:dsp.FrameSamples])
					h.SequenceNumber, h.Timestamp, rest = h.SequenceNumber+1, h.Timestamp+dsp.FrameSamples, rest[dsp.FrameSamples:]
				}
				r.aiReads()
				for _, pk := range r.packets() {
					heard = append(heard, pk.p...)
				}
			}
			require.True(t, bytes.Contains(heard, down), "the caller did not get the AI's bytes")
			require.True(t, bytes.Contains(r.audio, up), "the AI did not get the caller's bytes")
			r.p.ai.shutdown(ws.CloseNormal, CloseHangup, r.now)
			_, err := file.Finish(t.Context(), time.Unix(1000, 0), time.Unix(1010, 0))
			require.NoError(t, err)
			require.NoError(t, w.Close(t.Context()))
		})
	}
}
