package media

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	siplib "github.com/emiago/sipgo/sip"
	pion "github.com/pion/rtp"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/dtmf"
)

// dualTone is a key of −10 dBm0 that is pressed for so long.
func dualTone(low, high float64, ms int) []int16 {
	pcm, b := dsptest.Tone(low, dsp.SampleRate, 8*ms), dsptest.Tone(high, dsp.SampleRate, 8*ms)
	for i := range pcm {
		pcm[i] = int16((int(pcm[i]) + int(b[i])) * 9 / 10)
	}
	return pcm
}

// telephoneEvent is one of them.
func telephoneEvent(event byte, end bool, duration int) []byte {
	p := dtmf.Payload(event, end, duration)
	return p[:]
}

// press sends a digit of 100 ms with RFC 4733's redundancy.
func (p *phone) press(pt, event byte) {
	ts := p.ts
	for i := 1; i <= 7; i++ {
		p.ts = ts
		p.raw(pt, i == 1, telephoneEvent(event, i >= 5, min(i, 5)*160), 0)
	}
	p.ts = ts + 1600
}

// TestDTMF presses digits by every payload type that a carrier may have: one event and one text frame each.
func TestDTMF(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, ai := r.open(r.spec("dtmf"))
	p := newPhone(t)
	p.call(sess)
	p.speak(make([]int16, 800))
	for i, ev := range []byte{1, 2, 2, 11, 15} {
		p.press([]byte{101, 101, 96, 127, 110}[i], ev)
	}
	for _, want := range []string{"1", "2", "2", "#", "D"} {
		require.Equal(t, DTMF{Digit: want, Duration: 100 * time.Millisecond}, event[DTMF](t, sess))
	}
	ai.waitText(t, `"dtmf"`, `"digit":"D"`, `"duration_ms":100`)
	require.Equal(t, 5, strings.Count(strings.Join(ai.allTexts(), ""), `"type":"dtmf"`))
	require.InDelta(t, 5, metric(t, r.srv.metrics.digits.WithLabelValues("rtp")), 0)
}

// TestDTMFInOnePacket reads several events of one packet, and the last one of a stream that changed.
func TestDTMFInOnePacket(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, _ := r.open(r.spec("packed"))
	p := newPhone(t)
	p.call(sess)
	p.raw(101, true, append(append(telephoneEvent(1, true, 400), telephoneEvent(2, true, 480)...), telephoneEvent(3, false, 160)...), 0)
	p.ssrc++ // a new stream: the third key's end will not come
	p.send(make([]int16, dsp.FrameSamples))
	for _, want := range []DTMF{{"1", 50 * time.Millisecond}, {"2", 60 * time.Millisecond}, {"3", 20 * time.Millisecond}} {
		require.Equal(t, want, event[DTMF](t, sess))
	}
}

// TestDTMFWays presses one key by the leg, by INFO on the leg and by the switch's word.
func TestDTMFWays(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, ai := r.open(r.spec("ways"))
	p := newPhone(t)
	p.call(sess)
	sess.HeardDTMF("9", 160*time.Millisecond)
	require.Equal(t, DTMF{Digit: "9", Duration: 160 * time.Millisecond}, event[DTMF](t, sess))
	p.press(101, 9)
	require.Eventually(t, func() bool { return metric(t, r.srv.metrics.digits.WithLabelValues("repeated")) == 1 }, soon, tick)
	sess.HeardDTMF("x", 0)
	sess.HeardDTMF("", 0)
	sess.HeardDTMF("4", 100*time.Millisecond)
	require.Equal(t, "4", event[DTMF](t, sess).Digit)
	ai.waitText(t, `"digit":"4"`)
	require.Equal(t, 2, strings.Count(strings.Join(ai.allTexts(), ""), `"type":"dtmf"`))
}

// info sends an INFO with a body.
func (s *sipSocket) info(user, contentType, body string) {
	s.t.Helper()
	s.cseq++
	_, err := fmt.Fprintf(s.conn, "INFO sip:%s@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP %s;branch=z9hG4bK%s%d;rport\r\nMax-Forwards: 70\r\nFrom: <sip:switch@127.0.0.1>;tag=sw\r\nTo: <sip:%s@127.0.0.1>;tag=%s\r\nCall-ID: %s\r\nCSeq: %d INFO\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s",
		user, s.conn.LocalAddr(), s.id, s.cseq, user, s.tag, s.id, s.cseq, contentType, len(body), body)
	require.NoError(s.t, err)
}

// TestDTMFByINFO uses a leg without telephone-events: digits come and go by SIP INFO.
func TestDTMFByINFO(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, _ := r.open(r.spec("info"))
	s := newSIPSocket(t, r)
	s.request("INVITE", "info", s.offer("0", ""), "")
	res := s.final("INVITE")
	require.Equal(t, 200, res.StatusCode)
	require.NotContains(t, string(res.Body()), "telephone-event")
	s.request("ACK", "info", "", "")
	event[LegAnswered](t, sess)

	s.info("info", "application/dtmf-relay", "Signal=5\r\nDuration=250\r\n")
	require.Equal(t, 200, s.final("INFO").StatusCode)
	require.Equal(t, DTMF{Digit: "5", Duration: 250 * time.Millisecond}, event[DTMF](t, sess))
	s.info("info", "application/dtmf; charset=x", "*")
	require.Equal(t, 200, s.final("INFO").StatusCode)
	require.Equal(t, DTMF{Digit: "*", Duration: dtmf.InfoDuration}, event[DTMF](t, sess))
	s.info("info", "application/media_control+xml", "<x/>")
	require.Equal(t, 200, s.final("INFO").StatusCode)

	require.NoError(t, sess.SendDTMF("7d", 100*time.Millisecond))
	answered := uint32(0)
	for _, want := range []string{"Signal=7\r\nDuration=100\r\n", "Signal=D\r\nDuration=100\r\n"} {
		for {
			req, ok := s.Read().(*siplib.Request)
			require.True(t, ok)
			require.Equal(t, siplib.INFO, req.Method)
			_, err := s.conn.Write([]byte(siplib.NewResponseFromRequest(req, 200, "OK", nil).String()))
			require.NoError(t, err)
			if req.CSeq().SeqNo == answered {
				continue // said again, since the answer took long
			}
			answered = req.CSeq().SeqNo
			require.Equal(t, "application/dtmf-relay", req.ContentType().Value())
			require.Equal(t, want, string(req.Body()))
			break
		}
	}
	require.Eventually(t, func() bool { return metric(t, r.srv.metrics.digits.WithLabelValues("sent_info")) == 2 }, soon, tick)
}

// TestToneKeys hears a key as a tone on a leg without telephone-events, for as long as it was pressed.
func TestToneKeys(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, eightKHz())
	r.connect()
	r.callLaw(0)
	r.talk(pion.Header{Version: 2, SSRC: 5}, append(dualTone(852, 1336, 100), make([]int16, 1600)...))
	r.aiReads()
	i := slices.IndexFunc(r.texts, func(s string) bool { return strings.Contains(s, `"dtmf"`) })
	require.GreaterOrEqual(t, i, 0)
	var got struct{ Data dtmfData }
	require.NoError(t, json.Unmarshal([]byte(r.texts[i]), &got))
	require.Equal(t, "8", got.Data.Digit)
	require.InDelta(t, 100, got.Data.DurationMS, 15)
}

// TestToneDetectionIsChosen costs a leg with telephone-events nothing, unless its caller is known to have none.
func TestToneDetectionIsChosen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, _ := r.open(r.spec("tones"))
	p := newPhone(t)
	p.call(sess)
	detects := func() (on bool) {
		sess.sh.do(func() { on = sess.port.keys.tones != nil })
		return on
	}
	require.False(t, detects())
	sess.SetToneDetection(true)
	require.True(t, detects())
	sess.SetToneDetection(false)
	require.False(t, detects())
}

// TestDigitsOfAFlood: a caller whose packets are full of events takes no audio from others: 360 digits fit into a packet, and 50 of these come in a second.
func TestDigitsOfAFlood(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, AudioFormat{})
	r.connect()
	r.call()
	var full []byte
	for i := range 360 {
		full = append(full, telephoneEvent(byte(i%len(dtmf.Digits)), true, 0)...)
	}
	h := pion.Header{Version: 2, SSRC: 7, PayloadType: eventPT}
	flood := func() (digits int) {
		before := len(r.texts)
		for range 50 {
			h.SequenceNumber++
			h.Timestamp += dsp.FrameSamples
			r.packet(h, full)
			r.turn()
			r.aiReads()
		}
		for _, text := range r.texts[before:] {
			digits += strings.Count(text, `"type":"dtmf"`)
		}
		return digits
	}
	require.InDelta(t, digitBurst+50*digitRate, flood(), 2)
	require.InDelta(t, 50*digitRate, flood(), 2)
	require.Empty(t, r.closes)
	for range digitBurst {
		r.turn()
	}
	r.aiReads()
	r.texts = nil
	for _, ev := range []byte{1, 2, 3} { // a person's, later
		h.SequenceNumber++
		h.Timestamp += 10 * dsp.FrameSamples
		r.packet(h, telephoneEvent(ev, true, 800))
	}
	r.turn()
	r.aiReads()
	require.Len(t, r.texts, 3)
}
