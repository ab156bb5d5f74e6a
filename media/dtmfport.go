package media

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/emiago/sipgo"
	"github.com/emiago/sipgo/sip"
	"github.com/ringmaster/ringmaster/media/dsp"
)

const (
	// infoDuration is the length of a digit whose INFO names none.
	infoDuration = 100 * time.Millisecond
	// infoTimeout bounds an INFO of ours.
	infoTimeout = 2 * time.Second
	// infoPause lies between two digits that are sent by INFO.
	infoPause = 80 * time.Millisecond
)

// keypad is what a session has for the caller's digits, both ways.
type keypad struct {
	in    dtmfReceiver
	once  dtmfOnce
	tones *toneDetector // nil while digits come otherwise
	// toneCaller: the caller has no telephone-events, whatever the leg has.
	toneCaller bool
	out        dtmfSender
	pt         uint8 // of the events that we send, in place of the negotiated one; 0: that one
}

// events takes the telephone-events of a packet; there may be more than one, each beginning where the one before ends.
func (ks *keys) events(ts uint32, payload []byte, at int64) {
	for ; len(payload) >= 4; payload = payload[4:] {
		if d, ok := ks.in.push(ts, payload, at); ok {
			ks.heardKey(ks.rtpKey(d), wayRTP, at)
		}
		ts += uint32(payload[2])<<8 | uint32(payload[3])
	}
}

// endKey reports a digit whose stream has ended or changed before its end came.
func (ks *keys) endKey(now int64) {
	if d, ok := ks.in.finish(); ok {
		ks.heardKey(ks.rtpKey(d), wayRTP, now)
	}
	ks.in = dtmfReceiver{}
}

// heardDigit is a digit that the caller pressed, and for how long.
type heardDigit struct {
	digit byte
	dur   time.Duration
}

func (ks *keys) rtpKey(d dtmfDigit) heardDigit {
	return heardDigit{digit: d.digit, dur: time.Duration(int64(d.samples) * int64(time.Second) / int64(ks.leg.media.eventRate()))}
}

// heardKey reports a digit to the call's owner and to the AI, unless it has come by another way already.
func (ks *keys) heardKey(d heardDigit, way dtmfWay, now int64) {
	if ks.closing {
		return
	}
	if !ks.once.fresh(d.digit, way, now) {
		ks.sh.srv.metrics.digits.WithLabelValues("repeated").Inc()
		return
	}
	ks.sh.srv.metrics.digits.WithLabelValues(way.String()).Inc()
	digit := string(rune(d.digit))
	ks.s.emit(DTMF{Digit: digit, Duration: d.dur})
	ks.ai.sendText("dtmf", dtmfData{Digit: digit, DurationMS: int(d.dur.Milliseconds())})
}

// chooseTones listens for digits as tones when the caller can't send them otherwise. It costs nothing when it doesn't.
func (ks *keys) chooseTones() {
	switch want := ks.leg.up && (ks.leg.media.dtmfPT == 0 || ks.toneCaller); {
	case !want:
		ks.tones = nil
	case ks.tones == nil:
		ks.tones = newToneDetector()
	}
}

// hearTones gives the caller's audio to the tone detector.
func (ks *keys) hearTones(pcm []int16, now int64) {
	if ks.tones == nil {
		return
	}
	if d, ok := ks.tones.feed(pcm); ok {
		ks.heardKey(heardDigit{digit: d.digit, dur: time.Duration(int64(d.samples) * dsp.SampleNS)}, wayTone, now)
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
	if len(digit) != 1 || !strings.Contains(dtmfDigits, digit) {
		return
	}
	s.post(func() { s.port.keys.heardKey(heardDigit{digit: digit[0], dur: dur}, waySwitch, s.sh.now()) })
}

// ParseInfo reads the digit of a SIP INFO: application/dtmf-relay (`Signal=5`, `Duration=160` in ms), or application/dtmf,
// whose body is the digit. It reports false for any other INFO.
func ParseInfo(contentType, body string) (digit string, dur time.Duration, ok bool) {
	kind, _, _ := strings.Cut(contentType, ";")
	var key byte
	switch strings.ToLower(strings.TrimSpace(kind)) {
	case "application/dtmf":
		key = infoKey(body)
	case "application/dtmf-relay":
		for line := range strings.Lines(body) {
			name, val, _ := strings.Cut(line, "=")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "signal":
				key = infoKey(val)
			case "duration":
				if ms, err := strconv.Atoi(strings.TrimSpace(val)); err == nil && ms > 0 && ms < 60000 {
					dur = time.Duration(ms) * time.Millisecond
				}
			}
		}
	}
	if key == 0 {
		return "", 0, false
	}
	if dur == 0 {
		dur = infoDuration
	}
	return string(rune(key)), dur, true
}

// infoKey reads a digit, or an event's number from 10 to 15, as some senders write *, # and the letters.
func infoKey(s string) byte {
	s = strings.TrimSpace(s)
	if n, err := strconv.Atoi(s); err == nil && n >= 10 && n < len(dtmfDigits) && len(s) == 2 {
		return dtmfDigits[n]
	}
	if len(s) == 1 && strings.IndexByte(dtmfDigits, upper(s[0])) >= 0 {
		return upper(s[0])
	}
	return 0
}

// onInfo takes a digit that came by SIP INFO; other INFOs are only answered.
func (e *sipEndpoint) onInfo(req *sip.Request, tx sip.ServerTransaction) {
	l := e.find(req)
	if l == nil {
		e.reject(req, tx, sip.StatusCallTransactionDoesNotExists, "Call/Transaction Does Not Exist")
		return
	}
	e.respond(tx, sip.NewResponseFromRequest(req, sip.StatusOK, "OK", nil))
	ct := req.ContentType()
	if ct == nil {
		return
	}
	if digit, dur, ok := ParseInfo(ct.Value(), string(req.Body())); ok {
		l.sess.post(func() { l.sess.port.keys.heardKey(heardDigit{digit: digit[0], dur: dur}, wayINFO, l.sess.sh.now()) })
	}
}

// sendKeys sends digits by SIP INFO, one after the other, beside the caller.
func (l *leg) sendKeys(keys []dtmfKey) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return ErrNoLeg
	}
	if len(l.keys)+len(keys) > dtmfQueue {
		return ErrDTMFQueueFull
	}
	l.keys = append(l.keys, keys...)
	if !l.keying {
		l.keying = true
		l.ep.srv.spawn(l.pressKeys)
	}
	return nil
}

// nextKey takes the next digit off the queue.
func (l *leg) nextKey() (dtmfKey, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || len(l.keys) == 0 {
		l.keying, l.keys = false, nil
		return dtmfKey{}, false
	}
	k := l.keys[0]
	l.keys = l.keys[1:]
	return k, true
}

func (l *leg) pressKeys() {
	for {
		k, ok := l.nextKey()
		if !ok {
			return
		}
		dur := time.Duration(k.frames) * frameTime
		if k.event != dtmfPause {
			if err := l.info(k.event, dur); err != nil {
				l.sess.log.Warn("a digit could not be sent by INFO", "error", err)
			}
			l.ep.srv.metrics.digits.WithLabelValues("sent_info").Inc()
			dur += infoPause
		}
		t := time.NewTimer(dur)
		select {
		case <-t.C:
		case <-l.ep.srv.done:
			t.Stop()
			return
		}
	}
}

// info sends one digit as application/dtmf-relay.
func (l *leg) info(event byte, dur time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), infoTimeout)
	defer cancel()
	req := l.request(sip.INFO)
	ct := sip.ContentTypeHeader("application/dtmf-relay")
	req.AppendHeader(&ct)
	req.SetBody(fmt.Appendf(nil, "Signal=%c\r\nDuration=%d\r\n", dtmfDigits[event], dur.Milliseconds()))
	res, err := l.ep.client.Do(ctx, req, sipgo.ClientRequestAddVia)
	if err != nil {
		return err
	}
	if res.StatusCode >= 300 {
		return fmt.Errorf("INFO was answered with %d", res.StatusCode)
	}
	return nil
}
