package record

import (
	"github.com/ringmaster/ringmaster/media/dsp"
)

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

// SlewTable holds the interpolation filter for each part of a sample.
type SlewTable [slewPhases][slewTaps]float32

// NewSlewTable computes the filter (a Kaiser window of β 7.5).
func NewSlewTable() *SlewTable {
	t := new(SlewTable)
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

// Track lays the caller's stream on the recording's timeline without a seam, although the caller's clock differs
// from ours: where the stream has run off its place by more than 5 ms it is stretched or shortened, by interpolation,
// by a thousandth, until it is back.
type Track struct {
	table *SlewTable
	begun bool
	Buf   []int16 // what was before the next output sample, and what is not out yet
	At    int     // the next output sample's place in buf
	phase int     // its part beyond that, in 1/slewRate of a sample
	dir   int     // 1 stretches, −1 shortens
	Pos   int64   // its place on the timeline
	fine  []float32
	out   []int16
}

// NewTrack is a track by the interpolation filter of all.
func NewTrack(table *SlewTable) Track { return Track{table: table} }

// End is the place behind all that was put.
func (c *Track) End() int64 { return c.Pos + int64(len(c.Buf)-c.At) }

// Put takes the stream's next samples, whose first one belongs to the position want.
func (c *Track) Put(r *Recorder, want int64, pcm []int16) {
	err := want - c.End()
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
	c.Buf = append(c.Buf, pcm...)
	if c.dir == 0 && c.phase == 0 {
		c.copyOut(r)
	} else {
		c.slew(r)
	}
	keep := c.At - (slewTaps - slewLead - 1)
	c.Buf = c.Buf[:copy(c.Buf, c.Buf[keep:])]
	c.At -= keep
}

func (c *Track) begin(pos int64) {
	c.begun, c.phase, c.dir, c.Pos = true, 0, 0, pos
	c.At = slewTaps - slewLead - 1
	c.Buf = append(c.Buf[:0], make([]int16, c.At)...)
}

// copyOut passes samples on as they are.
func (c *Track) copyOut(r *Recorder) {
	if end := len(c.Buf) - slewLead; end > c.At {
		r.Put(Left, c.Pos, c.Buf[c.At:end])
		c.Pos += int64(end - c.At)
		c.At = end
	}
}

// slew interpolates between samples, at a step beside one.
func (c *Track) slew(r *Recorder) {
	c.out = c.out[:0]
	c.fine = dsp.AppendFloat(c.fine[:0], c.Buf)
	for c.At+slewLead < len(c.Buf) {
		from := c.At - (slewTaps - slewLead - 1)
		taps := &c.table[c.phase*slewPhases/slewRate]
		c.out = append(c.out, dsp.Clip16(dsp.Dot(c.fine[from:from+slewTaps], taps[:])))
		switch c.phase -= c.dir; {
		case c.phase < 0:
			c.phase += slewRate // the next output lies before the next input
		case c.phase >= slewRate:
			c.phase -= slewRate
			c.At += 2
		default:
			c.At++
		}
	}
	r.Put(Left, c.Pos, c.out)
	c.Pos += int64(len(c.out))
}

// Flush writes what is held back: the stream has ended or goes on elsewhere.
func (c *Track) Flush(r *Recorder) {
	if c.begun && r != nil {
		r.Put(Left, c.Pos, c.Buf[c.At:])
	}
	c.begun = false
}
