package media

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/netio"
)

// TestDTMFSender follows two digits and a pause, frame by frame.
func TestDTMFSender(t *testing.T) {
	t.Parallel()
	keys, err := parseKeys("1wd", 50*time.Millisecond)
	require.NoError(t, err)
	var d dtmfSender
	require.NoError(t, d.add(keys))
	type sent struct {
		event    byte
		end      bool
		duration int
		ts       uint32
		marker   bool
	}
	var got []sent
	silent, ts := 0, uint32(4294967000)
	for frame := 0; ; frame++ {
		require.Less(t, frame, 100)
		what, p, marker := d.step(ts, dsp.FrameSamples)
		if what == keyNone {
			break
		}
		if what == keyRest {
			silent++
		} else {
			require.Equal(t, byte(dtmfVolume), p[1]&0x3f)
			got = append(got, sent{p[0], p[1]&0x80 != 0, int(binary.BigEndian.Uint16(p[2:])), d.ts, marker})
		}
		ts += dsp.FrameSamples
	}
	begin := uint32(4294967000)
	second := begin + (3+2+2+25)*dsp.FrameSamples // the digit of 60 ms, its end again twice, the rest, the pause
	require.Equal(t, []sent{
		{1, false, 160, begin, true},
		{1, false, 320, begin, false},
		{1, true, 480, begin, false},
		{1, true, 480, begin, false},
		{1, true, 480, begin, false},
		{15, false, 160, second, true},
		{15, false, 320, second, false},
		{15, true, 480, second, false},
		{15, true, 480, second, false},
		{15, true, 480, second, false},
	}, got)
	require.Equal(t, dtmfRest+25+dtmfRest, silent)
}

func TestParseKeys(t *testing.T) {
	t.Parallel()
	keys, err := parseKeys("0123456789*#ABCDabcdwW", 0)
	require.NoError(t, err)
	require.Len(t, keys, 22)
	require.Equal(t, dtmfKey{event: 0, frames: 8}, keys[0])
	require.Equal(t, dtmfKey{event: 12, frames: 8}, keys[16])
	require.Equal(t, dtmfKey{event: dtmfPause, frames: 50}, keys[21])
	keys, err = parseKeys("5", time.Hour)
	require.NoError(t, err)
	require.Equal(t, 250, keys[0].frames, "no event outgrows its 16-bit field")
	for _, bad := range []string{"", "e", "1 2", "1,2", "٣", strings.Repeat("1", 100)} {
		require.ErrorIs(t, CheckDigits(bad), ErrDigits, bad)
	}
	require.NoError(t, CheckDigits(strings.Repeat("1", 99)))
}

// TestSendDTMF has the caller's side read what is sent while the AI talks: the digits, once each, and all of the audio.
func TestSendDTMF(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, ai := r.open(r.spec("press"))
	require.ErrorIs(t, sess.SendDTMF("1", 0), ErrNoLeg)
	p := newPhone(t)
	p.call(sess)
	require.ErrorIs(t, sess.SendDTMF("1x", 0), ErrDigits)
	ai.say(dsptest.Tone(1000, 16000, 16000))
	require.Eventually(t, func() bool { return dsptest.Onset(p.heard()) >= 0 }, soon, tick)
	require.NoError(t, sess.SendDTMF("1#", 80*time.Millisecond))
	ai.text(`{"type":"mark","data":{"name":"end"}}`)
	ai.waitText(t, "end", "playout")
	require.Eventually(t, func() bool { // the phone may not have read all of it yet
		pk := p.got()
		last := pk[len(pk)-1]
		return last.h.PayloadType != 101 && quiet(last.p)
	}, soon, tick)

	var recv dtmfReceiver
	var keys []string
	var audio []int16
	var last heardPacket
	ends, marks := 0, 0
	for i, pkt := range p.got() {
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
			if k, ok := recv.push(pkt.h.Timestamp, pkt.p, 0); ok {
				keys = append(keys, string(rune(k.digit)))
				require.Equal(t, 640, k.samples)
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
	require.InDelta(t, 50, loud, 4, "frames of the AI's second")
	require.InDelta(t, 2, metric(t, r.srv.metrics.digits.WithLabelValues("sent_rtp")), 0)
}

// TestSendDTMFBounds refuses what would wait for minutes, forgets what waits when the leg ends, and uses the carrier's own
// payload type.
func TestSendDTMFBounds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, _ := r.open(r.spec("bounds"))
	p := newPhone(t)
	p.call(sess)
	sess.SetEventPayload(97)
	many := strings.Repeat("1", dtmfMost)
	require.NoError(t, sess.SendDTMF(many, time.Second))
	require.NoError(t, sess.SendDTMF(many, time.Second))
	require.ErrorIs(t, sess.SendDTMF("123", time.Second), ErrDTMFQueueFull)
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
	waits, payload := -1, uint8(0)
	sess.sh.do(func() {
		waits = len(sess.port.keys.out.queue)
		sess.port.leg.setLeg(legMedia{remote: netip.MustParseAddrPort("127.0.0.1:20000"), dtmfPT: 101}, netio.Monotonic())
		payload = sess.port.keys.eventPayload()
		sess.port.leg.endLeg()
	})
	require.Zero(t, waits)
	require.EqualValues(t, 101, payload, "the carrier's number was the first leg's")
	sess.Close(CloseHangup)
	require.ErrorIs(t, sess.SendDTMF("1", 0), ErrSessionClosed)
}
