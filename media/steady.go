package media

// LegSteady reports that the caller's packets come on while nothing is said, on either side. A sender that leaves its silence out
// would have stopped long before. It is reported once for each leg, and never for a caller who has sent comfort noise. For
// 100 ms after it no new word of the voice agent begins: whoever has the switch change something about the leg, at the cost
// of a packet or two, does it then.
type LegSteady struct{}

func (LegSteady) mediaEvent() {}

const (
	// steadyQuiet is how much silence in a row must have come as packets, in samples: 0.8 s. Senders that leave silence out stop
	// within a few tenths of a second.
	steadyQuiet = 8 * sampleRate / 10
	// quietMean is the mean magnitude below which the caller says nothing, about −44 dBFS: a telephone line's noise.
	quietMean = 200
	// steadyLull is how long the voice agent must have said nothing, in frames: 0.3 s. Within a sentence it pauses for less.
	steadyLull = 15
	// steadyHold is how long its next word waits then.
	steadyHold = 100 * ms
)

// steadiness is what is known of how a caller sends.
type steadiness struct {
	quiet   int // samples of silence in a row that came as packets
	lull    int // frames in a row in which the voice agent said nothing
	until   int64
	decided bool
}

// watchPauses hears whether the caller's silence comes as packets. sent says that this piece of it did.
func (p *port) watchPauses(pcm []int16, sent bool, now int64) {
	s := &p.steady
	if s.decided || p.s.spec.tap != nil {
		return
	}
	if p.in.noise.on {
		s.decided = true
		return
	}
	if !sent || !quieter(pcm, quietMean) {
		s.quiet = 0
		return
	}
	if s.quiet += len(pcm); s.quiet >= steadyQuiet && s.lull >= steadyLull {
		s.decided, s.until = true, now+steadyHold
		p.s.emit(LegSteady{})
	}
}

// watchLull notes whether the voice agent said something in the frame that was played.
func (p *port) watchLull(frame []int16) {
	switch s := &p.steady; {
	case s.decided:
	case isSilent(frame):
		s.lull++
	default:
		s.lull = 0
	}
}

// holdsWord tells whether the voice agent's next frame begins a word that has to wait.
func (p *port) holdsWord(now int64) bool {
	if now >= p.steady.until {
		return false
	}
	var room [widestFrame]int16
	next := room[:p.queue.frame()]
	p.queue.peek(next)
	return !isSilent(next)
}
