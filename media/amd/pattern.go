package amd

// pattern is the sequence of bursts and pauses that speech has made. Lengths are in frames.
type pattern struct {
	frame   int // frames heard
	onset   int // the first frame of speech, counted from 1; 0 before it
	run     int // frames of speech in a row
	speech  int // frames of speech
	pause   int // frames since the last one of speech
	bursts  int
	burst   int // length of the latest burst, its short gaps included
	longest int
}

const (
	burstStart = 3 // frames of speech in a row that begin a burst
	burstGap   = 8 // frames of silence that end one
)

func (p *pattern) step(active bool) {
	p.frame++
	if !active {
		p.run = 0
		p.pause++
		return
	}
	p.run++
	if p.bursts > 0 && p.pause < burstGap {
		p.speech++
		p.burst += p.pause + 1
		p.pause = 0
		p.longest = max(p.longest, p.burst)
		return
	}
	if p.run < burstStart {
		return
	}
	if p.onset == 0 {
		p.onset = p.frame - p.run + 1
	}
	p.bursts++
	p.burst = p.run
	p.speech += p.run
	p.pause = 0
	p.longest = max(p.longest, p.burst)
}

// since is the number of frames since the onset.
func (p *pattern) since() int {
	if p.onset == 0 {
		return 0
	}
	return p.frame - p.onset + 1
}
