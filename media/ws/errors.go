package ws

import (
	"errors"
	"fmt"
)

// Errors of Dial.
var (
	// ErrDialTimeout means that the AI's socket did not open in time.
	ErrDialTimeout = errors.New("dialing the voice agent's socket: timed out")
	// ErrSubprotocol means that the subprotocol is not served here, or that the peer did not select it.
	ErrSubprotocol = errors.New("dialing the voice agent's socket: subprotocol not agreed")
)

// HandshakeError means that the AI's server refused the WebSocket upgrade.
type HandshakeError struct {
	// Status is the HTTP status of the answer, 0 when it was not HTTP.
	Status int
	Err    error
}

// Error implements error.
func (e *HandshakeError) Error() string {
	if e.Status == 0 {
		return fmt.Sprintf("dialing the voice agent's socket: handshake failed: %v", e.Err)
	}
	return fmt.Sprintf("dialing the voice agent's socket: handshake refused with status %d", e.Status)
}

// Unwrap returns the underlying error.
func (e *HandshakeError) Unwrap() error { return e.Err }
