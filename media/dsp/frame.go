package dsp

import (
	"encoding/binary"
)

// The narrowband stream: what recordings and detectors work on, and most legs carry.
const (
	// SampleRate is its rate in Hz.
	SampleRate = 8000
	// FrameSamples is a frame of 20 ms of it.
	FrameSamples = 160
	// SampleNS is the time of one sample.
	SampleNS = int64(125_000)
	// FramesPerSecond is the pace of playout, FrameNS the time of a frame.
	FramesPerSecond = 50
	FrameNS         = 20 * Millisecond
	// Millisecond is one in ns, the unit of the monotonic clock.
	Millisecond = int64(1_000_000)
)

const (
	// BlendSamples is the crossfade over an audible cut: 5 ms of 8 kHz.
	BlendSamples = 40
	// silentMean is the mean magnitude below which a frame counts as silent, about −54 dBFS.
	silentMean = 64
)

// IsSilent tells whether nothing is said in a frame.
func IsSilent(pcm []int16) bool {
	sum := 0
	for _, s := range pcm {
		sum += max(int(s), -int(s))
	}
	return sum < silentMean*len(pcm)
}

// Crossfade leads from head into dst within n samples.
func Crossfade(dst, head []int16, n int) {
	n = min(n, len(dst), len(head))
	for i := range n {
		dst[i] = int16((int(head[i])*(n-i) + int(dst[i])*i) / n)
	}
}

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
