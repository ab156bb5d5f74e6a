package media

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	pion "github.com/pion/rtp"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
)

// TestWideLegs speaks L16 at each rate, offered by the switch: what the caller says reaches the AI at the AI's own rate
// without a detour by 8 kHz, and the AI's audio comes back in the leg's.
func TestWideLegs(t *testing.T) {
	t.Parallel()
	for _, rate := range []int{8000, 16000, 24000, 48000} {
		t.Run(strconv.Itoa(rate), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			spec := r.spec("wide")
			spec.Audio.SampleRateHz = 24000
			sess, ai := r.open(spec)
			p := newPhone(t)
			p.codec = 112
			res := p.invite(sess.URI(), p.sdpBody("112 102", fmt.Sprintf("a=rtpmap:112 L16/%d\r\na=rtpmap:102 telephone-event/%d\r\n", rate, rate)))
			require.Equal(t, 200, res.StatusCode)
			require.Contains(t, string(res.Body()), fmt.Sprintf("a=rtpmap:112 L16/%d\r\na=rtpmap:102 telephone-event/%d\r\n", rate, rate))
			event[LegAnswered](t, sess)
			ai.say(dsptest.Tone(1000, 24000, 24000))
			high := 3000.0
			if rate > 8000 {
				high = 6500
			}
			n := rate / 100
			low, up := dsptest.Tone(1000, rate, rate), dsptest.Tone(high, rate, rate)
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for i := 0; i+n <= rate; i += n {
				b := make([]byte, 0, 2*n)
				for k := range n {
					b = binary.BigEndian.AppendUint16(b, uint16(low[i+k]/2+up[i+k]/2))
				}
				p.raw(112, false, b, n)
				<-tick.C
			}
			require.Eventually(t, func() bool { return len(ai.heard()) >= 20000 }, soon, tick10)
			heard := clearest(ai.heard(), 1000, 24000)
			require.InDelta(t, -18.3, dsptest.Power(heard, 1000, 24000), 0.5)
			require.InDelta(t, -18.3, dsptest.Power(heard, high, 24000), 0.5)

			var back []int16
			for i, h := range p.got() {
				if i > 0 {
					before := p.got()[i-1]
					require.Zero(t, (h.h.Timestamp-before.h.Timestamp)%uint32(len(before.p)/2), "a late thread leaves whole frames out")
					require.EqualValues(t, 1, h.h.SequenceNumber-before.h.SequenceNumber)
				}
				for k := 0; k+1 < len(h.p); k += 2 {
					back = append(back, int16(binary.BigEndian.Uint16(h.p[k:])))
				}
				require.LessOrEqual(t, len(h.p), 960, "no packet is cut on its way")
			}
			from := dsptest.Onset(back)
			require.GreaterOrEqual(t, from, 0)
			require.InDelta(t, -12.2, dsptest.Power(clearest(back[from:], 1000, rate), 1000, rate), 0.5)
		})
	}
}

const tick10 = 10 * time.Millisecond

// TestOddPackets takes CSRCs, a header extension and padding, and passes over what makes no sense.
func TestOddPackets(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, eightKHz())
	r.connect()
	r.callLaw(eventPT)
	pcm := dsptest.Tone(425, dsp.SampleRate, dsp.SampleRate)
	buf := make([]byte, dsp.FrameSamples)
	for i := range 50 {
		dsp.EncodeULaw(buf, pcm[i*dsp.FrameSamples:][:dsp.FrameSamples])
		h := pion.Header{Version: 2, SequenceNumber: uint16(65500 + i), Timestamp: uint32(i * dsp.FrameSamples), SSRC: 77, CSRC: []uint32{1, 2, 3}, Padding: true}
		require.NoError(t, h.SetExtension(1, []byte{9, 9}))
		r.packet(h, append(slices.Clip(buf), 0, 0, 0, 4))
		r.turn()
	}
	for _, junk := range [][]byte{{}, {0x80}, make([]byte, 12), {0x80, 0, 0xf0, 1, 0, 0, 0, 1, 0, 0, 0, 77}, append([]byte{0x80, 90, 0xf0, 2, 0, 0, 0, 1, 0, 0, 0, 77}, 1, 2)} {
		r.p.leg.packet(junk, r.caller.Local, r.now)
	}
	require.EqualValues(t, 4, r.p.sh.tally.malformed)
	require.EqualValues(t, 1, r.p.sh.tally.badType)
	r.turn()
	r.aiReads()
	require.Len(t, r.audio, 50*2*dsp.FrameSamples)
	require.InDelta(t, -12.2, dsptest.Power(bytesPCM(r.audio), 425, dsp.SampleRate), 0.5)
	require.Zero(t, r.p.snapshot().Concealed)
}

// TestLawChange lets the peer change from one G.711 law to the other without a word, and by a re-INVITE.
func TestLawChange(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, ai := r.open(r.spec("law"))
	p := newPhone(t)
	p.call(sess)
	pcm := dsptest.Tone(425, 8000, dsp.FrameSamples*51)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := range 51 {
		f, b := pcm[i*dsp.FrameSamples:][:dsp.FrameSamples], make([]byte, dsp.FrameSamples)
		if i%2 == 0 {
			dsp.EncodeULaw(b, f)
			p.raw(0, false, b, dsp.FrameSamples)
		} else {
			dsp.EncodeALaw(b, f)
			p.raw(8, false, b, dsp.FrameSamples)
		}
		<-tick.C
	}
	require.Eventually(t, func() bool { return len(ai.heard()) >= 15000 }, soon, tick10)
	heard := clearest(ai.heard(), 425, 16000)
	require.InDelta(t, -12.2, dsptest.Power(heard, 425, 16000), 0.3)
	for _, hz := range []float64{212, 850, 1700} {
		require.Less(t, dsptest.Power(heard, hz, 16000), -50.0)
	}
}
