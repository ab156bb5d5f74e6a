package encoder

import "math"

// epsilon keeps a norm from dividing by zero.
const epsilon = 1e-5

// convolve makes e.state, t frames, of n samples in e.wide.
func (e *Encoder) convolve(n, t int) {
	n1 := after(n, kernel1, step1)
	e.product(view{e.conv1, Width}, view{e.wide, step1}, n1, e.weights.conv1)
	all := e.conv1[:n1*Width]
	e.tanh(all)
	groupNorm(all, e.weights.norm1, e.weights.shift1)

	n2 := after(n1, kernel2, step2)
	e.product(view{e.conv2, channels2}, view{e.conv1, step2 * Width}, n2, e.weights.conv2)
	for i := range n2 {
		e.gelu(row(e.conv2, channels2, i), e.weights.bias2)
	}

	e.product(view{e.state, Width}, view{e.conv2, step3 * channels2}, t, e.weights.conv3)
	for i := range t {
		e.gelu(row(e.state, Width, i), e.weights.bias3)
	}
}

// layer is a transformer layer over t frames of e.state.
func (e *Encoder) layer(l *layer, t int) {
	layerNorm(e.normed[:t*Width], e.state, l.norm1)
	e.product(view{e.qkv, 3 * Width}, view{e.normed, Width}, t, l.qkv)
	e.attend(t)
	e.product(view{e.inner, Width}, view{e.normed, Width}, t, l.dense)
	for i, v := range e.inner[:t*Width] {
		e.state[i] += v
	}

	layerNorm(e.normed[:t*Width], e.state, l.norm2)
	e.product(view{e.inner, inner}, view{e.normed, Width}, t, l.fc1)
	for i := range t {
		e.gelu(row(e.inner, inner, i), l.bias1)
	}
	e.product(view{e.normed, Width}, view{e.inner, inner}, t, l.fc2)
	for i := range t {
		add(row(e.state, Width, i), row(e.normed, Width, i), l.bias2)
	}
}

func row(x []float32, width, i int) []float32 { return x[i*width:][:width] }

func add(to, x, y []float32) {
	x, y = x[:len(to)], y[:len(to)]
	for i := range to {
		to[i] += x[i] + y[i]
	}
}

// groupNorm brings all of x, Width values a frame, to mean 0 and variance 1, and then scales and shifts each channel.
func groupNorm(x, scale, shift []float32) {
	var sum float64
	for i := 0; i < len(x); i += Width {
		sum += float64(total(row(x[i:], Width, 0)))
	}
	mean := float32(sum / float64(len(x)))
	sum = 0
	for i := 0; i < len(x); i += Width {
		sum += float64(squares(row(x[i:], Width, 0), mean))
	}
	f := float32(1 / math.Sqrt(sum/float64(len(x))+epsilon))
	scale, shift = scale[:Width], shift[:Width]
	for i := 0; i < len(x); i += Width {
		for j, v := range x[i:][:Width] {
			x[i+j] = (v-mean)*f*scale[j] + shift[j]
		}
	}
}

// layerNorm writes each frame of x, brought to mean 0 and variance 1 and scaled, to out.
func layerNorm(out, x, scale []float32) {
	scale = scale[:Width]
	for i := 0; i < len(out); i += Width {
		in, o := row(x[i:], Width, 0), row(out[i:], Width, 0)
		mean := total(in) / Width
		f := float32(1 / math.Sqrt(float64(squares(in, mean)/Width+epsilon)))
		for j, v := range in {
			o[j] = (v - mean) * f * scale[j]
		}
	}
}

// total is the sum of x, in four parts that a processor adds at the same time.
func total(x []float32) float32 {
	var a, b, c, d float32
	for ; len(x) >= 4; x = x[4:] {
		a, b, c, d = a+x[0], b+x[1], c+x[2], d+x[3]
	}
	return a + b + c + d
}

// squares is the sum of the squares of what x is above or below mean.
func squares(x []float32, mean float32) float32 {
	var a, b, c, d float32
	for ; len(x) >= 4; x = x[4:] {
		p, q, r, s := x[0]-mean, x[1]-mean, x[2]-mean, x[3]-mean
		a, b, c, d = a+p*p, b+q*q, c+r*r, d+s*s
	}
	return a + b + c + d
}
