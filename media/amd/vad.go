package amd

import "math"

// vad tells speech from noise by a frame's level above an adaptive floor. Levels are in dB below full scale.
type vad struct {
	floor float64
	x, y  float64 // the high-pass filter's state
	level float64 // of the last frame
}

const (
	vadMargin  = 9.0   // dB above the floor
	vadQuiet   = -50.0 // what is softer is never speech
	floorStart = -62.0
	floorFalls = 0.25 // share of the distance per frame
	floorRises = 0.06 // dB per frame, 3 dB/s
	highPass   = 0.86 // one pole at about 180 Hz: hum and rumble stay out
)

func newVAD() vad { return vad{floor: floorStart, level: -96} }

// step reports whether a frame holds speech.
func (v *vad) step(f *[frameSamples]int16) bool {
	var sum float64
	for _, s := range f {
		x := float64(s)
		v.y = highPass * (v.y + x - v.x)
		v.x = x
		sum += v.y * v.y
	}
	v.level = 10 * math.Log10(sum/frameSamples/(32768*32768)+1e-10)
	active := v.level > v.floor+vadMargin && v.level > vadQuiet
	switch {
	case v.level < v.floor:
		v.floor += floorFalls * (v.level - v.floor)
	case v.level > vadQuiet:
		v.floor += floorRises
	default:
		v.floor += floorFalls / 4 * (v.level - v.floor)
	}
	return active
}
