package amdcorpus

import (
	"math/rand/v2"
	"slices"

	"github.com/ringmaster/ringmaster/media/amd"
)

// grower grows trees. It has sorted the examples' inputs into bins.
type grower struct {
	es   []example
	cuts [][]float64 // limits between an input's bins
	bins [][]uint8
	g, h []float64 // first and second derivative of the loss
	rng  *rand.Rand
}

func newGrower(es []example) *grower {
	n := len(es)
	g := &grower{es: es, g: make([]float64, n), h: make([]float64, n), rng: rand.New(rand.NewPCG(1, 2))}
	for j := range es[0].x {
		values := make([]float64, n)
		for i := range es {
			values[i] = es[i].x[j]
		}
		slices.Sort(values)
		var cuts []float64
		for c := 1; c < cutCount; c++ {
			if v := values[c*n/cutCount]; len(cuts) == 0 || v > cuts[len(cuts)-1] {
				cuts = append(cuts, v)
			}
		}
		bins := make([]uint8, n)
		for i := range es {
			k, _ := slices.BinarySearch(cuts, es[i].x[j])
			bins[i] = uint8(k)
		}
		g.cuts, g.bins = append(g.cuts, cuts), append(g.bins, bins)
	}
	return g
}

// grow makes the tree that mends z most, from a share of the examples and of the inputs.
func (g *grower) grow(z []float64) amd.Tree {
	var some []int
	for i := range g.es {
		e := &g.es[i]
		p := sigmoid(z[i])
		g.g[i], g.h[i] = e.weight*(p-e.target()), e.weight*p*(1-p)
		if g.rng.Float64() < shareOfExamples {
			some = append(some, i)
		}
	}
	var inputs []int
	for j := range g.cuts {
		if g.rng.Float64() < shareOfInputs {
			inputs = append(inputs, j)
		}
	}
	var t amd.Tree
	parts := [2 * amd.Leaves][]int{1: some} // those that come to each question, then to each leaf
	for q := range t.Input {
		part := parts[q+1]
		t.Input[q], t.Limit[q], parts[2*(q+1)], parts[2*(q+1)+1] = g.split(part, inputs)
	}
	for l := range t.Leaf {
		first, second := g.sums(parts[amd.Leaves+l])
		t.Leaf[l] = float32(-learning * first / (second + shrink))
	}
	return t
}

func (g *grower) sums(of []int) (first, second float64) {
	for _, i := range of {
		first += g.g[i]
		second += g.h[i]
	}
	return first, second
}

// split finds the question that divides examples best. Without any that is worth asking all go to the side of no.
func (g *grower) split(of, inputs []int) (input uint8, limit float32, no, yes []int) {
	first, second := g.sums(of)
	most, bin := 1e-6, -1
	for _, j := range inputs {
		var sum [cutCount]struct {
			g, h float64
			n    int
		}
		bins := g.bins[j]
		for _, i := range of {
			s := &sum[bins[i]]
			s.g += g.g[i]
			s.h += g.h[i]
			s.n++
		}
		var left, weight float64
		count := 0
		for b := range g.cuts[j] {
			left += sum[b].g
			weight += sum[b].h
			if count += sum[b].n; count < leafLeast || len(of)-count < leafLeast {
				continue
			}
			right := first - left
			gain := left*left/(weight+shrink) + right*right/(second-weight+shrink) - first*first/(second+shrink)
			if gain > most {
				most, input, bin = gain, uint8(j), b
			}
		}
	}
	if bin < 0 {
		const never = 1e9
		return 0, never, of, nil
	}
	for _, i := range of {
		if int(g.bins[input][i]) > bin {
			yes = append(yes, i)
		} else {
			no = append(no, i)
		}
	}
	return input, float32(g.cuts[input][bin]), no, yes
}
