package client

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Error is a refusal of the API, of either surface: what it says, and how to find it in the service's log.
type Error struct {
	// Operation is the operationId.
	Operation string
	// Status is HTTP's, Code says what is wrong for programs, Detail for people.
	Status int
	Code   string
	Detail string
	// Fields are the members that are invalid.
	Fields []FieldError
	// RequestID finds the request in the service's log.
	RequestID string
	// RetryAfter is when to ask again, 0 when that isn't said.
	RetryAfter time.Duration
	// Members are all of the answer, among them those that an operation adds: the id of a lead that is there already.
	Members map[string]json.RawMessage
}

// FieldError is one invalid member.
type FieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Error says what failed, why, and under which request.
func (e *Error) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %d", e.Operation, e.Status)
	if e.Code != "" {
		text.WriteString(" " + e.Code)
	}
	if e.Detail != "" {
		text.WriteString(": " + e.Detail)
	}
	for _, f := range e.Fields {
		fmt.Fprintf(&text, "; %s: %s", f.Field, f.Message)
	}
	if e.RequestID != "" {
		text.WriteString(" (request " + e.RequestID + ")")
	}
	return text.String()
}

// CodeOf is the code of an error's refusal, empty for any other error.
func CodeOf(err error) ErrorCode {
	if refusal, ok := errors.AsType[*Error](err); ok {
		return ErrorCode(refusal.Code)
	}
	return ""
}

// maxRefusal bounds what is read of a refusal, in bytes.
const maxRefusal = 1 << 20

// refusalOf reads a refusal, in whichever form it comes; that of a proxy has a status alone.
func refusalOf(r request, res *http.Response) *Error {
	e := &Error{Operation: r.operation, Status: res.StatusCode, RequestID: res.Header.Get("X-Request-Id")}
	if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	raw, _ := io.ReadAll(io.LimitReader(res.Body, maxRefusal)) // what came of it says enough
	var said struct {
		Code        string          `json:"code"`
		Detail      json.RawMessage `json:"detail"`
		RequestID   string          `json:"request_id"`
		RetryAfterS int             `json:"retry_after_s"`
		Errors      []FieldError    `json:"errors"`
	}
	if json.Unmarshal(raw, &e.Members) != nil || json.Unmarshal(raw, &said) != nil {
		e.Detail = http.StatusText(res.StatusCode)
		if to := res.Header.Get("Location"); to != "" {
			e.Detail = "The address leads to " + to + ", which isn't followed."
		}
		return e
	}
	e.Code, e.Fields, e.RequestID = said.Code, said.Errors, cmp.Or(e.RequestID, said.RequestID)
	if e.RetryAfter == 0 {
		e.RetryAfter = time.Duration(said.RetryAfterS) * time.Second
	}
	var invalid []struct {
		Loc []any  `json:"loc"`
		Msg string `json:"msg"`
	}
	if json.Unmarshal(said.Detail, &e.Detail) != nil && json.Unmarshal(said.Detail, &invalid) == nil {
		e.Detail = "The request has invalid members."
		for _, i := range invalid {
			e.Fields = append(e.Fields, FieldError{Field: place(i.Loc), Message: i.Msg})
		}
	}
	return e
}

// place writes where a member is: without the body, which all are in.
func place(loc []any) string {
	var parts []string
	for _, step := range loc {
		parts = append(parts, fmt.Sprint(step))
	}
	if len(parts) > 1 && parts[0] == "body" {
		parts = parts[1:]
	}
	return strings.Join(parts, ".")
}
