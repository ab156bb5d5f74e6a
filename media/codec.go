package media

import (
	"encoding/binary"

	"github.com/ringmaster/ringmaster/media/dsp"
)

// legCodec is a codec of the switch's leg. G.711 runs at 8 kHz, L16 at any of l16Rates.
type legCodec uint8

// The leg's codecs, in the order in which we offer them.
const (
	codecPCMU legCodec = iota
	codecPCMA
	codecL16
)

// String returns the codec's name in SDP.
func (c legCodec) String() string {
	switch c {
	case codecPCMU:
		return "PCMU"
	case codecPCMA:
		return "PCMA"
	case codecL16:
		return "L16"
	}
	return "unknown"
}

// bytesPerSample is the size of a sample in the payload.
func (c legCodec) bytesPerSample() int {
	if c == codecL16 {
		return 2
	}
	return 1
}

// decodePayload writes a payload's samples to dst, which has room, and returns their number.
func decodePayload(dst []int16, codec legCodec, payload []byte) int {
	switch codec {
	case codecPCMU:
		return dsp.DecodeULaw(dst, payload)
	case codecPCMA:
		return dsp.DecodeALaw(dst, payload)
	case codecL16:
		n := min(len(payload)/2, len(dst))
		for i := range n {
			dst[i] = int16(binary.BigEndian.Uint16(payload[2*i:]))
		}
		return n
	}
	return 0
}
