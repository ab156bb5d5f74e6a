package media

import "encoding/binary"

// dtmfIdle ends a digit whose end packets were all lost.
const dtmfIdle = 150 * int64(1_000_000)

// dtmfDigits are RFC 4733's events 0 to 15.
const dtmfDigits = "0123456789*#ABCD"

// dtmfReceiver turns RFC 4733 packets into digits: an event is named by its timestamp, is sent many times, and its end
// three times, but is reported once.
type dtmfReceiver struct {
	active   bool
	reported bool
	ts       uint32
	event    byte
	duration uint16
	seen     int64
}

// dtmfDigit is a digit and its length in samples.
type dtmfDigit struct {
	digit   byte
	samples int
}

// push takes a packet's timestamp and payload. A digit may come out of it: the one that just ended, or one before it
// that never did.
func (d *dtmfReceiver) push(ts uint32, payload []byte, now int64) (dtmfDigit, bool) {
	if len(payload) < 4 || int(payload[0]) >= len(dtmfDigits) {
		return dtmfDigit{}, false
	}
	end, dur := payload[1]&0x80 != 0, binary.BigEndian.Uint16(payload[2:])
	var out dtmfDigit
	var ok bool
	if !d.active || d.ts != ts {
		if d.active && int32(ts-d.ts) < 0 {
			return out, false // an old event's straggler
		}
		out, ok = d.finish()
		*d = dtmfReceiver{active: true, ts: ts, event: payload[0]}
	}
	d.duration, d.seen = max(d.duration, dur), now
	if end && !d.reported && !ok {
		out, ok = d.finish()
	}
	return out, ok
}

// expire reports a digit whose end has not come.
func (d *dtmfReceiver) expire(now int64) (dtmfDigit, bool) {
	if !d.active || d.reported || now-d.seen < dtmfIdle {
		return dtmfDigit{}, false
	}
	return d.finish()
}

func (d *dtmfReceiver) finish() (dtmfDigit, bool) {
	if !d.active || d.reported {
		return dtmfDigit{}, false
	}
	d.reported = true
	return dtmfDigit{digit: dtmfDigits[d.event], samples: int(d.duration)}, true
}
