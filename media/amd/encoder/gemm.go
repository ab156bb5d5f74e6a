package encoder

import "slices"

// A kernel takes tileCols columns of a matrix at a time, and up to maxTileRows rows of what it is multiplied with.
const (
	tileCols    = 16
	maxTileRows = 12
)

// matrix is the right factor of a product: k rows and n columns, in panels of tileCols columns, each row by row, so that a kernel reads it in order.
// Columns that fill up the last panel are zero.
type matrix struct {
	k, n   int
	panels []float32
}

func newMatrix(k, n int) matrix {
	return matrix{k: k, n: n, panels: make([]float32, k*roundUp(n, tileCols))}
}

// set changes a cell.
func (m matrix) set(i, j int, v float32) { m.panels[j/tileCols*m.k*tileCols+i*tileCols+j%tileCols] = v }

// beside is the matrix with the columns of a, b and c, which fill their panels, side by side.
func beside(a, b, c matrix) matrix {
	return matrix{k: a.k, n: a.n + b.n + c.n, panels: slices.Concat(a.panels, b.panels, c.panels)}
}

// view is rows of floats, each stride after the one before. They may overlap: a convolution is a product with such rows, stride being its step.
type view struct {
	data   []float32
	stride int
}

// checkProduct panics unless a kernel stays inside of a and c: it may read and write rows that fill up the last tile.
func checkProduct(c, a view, m int, b matrix) {
	last := roundUp(m, maxTileRows) - 1
	_ = c.data[last*c.stride+roundUp(b.n, tileCols)-1]
	_ = a.data[last*a.stride+b.k-1]
	_ = b.panels[b.k*roundUp(b.n, tileCols)-1]
}

// productGo writes the first m rows of a times b to c.
func productGo(c, a view, m int, b matrix) {
	if m == 0 {
		return
	}
	checkProduct(c, a, m, b)
	for j := 0; j < b.n; j += tileCols {
		panel := b.panels[j*b.k:][:b.k*tileCols]
		for i := range m {
			var sum [tileCols]float32
			for k, v := range a.data[i*a.stride:][:b.k] {
				for l, w := range panel[k*tileCols:][:tileCols] {
					sum[l] += v * w
				}
			}
			copy(c.data[i*c.stride+j:], sum[:])
		}
	}
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }
