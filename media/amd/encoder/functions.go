package encoder

import "math"

// kernels are the inner loops, for a processor.
type kernels struct {
	// product writes the first m rows of a times b to c. Rows that fill up the last tile of maxTileRows, and columns that fill up the last panel, are
	// read and written with whatever they hold.
	product func(c, a view, m int, b matrix)
	// tanh replaces each x by its hyperbolic tangent; len(x) is a multiple of 8, here and below.
	tanh func(x []float32)
	// gelu replaces each x by x+bias times the share of the normal distribution below that.
	gelu func(x, bias []float32)
	// softmax replaces each x by e to the power of x minus the largest, and returns the sum.
	softmax func(x []float32) float32
}

// portable is the kernels for any processor.
func portable() kernels {
	return kernels{product: productGo, tanh: tanhGo, gelu: geluGo, softmax: softmaxGo}
}

// rational is a function x·p(x²)/q(x²) for x between -limit and limit, and its value there beyond; coefficients of the highest power come first.
type rational struct {
	limit float32
	p     [7]float32
	q     [5]float32
}

// The approximations of Eigen (Eigen/src/Core/MathFunctionsImpl.h, and SpecialFunctionsImpl.h before 5.0); the functions are odd and reach ±1 at their
// limits. Errors are below 1e-6.
//
//nolint:gochecknoglobals // only read
var (
	tanhTable = rational{
		limit: 7.99881172180175781,
		p: [7]float32{
			-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08, 1.48572235717979e-05,
			6.37261928875436e-04, 4.89352455891786e-03,
		},
		q: [5]float32{0, 1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03},
	}
	erfTable = rational{
		limit: 4,
		p: [7]float32{
			-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05, -7.34990630326855e-04,
			-2.95459980854025e-03, -1.60960333262415e-02,
		},
		q: [5]float32{-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03, -1.42647390514189e-02},
	}
)

func (r *rational) at(x float32) float32 {
	x = min(max(x, -r.limit), r.limit)
	z := x * x
	p, q := r.p[0], r.q[0]
	for _, c := range r.p[1:] {
		p = p*z + c
	}
	for _, c := range r.q[1:] {
		q = q*z + c
	}
	return x * p / q
}

func tanhGo(x []float32) {
	for i, v := range x {
		x[i] = tanhTable.at(v)
	}
}

func geluGo(x, bias []float32) {
	for i, b := range bias {
		v := x[i] + b
		x[i] = v / 2 * (1 + erfTable.at(v/math.Sqrt2))
	}
}

func softmaxGo(x []float32) float32 {
	top := x[0]
	for _, v := range x {
		top = max(top, v)
	}
	var sum float32
	for i, v := range x {
		x[i] = float32(math.Exp(float64(v - top)))
		sum += x[i]
	}
	return sum
}
