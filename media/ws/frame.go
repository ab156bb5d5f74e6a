package ws

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"unicode/utf8"
)

// WebSocket opcodes and close codes (RFC 6455 sections 5.2 and 7.4.1).
const (
	opContinuation = 0x0
	OpText         = 0x1
	OpBinary       = 0x2
	OpClose        = 0x8
	OpPing         = 0x9
	OpPong         = 0xA

	CloseNormal    = 1000
	CloseGoingAway = 1001
	CloseProtocol  = 1002
	CloseNoStatus  = 1005
	CloseAbnormal  = 1006
	CloseInvalid   = 1007
	ClosePolicy    = 1008
	CloseTooBig    = 1009
	CloseInternal  = 1011
)

const (
	// MaxText bounds a text message with audio in it: five minutes of 16 kHz audio in base64 fit.
	MaxText = 16 << 20
	// MaxPlainText bounds all other text messages.
	MaxPlainText = 64 << 10
)

// FrameError is a breach of RFC 6455 by the peer.
type FrameError struct {
	Code int
	What string
}

// Error implements error.
func (e *FrameError) Error() string { return "voice agent's socket: " + e.What }

// Sink takes what a Reader finds. Slices are valid during the call only.
type Sink interface {
	// Binary is a piece of a binary message; end says that the message is complete.
	Binary(p []byte, end bool)
	// Text is a whole text message; one above MaxPlainText is the sink's to keep. Returning false stops the reader until it is
	// fed again.
	Text(msg []byte) bool
	// Long asks whether a text message may have up to size bytes, which are more than MaxPlainText; head is what has come of it.
	// Returning false stops the reader; it asks again when it is fed again.
	Long(head []byte, size int) (bool, error)
	Control(op byte, payload []byte)
	// Spent is asked after each frame whether the reader has to stop, until it is fed again.
	Spent() bool
}

// Reader takes the server's half of a WebSocket connection apart, in whatever pieces it arrives. Binary messages
// are handed on as they come, since audio needs no message bounds; text messages are put together first.
type Reader struct {
	head    [10]byte
	nhead   int
	op      byte // of the frame that is being read
	message byte // opcode of the message it belongs to, 0 between messages
	fin     bool
	body    bool // the header is complete
	left    uint64
	msg     []byte
	long    bool   // the sink has agreed to a message above MaxPlainText, and msg is a buffer of buffers
	plain   []byte // msg of before, while long
	checked int    // bytes of msg that are UTF-8
	Buffers *Buffers
	ctl     [125]byte
	nctl    int
}

// Feed reads p and returns how much of it was used: all, unless the sink stopped it or an error was found.
func (r *Reader) Feed(p []byte, sink Sink) (int, error) {
	used := 0
	for {
		if !r.body {
			n, err := r.header(p[used:])
			used += n
			if err != nil || !r.body {
				return used, err
			}
		}
		n := int(min(uint64(len(p)-used), r.left))
		if r.op < OpClose && r.message == OpText && !r.long && uint64(len(r.msg))+r.left > MaxPlainText {
			room := MaxPlainText - len(r.msg) // what may come without leave
			if room == 0 {
				ok, err := r.askLong(sink)
				if !ok || err != nil {
					return used, err
				}
				continue
			}
			n = min(n, room)
		}
		piece := p[used : used+n]
		used += n
		r.left -= uint64(n)
		switch {
		case r.op >= OpClose:
			r.nctl += copy(r.ctl[r.nctl:], piece)
		case r.message == OpText:
			if r.long {
				r.msg = r.Buffers.grow(r.msg, n)
			}
			r.msg = append(r.msg, piece...)
			if !r.isText(r.left == 0 && r.fin) {
				return used, &FrameError{CloseInvalid, "a text frame is not UTF-8"}
			}
		case n > 0 || r.left == 0:
			sink.Binary(piece, r.left == 0 && r.fin)
		}
		if r.left > 0 {
			if used == len(p) {
				return used, nil
			}
			continue // up to the bound of a plain text
		}
		if !r.finish(sink) || sink.Spent() {
			return used, nil
		}
	}
}

// isText tells whether what has come of a text message is UTF-8 (RFC 6455 section 8.1). Until its end a character may be incomplete.
func (r *Reader) isText(end bool) bool {
	rest := r.msg[r.checked:]
	if !end {
		rest = rest[:len(rest)-incomplete(rest)]
	}
	r.checked += len(rest)
	return utf8.Valid(rest)
}

// incomplete is how many bytes at the end begin a character that what follows may complete.
func incomplete(b []byte) int {
	for n := 1; n < min(utf8.UTFMax, len(b)+1); n++ {
		if last := b[len(b)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

// askLong asks the sink about a long message, and makes room for it at once when its length is known.
func (r *Reader) askLong(sink Sink) (bool, error) {
	size, room := MaxText, 2*MaxPlainText
	if r.fin {
		size = len(r.msg) + int(r.left)
		room = size
	}
	ok, err := sink.Long(r.msg, size)
	if !ok || err != nil {
		return false, err
	}
	r.long, r.plain = true, r.msg
	r.msg = append(r.Buffers.get(room), r.msg...)
	return true, nil
}

// finish ends a frame whose body is complete. It reports false when the sink wants a pause.
func (r *Reader) finish(sink Sink) bool {
	r.body, r.nhead = false, 0
	if r.op >= OpClose {
		n := r.nctl
		r.nctl = 0
		sink.Control(r.op, r.ctl[:n])
		return true
	}
	if !r.fin {
		return true
	}
	text := r.message == OpText
	r.message, r.checked = 0, 0
	if !text {
		return true
	}
	msg := r.msg
	if r.long {
		r.msg, r.plain, r.long = r.plain, nil, false
	}
	if cap(r.msg) > MaxPlainText {
		r.msg = nil
	} else {
		r.msg = r.msg[:0]
	}
	return sink.Text(msg)
}

// Drop gives back what a long message has come to that nobody will read.
func (r *Reader) Drop() {
	if r.long {
		r.Buffers.Put(r.msg)
		r.msg, r.plain, r.long = nil, nil, false
	}
}

// header reads up to the end of a frame's header.
func (r *Reader) header(p []byte) (int, error) {
	used := 0
	for used < len(p) {
		r.head[r.nhead] = p[used]
		r.nhead++
		used++
		if r.nhead < 2 {
			continue
		}
		need := 2
		switch r.head[1] & 0x7f {
		case 126:
			need = 4
		case 127:
			need = 10
		}
		if r.nhead == need {
			return used, r.start(need)
		}
	}
	return used, nil
}

func (r *Reader) start(size int) error {
	r.fin, r.op, r.body = r.head[0]&0x80 != 0, r.head[0]&0x0f, true
	switch size {
	case 2:
		r.left = uint64(r.head[1] & 0x7f)
	case 4:
		r.left = uint64(binary.BigEndian.Uint16(r.head[2:]))
	default:
		r.left = binary.BigEndian.Uint64(r.head[2:])
	}
	switch {
	case r.head[0]&0x70 != 0:
		return &FrameError{CloseProtocol, "reserved bits are set"}
	case r.head[1]&0x80 != 0:
		return &FrameError{CloseProtocol, "server's frame is masked"}
	case r.left > 1<<62:
		return &FrameError{CloseProtocol, "frame length is out of range"}
	case r.op == OpText && r.left > MaxText, r.op == opContinuation && r.message == OpText && uint64(len(r.msg))+r.left > MaxText:
		return &FrameError{CloseTooBig, "text frame is too long"}
	}
	switch r.op {
	case OpText, OpBinary:
		if r.message != 0 {
			return &FrameError{CloseProtocol, "message begins inside another"}
		}
		r.message = r.op
	case opContinuation:
		if r.message == 0 {
			return &FrameError{CloseProtocol, "continuation without a message"}
		}
	case OpClose, OpPing, OpPong:
		if !r.fin || r.left > 125 {
			return &FrameError{CloseProtocol, "control frame is long or in pieces"}
		}
	default:
		return &FrameError{CloseProtocol, fmt.Sprintf("opcode %#x is unknown", r.op)}
	}
	return nil
}

// AppendFrame appends a client's frame, masked as RFC 6455 section 5.3 demands.
func AppendFrame(dst []byte, op byte, payload []byte) []byte {
	n := len(payload)
	switch {
	case n < 126:
		dst = append(dst, 0x80|op, 0x80|byte(n))
	case n < 1<<16:
		dst = append(dst, 0x80|op, 0x80|126, byte(n>>8), byte(n))
	default:
		dst = append(dst, 0x80|op, 0x80|127)
		dst = binary.BigEndian.AppendUint64(dst, uint64(n))
	}
	key := rand.Uint32()
	dst = binary.LittleEndian.AppendUint32(dst, key)
	at := len(dst)
	dst = append(dst, payload...)
	maskBytes(dst[at:], key)
	return dst
}

// maskBytes applies the key, whose first byte is the lowest, eight bytes at a time.
func maskBytes(p []byte, key uint32) {
	k := uint64(key)<<32 | uint64(key)
	for len(p) >= 8 {
		binary.LittleEndian.PutUint64(p, binary.LittleEndian.Uint64(p)^k)
		p = p[8:]
	}
	for i := range p {
		p[i] ^= byte(key >> (8 * (i & 3)))
	}
}

// ClosePayload is the body of a close frame; the reason is cut to what fits.
func ClosePayload(code int, reason string) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(code))
	return append(b, reason[:min(len(reason), 123)]...)
}

// CloseCode reads the body of a close frame.
func CloseCode(payload []byte) int {
	if len(payload) < 2 {
		return CloseNoStatus
	}
	return int(binary.BigEndian.Uint16(payload))
}

// CloseReason is the text behind a close frame's code.
func CloseReason(payload []byte) string { return string(payload[min(len(payload), 2):]) }
