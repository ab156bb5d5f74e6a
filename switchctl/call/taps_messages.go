package call

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media"
)

// tapCommand starts a tap.
type tapCommand struct {
	req   tapRequest
	reply chan<- tapUp
}

func (tapCommand) Name() string                 { return "tap" }
func (tapCommand) Essential() bool              { return false }
func (m tapCommand) refused(_ *core, err error) { m.reply <- tapUp{err: err} }

// tapStop ends a tap; its owner knows already.
type tapStop struct {
	id     uuid.UUID
	reason media.CloseReason
}

func (tapStop) Name() string    { return "tap stop" }
func (tapStop) Essential() bool { return true }

// tapMetadata replaces what a tap's socket is told when it is dialed again.
type tapMetadata struct {
	id       uuid.UUID
	metadata json.RawMessage
}

func (tapMetadata) Name() string    { return "tap metadata" }
func (tapMetadata) Essential() bool { return false }

// tapOpened is the media endpoint's answer.
type tapOpened struct {
	id   uuid.UUID
	fork *tapFork
	err  error
}

func (tapOpened) Name() string    { return "tap opened" }
func (tapOpened) Essential() bool { return true }

func (m tapOpened) refused(a *core, _ error) {
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

func (tapReport) Name() string { return "tap event" }

func (m tapReport) Essential() bool {
	switch m.ev.(type) {
	case media.Text, media.DTMF, media.AgentError:
		return false
	}
	return true
}

// tapRefused tells that the switch did not dial a tap's leg.
type tapRefused struct {
	id      uuid.UUID
	leg     int
	channel string
	reason  string
	unsent  bool
}

func (tapRefused) Name() string    { return "tap refused" }
func (tapRefused) Essential() bool { return true }
