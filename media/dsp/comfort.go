package dsp

import "math"

// NoiseOrder is the most reflection coefficients that are used of a comfort-noise packet.
const NoiseOrder = 12

// ComfortNoise makes the noise that a comfort-noise packet describes (RFC 3389): a level below overload and, optionally,
// the spectrum's reflection coefficients.
type ComfortNoise struct {
	on    bool
	gain  float32 // of uniform noise, so that what comes out of the filter has the level
	order int
	refl  [NoiseOrder]float32
	state [NoiseOrder + 1]float32
	seed  uint32
}

// Describe takes a packet's payload.
func (c *ComfortNoise) Describe(payload []byte) {
	if len(payload) == 0 {
		c.on = false
		return
	}
	// The level is the noise's, relative to a square wave at overload; a lattice filter raises the power of its input by
	// the product of 1/(1-k²).
	rms := 32767 * math.Pow(10, -float64(payload[0]&0x7f)/20)
	c.order = min(len(payload)-1, NoiseOrder)
	gain := rms * math.Sqrt(3)
	for i, b := range payload[1 : 1+c.order] {
		k := min(max((float64(b)-127)/128, -0.98), 0.98)
		c.refl[i] = float32(k)
		gain *= math.Sqrt(1 - k*k)
	}
	c.on, c.gain = true, float32(gain)
}

// Stop ends the noise, as real audio does.
func (c *ComfortNoise) Stop() { c.on = false }

// Add lays the noise over samples.
func (c *ComfortNoise) Add(dst []int16) {
	if !c.on {
		return
	}
	x := c.seed | 1
	for i := range dst {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		f := c.gain * (float32(int32(x)) / (1 << 31))
		// The all-pole lattice, from the last stage to the first.
		for m := c.order - 1; m >= 0; m-- {
			f -= c.refl[m] * c.state[m]
			c.state[m+1] = c.state[m] + c.refl[m]*f
		}
		c.state[0] = f
		dst[i] = Clip16(float32(dst[i]) + f)
	}
	c.seed = x
}
