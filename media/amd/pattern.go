package amd

const (
	// memory is how many frames the pattern is made of: 5.12 s.
	memory = 256
	// every is how many frames lie between two looks at the pattern of a machine once the verdict is given, seldom how many lie between
	// two at the levels of anybody else.
	every, seldom = 5, 25
	// Levels are counted in steps of 1 dB.
	levelSteps = 100

	burstMin = 4   // frames of sound that make a burst; a click is shorter
	burstGap = 9   // frames of silence that a burst may contain
	leadGap  = 14  // frames of silence between a soft syllable and the first burst
	loudest  = 5   // frames that the peak level leaves out: clicks
	quietest = 20  // the share of the frames that the floor leaves out below it: 1 in 20
	rangeMin = 9.0 // dB between noise and speech
	// Sound lies above the noise by a margin in dB, or by a share of what lies between noise and speech. Speech lies within
	// speechRange of its peak, which keeps babble out, its soft parts within softRange.
	noiseMargin, noiseShare = 7.0, 0.4
	speechRange, softRange  = 12.0, 24.0
	// softest is the least level of any sound, in dB of full scale.
	softest = -58.0
	// humHighest is up to where a tone may be the mains: an even hum is no sound.
	humHighest = 310.0
)

// pattern is the memory of the last frames, and what bursts and pauses they form.
type pattern struct {
	level  [memory]float32
	tonal  [memory]bool
	change [memory]float32
	drift  [memory]float32
	step   [memory]float32
	pitch  [memory]float32 // octaves above 1 Hz, 0 without a voice
	frames int             // heard so far

	floor, peak float32 // levels of the noise and of the speech
	limit, soft float32 // what speech, and any sound, lies above

	f           features
	onset, last int // where all sound begins and ends, among the frames remembered
}

func (p *pattern) add(s *sound) {
	i := p.frames % memory
	p.level[i], p.tonal[i] = s.level, s.tone > humHighest
	p.change[i], p.drift[i], p.step[i], p.pitch[i] = s.change, s.drift, s.step, s.pitch
	p.frames++
}

// erase takes the last frames for silence: what they held was a signal.
func (p *pattern) erase(n int) {
	for k := 1; k <= min(n, p.frames, memory); k++ {
		p.level[(p.frames-k)%memory], p.tonal[(p.frames-k)%memory] = p.floor, false
	}
}

// look works the pattern out from what is remembered.
func (p *pattern) look() {
	p.levels()
	n := min(p.frames, memory)
	all := bursts{maxGap: burstGap}
	for k := range n {
		if p.at(n, k) > p.limit {
			all.sound(k)
		}
	}
	all.close()
	if all.count == 0 {
		p.f = features{}
		return
	}
	onset := p.softOnset(n, all.onset)
	full, last := 0, all.onset
	for k := onset; k < n; k++ {
		if p.at(n, k) > p.soft {
			full++
			last = k
		}
	}
	p.onset, p.last = onset, last
	p.f = features{
		Since: frameLen * float64(n-onset), Bursts: float64(all.count), Speech: frameLen * float64(all.speech),
		Pause: frameLen * float64(n-1-all.last), Gap: frameLen * float64(all.gap),
		Full: frameLen * float64(full), Quiet: frameLen * float64(n-1-last),
		Longest: frameLen * float64(all.longest), First: frameLen * float64(all.first), Last: frameLen * float64(all.latest),
	}
}

// softOnset is where the sound begins that leads up to the first burst: a soft syllable is no burst, but it is speech.
func (p *pattern) softOnset(n, first int) int {
	onset := first
	for k := first - 1; k > 0 && onset-k <= leadGap; k-- {
		if p.at(n, k) > p.soft && p.at(n, k-1) > p.soft {
			onset = k - 1
		}
	}
	return onset
}

// at is the level of the k-th of the last n frames.
func (p *pattern) at(n, k int) float32 { return p.level[(p.frames-n+k)%memory] }

// bursts gathers frames of sound into bursts. All members count frames.
type bursts struct {
	maxGap             int // frames of silence within a burst
	from, to, sounding int // the burst that is open, and how much of it is sound
	count, onset, last int // last is the end of the latest burst
	speech, gap        int

	longest, first, latest int // lengths of bursts
	lastGap, firstGap      int // the latest silence between two, and the first
}

// sound takes a frame of sound, after all that lie before it.
func (b *bursts) sound(k int) {
	if b.sounding > 0 && k-b.to > b.maxGap {
		b.close()
	}
	if b.sounding == 0 {
		b.from = k
	}
	b.to = k
	b.sounding++
}

// close ends the open burst; it counts unless it was a click.
func (b *bursts) close() {
	if b.sounding >= burstMin {
		if b.count == 0 {
			b.onset = b.from
		} else {
			b.lastGap = b.from - b.last - 1
			b.gap = max(b.gap, b.lastGap)
			if b.count == 1 {
				b.firstGap = b.lastGap
			}
		}
		b.count++
		b.last = b.to
		b.latest = b.to - b.from + 1
		b.speech += b.latest
		b.longest = max(b.longest, b.latest)
		if b.count == 1 {
			b.first = b.latest
		}
	}
	b.sounding = 0
}

// loud says that a sound lies above the limit, as soon as there is one.
func (p *pattern) loud(s *sound) bool { return p.limit != 0 && s.level > p.limit }

// levels finds the level of the noise and of the speech, and sets the limit between them.
func (p *pattern) levels() {
	n := min(p.frames, memory)
	var histogram [levelSteps]int16
	for i := range n {
		histogram[min(levelSteps-1, max(0, int(-p.level[i])))]++
	}
	p.floor, p.peak = -levelSteps, -levelSteps
	for k, below := levelSteps-1, 0; k >= 0; k-- {
		if below += int(histogram[k]); below > n/quietest {
			p.floor = float32(-k)
			break
		}
	}
	for k, above := 0, 0; k < levelSteps; k++ {
		if above += int(histogram[k]); above > loudest {
			p.peak = float32(-k)
			break
		}
	}
	span := p.peak - p.floor
	if span >= rangeMin {
		noise := max(softest, p.floor+max(noiseMargin, noiseShare*span))
		p.limit, p.soft = max(noise, p.peak-speechRange), max(noise, p.peak-softRange)
		return
	}
	// Noise alone, or sound alone: of the two only a tone is so even.
	tonal := 0
	for i := range n {
		if p.tonal[i] {
			tonal++
		}
	}
	if p.limit = 0; n > 2*loudest && 2*tonal > n && p.peak > softest {
		p.limit = softest
	}
	p.soft = p.limit
}
