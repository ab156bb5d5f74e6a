package encoder

import (
	"math"

	"golang.org/x/sys/cpu"
)

// Fast says whether the processor has what encoding in real time on a share of a core requires: AVX2 and FMA.
func Fast() bool { return cpu.X86.HasAVX2 && cpu.X86.HasFMA }

// fastest is the kernels for the processor at hand.
func fastest() kernels {
	switch {
	case Fast() && cpu.X86.HasAVX512F:
		return avx512()
	case Fast():
		return avx2()
	}
	return portable()
}

func avx2() kernels {
	return kernels{product: productAVX2, tanh: tanhFast, gelu: geluFast, softmax: softmaxFast}
}

func avx512() kernels {
	k := avx2()
	k.product = productAVX512
	return k
}

// tileAVX2 writes 6 rows and 16 columns of a product of k terms. Strides are in bytes.
//
//go:noescape
func tileAVX2(k int, a *float32, strideA int, b, c *float32, strideC int)

// tileAVX512 writes 12 rows and 32 columns, of two panels.
//
//go:noescape
func tileAVX512(k int, a *float32, strideA int, b0, b1, c *float32, strideC int)

// productAVX2 takes a panel at a time: the panel stays in the first or second cache, and the weights are read from memory once.
func productAVX2(c, a view, m int, b matrix) {
	if m == 0 {
		return
	}
	checkProduct(c, a, m, b)
	for j := 0; j < b.n; j += tileCols {
		panelAVX2(c, a, 0, m, b, j)
	}
}

// panelAVX2 does so for the rows from first on and the panel at column j.
func panelAVX2(c, a view, first, m int, b matrix, j int) {
	for i := first; i < m; i += 6 {
		tileAVX2(b.k, &a.data[i*a.stride], 4*a.stride, &b.panels[j*b.k], &c.data[i*c.stride+j], 4*c.stride)
	}
}

// productAVX512 takes two panels at a time. What is left, a single panel and up to six rows, is AVX2's.
func productAVX512(c, a view, m int, b matrix) {
	if m == 0 {
		return
	}
	checkProduct(c, a, m, b)
	tall := m / 12 * 12
	if m-tall > 6 {
		tall += 12
	}
	j := 0
	for ; j+tileCols < b.n; j += 2 * tileCols {
		for i := 0; i < tall; i += 12 {
			tileAVX512(b.k, &a.data[i*a.stride], 4*a.stride, &b.panels[j*b.k], &b.panels[(j+tileCols)*b.k], &c.data[i*c.stride+j], 4*c.stride)
		}
		panelAVX2(c, a, tall, m, b, j)
		panelAVX2(c, a, tall, m, b, j+tileCols)
	}
	if j < b.n {
		panelAVX2(c, a, 0, m, b, j)
	}
}

// lanes is a number for each lane of a vector.
type lanes [8]float32

func spread(x ...float32) []lanes {
	all := make([]lanes, len(x))
	for i, v := range x {
		all[i] = lanes{v, v, v, v, v, v, v, v}
	}
	return all
}

func (r *rational) spread(more ...float32) []lanes {
	x := append([]float32{r.limit, -r.limit}, r.p[:]...)
	return spread(append(append(x, r.q[:]...), more...)...)
}

// The tables of the vector functions. That of the exponential function is Cephes' (expf.c): the lowest argument, 1/ln 2, ln 2 in two parts, and the
// polynomial.
//
//nolint:gochecknoglobals // only read
var (
	tanhLanes = tanhTable.spread()
	erfLanes  = erfTable.spread(1/math.Sqrt2, 0.5)
	expLanes  = spread(-87, math.Log2E, 0.693359375, -2.12194440e-4,
		1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1, 1)
)

//go:noescape
func tanhAVX2(x *float32, eights int, table *lanes)

//go:noescape
func geluAVX2(x, bias *float32, eights int, table *lanes)

//go:noescape
func softmaxAVX2(x *float32, eights int, table *lanes) float32

// The assembly counts eights down to zero: there must be one.

func tanhFast(x []float32) {
	_ = x[7]
	tanhAVX2(&x[0], len(x)/8, &tanhLanes[0])
}

func geluFast(x, bias []float32) {
	x = x[:len(bias)]
	_ = x[7]
	geluAVX2(&x[0], &bias[0], len(x)/8, &erfLanes[0])
}

func softmaxFast(x []float32) float32 {
	_ = x[7]
	return softmaxAVX2(&x[0], len(x)/8, &expLanes[0])
}
