package simcarrier

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
	"github.com/ringmaster/ringmaster/media/dsp"
)

const (
	rateHz       = 8000
	frameSamples = 160 // 20 ms
	speechDBFS   = -12.0
	beepHz       = 1400.0
	markerHz     = 700.0

	codecPCMU = "PCMU"
	codecPCMA = "PCMA"
)

// codec is one G.711 law.
type codec struct {
	name        string
	payloadType uint8
	decode      func(dst []int16, src []byte) int
}

func codecByName(name string) (codec, bool) {
	switch strings.ToUpper(name) {
	case codecPCMU:
		return codec{codecPCMU, 0, dsp.DecodeULaw}, true
	case codecPCMA:
		return codec{codecPCMA, 8, dsp.DecodeALaw}, true
	}
	return codec{}, false
}

// voiceKind is what a subscriber speaks with.
type voiceKind int

const (
	voiceTone voiceKind = iota
	voiceBabble
	voiceMarker
	voiceSilence
	// voiceSteady is a tone without pauses.
	voiceSteady
)

type voiceSpec struct {
	kind voiceKind
	hz   float64
}

// parseVoice reads "tone:HZ", "steady:HZ", "babble", "marker" or "silence".
func parseVoice(s string) (voiceSpec, error) {
	name, arg, _ := strings.Cut(s, ":")
	switch name {
	case "tone", "steady":
		hz, err := strconv.ParseFloat(arg, 64)
		if err != nil || !(hz >= 50 && hz <= 3900) {
			return voiceSpec{}, fmt.Errorf("%w: voice %q: a tone of 50 to 3900 Hz is written tone:425", ErrInvalidRequest, s)
		}
		if name == "steady" {
			return voiceSpec{voiceSteady, hz}, nil
		}
		return voiceSpec{voiceTone, hz}, nil
	case "babble":
		return voiceSpec{kind: voiceBabble}, nil
	case "marker":
		return voiceSpec{kind: voiceMarker, hz: markerHz}, nil
	case "silence":
		return voiceSpec{kind: voiceSilence}, nil
	}
	return voiceSpec{}, fmt.Errorf("%w: voice %q: neither tone:HZ, babble, marker nor silence", ErrInvalidRequest, s)
}

// clip is audio encoded once for each codec, cut into 20 ms frames by offset.
type clip struct {
	ulaw, alaw []byte
}

func newClip(samples []int16) clip {
	c := clip{make([]byte, len(samples)), make([]byte, len(samples))}
	dsp.EncodeULaw(c.ulaw, samples)
	dsp.EncodeALaw(c.alaw, samples)
	return c
}

// frame is the n-th 20 ms in a codec; nil when the clip is shorter.
func (c clip) frame(n int, payloadType uint8) []byte {
	b := c.ulaw
	if payloadType == 8 {
		b = c.alaw
	}
	if (n+1)*frameSamples > len(b) {
		return nil
	}
	return b[n*frameSamples : (n+1)*frameSamples]
}

// voice is the set of clips of one way of speaking.
type voice struct {
	spec   voiceSpec
	phrase clip
}

// voiceBank makes each voice once; calls share the clips, which nobody writes to.
type voiceBank struct {
	seed  uint64
	beep  clip
	quiet clip

	mu     sync.Mutex
	voices map[voiceSpec]voice
}

func newVoiceBank(seed uint64) *voiceBank {
	return &voiceBank{
		seed: seed, voices: map[voiceSpec]voice{},
		quiet: newClip(make([]int16, frameSamples)),
		beep:  newClip(tone.Sine(rateHz, rateHz, beepHz, speechDBFS)),
	}
}

func (b *voiceBank) get(spec voiceSpec) voice {
	b.mu.Lock()
	defer b.mu.Unlock()
	if v, ok := b.voices[spec]; ok {
		return v
	}
	v := voice{spec: spec}
	switch spec.kind {
	case voiceTone, voiceMarker, voiceSteady:
		v.phrase = newClip(tone.Sine(2*rateHz, rateHz, spec.hz, speechDBFS))
	case voiceBabble:
		v.phrase = newClip(tone.Babble(2*rateHz, rateHz, speechDBFS, b.seed))
	case voiceSilence:
		v.phrase = newClip(make([]int16, 2*rateHz))
	}
	b.voices[spec] = v
	return v
}
