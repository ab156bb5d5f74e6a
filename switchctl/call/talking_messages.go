package call

import (
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// talkCommand begins a conversation.
type talkCommand struct{ talk *conversation }

func (m talkCommand) Name() string  { return m.talk.kind.String() }
func (talkCommand) Essential() bool { return false }

func (m talkCommand) refused(_ *core, err error) { m.talk.finish("", err) }

// talkDropped: nobody waits for a conversation any more.
type talkDropped struct{ talk *conversation }

func (talkDropped) Name() string    { return "conversation dropped" }
func (talkDropped) Essential() bool { return true }

// talkSent tells that the switch has taken what a conversation plays next, or not.
type talkSent struct {
	talk *conversation
	app  string
	err  error
}

func (talkSent) Name() string    { return "application sent" }
func (talkSent) Essential() bool { return true }

// talkRecording tells that the switch records a voicemail, or not.
type talkRecording struct {
	talk *conversation
	err  error
}

func (talkRecording) Name() string    { return "voicemail started" }
func (talkRecording) Essential() bool { return true }

// socketEvent is an event that the caller's own socket has brought.
type socketEvent struct {
	sock socket
	ev   *esl.Event
}

func (m socketEvent) Name() string    { return m.ev.Name() }
func (m socketEvent) Essential() bool { return m.ev.Name() == fs.ChannelExecuteComplete }
