//go:build !amd64

package media

// fold writes len(dst) outputs of a half-band filter.
func fold(dst []int16, src, mid []float32, taps *foldTaps) { foldGo(dst, src, mid, taps) }

// dot is the inner product of two windows of the same length.
func dot(x, y []float32) float32 { return dotGo(x, y) }
