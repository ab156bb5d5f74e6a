package amdcorpus

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ringmaster/ringmaster/media/amd"
)

const (
	treeCount = 400
	learning  = 0.08 // how much of a tree's answer counts
	shrink    = 20.0 // keeps the answers small of leaves that few examples reach
	leafLeast = 60   // examples that reach a leaf
	cutCount  = 40   // limits that are tried of each input, and one more
	// The share of the examples and of the inputs that a tree is made of.
	shareOfExamples, shareOfInputs = 0.5, 0.25
)

// example is one moment of a recording: the model's inputs, and whether a machine made it.
type example struct {
	x       []float32
	machine bool
	weight  float64
}

func sigmoid(z float64) float64 { return 1 / (1 + math.Exp(-z)) }

// grower grows trees, each of which corrects what those before it get wrong. It has sorted the examples' inputs into bins.
type grower struct {
	es   []example
	cuts [][]float32 // limits between an input's bins
	bins [][]uint8
	g, h []float64 // first and second derivative of the loss
	rng  *rand.Rand
}

// fit makes a model of examples.
func fit(es []example) []amd.Tree {
	g := newGrower(es)
	z := make([]float64, len(es))
	out := make([]amd.Tree, 0, treeCount)
	for range treeCount {
		t := g.grow(z)
		out = append(out, t)
		for i := range es {
			z[i] += t.Answer(es[i].x)
		}
	}
	return out
}

// odds is the logarithm of the odds of a machine.
func odds(m []amd.Tree, x []float32) float64 {
	z := 0.0
	for i := range m {
		z += m[i].Answer(x)
	}
	return z
}

func newGrower(es []example) *grower {
	n := len(es)
	g := &grower{
		es: es, g: make([]float64, n), h: make([]float64, n), rng: rand.New(rand.NewPCG(1, 2)),
		cuts: make([][]float32, len(es[0].x)), bins: make([][]uint8, len(es[0].x)),
	}
	values := make([]float32, n)
	for j := range g.cuts {
		for i := range es {
			values[i] = es[i].x[j]
		}
		slices.Sort(values)
		for c := 1; c < cutCount; c++ {
			if v := values[c*n/cutCount]; len(g.cuts[j]) == 0 || v > g.cuts[j][len(g.cuts[j])-1] {
				g.cuts[j] = append(g.cuts[j], v)
			}
		}
		g.bins[j] = make([]uint8, n)
		for i := range es {
			k, _ := slices.BinarySearch(g.cuts[j], es[i].x[j])
			g.bins[j][i] = uint8(k)
		}
	}
	return g
}

// grow makes the tree that corrects z most, from a share of the examples and of the inputs.
func (g *grower) grow(z []float64) amd.Tree {
	var some []int
	for i := range g.es {
		e := &g.es[i]
		p, target := sigmoid(z[i]), 0.0
		if e.machine {
			target = 1
		}
		g.g[i], g.h[i] = e.weight*(p-target), e.weight*p*(1-p)
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
		t.Input[q], t.Limit[q], parts[2*(q+1)], parts[2*(q+1)+1] = g.split(parts[q+1], inputs)
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
	return input, g.cuts[input][bin], no, yes
}
