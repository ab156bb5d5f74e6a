package media

import (
	"context"
	"math"
	"time"

	"github.com/ringmaster/ringmaster/media/amd"
	"github.com/ringmaster/ringmaster/media/amd/words"
	"github.com/ringmaster/ringmaster/media/fairshare"
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
		return
	}
	if said, listen := rx.amd.Wanted(); said != nil {
		rx.listen(said, listen)
	}
}

// listenWithin is how long what was said waits for a processor: the answer to the last listen has to be there 200 ms later. Without it the detector decides by
// what it has.
const listenWithin = 120 * time.Millisecond

// listen has listened to what was said, off the tick thread.
func (rx *fromCaller) listen(said []int16, listen int) {
	s, srv, detector := rx.s, rx.sh.srv, rx.amd
	srv.spawn(func() {
		odds, result := math.NaN(), "failed"
		srv.guard("machine detection", func() {
			ctx, cancel := context.WithTimeout(context.Background(), listenWithin)
			defer cancel()
			err := srv.ears.Do(ctx, s.spec.Owner, fairshare.Background, func() {
				l := srv.listeners.Get().(*words.Listener) //nolint:forcetypeassert // it has nothing else
				odds = l.Odds(said)
				srv.listeners.Put(l)
				result = "heard"
			})
			if err != nil {
				result = "late"
			}
		})
		s.post(func() {
			if !detector.Hear(odds, listen) && result == "heard" {
				result = "late" // the processor it got was a slow one
			}
			srv.metrics.listens.WithLabelValues(result).Inc()
		})
	})
}
