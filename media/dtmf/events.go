package dtmf

import "encoding/binary"

const (
	// eventTimeout ends a digit whose end packets were all lost.
	eventTimeout = 150 * int64(1_000_000)
	// longEvent is a duration, in timestamp units, from which on the 16-bit field may be about to overflow: RFC 4733 section
	// 2.5.1.3 lets an event go on in a further segment then.
	longEvent = 0xF000
	// Digits are RFC 4733's events 0 to 15.
	Digits = "0123456789*#ABCD"
)

// Receiver turns RFC 4733 packets into digits: an event is named by its timestamp, is sent many times, and its end
// three times, but is reported once.
type Receiver struct {
	active   bool
	reported bool
	ts       uint32 // of the newest segment
	event    byte
	duration uint32 // of the newest segment
	before   uint32 // of the segments before it
	seen     int64
}

// Digit is a digit and its length in timestamp units.
type Digit struct {
	Digit   byte
	Samples int
}

// Push takes a packet's timestamp and one event of its payload. A digit may come out of it: the one that just ended, or
// one before it that never did.
func (d *Receiver) Push(ts uint32, payload []byte, now int64) (Digit, bool) {
	if len(payload) < 4 || int(payload[0]) >= len(Digits) {
		return Digit{}, false
	}
	end, dur := payload[1]&eventEnd != 0, uint32(binary.BigEndian.Uint16(payload[2:]))
	var out Digit
	var ok bool
	switch {
	case d.active && d.ts == ts && d.event == payload[0]:
		if d.duration >= longEvent && dur < d.duration-longEvent/2 {
			d.before += 1 << 16 // the sender has let its field overflow
			d.duration = 0
		}
	case d.active && int32(ts-d.ts) < 0:
		return out, false // an old event's straggler
	case d.continues(ts, payload[0]):
		d.before += ts - d.ts
		d.ts, d.duration = ts, 0
	default:
		out, ok = d.Finish()
		*d = Receiver{active: true, ts: ts, event: payload[0]}
	}
	d.duration, d.seen = max(d.duration, dur), now
	if end && !d.reported && !ok {
		out, ok = d.Finish()
	}
	return out, ok
}

// continues tells whether a packet is a further segment of the event, which begins where the one before had to end.
func (d *Receiver) continues(ts uint32, event byte) bool {
	gap := ts - d.ts
	return d.active && !d.reported && d.event == event && d.duration >= longEvent && gap >= d.duration && gap <= 1<<16
}

// Expire reports a digit whose end has not come.
func (d *Receiver) Expire(now int64) (Digit, bool) {
	if !d.active || d.reported || now-d.seen < eventTimeout {
		return Digit{}, false
	}
	return d.Finish()
}

// Finish reports the digit that is under way, if there is one.
func (d *Receiver) Finish() (Digit, bool) {
	if !d.active || d.reported {
		return Digit{}, false
	}
	d.reported = true
	return Digit{Digit: Digits[d.event], Samples: int(d.before + d.duration)}, true
}

// Way is how a digit reached us. The values are bits.
type Way uint8

// The ways of a digit: telephone-events of the leg, SIP INFO on the leg, SIP INFO that the switch told of, and tones.
const (
	ByRTP Way = 1 << iota
	ByINFO
	BySwitch
	ByTone
)

// String is the way's name in the metrics.
func (w Way) String() string {
	switch w {
	case ByRTP:
		return "rtp"
	case ByINFO:
		return "info"
	case BySwitch:
		return "switch"
	case ByTone:
		return "tone"
	}
	return "unknown"
}

// onceWindow is how far apart one digit's arrivals on two ways may be. A switch that turns INFOs into telephone-events
// sends ten of them in three seconds.
const onceWindow = 5 * int64(1_000_000_000)

// Once lets each digit through once, whichever ways it comes. Every way tells the same digits in the same order: a digit
// that one way has told is not new when another tells it, and is when the same way does.
type Once struct {
	recent [32]arrival
	n      int
}

type arrival struct {
	digit byte
	ways  Way
	at    int64
}

// Fresh tells whether a digit has not come by another way.
func (o *Once) Fresh(digit byte, way Way, now int64) bool {
	for i := range o.recent { // the oldest first
		h := &o.recent[(o.n+i)%len(o.recent)]
		if h.ways != 0 && h.digit == digit && h.ways&way == 0 && now-h.at < onceWindow {
			h.ways |= way
			return false
		}
	}
	o.recent[o.n%len(o.recent)] = arrival{digit: digit, ways: way, at: now}
	o.n++
	return true
}
