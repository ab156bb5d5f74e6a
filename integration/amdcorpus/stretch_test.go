package amdcorpus

import (
	"encoding/binary"
	"math"
)

// readWAV reads 16-bit samples of one channel; false for anything else.
func readWAV(b []byte) (pcm []float64, rate int, ok bool) {
	if len(b) < 12 || string(b[:4]) != "RIFF" || string(b[8:12]) != "WAVE" {
		return nil, 0, false
	}
	for at := 12; at+8 <= len(b); {
		size := int(binary.LittleEndian.Uint32(b[at+4:]))
		body := b[at+8:]
		switch string(b[at : at+4]) {
		case "fmt ":
			if len(body) < 16 || binary.LittleEndian.Uint16(body) != 1 || binary.LittleEndian.Uint16(body[2:]) != 1 || binary.LittleEndian.Uint16(body[14:]) != 16 {
				return nil, 0, false
			}
			rate = int(binary.LittleEndian.Uint32(body[4:]))
		case "data": // what was piped has no true size
			return samples16(body[:min(size, len(body))]), rate, rate > 0
		}
		at += 8 + size + size%2
	}
	return nil, 0, false
}

func bytes16(pcm []float64) []byte {
	raw := make([]byte, 0, 2*len(pcm))
	for _, v := range pcm {
		raw = binary.LittleEndian.AppendUint16(raw, uint16(int16(math.Round(32767*max(-1, min(1, v))))))
	}
	return raw
}

// resample makes one sample of every so many, and keeps out what the new rate can't hold.
func resample(pcm []float64, every float64) []float64 {
	if every == 1 {
		return pcm
	}
	const lobes, steps = 10, 128
	cut := min(1, 1/every)
	half := lobes / cut
	table := make([]float64, int(half*steps)+2)
	for i := range table {
		t := float64(i) / steps
		w := 0.5 + 0.5*math.Cos(math.Pi*min(1, t/half))
		if x := math.Pi * t * cut; x > 0 {
			w *= math.Sin(x) / x
		}
		table[i] = cut * w
	}
	out := make([]float64, int(float64(len(pcm))/every))
	for i := range out {
		at := float64(i) * every
		from, to := max(0, int(math.Ceil(at-half))), min(len(pcm)-1, int(at+half))
		sum := 0.0
		for k := from; k <= to; k++ {
			sum += pcm[k] * table[int(math.Abs(float64(k)-at)*steps)]
		}
		out[i] = sum
	}
	return out
}

// stretch plays samples of wideRate faster and keeps their pitch: pieces are laid over each other where they are alike.
func stretch(pcm []float64, tempo float64) []float64 {
	const hop, window, search, stride = 240, 480, 160, 4
	if math.Abs(tempo-1) < 0.01 || len(pcm) < 4*window {
		return pcm
	}
	out := make([]float64, int(float64(len(pcm))/tempo)+window)
	last := 0 // where the piece before began
	for n := 0; n*hop+window <= len(out); n++ {
		want := int(float64(n*hop) * tempo)
		at := want
		if n > 0 {
			best := math.Inf(-1)
			for k := max(0, want-search); k <= want+search; k += stride {
				if k+window > len(pcm) || last+hop+window > len(pcm) {
					break
				}
				like := 0.0
				for i := 0; i < window; i += stride {
					like += pcm[k+i] * pcm[last+hop+i]
				}
				if like > best {
					best, at = like, k
				}
			}
		}
		if at+window > len(pcm) {
			break
		}
		for i := range window {
			out[n*hop+i] += pcm[at+i] * (0.5 - 0.5*math.Cos(2*math.Pi*(float64(i)+0.5)/window))
		}
		last = at
	}
	return out[:min(len(out), int(float64(len(pcm))/tempo))]
}

// telephone takes samples of wideRate to the telephone's band.
func telephone(pcm []float64) {
	for range 2 {
		biquad(pcm, 220, true)
	}
	biquad(pcm, 3400, false)
}

// biquad is a second-order Butterworth filter.
func biquad(pcm []float64, hz float64, high bool) {
	w := 2 * math.Pi * hz / wideRate
	cos, alpha := math.Cos(w), math.Sin(w)/math.Sqrt2
	b1 := 1 - cos
	b0 := b1 / 2
	if high {
		b1 = -(1 + cos)
		b0 = -b1 / 2
	}
	a0, a1, a2 := 1+alpha, -2*cos, 1-alpha
	var x1, x2, y1, y2 float64
	for i, x := range pcm {
		y := (b0*x + b1*x1 + b0*x2 - a1*y1 - a2*y2) / a0
		x2, x1, y2, y1 = x1, x, y1, y
		pcm[i] = y
	}
}
