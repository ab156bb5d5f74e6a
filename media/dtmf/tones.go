package dtmf

import (
	"math"
	"math/cmplx"

	"github.com/ringmaster/ringmaster/media/dsp"
)

const (
	// toneBlock is the step of the tone detector, 5 ms; a window is toneBlocks of them, 25 ms.
	toneBlock  = 40
	toneBlocks = 5
	// toneSeen is how many windows in a row must show a digit: a tone of 40 ms gives five of them, one of 23 ms three.
	toneSeen = 4
	// toneGone is how many windows in a row must not show it: an interruption of 10 ms spoils five, a pause of 40 ms ten.
	toneGone = 7
	// toneEdge is what the windows that show a tone leave of its length, in samples.
	toneEdge = 96
)

// Limits of the tone detector, after ITU-T Q.24. Powers are relative to a full-scale sine's, 3.17 dBm0.
const (
	// toneLevel is −36 dBm0 for each of the two tones.
	toneLevel = 1.21e-4
	// tonePure is the part of a window's power that the two tones must have, at the edges of a tone too; toneClean is what
	// two of the windows must show, which speech does not.
	tonePure, toneClean = 0.72, 0.88
	// toneLead is by how much a tone must lead over the others of its group: 6 dB.
	toneLead = 4.0
	// toneTwist and toneReverse are how much stronger the high and the low tone may be: 6.5 and 9.5 dB.
	toneTwist, toneReverse = 4.5, 8.9
	// toneDrift is how far a tone may be off, as a part of its frequency and in Hz: 1.5% + 2 Hz must be taken, 3.5% not.
	toneDrift, toneDriftHz = 0.022, 3.5
)

// toneFreqs are the four low and the four high frequencies of Q.23.
func toneFreqs() [8]float64 { return [8]float64{697, 770, 852, 941, 1209, 1336, 1477, 1633} }

// toneKeys are the digits by low and high frequency.
const toneKeys = "123A456B789C*0#D"

// ToneDetector finds digits that are sent as tones in 8 kHz audio. Goertzel's filters run over blocks of 5 ms; the phases
// of five blocks together give the power, and by their advance the frequency, which speech doesn't hold for 40 ms.
type ToneDetector struct {
	coeff  [8]float64    // 2 cos ω
	back   [8]complex128 // e^(−jω), which turns a filter's state into a spectrum's value
	turn   [8]complex128 // the phase's advance over a block
	s1, s2 [8]float64
	energy float64
	fill   int

	blocks [toneBlocks][8]complex128
	powers [toneBlocks]float64
	next   int // the oldest block, which is overwritten next

	candidate byte
	seen      int
	clean     int  // windows of the candidate that were clean
	digit     byte // the digit that is being pressed, 0 for none
	gone      int
	first     int // windows that had shown it before it was sure
	windows   int // since then
	last      int // the last one that showed it
}

// NewToneDetector makes a detector for audio of 8 kHz.
func NewToneDetector() *ToneDetector {
	d := &ToneDetector{}
	for i, hz := range toneFreqs() {
		w := 2 * math.Pi * hz / dsp.SampleRate
		d.coeff[i] = 2 * math.Cos(w)
		d.back[i] = cmplx.Exp(complex(0, -w))
		d.turn[i] = cmplx.Exp(complex(0, -w*toneBlock))
	}
	return d
}

// Feed takes audio and returns the digit that ended in it, if one did. It doesn't allocate.
func (d *ToneDetector) Feed(pcm []int16) (out Digit, ok bool) {
	for len(pcm) > 0 {
		n := min(toneBlock-d.fill, len(pcm))
		d.filter(pcm[:n])
		pcm = pcm[n:]
		if d.fill += n; d.fill < toneBlock {
			break
		}
		d.fill = 0
		d.endBlock()
		key, clean := d.window()
		if got, ended := d.judge(key, clean); ended {
			out, ok = got, true
		}
	}
	return out, ok
}

func (d *ToneDetector) filter(pcm []int16) {
	for _, s := range pcm {
		x := float64(s) * (1.0 / 32768)
		d.energy += x * x
		for i := range d.s1 {
			s0 := x + d.coeff[i]*d.s1[i] - d.s2[i]
			d.s2[i], d.s1[i] = d.s1[i], s0
		}
	}
}

// endBlock keeps the block's spectrum, its phases counted from the block's beginning.
func (d *ToneDetector) endBlock() {
	for i := range d.s1 {
		y := complex(d.s1[i], 0) - d.back[i]*complex(d.s2[i], 0)
		d.blocks[d.next][i] = y * d.turn[i] / d.back[i]
	}
	d.powers[d.next] = d.energy
	d.next = (d.next + 1) % toneBlocks
	d.s1, d.s2, d.energy = [8]float64{}, [8]float64{}, 0
}

// window says which digit the newest 25 ms show, 0 for none, and whether there is next to nothing beside it.
func (d *ToneDetector) window() (key byte, clean bool) {
	const n = toneBlock * toneBlocks
	energy := 0.0
	for _, e := range d.powers {
		energy += e
	}
	if energy < 2*toneLevel*n/2 {
		return 0, false
	}
	low, okLow := d.strongest(0)
	high, okHigh := d.strongest(4)
	if !okLow || !okHigh {
		return 0, false
	}
	pl, fl := d.tone(low)
	ph, fh := d.tone(high)
	// A sine of amplitude a has |X| = an/2 and the energy a²n/2.
	level := toneLevel * n * n / 4
	pure := (pl + ph) * 2 / n / energy
	switch freqs := toneFreqs(); {
	case pl < level || ph < level:
	case ph > pl*toneTwist || pl > ph*toneReverse:
	case pure < tonePure:
	case math.Abs(fl) > freqs[low]*toneDrift+toneDriftHz || math.Abs(fh) > freqs[high]*toneDrift+toneDriftHz:
	default:
		return toneKeys[low*4+high-4], pure >= toneClean
	}
	return 0, false
}

// strongest finds the leading tone of a group of four, and whether it leads far enough.
func (d *ToneDetector) strongest(from int) (int, bool) {
	var power [4]float64
	best := 0
	for i := range power {
		rot := complex(1, 0)
		sum := complex(0, 0)
		for k := range toneBlocks {
			sum += d.blocks[(d.next+k)%toneBlocks][from+i] * rot
			rot *= d.turn[from+i]
		}
		power[i] = real(sum)*real(sum) + imag(sum)*imag(sum)
		if power[i] > power[best] {
			best = i
		}
	}
	for i := range power {
		if i != best && power[i]*toneLead > power[best] {
			return 0, false
		}
	}
	return from + best, true
}

// tone measures one tone: how far it is off in Hz, by the phase's advance from block to block, and its power at the
// frequency that it really has.
func (d *ToneDetector) tone(i int) (power, off float64) {
	advance := complex(0, 0)
	for k := 1; k < toneBlocks; k++ {
		a, b := d.blocks[(d.next+k-1)%toneBlocks][i], d.blocks[(d.next+k)%toneBlocks][i]
		advance += b * d.turn[i] * cmplx.Conj(a)
	}
	phase := cmplx.Phase(advance)
	rot, sum := complex(1, 0), complex(0, 0)
	step := d.turn[i] * cmplx.Exp(complex(0, -phase))
	for k := range toneBlocks {
		sum += d.blocks[(d.next+k)%toneBlocks][i] * rot
		rot *= step
	}
	return real(sum)*real(sum) + imag(sum)*imag(sum), phase / (2 * math.Pi) * dsp.SampleRate / toneBlock
}

// judge follows the windows and reports a digit at its end.
func (d *ToneDetector) judge(key byte, clean bool) (Digit, bool) {
	if key == 0 || key != d.candidate {
		d.candidate, d.seen, d.clean = key, 0, 0
	}
	d.seen++
	if clean {
		d.clean++
	}
	sure := key != 0 && d.seen >= toneSeen && d.clean >= 2
	var out Digit
	ended := false
	if d.digit != 0 {
		d.windows++
		if key == d.digit {
			d.gone, d.last = 0, d.windows
		} else {
			d.gone++
		}
		if d.gone >= toneGone || key != d.digit && sure {
			out = Digit{Digit: d.digit, Samples: (d.first+d.last)*toneBlock + toneEdge}
			d.digit, ended = 0, true
		}
	}
	if d.digit == 0 && sure {
		d.digit, d.first, d.gone, d.windows, d.last = key, d.seen-1, 0, 0, 0
	}
	return out, ended
}
