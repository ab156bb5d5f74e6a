package simcarrier

// sound is a kind of audio that a script plays.
type sound int

const (
	soundSilence sound = iota
	soundSpeech
	soundBeep
	soundMarker
)

func (k sound) String() string {
	switch k {
	case soundSilence:
		return "silence"
	case soundSpeech:
		return "speech"
	case soundBeep:
		return "beep"
	case soundMarker:
		return "marker"
	}
	return "unknown"
}

// step plays one sound for a number of 20 ms frames.
type step struct {
	sound  sound
	frames int
}

// script is a list of steps; from loop on they repeat for ever.
type script struct {
	steps []step
	loop  int
}

// Frame counts of the number table: a hello of 0.8 s, a pause of 2 s, then phrases of 2 s with 1 s between them.
const (
	perSecond    = 50
	helloFrames  = 40
	pauseFrames  = 2 * perSecond
	phraseFrames = 2 * perSecond
	breakFrames  = perSecond
	markerFrames = 2 // 40 ms
	keysFrame    = 2 * perSecond
)

// scriptFor decides what a subscriber says once the call is answered.
func scriptFor(b Behaviour, kind voiceKind) script {
	silent := script{steps: []step{{soundSilence, perSecond}}}
	if b == Silent || kind == voiceSilence {
		return silent
	}
	if kind == voiceMarker {
		return script{steps: []step{{soundSilence, perSecond / 2}, {soundMarker, markerFrames}, {soundSilence, perSecond - markerFrames}}, loop: 1}
	}
	if kind == voiceSteady {
		return script{steps: []step{{soundSpeech, perSecond}}}
	}
	if b == Machine {
		return machineScript()
	}
	return script{
		steps: []step{{soundSpeech, helloFrames}, {soundSilence, pauseFrames}, {soundSpeech, phraseFrames}, {soundSilence, breakFrames}},
		loop:  2,
	}
}

// steadyScript speaks without a pause.
func steadyScript() script { return script{steps: []step{{soundSpeech, phraseFrames}}} }

// machineScript is a greeting of 8 s in phrases, a breath, a beep of 1 s, and silence from there on.
func machineScript() script {
	const rest = 20
	s := script{}
	for range 3 {
		s.steps = append(s.steps, step{soundSpeech, phraseFrames}, step{soundSilence, rest})
	}
	s.steps = append(s.steps, step{soundSpeech, 8*perSecond - 3*(phraseFrames+rest)}, step{soundSilence, rest},
		step{soundBeep, perSecond}, step{soundSilence, perSecond})
	s.loop = len(s.steps) - 1
	return s
}

// player walks a script frame by frame.
type player struct {
	script script
	step   int
	frame  int
}

// next is the frame to send: its sound, its number within the sound, which is 0 at an onset.
func (p *player) next() (k sound, frame int) {
	s := p.script.steps[p.step]
	k, frame = s.sound, p.frame
	if p.frame++; p.frame >= s.frames {
		p.frame = 0
		if p.step++; p.step >= len(p.script.steps) {
			p.step = p.script.loop
		}
	}
	return k, frame
}
