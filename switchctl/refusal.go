package switchctl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// FieldFault says what is wrong with one member of a request.
type FieldFault struct{ Field, Message string }

// Refusal is how an error is answered, over HTTP and over the AI's socket alike.
type Refusal struct {
	// Status is HTTP's.
	Status int
	Code   string
	// Detail is for a person at the other end.
	Detail     string
	Fields     []FieldFault
	RetryAfter time.Duration
}

// Refuser is an error of another package, such as a gate's, that knows how it is answered.
type Refuser interface {
	error
	Refusal() Refusal
}

// RefusalOf tells how the control endpoint, and the AI's command_result, answer an error; false: it is none that whoever asked
// could understand, and Refusal is that of an internal error.
func RefusalOf(err error) (Refusal, bool) {
	if refuser, ok := errors.AsType[Refuser](err); ok {
		return refuser.Refusal(), true
	}
	if r, ok := requestRefusal(err); ok {
		return r, true
	}
	var state *StateError
	var stranger *RelationError
	var tap *TapError
	switch {
	case errors.Is(err, ErrSessionTerminated), errors.Is(err, ledger.ErrCallEnded):
		return refuse(http.StatusConflict, "AISessionTerminated", "The call has no active AI session."), true
	case errors.As(err, &state):
		return state.refusal(), true
	case errors.Is(err, ErrNobodyLoggedIn):
		return refuse(http.StatusConflict, "NoAgentAvailable", "No agent is logged in."), true
	case errors.Is(err, ErrTestEnvironment):
		return refuse(http.StatusConflict, "test_environment", "A test key places no calls."), true
	case errors.As(err, &stranger):
		return refuse(http.StatusForbidden, "no_relationship",
			"The session neither monitors the target call nor shares a conference with it."), true
	case errors.Is(err, ledger.ErrMonitorScope):
		return refuse(http.StatusForbidden, "monitor_scope", "The voice agent's monitor_scope does not allow it to monitor this call."), true
	case errors.Is(err, ledger.ErrTargetNotFound):
		return refuse(http.StatusNotFound, "not_found", "There is no such target call."), true
	case errors.As(err, &tap):
		return refuse(http.StatusFailedDependency, "TapFailed", "The target call's audio could not be brought to the voice agent."), true
	}
	return serviceRefusal(err)
}

// requestRefusal is about what the request says.
func requestRefusal(err error) (Refusal, bool) {
	var invalid *InvalidError
	var shape *MalformedError
	var verb *VerbError
	switch {
	case errors.Is(err, ErrNoObject):
		return refuse(http.StatusBadRequest, "invalid_json", "The control request must be a JSON object."), true
	case errors.As(err, &shape):
		return refuseField(http.StatusBadRequest, "bad_request", shape.Field, shape.Message), true
	case errors.As(err, &verb) && verb.Known:
		return refuse(http.StatusUnprocessableEntity, "verb_not_available", "The verb "+verb.Verb+" is not available on this server."), true
	case errors.As(err, &verb):
		return refuseField(http.StatusBadRequest, "unknown_verb", "event", "is no known verb"), true
	case errors.Is(err, ErrUnknownExtension):
		return refuseField(http.StatusUnprocessableEntity, "validation_error", "destination", "is no agent's extension"), true
	case errors.As(err, &invalid):
		return refuseField(http.StatusUnprocessableEntity, "validation_error", invalid.Field, invalid.Message), true
	}
	return Refusal{}, false
}

// serviceRefusal is about how the service fares.
func serviceRefusal(err error) (Refusal, bool) {
	var busy *BusyError
	var sub *SubprotocolError
	unavailable := func(detail string) Refusal {
		r := refuse(http.StatusServiceUnavailable, "service_unavailable", detail)
		r.RetryAfter = time.Second
		return r
	}
	tooMany := func(code, detail string) Refusal {
		r := refuse(http.StatusTooManyRequests, code, detail)
		r.RetryAfter = time.Second
		return r
	}
	switch {
	case errors.As(err, &sub):
		return refuse(http.StatusFailedDependency, "SubprotocolMismatch", "This host does not serve the voice agent's subprotocol."), true
	case errors.As(err, &busy):
		return tooMany("max_concurrent", "The ceiling of "+busy.Ceiling+" is reached."), true
	case errors.Is(err, ErrMailboxFull):
		return tooMany("rate_limited", "Too many commands wait for this call."), true
	case errors.Is(err, ErrDTMFQueueFull):
		return tooMany("rate_limited", "Too many digits wait to be sent."), true
	case errors.Is(err, ErrDraining):
		return unavailable("This host is about to stop, and takes no new calls."), true
	case errors.Is(err, ErrLinkDown), errors.Is(err, ErrTimeout):
		return unavailable("The telephony switch does not answer just now."), true
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrBusy):
		return unavailable("The database does not answer."), true
	case errors.Is(err, context.DeadlineExceeded):
		return unavailable("The request took too long."), true
	}
	return refuse(http.StatusInternalServerError, "internal_error", "Something went wrong here."), false
}

func refuse(status int, code, detail string) Refusal {
	return Refusal{Status: status, Code: code, Detail: detail}
}

// refuseField names the member; a message goes on with the sentence that the member's name begins.
func refuseField(status int, code, field, message string) Refusal {
	r := refuse(status, code, "The control request is not valid: "+field+" "+message+".")
	r.Fields = []FieldFault{{Field: field, Message: message}}
	return r
}

func (e *StateError) refusal() Refusal {
	r := refuse(http.StatusConflict, e.Code, e.Detail)
	if r.Code == "" {
		r.Code = "InvalidCallState"
	}
	if r.Detail == "" {
		r.Detail = fmt.Sprintf("%s is not possible while the call is %s.", e.Event, e.State)
	}
	return r
}
