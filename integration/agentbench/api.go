package agentbench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
)

// statusError is a refusal of the API.
type statusError struct {
	path   string
	status int
	body   string
}

// Error implements error.
func (e *statusError) Error() string {
	return fmt.Sprintf("%s answered %d: %s", e.path, e.status, e.body)
}

// refusedAs tells whether err is a refusal with one of these statuses: what a person may well be told in the midst of things.
func refusedAs(err error, statuses ...int) bool {
	var refusal *statusError
	if !errors.As(err, &refusal) {
		return false
	}
	return slices.Contains(statuses, refusal.status)
}

// post makes one request with a bearer token, and decodes the answer into `into` unless that is nil.
func (b *bench) post(ctx context.Context, token, path string, body, into any) (err error) {
	var payload io.Reader = http.NoBody
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode the body of %s: %w", path, err)
		}
		payload = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.stack.Bootstrap.BaseURL+path, payload)
	if err != nil {
		return fmt.Errorf("ask %s: %w", path, err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := b.http.Do(req)
	if err != nil {
		return fmt.Errorf("ask %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", path, err)
	}
	if res.StatusCode >= http.StatusBadRequest {
		return &statusError{path: path, status: res.StatusCode, body: string(answer[:min(len(answer), 300)])}
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("decode the answer of %s: %w", path, err)
	}
	return nil
}
