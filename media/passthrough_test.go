package media

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/record"
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
		formats  string
		pt       uint8
	}{"mu": {EncodingPCMU, "0", 0}, "a": {EncodingPCMA, "8", 8}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			spec := r.spec("pass-" + name)
			spec.Audio = AudioFormat{Encoding: law.encoding}
			spec.Recording = &record.Spec{Path: t.TempDir() + "/call.wav", Start: time.Now()}
			sess, ai := r.open(spec)
			p := newPhone(t)
			require.Equal(t, 200, p.invite(sess.URI(), p.sdpBody(law.formats, "")).StatusCode)
			event[LegAnswered](t, sess)

			down := allCodes(1)
			ai.Write(websocket.BinaryMessage, down[:1000]) // cut where frames are not
			ai.Write(websocket.BinaryMessage, down[1000:])
			up := allCodes(2)
			beat := time.NewTicker(20 * time.Millisecond)
			defer beat.Stop()
			for i := 0; i < len(up); i += dsp.FrameSamples {
				<-beat.C
				p.raw(law.pt, i == 0, up[i:i+dsp.FrameSamples], dsp.FrameSamples)
			}
			require.Eventually(t, func() bool {
				var heard []byte
				for _, pkt := range p.got() {
					heard = append(heard, pkt.p...)
				}
				return bytes.Contains(heard, down)
			}, soon, tick, "the caller did not get the AI's bytes")
			// A busy machine may make the jitter buffer fill in or leave out a frame or two, never change one.
			require.Eventually(t, func() bool {
				ai.mu.Lock()
				defer ai.mu.Unlock()
				whole := 0
				for i := 0; i < len(up); i += dsp.FrameSamples {
					if bytes.Contains(ai.audio, up[i:i+dsp.FrameSamples]) {
						whole++
					}
				}
				return whole*dsp.FrameSamples >= len(up)*2/3
			}, soon, tick, "the AI did not get the caller's bytes")
		})
	}
}
