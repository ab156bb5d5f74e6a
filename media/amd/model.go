package amd

import (
	_ "embed"
	"math"
)

// model holds the trees, one after the other. What made them from the tuning half of the corpus is no part of the program any more:
// commit 04beb32 still has it, as integration/amdcorpus/train.
//
//go:embed model.bin
var model string

const (
	// leaves is how many answers a tree has.
	leaves = 8
	// A tree in the model: its inputs, a byte each, then its limits and its leaves, float32 in little endian.
	limitsAt = leaves - 1
	leavesAt = limitsAt + 4*(leaves-1)
	treeSize = leavesAt + 4*leaves
)

// odds is the logarithm of the odds of a machine.
func odds(x [inputs]float64) float64 {
	z := 0.0
	for at := 0; at+treeSize <= len(model); at += treeSize {
		z += answer(model[at:at+treeSize], x[:])
	}
	return z
}

// answer is what a tree adds to the logarithm of the odds. It asks three questions, one after the other, whether an input lies above a
// limit: the first is question 0; after no comes question 2q+1, after yes 2q+2. The tree is read where it lies: a model that is unpacked
// would have to be kept by each detector.
func answer(b string, x []float64) float64 {
	q := 0
	for q < leaves-1 {
		above := x[b[q]] > float64(number(b[limitsAt+4*q:]))
		if q = 2*q + 1; above {
			q++
		}
	}
	return float64(number(b[leavesAt+4*(q-(leaves-1)):]))
}

func number(b string) float32 {
	return math.Float32frombits(uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24)
}
