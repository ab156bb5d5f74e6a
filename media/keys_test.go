package media

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/dtmf"
	"github.com/ringmaster/ringmaster/media/netio"
	"github.com/ringmaster/ringmaster/media/sip"
)

// TestSendDTMF has the caller's side read what is sent while the AI talks: the digits, once each, and all of the audio.
func TestSendDTMF(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, eightKHz())
	r.connect()
	r.callLaw(eventPT)
	r.send(aiAudio(dsptest.Tone(1000, dsp.SampleRate, dsp.SampleRate)))
	for range 5 {
		r.turn()
	}
	press, err := dtmf.Parse("1#", 80*time.Millisecond)
	require.NoError(t, err)
	byINFO, err := r.p.keys.queueKeys(press)
	require.NoError(t, err)
	require.False(t, byINFO)
	for range 100 {
		r.turn()
	}

	var recv dtmf.Receiver
	var keys []string
	var audio []int16
	var last heardPacket
	ends, marks := 0, 0
	for i, pkt := range r.packets() {
		if i > 0 {
			require.Equal(t, last.h.SequenceNumber+1, pkt.h.SequenceNumber)
		}
		switch pkt.h.PayloadType {
		case 101:
			if pkt.p[1]&0x80 != 0 {
				ends++
			}
			if pkt.h.Marker {
				marks++
				require.Equal(t, last.h.Timestamp+dsp.FrameSamples, pkt.h.Timestamp, "an event begins on the audio's clock")
			}
			if k, ok := recv.Push(pkt.h.Timestamp, pkt.p, 0); ok {
				keys = append(keys, string(rune(k.Digit)))
				require.Equal(t, 640, k.Samples)
			}
		default:
			if last.h.PayloadType == 101 {
				gap := pkt.h.Timestamp - last.h.Timestamp
				require.EqualValues(t, (4+2)*dsp.FrameSamples, gap, "audio goes on where the event and its ends have left it")
			}
			s := make([]int16, len(pkt.p))
			dsp.DecodeULaw(s, pkt.p)
			audio = append(audio, s...)
		}
		last = pkt
	}
	require.Equal(t, []string{"1", "#"}, keys)
	require.Equal(t, 6, ends)
	require.Equal(t, 2, marks)
	loud := 0
	for i := 0; i+dsp.FrameSamples <= len(audio); i += dsp.FrameSamples {
		if dsptest.Power(audio[i:i+dsp.FrameSamples], 1000, 8000) > -25 {
			loud++
		}
	}
	require.InDelta(t, 50, loud, 1, "frames of the AI's second")
	require.InDelta(t, 2, metric(t, r.p.sh.srv.metrics.digits.WithLabelValues("sent_rtp")), 0)
}

// TestSendDTMFBounds refuses what would wait for minutes, forgets what waits when the leg ends, and uses the carrier's own
// payload type.
func TestSendDTMFBounds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, _ := r.open(r.spec("bounds"))
	require.ErrorIs(t, sess.SendDTMF("1", 0), ErrNoLeg)
	p := newPhone(t)
	p.call(sess)
	require.ErrorIs(t, sess.SendDTMF("1x", 0), dtmf.ErrDigits)
	sess.SetEventPayload(97)
	many := strings.Repeat("1", 99)
	require.NoError(t, sess.SendDTMF(many, time.Second))
	require.NoError(t, sess.SendDTMF(many, time.Second))
	require.ErrorIs(t, sess.SendDTMF("123", time.Second), dtmf.ErrQueueFull)
	require.Eventually(t, func() bool {
		for _, pkt := range p.got() {
			if pkt.h.PayloadType == 97 {
				return true
			}
		}
		return false
	}, soon, tick)
	require.NoError(t, p.dialog.Bye(t.Context()))
	event[LegEnded](t, sess)
	require.ErrorIs(t, sess.SendDTMF("1", 0), ErrNoLeg)
	waits, payload := true, uint8(0)
	sess.sh.do(func() {
		waits = !sess.port.keys.out.Idle()
		sess.port.leg.setLeg(sip.Media{Remote: netip.MustParseAddrPort("127.0.0.1:20000"), EventPT: 101}, netio.Monotonic())
		payload = sess.port.keys.eventPayload()
		sess.port.leg.endLeg()
	})
	require.False(t, waits)
	require.EqualValues(t, 101, payload, "the carrier's number was the first leg's")
	sess.Close(CloseHangup)
	require.ErrorIs(t, sess.SendDTMF("1", 0), ErrSessionClosed)
}
