package rtp

import (
	"encoding/binary"
	"errors"
	"time"
)

// RTCP is read and written here, not by pion/rtcp: that library makes an object of each packet, and a tick thread must allocate nothing; a reader
// of what we use is 70 lines. The tests hold both directions to it.

// The RTCP packet types that we read or write (RFC 3550 section 12.1).
const (
	rtcpSR   = 200
	rtcpRR   = 201
	rtcpSDES = 202
	rtcpBYE  = 203
	// rtcpLast is the highest type that may begin a packet on a port shared with RTP (RFC 5761 section 4).
	rtcpLast = 223

	rtcpBlockSize = 24
)

// errRTCP means that a packet is not RTCP, or not in the form that RFC 3550 appendix A.2 asks for.
var errRTCP = errors.New("media: malformed RTCP packet")

// Block is a report block: how a source is received.
type Block struct {
	ssrc     uint32
	fraction uint8  // lost since the report before, in 1/256
	Lost     int32  // in all, 24 bits on the wire
	Highest  uint32 // extended sequence number
	jitter   uint32 // in timestamp units
	lsr      uint32 // the middle of the last sender report's NTP time; 0: none came
	dlsr     uint32 // how long ago it came, in 1/65,536 s
}

// Control is what a compound packet tells us.
type Control struct {
	Sender   uint32
	Sent     bool   // there was a sender report
	ntp      uint32 // the middle of its NTP time
	Reported bool   // there was a block about us
	Block    Block
	Bye      bool // the source `theirs` has ended
}

// ParseControl reads a compound packet. ours and theirs are the SSRCs that matter.
func ParseControl(b []byte, ours, theirs uint32) (Control, error) {
	var n Control
	for first := true; len(b) > 0; first = false {
		if len(b) < 4 || b[0]>>6 != 2 {
			return n, errRTCP
		}
		size := 4 * (int(binary.BigEndian.Uint16(b[2:])) + 1)
		typ, count, padded := b[1], int(b[0]&0x1f), b[0]&0x20 != 0
		if size > len(b) || first && (typ < rtcpSR || typ > rtcpLast) {
			return n, errRTCP
		}
		body := b[4:size]
		b = b[size:]
		if padded {
			if len(b) > 0 || len(body) == 0 { // only the last one may be
				return n, errRTCP
			}
			pad := int(body[len(body)-1])
			if pad == 0 || pad > len(body) {
				return n, errRTCP
			}
			body = body[:len(body)-pad]
		}
		if err := n.take(typ, count, body, ours, theirs); err != nil {
			return n, err
		}
	}
	return n, nil
}

// take reads one packet of a compound.
func (n *Control) take(typ byte, count int, body []byte, ours, theirs uint32) error {
	switch typ {
	case rtcpSR, rtcpRR:
		head := 4
		if typ == rtcpSR {
			head = 24
		}
		if len(body) < head+count*rtcpBlockSize {
			return errRTCP
		}
		n.Sender = binary.BigEndian.Uint32(body)
		if typ == rtcpSR {
			n.Sent, n.ntp = true, binary.BigEndian.Uint32(body[6:])
		}
		for i := range count {
			n.takeBlock(body[head+i*rtcpBlockSize:], ours)
		}
	case rtcpBYE:
		if len(body) < 4*count {
			return errRTCP
		}
		for i := range count {
			n.Bye = n.Bye || binary.BigEndian.Uint32(body[4*i:]) == theirs
		}
	default: // SDES, APP, feedback and extended reports tell us nothing that we use
	}
	return nil
}

func (n *Control) takeBlock(b []byte, ours uint32) {
	if binary.BigEndian.Uint32(b) != ours {
		return
	}
	n.Reported = true
	n.Block = Block{
		ssrc: ours, fraction: b[4], Lost: int32(binary.BigEndian.Uint32(b[4:])<<8) >> 8,
		Highest: binary.BigEndian.Uint32(b[8:]), jitter: binary.BigEndian.Uint32(b[12:]),
		lsr: binary.BigEndian.Uint32(b[16:]), dlsr: binary.BigEndian.Uint32(b[20:]),
	}
}

// rtcpReport is a compound packet of ours: a sender report, or a receiver report when we send nothing, a description and
// perhaps a goodbye.
type rtcpReport struct {
	ssrc            uint32
	cname           string
	sends           bool
	ntp             uint64
	ts              uint32
	packets, octets uint32
	receives        bool
	block           Block
	bye             bool
}

// append writes the report.
func (r *rtcpReport) append(b []byte) []byte {
	at, typ, count := len(b), byte(rtcpRR), byte(0)
	if r.sends {
		typ = rtcpSR
	}
	if r.receives {
		count = 1
	}
	b = append(b, 0x80|count, typ, 0, 0)
	b = binary.BigEndian.AppendUint32(b, r.ssrc)
	if r.sends {
		b = binary.BigEndian.AppendUint64(b, r.ntp)
		b = binary.BigEndian.AppendUint32(b, r.ts)
		b = binary.BigEndian.AppendUint32(b, r.packets)
		b = binary.BigEndian.AppendUint32(b, r.octets)
	}
	if r.receives {
		k := &r.block
		b = binary.BigEndian.AppendUint32(b, k.ssrc)
		b = binary.BigEndian.AppendUint32(b, uint32(k.fraction)<<24|uint32(k.Lost)&0xffffff)
		b = binary.BigEndian.AppendUint32(b, k.Highest)
		b = binary.BigEndian.AppendUint32(b, k.jitter)
		b = binary.BigEndian.AppendUint32(b, k.lsr)
		b = binary.BigEndian.AppendUint32(b, k.dlsr)
	}
	b = endRTCP(b, at)

	at = len(b)
	b = append(b, 0x81, rtcpSDES, 0, 0)
	b = binary.BigEndian.AppendUint32(b, r.ssrc)
	b = append(b, 1, byte(len(r.cname))) // CNAME
	b = append(b, r.cname...)
	b = append(b, 0)
	for len(b)%4 != at%4 {
		b = append(b, 0)
	}
	b = endRTCP(b, at)

	if r.bye {
		at = len(b)
		b = append(b, 0x81, rtcpBYE, 0, 0)
		b = binary.BigEndian.AppendUint32(b, r.ssrc)
		b = endRTCP(b, at)
	}
	return b
}

// endRTCP fills in the length of the packet that begins at a place.
func endRTCP(b []byte, at int) []byte {
	binary.BigEndian.PutUint16(b[at+2:], uint16((len(b)-at)/4-1))
	return b
}

// NTPTime is a wall-clock time, in ns since 1970, as seconds since 1900 with 32 bits of fraction.
func NTPTime(wall int64) uint64 {
	const epoch = 2_208_988_800
	sec, frac := wall/int64(time.Second), wall%int64(time.Second)
	return uint64(sec+epoch)<<32 | uint64(frac)<<32/uint64(time.Second)
}

// shortNTP turns a span of 1/65,536 s into time.
func shortNTP(v uint32) time.Duration { return time.Duration(int64(v) * int64(time.Second) >> 16) }
