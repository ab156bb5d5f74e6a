package media

import (
	"math"
	"time"

	"github.com/ringmaster/ringmaster/media/amd"
)

// AMD is a finding of the answering-machine detection. The AI has been sent it as an `amd` text frame already.
type AMD struct {
	amd.Event
	// Heard is when the audio that decided it was heard.
	Heard time.Time
}

func (AMD) mediaEvent() {}

// amdData is the body of an amd frame.
type amdData struct {
	Event      amd.EventKind `json:"event"`
	Class      amd.Class     `json:"class"`
	Confidence float64       `json:"confidence"` // to three decimals
	Machine    amd.Machine   `json:"machine,omitempty"`
}

// StopMachineDetection ends the detection: what comes from now on isn't the caller alone.
func (s *Session) StopMachineDetection() {
	s.post(func() { s.port.rx.amd = nil })
}

// detectMachine gives the caller's audio to the detector, as it was spoken: a muted caller is heard too.
func (rx *fromCaller) detectMachine(pcm []int16) {
	if rx.amd == nil {
		return
	}
	rx.amd.Feed(pcm)
	for ev, ok := rx.amd.Next(); ok; ev, ok = rx.amd.Next() {
		rx.s.emit(AMD{Event: ev, Heard: rx.sh.srv.cfg.Clock()})
		rx.sh.srv.metrics.amd.WithLabelValues(string(ev.Kind), string(ev.Class)).Inc()
		rx.toAI.sendText(textAMD, amdData{Event: ev.Kind, Class: ev.Class, Confidence: math.Round(1000*ev.Confidence) / 1000, Machine: ev.Machine})
	}
	if rx.amd.Done() {
		rx.amd = nil
	}
}
