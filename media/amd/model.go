package amd

import (
	_ "embed"
	"encoding/binary"
	"math"
)

// model holds the trees, one after the other. `make amd-model` makes them from the training sources of integration/amdcorpus.
//
//go:embed model.bin
var model string

// Leaves is how many answers a tree has.
const Leaves = 8

// A tree in the model: its inputs, a byte each, then its limits and its leaves, float32 in little endian.
const (
	limitsAt = Leaves - 1
	leavesAt = limitsAt + 4*(Leaves-1)
	treeSize = leavesAt + 4*Leaves
)

// Tree is a tree for those who make the model. It asks three questions, one after the other, whether an input lies above a limit. The first is
// question 0; after no comes question 2q+1, after yes 2q+2.
type Tree struct {
	Input [Leaves - 1]uint8
	Limit [Leaves - 1]float32
	Leaf  [Leaves]float32
}

// Answer is what a tree adds to the logarithm of the odds of a machine.
func (t *Tree) Answer(x []float32) float64 {
	q := 0
	for q < Leaves-1 {
		above := x[t.Input[q]] > t.Limit[q]
		if q = 2*q + 1; above {
			q++
		}
	}
	return float64(t.Leaf[q-(Leaves-1)])
}

// AppendTree adds a tree to a model.
func AppendTree(b []byte, t *Tree) []byte {
	b = append(b, t.Input[:]...)
	for _, v := range t.Limit {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	for _, v := range t.Leaf {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// odds is the logarithm of the odds of a machine.
func odds(x [InputCount]float64) float64 {
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
	for q < Leaves-1 {
		above := x[b[q]] > float64(number(b[limitsAt+4*q:]))
		if q = 2*q + 1; above {
			q++
		}
	}
	return float64(number(b[leavesAt+4*(q-(Leaves-1)):]))
}

func number(b string) float32 {
	return math.Float32frombits(uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24)
}
