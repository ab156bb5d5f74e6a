package dsp

import "math"

// The concealer's lengths, in samples at 8 kHz; other rates are multiples of it.
const (
	pitchMin, pitchMax = 20, 160 // 400 Hz to 50 Hz
	pitchWindow        = 160     // what is compared to find the pitch
	pitchSpan          = 3       // the most periods that are repeated
	blendMax           = 40      // the longest crossfade between two periods
	leadIn             = 20      // over which a step at the beginning is levelled
	fadeFrom, fadeTo   = 80, 480 // full until 10 ms, silence from 60 ms on
	mergeMax           = 80      // the longest crossfade back to real audio
	concealHistory     = pitchSpan*pitchMax + blendMax
)

// voicedPercent is the correlation from which on audio counts as periodic, in percent.
const voicedPercent = 45

// Concealer fills gaps by repeating the last pitch period, then the last two, then three, so that no robot is heard, and
// fades out within 60 ms. Where periods join, and where real audio comes back, it crossfades, so that nothing clicks.
type Concealer struct {
	scale  int // rate / 8,000
	hist   []int16
	merged []int16 // scratch
	lost   int     // samples filled in since the last real one
	period int
	turns  int // periods repeated in this pass
	pos    int // what is read next, in hist
	step   int // how far the repetition began beside the last sample
}

// NewConcealer returns a concealer for 8,000 Hz or a multiple.
func NewConcealer(rate int) *Concealer {
	k := max(rate/8000, 1)
	return &Concealer{scale: k, hist: make([]int16, concealHistory*k), merged: make([]int16, mergeMax*k)}
}

// Reset forgets what was heard.
func (c *Concealer) Reset() {
	clear(c.hist)
	c.lost = 0
}

// Concealing reports whether the last samples were filled in: the next that are received will be blended.
func (c *Concealer) Concealing() bool { return c.lost > 0 }

// Receive takes real audio; after a gap its beginning is blended, in place, with the filling.
func (c *Concealer) Receive(pcm []int16) {
	if c.lost > 0 {
		n := min(c.period/4+c.lost/5, mergeMax*c.scale, len(pcm))
		if c.lost >= fadeTo*c.scale { // out of silence: no more than what keeps it from clicking
			n = min(leadIn*c.scale, len(pcm))
		}
		m := c.merged[:n]
		c.write(m)
		for i, s := range m {
			pcm[i] = int16((int(s)*(n-i) + int(pcm[i])*i) / n)
		}
		c.lost = 0
	}
	c.remember(pcm)
}

func (c *Concealer) remember(pcm []int16) {
	if len(pcm) >= len(c.hist) {
		copy(c.hist, pcm[len(pcm)-len(c.hist):])
		return
	}
	n := copy(c.hist, c.hist[len(pcm):])
	copy(c.hist[n:], pcm)
}

// Conceal writes len(dst) samples of filling.
func (c *Concealer) Conceal(dst []int16) {
	if c.lost == 0 {
		c.begin()
	}
	c.write(dst)
}

// begin finds what is repeated.
func (c *Concealer) begin() {
	c.period, c.turns = c.pitch(), 1
	end := len(c.hist)
	c.pos = end - c.period
	c.step = int(c.hist[end-1]) - int(c.hist[end-1-c.period])
}

// write goes on with the repetition.
func (c *Concealer) write(dst []int16) {
	k, end := c.scale, len(c.hist)
	if c.lost >= fadeTo*k {
		clear(dst)
		c.lost += len(dst)
		return
	}
	q := min(c.period/4, blendMax*k)
	next := min(c.turns+1, pitchSpan) * c.period
	for i := range dst {
		s := int(c.hist[c.pos])
		if left := end - c.pos; left <= q { // the seam to the pass that follows
			s = (s*(left-1) + int(c.hist[c.pos-next])*(q-left+1)) / q
		}
		if c.lost < leadIn*k {
			s += c.step * (leadIn*k - c.lost) / (leadIn*k + 1)
		}
		if c.lost > fadeFrom*k {
			s = s * max(fadeTo*k-c.lost, 0) / ((fadeTo - fadeFrom) * k)
		}
		dst[i] = int16(min(max(s, -32768), 32767))
		c.lost++
		if c.pos++; c.pos == end {
			c.turns = min(c.turns+1, pitchSpan)
			c.pos = end - c.turns*c.period
			next = min(c.turns+1, pitchSpan) * c.period
		}
	}
}

// pitch is the lag at which the last 20 ms are most like what was before them: coarsely at 8 kHz, then to the sample.
// Audio without a period, noise and hiss, is repeated in the longest pieces, which gives it no tone.
func (c *Concealer) pitch() int {
	k := c.scale
	best, lag := c.likest(pitchMin*k, pitchMax*k, k)
	if best*100 < voicedPercent {
		return pitchMax * k
	}
	if k > 1 {
		_, lag = c.likest(max(lag-k+1, pitchMin*k), min(lag+k-1, pitchMax*k), 1)
	}
	return lag
}

// likest tries lags at a distance of step and returns the best normalized correlation of the newest audio with what lies
// before it, and its lag. Only every step-th sample counts.
func (c *Concealer) likest(from, to, step int) (best float64, lag int) {
	n := pitchWindow * c.scale
	x := c.hist[len(c.hist)-n:]
	var xx, yy float64
	for i := 0; i < n; i += step {
		xx += float64(x[i]) * float64(x[i])
	}
	lag = from
	for l := from; l <= to; l += step {
		start := len(c.hist) - n - l
		y := c.hist[start:][:n]
		if l == from {
			for i := 0; i < n; i += step {
				yy += float64(y[i]) * float64(y[i])
			}
		} else { // the window has moved by one of the samples that count
			in, out := float64(y[0]), float64(c.hist[start+n])
			yy += in*in - out*out
		}
		var xy int64
		if step == 1 {
			for i, s := range x {
				xy += int64(s) * int64(y[i])
			}
		} else {
			for i := 0; i < n; i += step {
				xy += int64(x[i]) * int64(y[i])
			}
		}
		if xy <= 0 || yy <= 0 {
			continue
		}
		if r := float64(xy) / math.Sqrt(xx*yy); r > best {
			best, lag = r, l
		}
	}
	return best, lag
}
