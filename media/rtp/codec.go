package rtp

import (
	"encoding/binary"
	"errors"

	"github.com/pion/rtp"

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

// HeaderSize is the header of the packets that we send.
const HeaderSize = 12

// Parse reads a packet's header and returns its payload without padding.
func Parse(h *rtp.Header, b []byte) ([]byte, error) {
	if len(b) < 12 || b[0]>>6 != 2 {
		return nil, errors.New("not an RTP packet")
	}
	n, err := h.Unmarshal(b)
	if err != nil {
		return nil, err
	}
	payload := b[n:]
	if h.Padding {
		if len(payload) == 0 || int(payload[len(payload)-1]) > len(payload) {
			return nil, errors.New("RTP padding is longer than the payload")
		}
		payload = payload[:len(payload)-int(payload[len(payload)-1])]
	}
	return payload, nil
}

// AppendHeader begins a packet of ours.
func AppendHeader(b []byte, pt uint8, marker bool, seq uint16, ts, ssrc uint32) []byte {
	if marker {
		pt |= 0x80
	}
	b = append(b, 0x80, pt)
	b = binary.BigEndian.AppendUint16(b, seq)
	b = binary.BigEndian.AppendUint32(b, ts)
	return binary.BigEndian.AppendUint32(b, ssrc)
}

// IsControl tells a packet of RTCP on a port that it shares with RTP (RFC 5761 section 4).
func IsControl(b []byte) bool { return len(b) >= 2 && b[1] >= 192 && b[1] <= rtcpLast }
