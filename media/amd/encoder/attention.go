package encoder

import "math"

// A head's scores, and what it makes of the values, fill panels.
const (
	scoreWidth = (MaxFrames + tileCols - 1) / tileCols * tileCols
	mixedWidth = (headWidth + tileCols - 1) / tileCols * tileCols
)

// turn is the angle by which a pair of values turns at a position.
type turn struct{ sin, cos float32 }

// turns are the angles: the first pair turns by a radian a frame, the others by less, down to nearly a ten thousandth.
func turns() (all [MaxFrames][rotated / 2]turn) {
	for t := range all {
		for i := range all[t] {
			a := float64(t) * float64(float32(math.Pow(10000, -float64(i)/(rotated/2))))
			all[t][i] = turn{float32(math.Sin(a)), float32(math.Cos(a))}
		}
	}
	return all
}

// attend makes of t frames of e.qkv what each frame takes from all others' values, and writes that to e.normed.
func (e *Encoder) attend(t int) {
	scale := float32(1 / math.Sqrt(headWidth))
	e.keys.n, e.values.k = t, t
	for h := range heads {
		for i := range t {
			e.pack(i, h, scale)
		}
		e.product(view{e.scores, scoreWidth}, view{e.qkv[h*headWidth:], 3 * Width}, t, e.keys)
		width := roundUp(t, tileCols)
		for i := range t {
			s := row(e.scores, scoreWidth, i)[:width]
			for j := t; j < width; j++ {
				s[j] = -math.MaxFloat32 // no frame
			}
			e.sums[i] = e.softmax(s)
		}
		e.product(view{e.mixed, mixedWidth}, view{e.scores, scoreWidth}, t, e.values)
		for i := range t {
			f := 1 / e.sums[i]
			out := e.normed[i*Width+h*headWidth:][:headWidth]
			for j, v := range e.mixed[i*mixedWidth:][:headWidth] {
				out[j] = v * f
			}
		}
	}
}

// pack turns frame i's query and key of head h, scales the query, and copies key and value into the head's matrices.
func (e *Encoder) pack(i, h int, scale float32) {
	q := e.qkv[i*3*Width+h*headWidth:][:headWidth]
	k := e.qkv[i*3*Width+Width+h*headWidth:][:headWidth]
	v := e.qkv[i*3*Width+2*Width+h*headWidth:][:headWidth]
	for j, a := range e.turns[i] {
		x, y := q[2*j], q[2*j+1]
		q[2*j], q[2*j+1] = x*a.cos-y*a.sin, y*a.cos+x*a.sin
		x, y = k[2*j], k[2*j+1]
		k[2*j], k[2*j+1] = x*a.cos-y*a.sin, y*a.cos+x*a.sin
	}
	keys := e.keys.panels[i/tileCols*headWidth*tileCols+i%tileCols:]
	for j := range q {
		q[j] *= scale
		keys[j*tileCols] = k[j]
	}
	for j := 0; j < headWidth; j += tileCols {
		copy(e.values.panels[(j*e.values.k+i*tileCols):], v[j:min(j+tileCols, headWidth)])
	}
}
