package rtp

import (
	"encoding/binary"

	"github.com/ringmaster/ringmaster/media/dsp"
)

// Codec is a codec of a leg. G.711 runs at 8 kHz, L16 at any of 8, 16, 24 and 48 kHz.
type Codec uint8

// The leg's codecs, in the order in which we offer them.
const (
	PCMU Codec = iota
	PCMA
	L16
)

// String returns the codec's name in SDP.
func (c Codec) String() string {
	switch c {
	case PCMU:
		return "PCMU"
	case PCMA:
		return "PCMA"
	case L16:
		return "L16"
	}
	return "unknown"
}

// bytesPerSample is the size of a sample in the payload.
func (c Codec) bytesPerSample() int {
	if c == L16 {
		return 2
	}
	return 1
}

// decodePayload writes a payload's samples to dst, which has room, and returns their number.
func decodePayload(dst []int16, codec Codec, payload []byte) int {
	switch codec {
	case PCMU:
		return dsp.DecodeULaw(dst, payload)
	case PCMA:
		return dsp.DecodeALaw(dst, payload)
	case L16:
		n := min(len(payload)/2, len(dst))
		for i := range n {
			dst[i] = int16(binary.BigEndian.Uint16(payload[2*i:]))
		}
		return n
	}
	return 0
}
