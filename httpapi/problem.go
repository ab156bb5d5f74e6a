package httpapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/httpapi/auth"
	"github.com/ringmaster/ringmaster/store/fault"
)

// Codes of problems. Those of a service's own errors come from the service.
const (
	codeInsufficientScope     = account.CodeInsufficientScope
	codeWrongCredential       = "credential_not_accepted"
	codeOriginNotAllowed      = "origin_not_allowed"
	codeForeignCall           = "call_not_yours"
	codeNotFound              = "not_found"
	codeMethodNotAllowed      = "method_not_allowed"
	codeBodyTooLarge          = "body_too_large"
	codeUnsupportedMedia      = "unsupported_media_type"
	codeInvalidJSON           = "invalid_json"
	codeValidation            = fault.CodeInvalid
	codeConflict              = "conflict"
	codeRateLimited           = "rate_limited"
	codeUnavailable           = "service_unavailable"
	codeInternal              = "internal_error"
	codeBadRequest            = "bad_request"
	codeUnknownVerb           = "unknown_verb"
	codeUnknownOutcome        = "unknown_outcome"
	codeInvalidIdempotencyKey = "invalid_idempotency_key"
	codeIdempotencyKeyReused  = "idempotency_key_reused"
	codeTestEnvironment       = "test_environment"
	codeOperatorOnly          = "operator_only"
	codeSessionTerminated     = "AISessionTerminated"
	codeInvalidCallState      = "invalid_call_state"
	codeRecordingPending      = "recording_processing"
	codeRecordingMissing      = "recording_not_found"
	codeBadSignature          = "invalid_signature"
	codeExpiredURL            = "url_expired"
	codeNoRelationship        = "no_relationship"
	codeTapFailed             = "tap_failed"
	codeForbiddenClient       = "client_not_allowed"
	codeTaken                 = "already_in_use"
	codeRequestTimeout        = "request_timeout"
	codeCallEnded             = "call_ended"
)

// errorsPage is the catalogue of codes, for people.
const errorsPage = "/docs/errors"

// apiError is what a handler, or the code around it, answers in place of a result.
type apiError struct {
	status     int
	code       string
	detail     string
	retryAfter time.Duration
	fields     []fault.Field
	// part names the part of the request that fields are of; "body" when empty.
	part string
	// members stand at the top level of a problem document.
	members map[string]any
	headers map[string]string
	// replayed marks the answer to an Idempotency-Key that was used before.
	replayed bool
	// unlogged leaves the request out of the log, which has a sum of such instead.
	unlogged bool
	// cause is for the log alone.
	cause error
}

func (e *apiError) Error() string {
	if e.cause != nil {
		return fmt.Sprintf("%s: %s: %v", e.code, e.detail, e.cause)
	}
	return e.code + ": " + e.detail
}

func (e *apiError) Unwrap() error { return e.cause }

func newError(status int, code, detail string) *apiError {
	return &apiError{status: status, code: code, detail: detail}
}

func notFound(what string) *fault.Error {
	return &fault.Error{Kind: fault.NotFound, Code: codeNotFound, Detail: what + " not found"}
}

// mapError turns any error into the answer it deserves; what it does not know is an internal error whose cause only the log
// sees.
func mapError(err error) *apiError {
	if known, ok := errors.AsType[*apiError](err); ok {
		return known
	}
	if refused, ok := fault.Of(err); ok {
		_, unlogged := errors.AsType[*auth.UnloggedError](err)
		return &apiError{
			unlogged: unlogged,
			status:   refused.Kind.Status(), code: refused.Code, detail: refused.Detail, retryAfter: refused.Retry(), fields: refused.Fields,
			members: refused.Members, cause: err,
		}
	}
	return &apiError{
		status: http.StatusInternalServerError, code: codeInternal,
		detail: "Something went wrong in the service; quote the request id when you ask about it.", cause: err,
	}
}

// problem gives the RFC 9457 document. base is our own address, at which the code is explained.
func (e *apiError) problem(base, requestID string) ([]byte, error) {
	doc := maps.Clone(e.members)
	if doc == nil {
		doc = map[string]any{}
	}
	doc["type"] = base + errorsPage + "#" + e.code
	doc["title"] = http.StatusText(e.status)
	doc["status"] = e.status
	doc["detail"] = e.detail
	doc["code"] = e.code
	doc["request_id"] = requestID
	if e.retryAfter > 0 {
		doc["retry_after_s"] = e.retrySeconds()
	}
	if len(e.fields) > 0 {
		doc["errors"] = e.fields
	}
	return json.Marshal(doc)
}

// retrySeconds is rounded up, so that who waits that long is not refused again.
func (e *apiError) retrySeconds() int { return int(math.Ceil(e.retryAfter.Seconds())) }

// dialerValidation is one entry of an HTTPValidationError.
type dialerValidation struct {
	Loc  []any  `json:"loc"`
	Msg  string `json:"msg"`
	Type string `json:"type"`
}

// dialerBody gives the same error as the Dialer API tells it.
func (e *apiError) dialerBody(_, requestID string) ([]byte, error) {
	doc := map[string]any{"request_id": requestID, "code": e.code}
	if e.status != http.StatusUnprocessableEntity {
		maps.Copy(doc, e.members)
		doc["code"], doc["detail"] = e.code, e.detail
		if e.retryAfter > 0 {
			doc["retry_after_s"] = e.retrySeconds()
		}
		return json.Marshal(doc)
	}
	list := make([]dialerValidation, 0, len(e.fields))
	for _, f := range e.fields {
		list = append(list, dialerValidation{Loc: location(cmp.Or(e.part, "body"), f.Field), Msg: f.Message, Type: valueError(e.code)})
	}
	if len(list) == 0 {
		list = append(list, dialerValidation{Loc: []any{"body"}, Msg: e.detail, Type: "value_error." + e.code})
	}
	doc["detail"] = list
	return json.Marshal(doc)
}

// valueError is the type of a validation error's entry: with the code, where that says more.
func valueError(code string) string {
	if code == codeValidation {
		return "value_error"
	}
	return "value_error." + code
}

// location splits "retry.busy" or "leads[3].phone" into the steps that lead to the member.
func location(part, field string) []any {
	loc := []any{part}
	for step := range strings.FieldsFuncSeq(field, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		if n, err := strconv.Atoi(step); err == nil {
			loc = append(loc, n)
			continue
		}
		loc = append(loc, step)
	}
	return loc
}
