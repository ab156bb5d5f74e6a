package simcarrier

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"strings"

	"github.com/emiago/sipgo/sip"
)

// The ways in which a subscriber's keys travel.
const (
	// ByEvent is RFC 4733; ByInfo a SIP INFO; ByTone the two tones themselves, in the audio.
	ByEvent = "event"
	ByInfo  = "info"
	ByTone  = "tone"
)

// PressRequest asks a live call to press keys.
type PressRequest struct {
	Digits string `json:"digits"`
	// By is event (default), info or tone.
	By string `json:"by,omitempty"`
}

// errPress says that a call can't press what it was asked to.
var errPress = fmt.Errorf("%w: keys can't be pressed", ErrInvalidRequest)

// Press presses keys on a live call, after those that it is pressing.
func (s *Server) Press(ctx context.Context, key string, req PressRequest) error {
	if req.Digits == "" || strings.Trim(req.Digits, keyNames) != "" {
		return fmt.Errorf("%w: digits %q", errPress, req.Digits)
	}
	c, err := s.find(key)
	if err != nil {
		return err
	}
	st := c.live()
	if st == nil {
		return fmt.Errorf("%w: the call has no audio", errPress)
	}
	switch req.By {
	case "", ByEvent, ByTone:
		st.press(req.Digits, req.By == ByTone)
		return nil
	case ByInfo:
		return c.pressInfo(ctx, req.Digits)
	}
	return fmt.Errorf("%w: by %q", errPress, req.By)
}

// press has the pacing thread press digits.
func (st *stream) press(digits string, tones bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.wanted, st.wantTones = st.wanted+digits, tones
}

// takePressed gives the thread the keys that wait, when it presses none.
func (st *stream) takePressed() {
	if st.keys != nil {
		return
	}
	st.mu.Lock()
	digits, tones := st.wanted, st.wantTones
	st.wanted = ""
	st.mu.Unlock()
	if digits != "" {
		st.keys = &keypad{digits: digits, tones: tones}
	}
}

// pressInfo sends a SIP INFO for each digit.
func (c *call) pressInfo(ctx context.Context, digits string) error {
	for _, d := range digits {
		req := c.request(sip.INFO)
		req.AppendHeader(sip.NewHeader("Content-Type", "application/dtmf-relay"))
		req.SetBody([]byte(fmt.Sprintf("Signal=%c\r\nDuration=160\r\n", d)))
		res, err := c.s.client.Do(ctx, req)
		if err != nil {
			return fmt.Errorf("%w: %w", errPress, err)
		}
		if !res.IsSuccess() {
			return fmt.Errorf("%w: INFO was answered %d", errPress, res.StatusCode)
		}
	}
	return nil
}

func (s *surface) postKeys(w http.ResponseWriter, r *http.Request) {
	var req PressRequest
	err := decode(w, r, &req)
	if err == nil {
		err = s.Press(r.Context(), r.PathValue("id"), req)
	}
	s.reply(w, map[string]bool{"ok": true}, err)
}

// toneFrame is one frame of a key's tones, so many samples after it was pressed.
func toneFrame(digit byte, after uint32, payloadType uint8) []byte {
	low, high := keyTones(digit)
	samples := make([]int16, frameSamples)
	for i := range samples {
		t := 2 * math.Pi * float64(int(after)+i) / rateHz
		samples[i] = int16(toneLevel * (math.Sin(low*t) + math.Sin(high*t)))
	}
	return newClip(samples).frame(0, payloadType)
}

// toneLevel is the amplitude of each of a key's tones, about -9 dBm0.
const toneLevel = 8000

// keyTones are the two frequencies of each key, in Hz (ITU-T Q.23).
func keyTones(digit byte) (low, high float64) {
	at := strings.IndexByte("123A456B789C*0#D", digit)
	if at < 0 {
		return 0, 0
	}
	return []float64{697, 770, 852, 941}[at/4], []float64{1209, 1336, 1477, 1633}[at%4]
}

// Frames of one key press: five of tone, the last of which ends it, two repeats of the end (RFC 4733 section 2.5.1.4),
// and a rest, 200 ms in all.
const (
	keyFrames    = 5
	keyRepeats   = 2
	keyRest      = 3
	keyStep      = keyFrames + keyRepeats + keyRest
	keyVolume    = 10 // −10 dBm0
	keySamples   = keyFrames * frameSamples
	eventSize    = 4
	keyNames     = "0123456789*#ABCD"
	maxEventCode = byte(len(keyNames))
)

// keypad sends digits as RFC 4733 events, one packet per frame.
type keypad struct {
	digits string
	frame  int
	tones  bool   // in the audio, in place of events
	began  uint32 // the timestamp of the digit's first packet, which all its packets have
}

// next writes the event payload of this frame. There is none in a rest, and done says that all digits are through.
// begins is true in the first packet of a digit; age is how many samples ago its tone began.
func (k *keypad) next(buf []byte) (payload []byte, begins bool, age uint32, done bool) {
	digit, at := k.frame/keyStep, k.frame%keyStep
	if digit >= len(k.digits) {
		return nil, false, 0, true
	}
	k.frame++
	if at >= keyFrames+keyRepeats {
		return nil, false, 0, false
	}
	held := min(at+1, keyFrames)
	buf = buf[:eventSize]
	buf[0] = byte(strings.IndexByte(keyNames, k.digits[digit]))
	buf[1] = keyVolume
	if at >= keyFrames-1 {
		buf[1] |= 0x80
	}
	binary.BigEndian.PutUint16(buf[2:], uint16(held*frameSamples))
	return buf, at == 0, uint32(at * frameSamples), false
}

// digit is the key that the packet of this frame belonged to.
func (k *keypad) digit() string { return k.digits[(k.frame-1)/keyStep : (k.frame-1)/keyStep+1] }

// eventOf reads an RFC 4733 payload.
func eventOf(payload []byte) (digit string, ended bool, samples int, ok bool) {
	if len(payload) < eventSize || payload[0] >= maxEventCode {
		return "", false, 0, false
	}
	return keyNames[payload[0] : payload[0]+1], payload[1]&0x80 != 0, int(binary.BigEndian.Uint16(payload[2:])), true
}
