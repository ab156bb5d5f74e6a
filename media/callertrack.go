package media

import "github.com/ringmaster/ringmaster/media/dsp"

const (
	// slewTaps is the length of the interpolation filter, slewLead how many samples it looks ahead, slewPhases how finely it
	// divides a sample.
	slewTaps, slewLead, slewPhases = 32, 16, 512
	// slewRate is how fast a track is led back to its place: one sample in so many, a pitch change of 1.7 cents.
	slewRate = 1024
	// trackSlack is the error that is left alone, trackGood the one at which leading back ends, trackJump the one that is
	// mended at once, in samples: 5, 1 and 20 ms.
	trackSlack, trackGood, trackJump = 40, 8, 160
)

// slewTable holds the interpolation filter for each part of a sample.
type slewTable [slewPhases][slewTaps]float32

func newSlewTable() *slewTable {
	t := new(slewTable)
	const half, beta = slewTaps / 2, 7.5
	for p := range t {
		sum := 0.0
		var taps [slewTaps]float64
		for i := range taps {
			x := float64(i-(slewTaps-slewLead-1)) - float64(p)/slewPhases
			taps[i] = dsp.KaiserSinc(x, half, beta)
			sum += taps[i]
		}
		for i := range taps {
			t[p][i] = float32(taps[i] / sum)
		}
	}
	return t
}

// callerTrack lays the caller's stream on the recording's timeline without a seam, although the caller's clock differs
// from ours: where the stream has run off its place by more than 5 ms it is stretched or shortened, by interpolation,
// by a thousandth, until it is back.
type callerTrack struct {
	table *slewTable
	begun bool
	buf   []int16 // what was before the next output sample, and what is not out yet
	at    int     // the next output sample's place in buf
	phase int     // its part beyond that, in 1/slewRate of a sample
	dir   int     // 1 stretches, −1 shortens
	pos   int64   // its place on the timeline
	fine  []float32
	out   []int16
}

// put takes the stream's next samples, whose first one belongs to the position want.
func (c *callerTrack) put(r *recorder, want int64, pcm []int16) {
	behind := int64(len(c.buf) - c.at) // samples that are not out yet
	err := want - (c.pos + behind)
	if !c.begun || err > trackJump || err < -trackJump {
		c.Flush(r)
		c.begin(want)
		err = 0
	}
	switch {
	case err > trackSlack:
		c.dir = 1
	case err < -trackSlack:
		c.dir = -1
	case c.phase == 0 && (err*int64(c.dir) < trackGood):
		c.dir = 0
	}
	c.buf = append(c.buf, pcm...)
	if c.dir == 0 && c.phase == 0 {
		c.copyOut(r)
	} else {
		c.slew(r)
	}
	keep := c.at - (slewTaps - slewLead - 1)
	c.buf = c.buf[:copy(c.buf, c.buf[keep:])]
	c.at -= keep
}

func (c *callerTrack) begin(pos int64) {
	c.begun, c.phase, c.dir, c.pos = true, 0, 0, pos
	c.at = slewTaps - slewLead - 1
	c.buf = append(c.buf[:0], make([]int16, c.at)...)
}

// copyOut passes samples on as they are.
func (c *callerTrack) copyOut(r *recorder) {
	if end := len(c.buf) - slewLead; end > c.at {
		r.put(leftChannel, c.pos, c.buf[c.at:end])
		c.pos += int64(end - c.at)
		c.at = end
	}
}

// slew interpolates between samples, at a step beside one.
func (c *callerTrack) slew(r *recorder) {
	c.out = c.out[:0]
	c.fine = dsp.AppendFloat(c.fine[:0], c.buf)
	for c.at+slewLead < len(c.buf) {
		from := c.at - (slewTaps - slewLead - 1)
		taps := &c.table[c.phase*slewPhases/slewRate]
		c.out = append(c.out, dsp.Clip16(dsp.Dot(c.fine[from:from+slewTaps], taps[:])))
		switch c.phase -= c.dir; {
		case c.phase < 0:
			c.phase += slewRate // the next output lies before the next input
		case c.phase >= slewRate:
			c.phase -= slewRate
			c.at += 2
		default:
			c.at++
		}
	}
	r.put(leftChannel, c.pos, c.out)
	c.pos += int64(len(c.out))
}

// flush writes what is held back: the stream has ended or goes on elsewhere.
func (c *callerTrack) Flush(r *recorder) {
	if c.begun && r != nil {
		r.put(leftChannel, c.pos, c.buf[c.at:])
	}
	c.begun = false
}
