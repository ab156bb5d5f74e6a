package amdcorpus

import (
	"math"
	"testing"

	"github.com/ringmaster/ringmaster/media/amd"
)

// mixes say how words count beside the pattern of speech, listen by listen.
type mixes [amd.ListenCount]amd.Mix

// fitMixes finds them by sources that the models don't know, of which all weigh the same (a logistic regression, by Newton's method).
func fitMixes(t *testing.T, names []string, js []judgedLesson) *mixes {
	t.Helper()
	count := map[string]float64{}
	for i := range js {
		count[js[i].Source]++
	}
	var out mixes
	for k, listen := range amd.Listens() {
		until := (listen + answerTakes).Seconds()
		if k == len(out)-1 {
			until = amd.LatestSince.Seconds()
		}
		var x [][3]float64
		var y, w []float64
		for i := range js {
			j := &js[i]
			at := -1
			for m := range j.Moments {
				if float64(j.Moments[m].X[amd.InputSince]) <= until {
					at = m
				}
			}
			if j.Heard[k] == nil || at < 0 {
				continue
			}
			machine := 0.0
			if j.Machine {
				machine = 1
			}
			x, y, w = append(x, [3]float64{j.odds[at], j.words[k], 1}), append(y, machine), append(w, 1/count[j.Source])
		}
		b := regress(x, y, w)
		out[k] = amd.Mix{Pattern: b[0], Words: b[1], Shift: b[2]}
		t.Logf("mix of listen %d, by %d recordings of %d sources: %.2f, %.2f, %.2f", k, len(x), len(names), b[0], b[1], b[2])
	}
	return &out
}

// regress finds what makes odds of x.
func regress(x [][3]float64, y, w []float64) (b [3]float64) {
	const rounds, ridge = 20, 1e-6
	for range rounds {
		var a [3][4]float64 // the equations of a step
		for i, v := range x {
			p := sigmoid(b[0]*v[0] + b[1]*v[1] + b[2]*v[2])
			for r := range 3 {
				for c := range 3 {
					a[r][c] += w[i] * p * (1 - p) * v[r] * v[c]
				}
				a[r][3] += w[i] * (y[i] - p) * v[r]
			}
		}
		for r := range 3 { // Gauss and Jordan
			a[r][r] += ridge
			for other := range 3 {
				if f := a[other][r] / a[r][r]; other != r && !math.IsNaN(f) {
					for c := range 4 {
						a[other][c] -= f * a[r][c]
					}
				}
			}
		}
		for r := range 3 {
			b[r] += a[r][3] / a[r][r]
		}
	}
	return b
}
