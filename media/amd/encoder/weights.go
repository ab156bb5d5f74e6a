package encoder

import (
	_ "embed"
	"encoding/binary"
	"math"
	"sync"
)

// packed holds the weights in the order in which load reads them, little endian: of a matrix its scale and its offset, float32, and then a byte for
// each weight, row by row; of a vector float32. TestConvert makes it from the published ONNX file.
//
//go:embed weights.bin
var packed string

// layers is how many transformer layers the model has.
const layers = 6

// model is the weights as the kernels read them: 31 MB, shared by all encoders, and never written.
type model struct {
	conv1, conv2, conv3 matrix
	norm1, shift1       []float32 // of the group norm after conv1
	bias2, bias3        []float32
	layers              [layers]layer
	norm                []float32
}

// layer is the weights of a transformer layer.
type layer struct {
	norm1, norm2 []float32
	qkv, dense   matrix
	fc1, fc2     matrix
	bias1, bias2 []float32
}

// shared is the model, unpacked on first use.
var shared = sync.OnceValue(func() *model { return load(packed) }) //nolint:gochecknoglobals // made once, and only read

// load unpacks the weights.
func load(s string) *model {
	r := &reader{s: s}
	m := &model{}
	m.conv1 = r.matrix(kernel1, Width)
	m.norm1, m.shift1 = r.vector(Width), r.vector(Width)
	m.conv2, m.bias2 = r.matrix(kernel2*Width, channels2), r.vector(channels2)
	m.conv3, m.bias3 = r.matrix(kernel3*channels2, Width), r.vector(Width)
	for i := range m.layers {
		l := &m.layers[i]
		l.norm1 = r.vector(Width)
		l.qkv = beside(r.matrix(Width, Width), r.matrix(Width, Width), r.matrix(Width, Width))
		l.dense = r.matrix(Width, Width)
		l.norm2 = r.vector(Width)
		l.fc1, l.bias1 = r.matrix(Width, inner), r.vector(inner)
		l.fc2, l.bias2 = r.matrix(inner, Width), r.vector(Width)
	}
	m.norm = r.vector(Width)
	if r.s != "" {
		panic("amd/encoder: weights.bin is too long")
	}
	return m
}

// reader takes weights from the front of a string.
type reader struct{ s string }

// matrix takes a matrix of k rows and n columns, which fill panels. A weight is its byte, signed, times the scale, plus the offset.
func (r *reader) matrix(k, n int) matrix {
	v := r.vector(2)
	scale, offset := v[0], v[1]
	m := newMatrix(k, n)
	for j := 0; j < n; j += tileCols {
		panel := m.panels[j*k:][:k*tileCols]
		for i := range k {
			from, to := r.s[i*n+j:][:tileCols], panel[i*tileCols:][:tileCols]
			for l := range to {
				to[l] = float32(int8(from[l]))*scale + offset
			}
		}
	}
	r.s = r.s[k*n:]
	return m
}

func (r *reader) vector(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32([]byte(r.s[4*i : 4*i+4])))
	}
	r.s = r.s[4*n:]
	return v
}
