package simswitch

import "math"

// keyTones finds digits that are sent as tones in 8 kHz audio, as the applications start_dtmf and stop_dtmf switch it on and
// off: frame by frame, a digit being what two frames in a row show.
type keyTones struct {
	last, held byte
}

const (
	// toneFloor is the least amplitude of each of a digit's tones; toneShare is their least part of a frame's power.
	toneFloor = 500.0
	toneShare = 0.7
)

// feed takes one frame and gives the digit that begins in it, 0 for none.
func (k *keyTones) feed(pcm []int16) byte {
	now := digitOf(pcm)
	begins := byte(0)
	if now != 0 && now == k.last && now != k.held {
		k.held, begins = now, now
	}
	if now == 0 && k.last == 0 {
		k.held = 0
	}
	k.last = now
	return begins
}

// digitOf is the digit whose two tones make up a frame, 0 for none.
func digitOf(pcm []int16) byte {
	if len(pcm) == 0 {
		return 0
	}
	power := 0.0
	for _, s := range pcm {
		power += float64(s) * float64(s)
	}
	power /= float64(len(pcm))
	best := func(hz [4]float64) (at int, amplitude float64) {
		for i, f := range hz {
			if a := amplitudeAt(pcm, f); a > amplitude {
				at, amplitude = i, a
			}
		}
		return at, amplitude
	}
	low, a := best([4]float64{697, 770, 852, 941})
	high, b := best([4]float64{1209, 1336, 1477, 1633})
	if a < toneFloor || b < toneFloor || (a*a+b*b)/2 < toneShare*power {
		return 0
	}
	return "123A456B789C*0#D"[4*low+high]
}

// amplitudeAt is that of one frequency, by Goertzel's filter.
func amplitudeAt(pcm []int16, hz float64) float64 {
	w := 2 * math.Pi * hz / sampleRate
	coeff, s1, s2 := 2*math.Cos(w), 0.0, 0.0
	for _, s := range pcm {
		s1, s2 = float64(s)+coeff*s1-s2, s1
	}
	return 2 * math.Sqrt(max(0, s1*s1+s2*s2-coeff*s1*s2)) / float64(len(pcm))
}

// listenForKeys is start_dtmf and stop_dtmf.
func (ch *application) listenForKeys(on bool) {
	if ch.media == nil {
		return
	}
	ch.media.mu.Lock()
	defer ch.media.mu.Unlock()
	ch.media.tones = nil
	if on {
		ch.media.tones = &keyTones{}
	}
}
