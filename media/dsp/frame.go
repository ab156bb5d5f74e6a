package dsp

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
