package dsp

import "math/bits"

// DecodeULaw writes the samples of μ-law bytes to dst and returns how many were written: the shorter length of both.
func DecodeULaw(dst []int16, src []byte) int {
	n := min(len(dst), len(src))
	dst = dst[:n]
	for i, b := range src[:n] {
		dst[i] = ulawSamples[b]
	}
	return n
}

// DecodeALaw writes the samples of A-law bytes to dst and returns how many were written: the shorter length of both.
func DecodeALaw(dst []int16, src []byte) int {
	n := min(len(dst), len(src))
	dst = dst[:n]
	for i, b := range src[:n] {
		dst[i] = alawSamples[b]
	}
	return n
}

// EncodeULaw writes μ-law bytes to dst and returns how many were written: the shorter length of both.
func EncodeULaw(dst []byte, src []int16) int {
	n := min(len(dst), len(src))
	dst = dst[:n]
	for i, s := range src[:n] {
		dst[i] = ulawByte(s)
	}
	return n
}

// EncodeALaw writes A-law bytes to dst and returns how many were written: the shorter length of both.
func EncodeALaw(dst []byte, src []int16) int {
	n := min(len(dst), len(src))
	dst = dst[:n]
	for i, s := range src[:n] {
		dst[i] = alawByte(s)
	}
	return n
}

// ulawByte follows G.711 table 2: a bias of 33 on the 14-bit scale (132 here), a segment and four bits of mantissa.
func ulawByte(s int16) byte {
	const bias, clip = 132, 32635
	v, sign := int32(s), byte(0)
	if v < 0 {
		v, sign = -v, 0x80
	}
	v = min(v, clip) + bias
	seg := bits.Len32(uint32(v)>>7) - 1
	return ^(sign | byte(seg)<<4 | byte(v>>(seg+3))&0x0f)
}

// alawByte follows G.711 table 1: 13 bits of magnitude, two linear segments, even bits inverted.
func alawByte(s int16) byte {
	v, mask := int32(s), byte(0xd5)
	if v < 0 {
		v, mask = -v-1, 0x55
	}
	seg := bits.Len32(uint32(v) >> 8)
	if seg == 0 {
		return byte(v>>4) ^ mask
	}
	return (byte(seg)<<4 | byte(v>>(seg+3))&0x0f) ^ mask
}
