package dsp

// foldSSE computes 16 outputs of a half-band filter for each block, as foldGo does. src must hold 2·perSide-1 samples more
// than there are outputs.
//
//go:noescape
func foldSSE(dst *int16, src, mid *float32, taps *foldTaps, blocks int)

// dotSSE is the inner product of 4·fours samples.
//
//go:noescape
func dotSSE(x, y *float32, fours int) float32

// foldBlock is how many outputs foldSSE makes at a time.
const foldBlock = 16

// fold writes len(dst) outputs of a half-band filter: the bulk by vectors, the rest one by one.
func fold(dst []int16, src, mid []float32, taps *foldTaps) {
	n := len(dst) / foldBlock * foldBlock
	if n > 0 {
		// The checks that the assembly doesn't make.
		_, _ = src[n+2*perSide-2], mid[n-1]
		foldSSE(&dst[0], &src[0], &mid[0], taps, n/foldBlock)
	}
	foldGo(dst[n:], src[n:], mid[n:], taps)
}

// Dot is the inner product of two windows of the same length, a multiple of four.
func Dot(x, y []float32) float32 {
	y = y[:len(x)]
	if len(x) == 0 {
		return 0
	}
	return dotSSE(&x[0], &y[0], len(x)/4)
}
