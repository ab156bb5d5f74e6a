package switchctl

import "github.com/ringmaster/ringmaster/switchctl/esl"

// talkMessage is what the conversation of a handler with its caller is made of. Every state but the answered ones refuses it.
type talkMessage interface {
	message
	// refusedTalk deals with one that came too early or too late.
	refusedTalk(err error)
}

// talkCommand begins a conversation.
type talkCommand struct{ talk *conversation }

func (m talkCommand) Name() string          { return m.talk.kind.String() }
func (talkCommand) Essential() bool         { return false }
func (m talkCommand) refusedTalk(err error) { m.talk.finish("", err) }

// talkDropped: nobody waits for a conversation any more.
type talkDropped struct{ talk *conversation }

func (talkDropped) Name() string      { return "conversation dropped" }
func (talkDropped) Essential() bool   { return true }
func (talkDropped) refusedTalk(error) {}

// talkSent tells that the switch has taken what a conversation plays next, or not.
type talkSent struct {
	talk *conversation
	app  string
	err  error
}

func (talkSent) Name() string      { return "application sent" }
func (talkSent) Essential() bool   { return true }
func (talkSent) refusedTalk(error) {}

// talkRecording tells that the switch records a voicemail, or not.
type talkRecording struct {
	talk *conversation
	err  error
}

func (talkRecording) Name() string      { return "voicemail started" }
func (talkRecording) Essential() bool   { return true }
func (talkRecording) refusedTalk(error) {}

// socketEvent is an event that the caller's own socket has brought.
type socketEvent struct {
	sock socket
	ev   *esl.Event
}

func (m socketEvent) Name() string      { return m.ev.Name() }
func (m socketEvent) Essential() bool   { return m.ev.Name() == evExecuteComplete }
func (m socketEvent) refusedTalk(error) {}
