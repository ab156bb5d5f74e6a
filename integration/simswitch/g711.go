package simswitch

import "math/bits"

// G.711 by its two laws, sample by sample (ITU-T G.711). The switch decodes only what it records, mutes or transcodes.

// muLaw encodes a linear sample.
func muLaw(s int16) byte {
	const bias, clip = 0x84, 32635
	sign := byte(0)
	v := int(s)
	if v < 0 {
		v, sign = -v, 0x80
	}
	v = min(v, clip) + bias
	exp := bits.Len16(uint16(v)) - 8
	return ^(sign | byte(exp)<<4 | byte(v>>(exp+3))&0x0f)
}

// fromMuLaw decodes a sample.
func fromMuLaw(b byte) int16 {
	b = ^b
	exp := int(b>>4) & 7
	v := ((int(b&0x0f)<<3 + 0x84) << exp) - 0x84
	if b&0x80 != 0 {
		v = -v
	}
	return int16(v)
}

// aLaw encodes a linear sample.
func aLaw(s int16) byte {
	sign := byte(0x80)
	v := int(s) >> 3
	if v < 0 {
		v, sign = -v-1, 0
	}
	seg := max(bits.Len16(uint16(v))-5, 0)
	b := byte(seg<<4) | byte(v>>max(seg, 1))&0x0f
	return (sign | b) ^ 0x55
}

// fromALaw decodes a sample.
func fromALaw(b byte) int16 {
	b ^= 0x55
	exp := int(b>>4) & 7
	v := int(b&0x0f)<<4 + 8
	if exp > 0 {
		v = (v + 0x100) << (exp - 1)
	}
	if b&0x80 == 0 {
		v = -v
	}
	return int16(v)
}

// decode turns a G.711 payload into samples.
func decode(c codec, dst []int16, src []byte) []int16 {
	for _, b := range src {
		if c == codecPCMA {
			dst = append(dst, fromALaw(b))
		} else {
			dst = append(dst, fromMuLaw(b))
		}
	}
	return dst
}

// encode turns samples into a G.711 payload.
func encode(c codec, dst []byte, src []int16) []byte {
	for _, s := range src {
		if c == codecPCMA {
			dst = append(dst, aLaw(s))
		} else {
			dst = append(dst, muLaw(s))
		}
	}
	return dst
}

// silence is the G.711 byte of a zero sample.
func silence(c codec) byte { return encode(c, nil, []int16{0})[0] }
