package rtp

import (
	"encoding/binary"
	"errors"

	"github.com/pion/rtp"
)

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
