package amd

const (
	// memory is how many frames the pattern is made of: 5.12 s.
	memory = 256
	// every is how many frames lie between two looks at the pattern.
	every = 1
	// Levels are counted in steps of 1 dB.
	levelSteps = 100

	burstMin = 4 // frames of sound that make a burst; a click is shorter
	burstGap = 9 // frames of silence that a burst may contain
	loudest  = 5 // frames that the peak level leaves out: clicks
	quietest = 20
	rangeMin = 9.0 // dB between noise and speech
	softest  = -58.0
	// humHighest is up to where a tone may be the mains: an even hum is no sound.
	humHighest = 310.0
)

// pattern is the memory of the last frames, and what bursts and pauses they form.
type pattern struct {
	level  [memory]float32
	tonal  [memory]bool
	frames int // heard so far

	floor, peak, limit float32
	steady             bool // the level has not moved: noise alone, or sound alone

	f Features
}

// Features is the pattern of sound and silence since the onset of sound. Lengths are in seconds.
type Features struct {
	// Since is the time since the onset, 0 before it.
	Since float64
	// Speech is the length of all bursts, their short gaps included, First that of the first, Longest that of the longest.
	Speech, First, Longest float64
	// Pause is the silence since the last burst, Gap the longest silence between two.
	Pause, Gap float64
	// Bursts counts them.
	Bursts float64
}

func (p *pattern) add(s *sound) {
	i := p.frames % memory
	p.level[i], p.tonal[i] = s.level, s.tone > humHighest
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
	f := Features{}
	from, to, sounding := -1, -1, 0 // the burst that is open, and its frames of sound
	onset, last := -1, -1
	var speech, longest, first, gap int
	end := func() {
		if from < 0 || sounding < burstMin {
			return
		}
		length := to - from + 1
		if onset < 0 {
			onset, first = from, length
		} else {
			gap = max(gap, from-last-1)
		}
		last = to
		speech += length
		longest = max(longest, length)
		f.Bursts++
	}
	for k := range n {
		if !p.sounds(p.frames - n + k) {
			continue
		}
		if from < 0 || k-to > burstGap {
			end()
			from, sounding = k, 0
		}
		to = k
		sounding++
	}
	end()
	if onset < 0 {
		p.f = f
		return
	}
	const sec = 1.0 / 50
	f.Since = float64(n-onset) * sec
	f.Speech, f.First, f.Longest = float64(speech)*sec, float64(first)*sec, float64(longest)*sec
	f.Pause, f.Gap = float64(n-1-last)*sec, float64(gap)*sec
	p.f = f
}

// loud says that a sound lies above the limit, as soon as there is one.
func (p *pattern) loud(s *sound) bool { return p.limit != 0 && s.level > p.limit }

// sounds says whether a frame lies above the limit.
func (p *pattern) sounds(frame int) bool { return p.level[frame%memory] > p.limit }

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
	if p.steady = span < rangeMin; !p.steady {
		p.limit = max(softest, p.peak-12, p.floor+max(7, 0.4*span))
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
}
