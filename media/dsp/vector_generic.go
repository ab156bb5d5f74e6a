//go:build !amd64

package dsp

// fold writes len(dst) outputs of a half-band filter.
func fold(dst []int16, src, mid []float32, taps *foldTaps) { foldGo(dst, src, mid, taps) }

// Dot is the inner product of two windows of the same length.
func Dot(x, y []float32) float32 { return dotGo(x, y) }

// floats turns samples into numbers. Both slices have the same length.
func floats(dst []float32, src []int16) { floatsGo(dst, src) }

// unzip turns the pairs of src into two rows of numbers.
func unzip(even, odd []float32, src []int16) { unzipGo(even, odd, src) }

// zip makes pairs of a row of whole numbers and one of samples.
func zip(dst []int16, even []float32, odd []int16) { zipGo(dst, even, odd) }
