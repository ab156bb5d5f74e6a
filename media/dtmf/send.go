package dtmf

import (
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/media/dsp"
)

// MaxQueue is how many digits may wait to be sent.
const MaxQueue = 198

const (
	// maxDigits is how many digits one SendDTMF takes, the switch's own limit too.
	maxDigits = 99
	// defaultDuration is a digit's length when none is given; minDuration and maxDuration bound what is (ITU-T Q.24 wants 40 ms,
	// and what regenerates tones from events some more).
	defaultDuration = 160 * time.Millisecond
	minDuration     = 60 * time.Millisecond
	maxDuration     = 5 * time.Second
	// eventEnds is how often an event's end is sent, restFrames how many frames of silence follow before the next digit or audio:
	// 80 ms of pause in all.
	eventEnds, restFrames = 3, 2
	frameTime             = time.Duration(dsp.FrameNS)
	// volume is the tones' level in −dBm0.
	volume = 10
	// pauseKey marks a pause in the place of a digit.
	pauseKey = 0xFF
)

// Errors of SendDTMF.
var (
	// ErrDigits means that a string is no sequence of digits.
	ErrDigits = errors.New("digits must be 1 to 99 of 0-9, *, #, A-D, and w or W for a pause of 0.5 or 1 s")
	// ErrQueueFull means that too many digits wait to be sent.
	ErrQueueFull = errors.New("sending DTMF: too many digits wait")
)

// Key is a digit, or a pause, that waits to be sent.
type Key struct {
	event  byte
	frames int // its length in frames of 20 ms
}

// Pause tells a pause from a digit.
func (k Key) Pause() bool { return k.event == pauseKey }

// Duration is how long the key is held.
func (k Key) Duration() time.Duration { return time.Duration(k.frames) * frameTime }

// Parse reads what SendDTMF takes, each digit for so long (0: 160 ms; 60 ms to 5 s), or returns ErrDigits.
func Parse(digits string, each time.Duration) ([]Key, error) {
	if len(digits) < 1 || len(digits) > maxDigits {
		return nil, ErrDigits
	}
	if each <= 0 {
		each = defaultDuration
	}
	frames := int((min(max(each, minDuration), maxDuration) + frameTime - 1) / frameTime)
	keys := make([]Key, 0, len(digits))
	for _, c := range []byte(digits) {
		switch at := strings.IndexByte(Digits, upper(c)); {
		case at >= 0:
			keys = append(keys, Key{event: byte(at), frames: frames})
		case c == 'w' || c == 'W':
			pause := 500 * time.Millisecond
			if c == 'W' {
				pause = time.Second
			}
			keys = append(keys, Key{event: pauseKey, frames: int(pause / frameTime)})
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

// Step is what a frame of 20 ms is used for while digits are sent.
type Step int

// What a frame can be used for.
const (
	StepNone  Step = iota // there is no digit: audio
	StepEvent             // an event packet
	StepRest              // a pause
)

// Sender makes RFC 4733 packets of the digits that wait: one a frame, the end three times, all with the timestamp of the
// event's beginning.
type Sender struct {
	queue []Key
	key   Key
	busy  bool
	at    int // frames since the key began
	ts    uint32
}

// Add queues keys; all or none.
func (d *Sender) Add(keys []Key) error {
	if len(d.queue)+len(keys) > MaxQueue {
		return ErrQueueFull
	}
	d.queue = append(d.queue, keys...)
	return nil
}

// Clear drops what waits and what is being sent.
func (d *Sender) Clear() { d.queue, d.busy = d.queue[:0], false }

// Idle tells that there is nothing to send.
func (d *Sender) Idle() bool { return !d.busy && len(d.queue) == 0 }

// eventEnd is the bit of an event's last packets.
const eventEnd = 0x80

// Payload is the payload of one telephone-event.
func Payload(event byte, end bool, duration int) (p [4]byte) {
	p[0], p[1] = event, volume
	if end {
		p[1] |= eventEnd
	}
	binary.BigEndian.PutUint16(p[2:], uint16(min(duration, 0xFFFF)))
	return p
}

// Began is the timestamp at which the digit under way began: that of all its packets.
func (d *Sender) Began() uint32 { return d.ts }

// Step moves on by a frame that begins at ts and lasts for samples. The payload is valid for StepEvent, marker is true for an
// event's first packet.
func (d *Sender) Step(ts uint32, samples int) (what Step, payload [4]byte, marker bool) {
	if !d.busy {
		if len(d.queue) == 0 {
			return StepNone, payload, false
		}
		d.key, d.busy, d.at, d.ts = d.queue[0], true, 0, ts
		d.queue = d.queue[:copy(d.queue, d.queue[1:])]
	}
	k := d.at
	d.at++
	if d.key.event == pauseKey {
		d.busy = d.at < d.key.frames
		return StepRest, payload, false
	}
	sent := d.key.frames + eventEnds - 1
	d.busy = d.at < sent+restFrames
	if k >= sent {
		return StepRest, payload, false
	}
	return StepEvent, Payload(d.key.event, k >= d.key.frames-1, min(k+1, d.key.frames)*samples), k == 0
}
