// Package esl speaks FreeSWITCH's event socket: inbound (Dial, the link to a switch host) and outbound (Listen, the
// socket that the dialplan opens for each leg). Commands are encoded by eslgo's command package; everything that is
// read goes through the reader here, because the switch's order is the truth that a call is run by.
//
// Read header.go (fields and their percent-encoding), message.go (framing), event.go (events), then conn.go: one
// goroutine reads a connection, matches replies first in, first out, and queues events for one goroutine that hands
// them over in the order of the wire. A command that times out closes its connection, since every later reply would
// belong to the wrong caller.
package esl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Why a connection ended or a command was not sent.
var (
	// ErrAuth tells that the switch refused the password.
	ErrAuth = errors.New("the switch refused the event socket password")
	// ErrRejected tells that the switch's access list refused our address.
	ErrRejected = errors.New("the switch's access list rejected the event socket connection")
	// ErrClosed tells that Close was called on this side.
	ErrClosed = errors.New("event socket connection closed")
	// ErrDisconnected tells that the switch announced the end of the connection and ended it.
	ErrDisconnected = errors.New("the switch ended the event socket connection")
	// ErrOverflow tells that events came faster than the handler took them; whoever reconnects must resynchronise.
	ErrOverflow = errors.New("event socket queue overflow: events were not handled fast enough")
	// ErrTooManyPending tells that too many commands wait for their replies.
	ErrTooManyPending = errors.New("too many event socket commands wait for replies")
	// ErrInvalidCommand tells that a command holds line breaks, which would smuggle a second command in.
	ErrInvalidCommand = errors.New("event socket command holds a line break")
)

// ProtocolError is input that is not the event socket's protocol. The connection that it came from is closed.
type ProtocolError struct {
	Reason string // what was wrong
	Err    error  // the cause, if there is one
}

// Error implements error.
func (e *ProtocolError) Error() string {
	if e.Err != nil {
		return "parse event socket input: " + e.Reason + ": " + e.Err.Error()
	}
	return "parse event socket input: " + e.Reason
}

// Unwrap gives the cause.
func (e *ProtocolError) Unwrap() error { return e.Err }

// TimeoutError is a command whose reply did not come in time. It closes the connection.
type TimeoutError struct {
	Op    string        // the operation that was cut off
	After time.Duration // how long the reply was waited for
}

// Error implements error.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("wait for the switch's reply to %s: timed out after %s", e.Op, e.After.Round(time.Millisecond))
}

// Timeout reports true, as net.Error does.
func (e *TimeoutError) Timeout() bool { return true }

// Unwrap makes the error a context.DeadlineExceeded.
func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }

// ReplyLengthError is the output of a command that is longer than [MaxReply]. The connection goes on.
type ReplyLengthError struct {
	Length int // bytes
}

// Error implements error.
func (e *ReplyLengthError) Error() string {
	return fmt.Sprintf("%d bytes of output are more than %d", e.Length, MaxReply)
}

// ReplyError is a command that the switch refused.
type ReplyError struct {
	Op   string // the operation, empty when Reply.Err made the error
	Text string // the switch's words, as in "-ERR No such channel!"
}

// Error implements error.
func (e *ReplyError) Error() string {
	if e.Op == "" {
		return "the switch refused: " + e.Text
	}
	return "the switch refused " + e.Op + ": " + e.Text
}

// Cause is the text without "-ERR ", as in "USER_BUSY" for a failed originate.
func (e *ReplyError) Cause() string {
	_, cause, _ := strings.Cut(e.Text, " ")
	return strings.TrimSpace(cause)
}
