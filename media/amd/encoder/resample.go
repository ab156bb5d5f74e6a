package encoder

import "math"

// The model was trained on speech of 16 kHz. perSide is how many samples of 8 kHz on each side make one between two.
const perSide = 16

// loudness is the RMS that a recording is brought to, as a share of full scale, and silence the RMS at which it stays as it is.
const (
	loudness = 0.08
	silence  = 1e-4
)

// phrase is how many samples of 8 kHz are doubled at a time, as a row of a product.
const phrase = tileCols

// interpolator is a matrix that makes of phrase+2·perSide-1 samples those between the phrase ones in their middle and their successors.
func interpolator() matrix {
	m := newMatrix(phrase+2*perSide-1, phrase)
	for tap := range 2 * perSide {
		k := float64(tap-perSide) + 0.5
		x := math.Pi * k
		h := float32(math.Sin(x) / x * (0.5 + 0.5*math.Cos(math.Pi*k/perSide)))
		for i := range phrase {
			m.set(i+tap, i, h)
		}
	}
	return m
}

// gain is what brings pcm to loudness and to ±1.
func gain(pcm []int16) float32 {
	var sum int64
	for _, v := range pcm {
		sum += int64(v) * int64(v)
	}
	if rms := math.Sqrt(float64(sum)/float64(len(pcm))) / 32768; rms > silence {
		return float32(loudness / rms / 32768)
	}
	return 1.0 / 32768
}

// double writes pcm, at 16 kHz, between -1 and 1, to e.wide.
func (e *Encoder) double(pcm []int16) {
	g := gain(pcm)
	in := e.narrow
	// The samples lie perSide-1 from the start of the first row, before them and after them are zeros.
	clear(in[:perSide-1])
	for i, v := range pcm {
		in[perSide-1+i] = float32(v) * g
	}
	rows := roundUp(len(pcm), phrase) / phrase
	clear(in[perSide-1+len(pcm) : (rows-1)*phrase+e.between.k])
	e.product(view{e.odd, phrase}, view{in, phrase}, rows, e.between)
	for i := range pcm {
		e.wide[2*i] = clip(in[perSide-1+i])
		e.wide[2*i+1] = clip(e.odd[i])
	}
}

func clip(x float32) float32 { return min(max(x, -1), 1) }
