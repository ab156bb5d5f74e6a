package simswitch

import (
	"slices"

	"github.com/ringmaster/ringmaster/media/dsp"
)

// The switch decodes only what it records, mutes or transcodes.

// decode turns a G.711 payload into samples, behind those in dst.
func decode(c codec, dst []int16, src []byte) []int16 {
	n := len(dst)
	dst = slices.Grow(dst, len(src))[:n+len(src)]
	if c == codecPCMA {
		dsp.DecodeALaw(dst[n:], src)
	} else {
		dsp.DecodeULaw(dst[n:], src)
	}
	return dst
}

// encode turns samples into a G.711 payload, behind that in dst.
func encode(c codec, dst []byte, src []int16) []byte {
	n := len(dst)
	dst = slices.Grow(dst, len(src))[:n+len(src)]
	if c == codecPCMA {
		dsp.EncodeALaw(dst[n:], src)
	} else {
		dsp.EncodeULaw(dst[n:], src)
	}
	return dst
}

// silence is the G.711 byte of a zero sample.
func silence(c codec) byte { return encode(c, nil, []int16{0})[0] }

// mixed is the sum of two samples, at full scale at the most.
func mixed(a, b int16) int16 { return int16(min(max(int(a)+int(b), -32768), 32767)) }
