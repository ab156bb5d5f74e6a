package sim

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Shape is a family of distributions.
type Shape string

// The shapes.
const (
	Const     Shape = "const"     // always the mean
	Exp       Shape = "exp"       // exponential: how long it has lasted tells nothing of how long it will last
	Erlang    Shape = "erlang"    // the sum of Param exponentials
	Lognormal Shape = "lognormal" // Param is the coefficient of variation
	Uniform   Shape = "uniform"   // Param is half the width as a share of the mean
)

// Dist is a distribution of durations: Min plus one of the shape. As text: shape:mean[:param][+min], such as erlang:9s:3+3s.
type Dist struct {
	Shape Shape
	Mean  time.Duration // without Min
	Param float64
	Min   time.Duration
}

// ErrDist is the error of a distribution that can't be read.
var ErrDist = errors.New("not a distribution (const:10s, exp:48s, erlang:9s:3+3s, lognormal:60s:0.8, uniform:10s:0.5)")

// UnmarshalText reads a distribution. Errors: ErrDist.
func (d *Dist) UnmarshalText(text []byte) error {
	s, minimum, shifted := strings.Cut(string(text), "+")
	parts := strings.Split(s, ":")
	if len(parts) < 2 || len(parts) > 3 {
		return fmt.Errorf("%q: %w", text, ErrDist)
	}
	out := Dist{Shape: Shape(parts[0])}
	var err error
	if out.Mean, err = time.ParseDuration(parts[1]); err != nil {
		return fmt.Errorf("%q: %w", text, ErrDist)
	}
	if len(parts) == 3 {
		if out.Param, err = strconv.ParseFloat(parts[2], 64); err != nil {
			return fmt.Errorf("%q: %w", text, ErrDist)
		}
	}
	if shifted {
		if out.Min, err = time.ParseDuration(minimum); err != nil {
			return fmt.Errorf("%q: %w", text, ErrDist)
		}
	}
	if !out.valid() {
		return fmt.Errorf("%q: %w", text, ErrDist)
	}
	*d = out
	return nil
}

// MarshalText writes what UnmarshalText reads.
func (d Dist) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

func (d Dist) String() string {
	s := string(d.Shape) + ":" + d.Mean.String()
	if d.Param != 0 {
		s += ":" + strconv.FormatFloat(d.Param, 'g', -1, 64)
	}
	if d.Min != 0 {
		s += "+" + d.Min.String()
	}
	return s
}

func (d Dist) valid() bool {
	if d.Mean < 0 || d.Min < 0 || d.Mean > 24*time.Hour || d.Min > 24*time.Hour {
		return false
	}
	switch d.Shape {
	case Const, Exp:
		return d.Param == 0
	case Erlang:
		return d.Param >= 1 && d.Param <= 100 && d.Param == math.Trunc(d.Param)
	case Lognormal:
		return d.Param > 0 && d.Param <= 10
	case Uniform:
		return d.Param >= 0 && d.Param <= 1
	default:
		return false
	}
}

func (d Dist) draw(r *rand.Rand) time.Duration {
	mean := float64(d.Mean)
	switch d.Shape {
	case Exp:
		mean *= r.ExpFloat64()
	case Erlang:
		sum := 0.0
		for range int(d.Param) {
			sum += r.ExpFloat64()
		}
		mean *= sum / d.Param
	case Lognormal:
		sigma2 := math.Log1p(d.Param * d.Param)
		mean *= math.Exp(math.Sqrt(sigma2)*r.NormFloat64() - sigma2/2)
	case Uniform:
		mean *= 1 + d.Param*(2*r.Float64()-1)
	case Const:
	}
	return d.Min + time.Duration(mean)
}

// Draw gives one duration.
func (d Dist) Draw(r *rand.Rand) time.Duration { return d.draw(r) }
