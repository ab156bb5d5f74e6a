package media

import (
	"errors"
	"fmt"
	"time"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dtmf"
	"github.com/ringmaster/ringmaster/media/sip"
)

// SendDTMF presses digits for the caller, each for so long (0: 160 ms; 60 ms to 5 s): by RFC 4733, or by SIP INFO when the leg
// has not negotiated telephone-event. The AI's audio waits meanwhile. It returns when the digits are queued. Errors: dtmf.ErrDigits,
// ErrNoLeg, dtmf.ErrQueueFull, ErrSessionClosed.
func (s *Session) SendDTMF(digits string, each time.Duration) error {
	keys, err := dtmf.Parse(digits, each)
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
		if err = l.SendKeys(keys); errors.Is(err, sip.ErrEnded) {
			return ErrNoLeg
		}
	}
	return err
}

// SetEventPayload sets the payload type that telephone-events are sent with, for a peer that is not the one we negotiated
// with: the carrier, when the switch has led the audio past itself. 0 is the negotiated one, which a new leg begins with.
func (s *Session) SetEventPayload(pt uint8) { s.post(func() { s.port.keys.pt = pt }) }

// queueKeys takes digits for the leg; byINFO says that they have to go by SIP INFO.
func (ks *keys) queueKeys(keys []dtmf.Key) (byINFO bool, err error) {
	if !ks.leg.up {
		return false, ErrNoLeg
	}
	if ks.eventPayload() == 0 {
		return true, nil
	}
	if err := ks.out.Add(keys); err != nil {
		return false, err
	}
	ks.countSent("sent_rtp", keys)
	return false, nil
}

func (ks *keys) countSent(way string, keys []dtmf.Key) {
	for _, k := range keys {
		if !k.Pause() {
			ks.sh.srv.metrics.digits.WithLabelValues(way).Inc()
		}
	}
}

func (ks *keys) eventPayload() uint8 {
	if ks.pt != 0 {
		return ks.pt
	}
	return ks.leg.media.EventPT
}

// playKeys uses the frame for a digit, if one is under way; audio waits then.
func (ks *keys) playKeys() bool {
	if ks.out.Idle() || !ks.leg.media.Dir.Send || ks.leg.media.Remote.Port() == 0 {
		return false
	}
	what, payload, marker := ks.out.Step(ks.tx.ts, ks.leg.media.EventRate()/dsp.FramesPerSecond)
	switch what {
	case dtmf.StepNone:
		return false
	case dtmf.StepEvent:
		ks.transmitEvent(payload, ks.out.Began(), marker)
	case dtmf.StepRest:
		ks.tx.transmitSilence()
	}
	ks.tx.talking = false
	ks.tx.endFrame()
	return true
}

// transmitEvent sends one telephone-event.
func (ks *keys) transmitEvent(payload [4]byte, ts uint32, marker bool) {
	ks.tx.sendRTP(append(ks.tx.header(ks.eventPayload(), ts, marker), payload[:]...))
}

// keyPress is a digit that the caller pressed, and for how long.
type keyPress struct {
	digit byte
	dur   time.Duration
}
