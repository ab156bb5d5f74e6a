// Package fault says what a refused request is told: one kind, code and sentence for the Public API, the Dialer API and the voice
// agent's socket alike. Errors that a client can do something about are an [Error] or give one ([Of]); all others are internal ones.
package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind is the sort of a fault. Clients see its status.
type Kind int

// The kinds.
const (
	Internal     Kind = iota // nothing that the client could fix
	Malformed                // not the shape of a request
	Unauthorized             // without a credential that is good
	Forbidden                // not for this client
	TooLarge                 // more than is kept
	NotFound                 // names nothing that the client can see
	Conflict                 // refused by the present state
	Invalid                  // well-formed, with values that can't be used
	Dependency               // what the request needs is missing
	Limit                    // a ceiling or a rate is reached
	Unavailable              // a part of the service is down, or the time is over
)

// Status gives the kind's HTTP status; the voice agent's command_result carries the same.
func (k Kind) Status() int {
	switch k {
	case Malformed:
		return 400
	case Unauthorized:
		return 401
	case Forbidden:
		return 403
	case NotFound:
		return 404
	case TooLarge:
		return 413
	case Conflict:
		return 409
	case Invalid:
		return 422
	case Dependency:
		return 424
	case Limit:
		return 429
	case Unavailable:
		return 503
	case Internal:
	}
	return 500
}

// CodeInvalid is the code of faults that [Fields] makes.
const CodeInvalid = "validation_error"

// Field says what is wrong with one member of a request. Message goes on with the sentence that the member's name begins.
type Field struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Error is a request that is refused. A sentinel of this type is compared with [errors.Is] as any other.
type Error struct {
	Kind Kind
	// Code is for programs, Detail for the person who reads the answer.
	Code   string
	Detail string
	Fields []Field
	// Members stand at the top level of the answer.
	Members map[string]any
	// RetryAfter says when the same would be taken; 0 when time alone doesn't help. See [Error.Retry].
	RetryAfter time.Duration
	// Text is what logs say; made of code, detail and fields when empty.
	Text string
}

// Error implements error.
func (e *Error) Error() string {
	switch {
	case e.Text != "":
		return e.Text
	case len(e.Fields) == 0:
		return e.Code + ": " + e.Detail
	}
	parts := make([]string, 0, len(e.Fields))
	for _, f := range e.Fields {
		parts = append(parts, f.Field+" "+f.Message)
	}
	return "validate request: " + strings.Join(parts, "; ")
}

// Retry is RetryAfter, and at least a second for limits and for what is unavailable.
func (e *Error) Retry() time.Duration {
	if e.Kind == Limit || e.Kind == Unavailable {
		return max(e.RetryAfter, time.Second)
	}
	return e.RetryAfter
}

// Fields refuses members with values that can't be used.
func Fields(fields ...Field) *Error {
	return &Error{Kind: Invalid, Code: CodeInvalid, Detail: "The request is not valid.", Fields: fields}
}

// InField is [Fields] of one.
func InField(field, message string) *Error { return Fields(Field{Field: field, Message: message}) }

// As finds an Error of that kind in err's chain.
func As(err error, kind Kind) (*Error, bool) {
	e, ok := errors.AsType[*Error](err)
	return e, ok && e.Kind == kind
}

// Wrap says what was attempted, if it failed.
func Wrap(attempt string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", attempt, err)
}

// Fault lets an Error be one of those that [Of] finds.
func (e *Error) Fault() *Error { return e }

// carrier is an Error, or an error that knows more than a client is told.
type carrier interface {
	error
	Fault() *Error
}

// Of gives what a client is told of err: the outermost error of its chain that has a method `Fault() *Error`. It is false for an internal
// error, of which the client is told no more than that it is one.
func Of(err error) (*Error, bool) {
	if c, ok := errors.AsType[carrier](err); ok {
		return c.Fault(), true
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &Error{Kind: Unavailable, Code: "service_unavailable", Detail: "The request took too long."}, true
	}
	return &Error{Code: "internal_error", Detail: "Something went wrong here."}, false
}
