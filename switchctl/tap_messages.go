package switchctl

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media"
)

// tapMessage is what taps and monitors send between actors. Every state but the answered ones refuses them.
type tapMessage interface {
	message
	// refused deals with one that came too early or too late.
	refused(a *actor, err error)
}

// tapCommand starts a tap.
type tapCommand struct {
	req   tapRequest
	reply chan<- tapUp
}

func (tapCommand) name() string                  { return "tap" }
func (tapCommand) essential() bool               { return false }
func (m tapCommand) refused(_ *actor, err error) { m.reply <- tapUp{err: err} }

// tapStop ends a tap; its owner knows already.
type tapStop struct {
	id     uuid.UUID
	reason media.CloseReason
}

func (tapStop) name() string          { return "tap stop" }
func (tapStop) essential() bool       { return true }
func (tapStop) refused(*actor, error) {}

// tapMetadata replaces what a tap's socket is told when it is dialed again.
type tapMetadata struct {
	id       uuid.UUID
	metadata json.RawMessage
}

func (tapMetadata) name() string          { return "tap metadata" }
func (tapMetadata) essential() bool       { return false }
func (tapMetadata) refused(*actor, error) {}

// tapOpened is the media endpoint's answer.
type tapOpened struct {
	id   uuid.UUID
	fork *tapFork
	err  error
}

func (tapOpened) name() string    { return "tap opened" }
func (tapOpened) essential() bool { return true }

func (m tapOpened) refused(a *actor, _ error) {
	if m.fork != nil {
		a.beside(func() { m.fork.close(media.CloseHangup) })
	}
}

// tapReport is an event of a tap's socket or of one of its legs.
type tapReport struct {
	id  uuid.UUID
	leg int
	ev  media.Event
}

func (tapReport) name() string { return "tap event" }

func (m tapReport) essential() bool {
	switch m.ev.(type) {
	case media.Text, media.DTMF:
		return false
	}
	return true
}

func (tapReport) refused(*actor, error) {}

// tapRefused tells that the switch did not dial a tap's leg.
type tapRefused struct {
	id      uuid.UUID
	leg     int
	channel string
	reason  string
	unsent  bool
}

func (tapRefused) name() string          { return "tap refused" }
func (tapRefused) essential() bool       { return true }
func (tapRefused) refused(*actor, error) {}
