package amd

import "time"

// Once a person or nobody is believed to be on the line, all that may still come is a beep, which lasts for minLate or
// minOpen frames at least. So one frame in a few is heard, and it stands for those before it. When it holds a tone, they are
// gone through as well, and each that follows, until the tone has been made out.

// sparse is one in how many frames is heard then. A beep has several of them.
const sparse = 4

// spectrumTail is the end of a frame, which the window of the next one begins with.
type spectrumTail [overlap]float32

// sparsely says whether a frame in a few is enough.
func (d *Detector) sparsely() bool { return d.decided && d.class != ClassMachine && d.tones.rest() }

// stepSparsely takes a frame.
func (d *Detector) stepSparsely() {
	if d.keeps == 0 {
		d.tail = d.spectrum.tail()
	}
	if d.keeps < len(d.kept) {
		d.kept[d.keeps] = d.part
		d.keeps++
		d.done = frameTime*time.Duration(d.frame+d.keeps) >= d.cfg.Listen
		return
	}
	d.spectrum.follow(&d.kept[d.keeps-1])
	sound := d.spectrum.hear(&d.part)
	kept := d.keeps
	d.keeps = 0
	if !sound.toneLike() {
		for range kept + 1 {
			d.take(&sound)
		}
		return
	}
	d.spectrum.resume(d.tail)
	for i := range kept {
		d.hear(&d.kept[i])
	}
	d.hear(&d.part)
}

// tail is the end of what was heard last.
func (s *spectrum) tail() spectrumTail { return spectrumTail(s.in[frameSamples:]) }

// resume goes on behind another frame than the one that was heard last.
func (s *spectrum) resume(t spectrumTail) { copy(s.in[frameSamples:], t[:]) }

// follow goes on behind a frame that was not heard.
func (s *spectrum) follow(f *[frameSamples]int16) {
	for i, v := range f[frameSamples-overlap:] {
		s.in[frameSamples+i] = float32(v)
	}
}
