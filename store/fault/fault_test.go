package fault_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/fault"
)

type busyError struct{ err error }

func (e *busyError) Error() string { return "busy: " + e.err.Error() }
func (e *busyError) Unwrap() error { return e.err }
func (e *busyError) Fault() *fault.Error {
	return &fault.Error{Kind: fault.Limit, Code: "busy", Detail: "Try later."}
}

func TestOf(t *testing.T) {
	t.Parallel()
	gone := &fault.Error{Kind: fault.NotFound, Code: "not_found", Detail: "There is no such call.", Text: "gone"}
	for name, tt := range map[string]struct {
		err    error
		code   string
		status int
		retry  time.Duration
	}{
		"itself":         {gone, "not_found", 404, 0},
		"wrapped":        {fmt.Errorf("get: %w", gone), "not_found", 404, 0},
		"outermost wins": {fmt.Errorf("get: %w", &busyError{gone}), "busy", 429, time.Second},
		"one of several": {errors.Join(errors.New("x"), gone), "not_found", 404, 0},
		"out of time":    {fmt.Errorf("ask: %w", context.DeadlineExceeded), "service_unavailable", 503, time.Second},
		"fields":         {fault.InField("name", "is required"), "validation_error", 422, 0},
	} {
		got, known := fault.Of(tt.err)
		require.True(t, known, name)
		require.Equal(t, tt.code, got.Code, name)
		require.Equal(t, tt.status, got.Kind.Status(), name)
		require.Equal(t, tt.retry, got.Retry(), name)
	}
	got, known := fault.Of(errors.New("password of the house"))
	require.False(t, known)
	require.Equal(t, 500, got.Kind.Status())
	require.NotContains(t, got.Detail, "house")
}

func TestAsAsksForTheKind(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("edit: %w", fault.InField("name", "is required"))
	refused, ok := fault.As(err, fault.Invalid)
	require.True(t, ok)
	require.Equal(t, []fault.Field{{Field: "name", Message: "is required"}}, refused.Fields)
	_, ok = fault.As(err, fault.Conflict)
	require.False(t, ok)
	require.EqualError(t, err, "edit: validate request: name is required")
}
