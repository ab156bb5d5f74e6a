// Package words tells a person from a machine by what is said: it listens to the first seconds of a voice.
//
// A [Listener] has an encoder of speech (package encoder) and a small net on top of it, which `make amd-model` trains on the training sources of
// integration/amdcorpus. The encoder was made for English; what the net learns of other languages is less.
package words

import (
	_ "embed"
	"encoding/binary"
	"math"
	"sync"

	"github.com/ringmaster/ringmaster/media/amd/encoder"
)

// The net takes the means of two frames each. Its units look at Window of them at a time, Step apart, and each gives its mean and its maximum over time.
const (
	Width  = encoder.Width
	Window = 5
	Step   = 2
	Units  = 64
)

// Inputs is how many values a unit looks at.
const Inputs = Window * Width

// model.bin is a Net's numbers in their order, float32 in little endian.
//
//go:embed model.bin
var model string

// known is the net that model.bin holds.
var known = sync.OnceValue(func() *Net { //nolint:gochecknoglobals // made once, and only read
	n := new(Net)
	n.read(model)
	return n
})

// Net is the net. Weight has the weights of each input in turn, a unit each.
type Net struct {
	Weight [Inputs][Units]float32
	Bias   [Units]float32
	Mean   [Units]float32 // how much a unit's mean counts
	Max    [Units]float32 // how much its maximum counts
	Shift  float32
}

// Numbers yields all numbers of the net.
func (n *Net) Numbers(yield func(*float32)) {
	for i := range n.Weight {
		for k := range n.Weight[i] {
			yield(&n.Weight[i][k])
		}
	}
	for _, list := range [][]float32{n.Bias[:], n.Mean[:], n.Max[:]} {
		for k := range list {
			yield(&list[k])
		}
	}
	yield(&n.Shift)
}

// Append adds the net as model.bin has it.
func (n *Net) Append(b []byte) []byte {
	n.Numbers(func(v *float32) { b = binary.LittleEndian.AppendUint32(b, math.Float32bits(*v)) })
	return b
}

func (n *Net) read(s string) {
	at := 0
	n.Numbers(func(v *float32) {
		*v = math.Float32frombits(uint32(s[at]) | uint32(s[at+1])<<8 | uint32(s[at+2])<<16 | uint32(s[at+3])<<24)
		at += 4
	})
}

// Halve makes means of two frames each, in place.
func Halve(frames []float32) []float32 {
	n := len(frames) / (2 * Width)
	for i := range n {
		for k := range Width {
			frames[i*Width+k] = (frames[2*i*Width+k] + frames[(2*i+1)*Width+k]) / 2
		}
	}
	return frames[:n*Width]
}

// Odds is the logarithm of the odds of a machine, by the means of two frames each. It is 0 for less than a Window of them.
func (n *Net) Odds(pairs []float32) float64 {
	var mean, most [Units]float32
	count := float32(0)
	for ; len(pairs) >= Inputs; pairs = pairs[Step*Width:] {
		sum := n.Bias
		for i, v := range pairs[:Inputs] {
			for k, w := range &n.Weight[i] {
				sum[k] += v * w
			}
		}
		for k, v := range sum {
			v = max(0, v)
			mean[k] += v
			most[k] = max(most[k], v)
		}
		count++
	}
	if count == 0 {
		return 0
	}
	z := n.Shift
	for k := range Units {
		z += n.Mean[k]*mean[k]/count + n.Max[k]*most[k]
	}
	return float64(z)
}

// Listener listens to one voice after the other. It isn't safe for concurrent use.
type Listener struct {
	enc *encoder.Encoder
	net *Net
}

// New makes a listener.
func New() *Listener { return &Listener{encoder.New(), known()} }

// Odds is the logarithm of the odds of a machine, by what is said in audio that a Detector wanted to be listened to.
func (l *Listener) Odds(pcm []int16) float64 { return l.net.Odds(l.Pairs(pcm)) }

// Pairs are the means of two frames each of such audio; they are valid until the next call.
func (l *Listener) Pairs(pcm []int16) []float32 { return Halve(l.enc.Encode(pcm)) }
