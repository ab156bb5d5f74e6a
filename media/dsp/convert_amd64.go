package dsp

// floatsSSE, unzipSSE and zipSSE do what floatsGo, unzipGo and zipGo do, for eight samples of their 16-bit input, or of each of two
// inputs, at a time.
//
//go:noescape
func floatsSSE(dst *float32, src *int16, eights int)

//go:noescape
func unzipSSE(even, odd *float32, src *int16, eights int)

//go:noescape
func zipSSE(dst *int16, even *float32, odd *int16, eights int)

// floats turns samples into numbers. Both slices have the same length.
func floats(dst []float32, src []int16) {
	dst = dst[:len(src)] // a check that the assembly doesn't make, as below
	n := len(src) / 8
	if n > 0 {
		floatsSSE(&dst[0], &src[0], n)
	}
	floatsGo(dst[8*n:], src[8*n:])
}

// unzip turns the pairs of src into two rows of numbers.
func unzip(even, odd []float32, src []int16) {
	src, odd = src[:2*len(even)], odd[:len(even)]
	n := len(src) / 8
	if n > 0 {
		unzipSSE(&even[0], &odd[0], &src[0], n)
	}
	unzipGo(even[4*n:], odd[4*n:], src[8*n:])
}

// zip makes pairs of a row of whole numbers and one of samples.
func zip(dst []int16, even []float32, odd []int16) {
	dst, even = dst[:2*len(odd)], even[:len(odd)]
	n := len(odd) / 8
	if n > 0 {
		zipSSE(&dst[0], &even[0], &odd[0], n)
	}
	zipGo(dst[16*n:], even[8*n:], odd[8*n:])
}
