package amdcorpus

import (
	"math"
	"time"

	"github.com/ringmaster/ringmaster/media/amd"
)

// example is one moment of a recording: the model's input and whether a machine made it.
type example struct {
	x       []float64
	machine bool
}

// examples takes the model's input of each recording as it is when the verdict is due, and a little before, since a call may cut
// the time short. Recordings that are decided without the model are left out, silence too.
func examples(recs []Recording) []example {
	var out []example
	def := amd.DefaultConfig()
	for i := range recs {
		r := &recs[i]
		if r.Want == amd.ClassUnknown {
			continue
		}
		d := amd.New(amd.Config{Decide: time.Hour, MaxWait: time.Hour})
		ahead := 500 * time.Millisecond
		for n := frameSamples; n <= len(r.PCM); n += frameSamples {
			d.Feed(r.PCM[n-frameSamples : n])
			if _, decided := d.Next(); decided {
				break
			}
			f := d.Features()
			left := min(def.Decide-seconds(f.Since), def.MaxWait-at(n))
			if f.Bursts == 0 || left > ahead {
				continue
			}
			x := f.Vector()
			out = append(out, example{x: x[:], machine: r.Want == amd.ClassMachine})
			if left <= 0 {
				break
			}
			ahead = max(0, ahead-250*time.Millisecond)
		}
	}
	return out
}

// Fit finds the coefficients of a logistic regression on the recordings, which must be the tuning half.
func Fit(recs []Recording) []float64 { return logistic(examples(recs)) }

const (
	ridge      = 0.003 // keeps coefficients small that the examples say little about
	iterations = 3000
	momentum   = 0.9
	rateOfStep = 0.3
)

// logistic is a regression by gradient descent on standardized inputs. The first input is the constant.
func logistic(es []example) []float64 {
	n, size := len(es[0].x), float64(len(es))
	mean, dev := make([]float64, n), make([]float64, n)
	for _, e := range es {
		for j := 1; j < n; j++ {
			mean[j] += e.x[j] / size
		}
	}
	for _, e := range es {
		for j := range n {
			dev[j] += (e.x[j] - mean[j]) * (e.x[j] - mean[j]) / size
		}
	}
	for j := range dev {
		if dev[j] = math.Sqrt(dev[j]); dev[j] == 0 {
			dev[j] = 1
		}
	}
	w, v, slope := make([]float64, n), make([]float64, n), make([]float64, n)
	for range iterations {
		clear(slope)
		for _, e := range es {
			z := 0.0
			for j := range w {
				z += w[j] * (e.x[j] - mean[j]) / dev[j]
			}
			miss := 1 / (1 + math.Exp(-z))
			if e.machine {
				miss--
			}
			for j := range w {
				slope[j] += miss * (e.x[j] - mean[j]) / dev[j] / size
			}
		}
		for j := range w {
			if j > 0 {
				slope[j] += ridge * w[j]
			}
			v[j] = momentum*v[j] - rateOfStep*slope[j]
			w[j] += v[j]
		}
	}
	for j := 1; j < n; j++ {
		w[j] /= dev[j]
		w[0] -= w[j] * mean[j]
	}
	return w
}
