package dsp

import "encoding/binary"

// PutPCM writes little-endian samples, four at a time; dst holds two bytes for each.
func PutPCM(dst []byte, pcm []int16) {
	for len(pcm) >= 4 && len(dst) >= 8 {
		four := uint64(uint16(pcm[0])) | uint64(uint16(pcm[1]))<<16 | uint64(uint16(pcm[2]))<<32 | uint64(uint16(pcm[3]))<<48
		binary.LittleEndian.PutUint64(dst, four)
		pcm, dst = pcm[4:], dst[8:]
	}
	for i, s := range pcm {
		binary.LittleEndian.PutUint16(dst[2*i:], uint16(s))
	}
}
