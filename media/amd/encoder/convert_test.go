package encoder

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestConvert writes weights.bin from encoder_model.onnx (dist/model/tiny/quantized in the npm package @moonshine-ai/moonshine-js 0.1.29), which the
// environment variable RINGMASTER_MOONSHINE names.
func TestConvert(t *testing.T) {
	t.Parallel()
	name := os.Getenv("RINGMASTER_MOONSHINE")
	if name == "" {
		t.Skip("RINGMASTER_MOONSHINE names no ONNX file")
	}
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	c := converter{tensors: map[string]tensor{}}
	for _, graph := range fields(b)[7] {
		for _, init := range fields(graph)[5] {
			f := fields(init)
			c.tensors[string(f[8][0])] = tensor{bytes: slices.Concat(slices.Concat(f[4]...), slices.Concat(f[9]...)), number: slices.Concat(f[5]...)}
		}
	}

	c.conv("conv1", kernel1, 1, Width)
	c.floats("onnx::Mul_1488")
	c.floats("onnx::Add_1489")
	c.conv("conv2", kernel2, Width, channels2)
	c.floats("conv2.bias")
	c.conv("conv3", kernel3, channels2, Width)
	c.floats("conv3.bias")
	for i := range layers {
		// Matrices that the exporter transposed have numbers for names: 47 numbers a layer, with queries, keys and values at the front, and the
		// output of the attention and the two of the feed-forward part at the end.
		at := 1493 + 47*i
		layer := fmt.Sprintf("layers.%d.", i)
		c.floats(layer + "input_layernorm.weight")
		c.matrices(at, at+1, at+2, at+44)
		c.floats(layer + "post_attention_layernorm.weight")
		c.matrices(at + 45)
		c.floats(layer + "mlp.fc1.bias")
		c.matrices(at + 46)
		c.floats(layer + "mlp.fc2.bias")
	}
	c.floats("layer_norm.weight")
	load(string(c.out)) // or it panics
	require.NoError(t, os.WriteFile("weights.bin", c.out, 0o644))
}

// tensor is a TensorProto of ONNX: its bytes, or a whole number.
type tensor struct{ bytes, number []byte }

type converter struct {
	tensors map[string]tensor
	out     []byte
}

func (c *converter) floats(name string) { c.out = append(c.out, c.tensors[name].bytes...) }

// conv appends the weights of a convolution: in the file they are by output channel, input channel and tap.
func (c *converter) conv(name string, taps, in, out int) {
	c.floats(name + ".weight_scale")
	c.floats(name + ".weight_zero_point") // an offset, in spite of its name
	q := c.tensors[name+".weight_quantized"].bytes
	for k := range taps {
		for i := range in {
			for o := range out {
				c.out = append(c.out, q[(o*in+i)*taps+k])
			}
		}
	}
}

// matrices appends matrices of unsigned weights with their zero.
func (c *converter) matrices(numbers ...int) {
	for _, n := range numbers {
		name := fmt.Sprintf("onnx::MatMul_%d_", n)
		scale := math.Float32frombits(binary.LittleEndian.Uint32(c.tensors[name+"scale"].bytes))
		zero, _ := binary.Uvarint(c.tensors[name+"zero_point"].number)
		c.floats(name + "scale")
		c.out = binary.LittleEndian.AppendUint32(c.out, math.Float32bits(float32(128-int(zero))*scale))
		for _, w := range c.tensors[name+"quantized"].bytes {
			c.out = append(c.out, w-128)
		}
	}
}

// fields splits a message of protocol buffers into its fields by number. Numbers are left as they are encoded.
func fields(b []byte) map[uint64][][]byte {
	all := map[uint64][][]byte{}
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		b = b[n:]
		var v []byte
		switch tag & 7 {
		case 0:
			_, n = binary.Uvarint(b)
			v, b = b[:n], b[n:]
		case 2:
			length, n := binary.Uvarint(b)
			v, b = b[n:n+int(length)], b[n+int(length):]
		default:
			panic(fmt.Sprintf("wire type %d", tag&7))
		}
		all[tag>>3] = append(all[tag>>3], v)
	}
	return all
}
