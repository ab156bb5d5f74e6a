package simcarrier

import (
	"encoding/binary"
	"strings"
)

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
