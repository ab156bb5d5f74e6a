package encoder

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProductsAgree(t *testing.T) {
	t.Parallel()
	for name, k := range variants() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(3, 4))
			for _, m := range []int{0, 1, 5, 6, 7, 12, 13, 18, 19, 127} {
				for _, terms := range []int{1, 2, 36, 127} {
					for _, n := range []int{1, 16, 17, 32, 36, 100} {
						checkProductOf(t, k, r, m, terms, n)
					}
				}
			}
		})
	}
}

// checkProductOf compares a product with one in float64. Rows that fill up tiles are no numbers, and rows and columns after them must stay.
func checkProductOf(t *testing.T, k kernels, r *rand.Rand, m, terms, n int) {
	t.Helper()
	const stays = 7
	rows, cols := roundUp(m, maxTileRows), roundUp(n, tileCols)
	a := view{make([]float32, (rows+1)*(terms+3)), terms + 3}
	for i := range a.data {
		a.data[i] = float32(math.NaN())
		if i < m*a.stride {
			a.data[i] = float32(r.NormFloat64())
		}
	}
	b := newMatrix(terms, n)
	for i := range terms {
		for j := range n {
			b.set(i, j, float32(r.NormFloat64()))
		}
	}
	c := view{make([]float32, (rows+1)*(cols+2)), cols + 2}
	for i := range c.data {
		c.data[i] = stays
	}
	k.product(c, a, m, b)
	for i := range rows + 1 {
		for j := range cols + 2 {
			got := float64(c.data[i*c.stride+j])
			switch {
			case i < m && j < n:
				var want float64
				for l := range terms {
					want += float64(a.data[i*a.stride+l]) * float64(b.panels[j/tileCols*terms*tileCols+l*tileCols+j%tileCols])
				}
				require.InDelta(t, want, got, 1e-4, "%d of %d rows, %d terms, column %d of %d", i, m, terms, j, n)
			case i >= rows || j >= cols:
				require.InDelta(t, stays, got, 0, "row %d, column %d after %d, %d", i, j, m, n)
			}
		}
	}
}

func TestProductStaysInBounds(t *testing.T) {
	t.Parallel()
	for name, k := range variants() {
		a, b, c := make([]float32, 12*5), newMatrix(5, 16), make([]float32, 12*16)
		require.NotPanics(t, func() { k.product(view{c, 16}, view{a, 5}, 12, b) }, name)
		require.Panics(t, func() { k.product(view{c, 16}, view{a[:59], 5}, 7, b) }, name)
		require.Panics(t, func() { k.product(view{c[:191], 16}, view{a, 5}, 7, b) }, name)
		require.Panics(t, func() { k.product(view{c, 16}, view{a, 5}, 7, matrix{k: 5, n: 17, panels: b.panels}) }, name)
	}
}

func TestFunctions(t *testing.T) {
	t.Parallel()
	for name, k := range variants() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n = 4000
			x, bias := make([]float32, n), make([]float32, n)
			for i := range x {
				x[i], bias[i] = float32(i-n/2)/100, 0.5
			}
			y := append([]float32(nil), x...)
			k.tanh(y)
			for i, v := range y {
				require.InDelta(t, math.Tanh(float64(x[i])), v, 1e-6, "tanh %v", x[i])
			}
			y = append(y[:0], x...)
			k.gelu(y, bias)
			for i, v := range y {
				at := float64(x[i]) + 0.5
				require.InDelta(t, at/2*(1+math.Erf(at/math.Sqrt2)), v, 3e-6, "GELU %v", at)
			}
			y = append(y[:0], x...)
			y[17], y[3000] = -math.MaxFloat32, 21
			var want float64
			sum := k.softmax(y)
			for i, v := range y {
				at := float64(x[i])
				switch i {
				case 17:
					at = -math.MaxFloat32
				case 3000:
					at = 21
				}
				e := math.Exp(at - 21)
				want += e
				require.InDelta(t, e, v, 1e-37+5e-6*e, "exp %v", at-21)
			}
			require.InDelta(t, want, sum, 1e-4*want)
		})
	}
}
