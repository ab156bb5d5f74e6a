package media

import (
	"math/rand/v2"
	"strconv"
	"testing"

	pion "github.com/pion/rtp"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/frames"
	"github.com/ringmaster/ringmaster/media/ws"
)

// TestTwilioSchema holds 10,000 frames of a call with speech, digits, marks, clears, lost packets and broken sockets to their schema, and to the order
// that clients rely on: connected, start, numbers without a gap, at most one stop.
func TestTwilioSchema(t *testing.T) {
	t.Parallel()
	valid := frameSet(t, TransportTwilio)
	r := newTwilioRig(t)
	r.callLaw(0)
	rnd := rand.New(rand.NewPCG(1, 2))
	h := pion.Header{Version: 2, SSRC: 7}
	ulaw := make([]byte, dsp.FrameSamples)
	count := map[string]int{}
	total, next := 0, 0
	check := func() {
		r.aiReads()
		for _, s := range r.texts {
			_, err := valid.Check(frames.ToAI, []byte(s))
			require.NoError(t, err, s)
		}
		for _, f := range r.frames() {
			total++
			count[f.Event]++
			if f.Event == "connected" {
				next = 1
				continue
			}
			require.Equal(t, strconv.Itoa(next), f.SequenceNumber)
			require.Equal(t, next == 1, f.Event == "start")
			next++
		}
	}
	for i := 0; total < schemaFrames(); i++ {
		h.SequenceNumber, h.Timestamp = h.SequenceNumber+1, h.Timestamp+dsp.FrameSamples
		if rnd.IntN(20) > 0 {
			for k := range ulaw {
				ulaw[k] = byte(rnd.Uint32())
			}
			r.packet(h, ulaw)
		}
		switch rnd.IntN(12) {
		case 0, 1, 2:
			r.say(ulaw[:1+rnd.IntN(dsp.FrameSamples-1)])
		case 3, 4:
			r.mark([]string{"m", "नमस्ते", `quote\"`, "a b"}[rnd.IntN(4)] + strconv.Itoa(i))
		case 5:
			r.clear()
		case 6:
			r.p.keys.reportKey(keyPress{digit: "0123456789*#"[rnd.IntN(12)], dur: 100e6}, 0, r.now)
		}
		r.turn()
		r.heard()
		if i%1000 == 999 {
			check()
			r.hangUp()
			r.turn()
			r.connectWith(r.p.s.meta(true))
		}
		if i%100 == 0 {
			check()
		}
	}
	r.p.ai.shutdown(ws.CloseNormal, CloseHangup, r.now)
	check()
	require.Equal(t, 1, count["stop"])
	for _, event := range []string{"start", "media", "mark", "dtmf"} {
		require.Positive(t, count[event], event)
	}
	t.Logf("%d frames: %v", total, count)
}
