package media

import (
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dtmf"
)

// keypad is what a session has for the caller's digits, both ways.
type keypad struct {
	in    dtmf.Receiver
	once  dtmf.Once
	tones *dtmf.ToneDetector // nil while digits come otherwise
	// toneCaller: the caller has no telephone-events, whatever the leg has.
	toneCaller bool
	out        dtmf.Sender
	pt         uint8 // of the events that we send, in place of the negotiated one; 0: that one
	left       int   // how many digits may come now
}

// digitBurst is how many digits may come at once, digitRate how many in each 20 ms for as long as the caller likes. Nobody presses as many, but a packet in
// bypass media, where the switch doesn't sort them, has room for 360: each is a text for the AI, and an event for the call.
const (
	digitBurst = 64
	digitRate  = 1
)

// tick lets the next digits come.
func (ks *keys) tick() { ks.left = min(digitBurst, ks.left+digitRate) }

// events takes the telephone-events of a packet; there may be more than one, each beginning where the one before ends.
func (ks *keys) events(ts uint32, payload []byte, at int64) {
	for ; len(payload) >= 4; payload = payload[4:] {
		if d, ok := ks.in.Push(ts, payload, at); ok {
			ks.reportKey(ks.rtpKey(d), dtmf.ByRTP, at)
		}
		ts += uint32(payload[2])<<8 | uint32(payload[3])
	}
}

// endKey reports a digit whose stream has ended or changed before its end came.
func (ks *keys) endKey(now int64) {
	if d, ok := ks.in.Finish(); ok {
		ks.reportKey(ks.rtpKey(d), dtmf.ByRTP, now)
	}
	ks.in = dtmf.Receiver{}
}

func (ks *keys) rtpKey(d dtmf.Digit) keyPress {
	return keyPress{digit: d.Digit, dur: time.Duration(int64(d.Samples) * int64(time.Second) / int64(ks.leg.media.EventRate()))}
}

// reportKey reports a digit to the call's owner and to the AI, unless it has come by another way already.
func (ks *keys) reportKey(d keyPress, way dtmf.Way, now int64) {
	if ks.closing {
		return
	}
	if !ks.once.Fresh(d.digit, way, now) {
		ks.sh.srv.metrics.digits.WithLabelValues("repeated").Inc()
		return
	}
	if ks.left == 0 {
		ks.sh.srv.metrics.digits.WithLabelValues("dropped").Inc()
		return
	}
	ks.left--
	ks.sh.srv.metrics.digits.WithLabelValues(way.String()).Inc()
	ks.s.emit(DTMF{Digit: string(rune(d.digit)), Duration: d.dur})
	ks.toAI.sendDigit(d)
}

// chooseTones listens for digits as tones when the caller can't send them otherwise. It costs nothing when it doesn't.
func (ks *keys) chooseTones() {
	switch want := ks.leg.up && (ks.leg.media.EventPT == 0 || ks.toneCaller); {
	case !want:
		ks.tones = nil
	case ks.tones == nil:
		ks.tones = dtmf.NewToneDetector()
	}
}

// detectTones gives the caller's audio to the tone detector.
func (ks *keys) detectTones(pcm []int16, now int64) {
	if ks.tones == nil {
		return
	}
	if d, ok := ks.tones.Feed(pcm); ok {
		ks.reportKey(keyPress{digit: d.Digit, dur: time.Duration(int64(d.Samples) * dsp.SampleNS)}, dtmf.ByTone, now)
	}
}

// SetToneDetection says whether the caller sends digits as tones, although the leg has telephone-events: behind a switch they
// are the switch's own offer and tell nothing of the caller.
func (s *Session) SetToneDetection(on bool) {
	s.post(func() {
		s.port.keys.toneCaller = on
		s.port.keys.chooseTones()
	})
}

// HeardDTMF reports a digit that the switch has told of beside the audio. It comes back as a DTMF event, unless the leg has
// brought it already, or brings it later.
func (s *Session) HeardDTMF(digit string, dur time.Duration) {
	if len(digit) != 1 || strings.IndexByte(dtmf.Digits, digit[0]) < 0 {
		return
	}
	s.post(func() { s.port.keys.reportKey(keyPress{digit: digit[0], dur: dur}, dtmf.BySwitch, s.sh.now()) })
}
