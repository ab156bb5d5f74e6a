package media

import (
	"encoding/binary"
	"errors"
	"fmt"
	"github.com/ringmaster/ringmaster/media/dsp"
	"strings"
	"time"
)

const (
	// dtmfMost is how many digits one SendDTMF takes, the switch's own limit too; dtmfQueue is how many may wait.
	dtmfMost, dtmfQueue = 99, 198
	// dtmfDefault is a digit's length when none is given; dtmfShortest and dtmfLongest bound what is (ITU-T Q.24 wants 40 ms,
	// and what regenerates tones from events some more).
	dtmfDefault  = 160 * time.Millisecond
	dtmfShortest = 60 * time.Millisecond
	dtmfLongest  = 5 * time.Second
	// dtmfEnds is how often an event's end is sent, dtmfRest how many frames of silence follow before the next digit or audio:
	// 80 ms of pause in all.
	dtmfEnds, dtmfRest = 3, 2
	frameTime          = time.Duration(dsp.FrameNS)
	// dtmfVolume is the tones' level in −dBm0.
	dtmfVolume = 10
	// dtmfPause marks a pause in the place of a digit.
	dtmfPause = 0xFF
)

// Errors of SendDTMF.
var (
	// ErrDigits means that a string is no sequence of digits.
	ErrDigits = errors.New("digits must be 1 to 99 of 0-9, *, #, A-D, and w or W for a pause of 0.5 or 1 s")
	// ErrDTMFQueueFull means that too many digits wait to be sent.
	ErrDTMFQueueFull = errors.New("sending DTMF: too many digits wait")
	// ErrNoLeg means that no caller is on the session.
	ErrNoLeg = errors.New("media session has no leg")
)

// CheckDigits tells whether SendDTMF takes a string: nil or ErrDigits.
func CheckDigits(digits string) error {
	_, err := parseKeys(digits, 0)
	return err
}

// dtmfKey is a digit, or a pause, that waits to be sent.
type dtmfKey struct {
	event  byte
	frames int // its length in frames of 20 ms
}

func parseKeys(digits string, each time.Duration) ([]dtmfKey, error) {
	if len(digits) < 1 || len(digits) > dtmfMost {
		return nil, ErrDigits
	}
	if each <= 0 {
		each = dtmfDefault
	}
	frames := int((min(max(each, dtmfShortest), dtmfLongest) + frameTime - 1) / frameTime)
	keys := make([]dtmfKey, 0, len(digits))
	for _, c := range []byte(digits) {
		switch at := strings.IndexByte(dtmfDigits, upper(c)); {
		case at >= 0:
			keys = append(keys, dtmfKey{event: byte(at), frames: frames})
		case c == 'w' || c == 'W':
			pause := 500 * time.Millisecond
			if c == 'W' {
				pause = time.Second
			}
			keys = append(keys, dtmfKey{event: dtmfPause, frames: int(pause / frameTime)})
		default:
			return nil, ErrDigits
		}
	}
	return keys, nil
}

func upper(c byte) byte {
	if c >= 'a' && c <= 'd' {
		return c - 'a' + 'A'
	}
	return c
}

// dtmfStep is what a frame of 20 ms is used for while digits are sent.
type dtmfStep int

const (
	keyNone  dtmfStep = iota // there is no digit: audio
	keyEvent                 // an event packet
	keyRest                  // a pause
)

// dtmfSender makes RFC 4733 packets of the digits that wait: one a frame, the end three times, all with the timestamp of the
// event's beginning.
type dtmfSender struct {
	queue []dtmfKey
	key   dtmfKey
	busy  bool
	at    int // frames since the key began
	ts    uint32
}

// add queues keys; all or none.
func (d *dtmfSender) add(keys []dtmfKey) error {
	if len(d.queue)+len(keys) > dtmfQueue {
		return ErrDTMFQueueFull
	}
	d.queue = append(d.queue, keys...)
	return nil
}

func (d *dtmfSender) clear() { d.queue, d.busy = d.queue[:0], false }

// step moves on by a frame that begins at ts and lasts for samples. The payload is valid for keyEvent, marker is true for an
// event's first packet.
func (d *dtmfSender) step(ts uint32, samples int) (what dtmfStep, payload [4]byte, marker bool) {
	if !d.busy {
		if len(d.queue) == 0 {
			return keyNone, payload, false
		}
		d.key, d.busy, d.at, d.ts = d.queue[0], true, 0, ts
		d.queue = d.queue[:copy(d.queue, d.queue[1:])]
	}
	k := d.at
	d.at++
	if d.key.event == dtmfPause {
		d.busy = d.at < d.key.frames
		return keyRest, payload, false
	}
	sent := d.key.frames + dtmfEnds - 1
	d.busy = d.at < sent+dtmfRest
	if k >= sent {
		return keyRest, payload, false
	}
	payload[0], payload[1] = d.key.event, dtmfVolume
	if k >= d.key.frames-1 {
		payload[1] |= 0x80
	}
	binary.BigEndian.PutUint16(payload[2:], uint16(min((k+1)*samples, d.key.frames*samples, 0xFFFF)))
	return keyEvent, payload, k == 0
}

// SendDTMF presses digits for the caller, each for so long (0: 160 ms; 60 ms to 5 s): by RFC 4733, or by SIP INFO when the leg
// has not negotiated telephone-event. The AI's audio waits meanwhile. It returns when the digits are queued. Errors: ErrDigits,
// ErrNoLeg, ErrDTMFQueueFull, ErrSessionClosed.
func (s *Session) SendDTMF(digits string, each time.Duration) error {
	keys, err := parseKeys(digits, each)
	if err != nil {
		return fmt.Errorf("sending DTMF: %w", err)
	}
	if s.isClosed() {
		return fmt.Errorf("sending DTMF: %w", ErrSessionClosed)
	}
	byINFO := false
	if !s.do(func() { byINFO, err = s.port.keys.queueKeys(keys) }) {
		return fmt.Errorf("sending DTMF: %w", ErrServerClosed)
	}
	if byINFO {
		s.mu.Lock()
		l := s.leg
		s.mu.Unlock()
		if l == nil {
			return ErrNoLeg
		}
		return l.sendKeys(keys)
	}
	return err
}

// SetEventPayload sets the payload type that telephone-events are sent with, for a peer that is not the one we negotiated
// with: the carrier, when the switch has led the audio past itself. 0 is the negotiated one, which a new leg begins with.
func (s *Session) SetEventPayload(pt uint8) {
	s.post(func() { s.port.keys.pt = pt })
}

// queueKeys takes digits for the leg; byINFO says that they have to go by SIP INFO.
func (ks *keys) queueKeys(keys []dtmfKey) (byINFO bool, err error) {
	if !ks.leg.up {
		return false, ErrNoLeg
	}
	if ks.eventPayload() == 0 {
		return true, nil
	}
	if err := ks.out.add(keys); err != nil {
		return false, err
	}
	ks.countSent("sent_rtp", keys)
	return false, nil
}

func (ks *keys) countSent(way string, keys []dtmfKey) {
	for _, k := range keys {
		if k.event != dtmfPause {
			ks.sh.srv.metrics.digits.WithLabelValues(way).Inc()
		}
	}
}

func (ks *keys) eventPayload() uint8 {
	if ks.pt != 0 {
		return ks.pt
	}
	return ks.leg.media.dtmfPT
}

// playKeys uses the frame for a digit, if one is under way; audio waits then.
func (ks *keys) playKeys() bool {
	if !ks.out.busy && len(ks.out.queue) == 0 || !ks.leg.media.dir.send || ks.leg.media.remote.Port() == 0 {
		return false
	}
	what, payload, marker := ks.out.step(ks.tx.ts, ks.leg.media.eventRate()/dsp.FramesPerSecond)
	switch what {
	case keyNone:
		return false
	case keyEvent:
		ks.transmitEvent(payload, ks.out.ts, marker)
	case keyRest:
		frame := ks.sh.pcm[:ks.leg.media.rate/dsp.FramesPerSecond]
		clear(frame)
		ks.tx.transmit(frame, false)
	}
	ks.tx.talking = false
	ks.tx.endFrame()
	return true
}

// transmitEvent sends one telephone-event.
func (ks *keys) transmitEvent(payload [4]byte, ts uint32, marker bool) {
	ks.tx.sendRTP(append(ks.tx.header(ks.eventPayload(), ts, marker), payload[:]...))
}
