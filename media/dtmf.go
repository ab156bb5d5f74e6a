package media

import "encoding/binary"

const (
	// dtmfIdle ends a digit whose end packets were all lost.
	dtmfIdle = 150 * int64(1_000_000)
	// dtmfLong is a duration, in timestamp units, from which on the 16-bit field may be about to overflow: RFC 4733 section
	// 2.5.1.3 lets an event go on in a further segment then.
	dtmfLong = 0xF000
	// dtmfDigits are RFC 4733's events 0 to 15.
	dtmfDigits = "0123456789*#ABCD"
)

// dtmfReceiver turns RFC 4733 packets into digits: an event is named by its timestamp, is sent many times, and its end
// three times, but is reported once.
type dtmfReceiver struct {
	active   bool
	reported bool
	ts       uint32 // of the newest segment
	event    byte
	duration uint32 // of the newest segment
	before   uint32 // of the segments before it
	seen     int64
}

// dtmfDigit is a digit and its length in timestamp units.
type dtmfDigit struct {
	digit   byte
	samples int
}

// push takes a packet's timestamp and one event of its payload. A digit may come out of it: the one that just ended, or
// one before it that never did.
func (d *dtmfReceiver) push(ts uint32, payload []byte, now int64) (dtmfDigit, bool) {
	if len(payload) < 4 || int(payload[0]) >= len(dtmfDigits) {
		return dtmfDigit{}, false
	}
	end, dur := payload[1]&0x80 != 0, uint32(binary.BigEndian.Uint16(payload[2:]))
	var out dtmfDigit
	var ok bool
	switch {
	case d.active && d.ts == ts && d.event == payload[0]:
		if d.duration >= dtmfLong && dur < d.duration-dtmfLong/2 {
			d.before += 1 << 16 // the sender has let its field overflow
			d.duration = 0
		}
	case d.active && int32(ts-d.ts) < 0:
		return out, false // an old event's straggler
	case d.goesOn(ts, payload[0]):
		d.before += ts - d.ts
		d.ts, d.duration = ts, 0
	default:
		out, ok = d.finish()
		*d = dtmfReceiver{active: true, ts: ts, event: payload[0]}
	}
	d.duration, d.seen = max(d.duration, dur), now
	if end && !d.reported && !ok {
		out, ok = d.finish()
	}
	return out, ok
}

// goesOn tells whether a packet is a further segment of the event, which begins where the one before had to end.
func (d *dtmfReceiver) goesOn(ts uint32, event byte) bool {
	gap := ts - d.ts
	return d.active && !d.reported && d.event == event && d.duration >= dtmfLong && gap >= d.duration && gap <= 1<<16
}

// expire reports a digit whose end has not come.
func (d *dtmfReceiver) expire(now int64) (dtmfDigit, bool) {
	if !d.active || d.reported || now-d.seen < dtmfIdle {
		return dtmfDigit{}, false
	}
	return d.finish()
}

// finish reports the digit that is under way, if there is one.
func (d *dtmfReceiver) finish() (dtmfDigit, bool) {
	if !d.active || d.reported {
		return dtmfDigit{}, false
	}
	d.reported = true
	return dtmfDigit{digit: dtmfDigits[d.event], samples: int(d.before + d.duration)}, true
}

// dtmfWay is how a digit reached us. The values are bits.
type dtmfWay uint8

// The ways of a digit: telephone-events of the leg, SIP INFO on the leg, SIP INFO that the switch told of, and tones.
const (
	wayRTP dtmfWay = 1 << iota
	wayINFO
	waySwitch
	wayTone
)

// String is the way's name in the metrics.
func (w dtmfWay) String() string {
	switch w {
	case wayRTP:
		return "rtp"
	case wayINFO:
		return "info"
	case waySwitch:
		return "switch"
	case wayTone:
		return "tone"
	}
	return "unknown"
}

// dtmfOnceWindow is how far apart one digit's arrivals on two ways may be. A switch that turns INFOs into telephone-events
// sends ten of them in three seconds.
const dtmfOnceWindow = 5 * int64(1_000_000_000)

// dtmfOnce lets each digit through once, whichever ways it comes. Every way tells the same digits in the same order: a digit
// that one way has told is not new when another tells it, and is when the same way does.
type dtmfOnce struct {
	recent [32]dtmfHeard
	n      int
}

type dtmfHeard struct {
	digit byte
	ways  dtmfWay
	at    int64
}

// fresh tells whether a digit has not come by another way.
func (o *dtmfOnce) fresh(digit byte, way dtmfWay, now int64) bool {
	for i := range o.recent { // the oldest first
		h := &o.recent[(o.n+i)%len(o.recent)]
		if h.ways != 0 && h.digit == digit && h.ways&way == 0 && now-h.at < dtmfOnceWindow {
			h.ways |= way
			return false
		}
	}
	o.recent[o.n%len(o.recent)] = dtmfHeard{digit: digit, ways: way, at: now}
	o.n++
	return true
}
