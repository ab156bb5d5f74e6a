package amdcorpus

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync"

	"github.com/ringmaster/ringmaster/media/amd/words"
)

// How the words' net is trained.
const (
	wordsRounds  = 4    // how often each recording is seen
	wordsBatch   = 64   // recordings of a step
	wordsRate    = 3e-3 // the highest rate of learning
	wordsDecay   = 0.01 // how fast weights shrink
	wordsDeaf    = 0.2  // the share of inputs that are left out, so that no few of them decide
	wordsIdle    = 0.3  // the share of units that are
	wordsGap     = 6    // the longest gap in a recording, in means of two frames
	wordsCertain = 0.96 // what is aimed at is this far from the contrary
	wordsWarm    = 0.3  // the share of steps in which the rate rises
	wordsScale   = 3.0  // how many standard deviations of an input make 1
)

// utterance is what was listened to in a recording, as means of two frames each.
type utterance struct {
	pairs   []float32
	machine bool
	weight  float64
}

// trainee is a net in training.
type trainee struct {
	net, slope   words.Net // slope is the loss' slope by each of the net's numbers
	m, v         []float32 // running means of the slope and its square
	rng          *rand.Rand
	shift, scale [words.Width]float32
}

// fitWords trains a net. All sources weigh the same.
func fitWords(us []utterance, seed uint64) *words.Net {
	t := &trainee{rng: rand.New(rand.NewPCG(seed, 7))}
	t.standardize(us)
	t.begin()
	steps := wordsRounds * (len(us) + wordsBatch - 1) / wordsBatch
	step := 0
	for range wordsRounds {
		order := t.rng.Perm(len(us))
		for len(order) > 0 {
			n := min(wordsBatch, len(order))
			t.step(us, order[:n], step, steps)
			order = order[n:]
			step++
		}
	}
	return t.finished()
}

// standardize finds what makes all inputs alike in size.
func (t *trainee) standardize(us []utterance) {
	var sum, squares [words.Width]float64
	n := 0.0
	for i := range us {
		for at, v := range us[i].pairs {
			sum[at%words.Width] += float64(v)
			squares[at%words.Width] += float64(v) * float64(v)
		}
		n += float64(len(us[i].pairs)) / words.Width
	}
	for k := range t.shift {
		mean := sum[k] / n
		t.shift[k] = float32(mean)
		t.scale[k] = float32(1 / (wordsScale * (math.Sqrt(max(0, squares[k]/n-mean*mean)) + 1e-3)))
	}
}

// begin gives the net small numbers.
func (t *trainee) begin() {
	most := 1 / math.Sqrt(words.Inputs)
	for i := range t.net.Weight {
		for k := range t.net.Weight[i] {
			t.net.Weight[i][k] = float32(most * (2*t.rng.Float64() - 1))
		}
	}
	most = 1 / math.Sqrt(2*words.Units)
	for k := range words.Units {
		t.net.Mean[k], t.net.Max[k] = float32(most*(2*t.rng.Float64()-1)), float32(most*(2*t.rng.Float64()-1))
	}
	n := 0
	t.net.Numbers(func(*float32) { n++ })
	t.m, t.v = make([]float32, n), make([]float32, n)
}

// step learns from a few recordings.
func (t *trainee) step(us []utterance, some []int, step, steps int) {
	t.slope = words.Net{}
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	slopes := make([]*words.Net, workers)
	for w := range workers {
		rng := rand.New(rand.NewPCG(t.rng.Uint64(), 1))
		wg.Go(func() {
			slopes[w] = new(words.Net)
			for i := w; i < len(some); i += workers {
				t.learn(&us[some[i]], rng, slopes[w], float32(len(some)))
			}
		})
	}
	wg.Wait()
	var all []*float32
	t.slope.Numbers(func(v *float32) { all = append(all, v) })
	for _, s := range slopes {
		i := 0
		s.Numbers(func(v *float32) { *all[i] += *v; i++ })
	}
	t.move(step, steps)
}

// move follows the slope downwards (AdamW), at a rate that rises first and then falls.
func (t *trainee) move(step, steps int) {
	const beta1, beta2, tiny = 0.9, 0.999, 1e-8
	at := float64(step) / float64(steps)
	rate := wordsRate
	if at < wordsWarm {
		rate *= 0.04 + 0.96*(1-math.Cos(math.Pi*at/wordsWarm))/2
	} else {
		rate *= (1 + math.Cos(math.Pi*(at-wordsWarm)/(1-wordsWarm))) / 2
	}
	c1, c2 := 1-math.Pow(beta1, float64(step+1)), 1-math.Pow(beta2, float64(step+1))
	var slopes []float32
	t.slope.Numbers(func(v *float32) { slopes = append(slopes, *v) })
	i := 0
	t.net.Numbers(func(v *float32) {
		g := slopes[i]
		t.m[i] = beta1*t.m[i] + (1-beta1)*g
		t.v[i] = beta2*t.v[i] + (1-beta2)*g*g
		*v -= float32(rate) * (float32(float64(t.m[i])/c1)/(float32(math.Sqrt(float64(t.v[i])/c2))+tiny) + wordsDecay**v)
		i++
	})
}

// learn adds a recording's slope.
func (t *trainee) learn(u *utterance, rng *rand.Rand, slope *words.Net, batch float32) {
	x := t.inputs(u, rng)
	windows := (len(x)/words.Width-words.Window)/words.Step + 1
	if len(x) < words.Inputs {
		return
	}
	hidden := make([][words.Units]float32, windows)
	var mean, most [words.Units]float32
	var best [words.Units]int
	n := &t.net
	for w := range windows {
		h := &hidden[w]
		*h = n.Bias
		for i, v := range x[w*words.Step*words.Width:][:words.Inputs] {
			if v != 0 {
				for k, weight := range &n.Weight[i] {
					h[k] += v * weight
				}
			}
		}
		for k, v := range h {
			if v <= 0 || rng.Float64() < wordsIdle {
				h[k] = 0
				continue
			}
			h[k] = v / (1 - wordsIdle)
			mean[k] += h[k] / float32(windows)
			if h[k] > most[k] {
				most[k], best[k] = h[k], w
			}
		}
	}
	z := float64(n.Shift)
	for k := range words.Units {
		z += float64(n.Mean[k]*mean[k] + n.Max[k]*most[k])
	}
	aim := 1 - wordsCertain
	if u.machine {
		aim = wordsCertain
	}
	g := float32((sigmoid(z)-aim)*u.weight) / batch
	slope.Shift += g
	for k := range words.Units {
		slope.Mean[k] += g * mean[k]
		slope.Max[k] += g * most[k]
	}
	for w := range windows {
		var back [words.Units]float32
		for k, v := range &hidden[w] {
			if v == 0 {
				continue
			}
			b := n.Mean[k] / float32(windows)
			if best[k] == w {
				b += n.Max[k]
			}
			back[k] = g * b / (1 - wordsIdle)
			slope.Bias[k] += back[k]
		}
		for i, v := range x[w*words.Step*words.Width:][:words.Inputs] {
			if v != 0 {
				s := &slope.Weight[i]
				for k, b := range &back {
					s[k] += v * b
				}
			}
		}
	}
}

// inputs are an utterance's, alike in size, some of them left out and a gap made.
func (t *trainee) inputs(u *utterance, rng *rand.Rand) []float32 {
	x := make([]float32, len(u.pairs))
	gap, gapEnd := 0, 0
	if n := len(x) / words.Width; n > 0 {
		gap = rng.IntN(n)
		gapEnd = gap + rng.IntN(wordsGap+1)
	}
	for i, v := range u.pairs {
		at, k := i/words.Width, i%words.Width
		if at >= gap && at < gapEnd || rng.Float32() < wordsDeaf {
			continue
		}
		x[i] = (v - t.shift[k]) * t.scale[k] / (1 - wordsDeaf)
	}
	return x
}

// finished is the net for inputs as they are.
func (t *trainee) finished() *words.Net {
	n := t.net
	for i := range n.Weight {
		shift, scale := t.shift[i%words.Width], t.scale[i%words.Width]
		for k := range n.Weight[i] {
			n.Weight[i][k] *= scale
			n.Bias[k] -= n.Weight[i][k] * shift
		}
	}
	return &n
}
