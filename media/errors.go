package media

import (
	"errors"
	"fmt"
)

// Errors of this package.
var (
	// ErrSessionExists means that a session with this id is open.
	ErrSessionExists = errors.New("opening a media session: the id is in use")
	// ErrNoPorts means that the RTP port range is used up.
	ErrNoPorts = errors.New("opening a media session: no free RTP port")
	// ErrServerClosed means that the server is not running.
	ErrServerClosed = errors.New("media server is closed")
	// ErrSessionClosed means that the session has been closed.
	ErrSessionClosed = errors.New("media session is closed")
	// ErrTextQueueFull means that the AI does not read its text frames.
	ErrTextQueueFull = errors.New("sending a text frame: the queue is full")
	// ErrNoRecording means that the session records nothing.
	ErrNoRecording = errors.New("finishing a recording: the session has none")
	// ErrSessionOpen means that a recording can't be finished before its session is closed.
	ErrSessionOpen = errors.New("finishing a recording: the session is open")
	// ErrNoLeg means that no caller is on the session.
	ErrNoLeg = errors.New("media session has no leg")
)

// SpecError means that a session's description can't be served.
type SpecError struct{ Field, Message string }

// Error implements error.
func (e *SpecError) Error() string {
	return fmt.Sprintf("opening a media session: %s: %s", e.Field, e.Message)
}
