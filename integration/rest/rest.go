// Package rest asks interfaces that speak JSON over HTTP: the service's API, and what the stand-ins are controlled by.
package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// StatusError is an answer that was no success.
type StatusError struct {
	Status int
	URL    string
	Body   string
}

// Error shows the answer.
func (e *StatusError) Error() string {
	return fmt.Sprintf("%s answered %d: %s", e.URL, e.Status, e.Body[:min(len(e.Body), 300)])
}

// Client asks; the zero value by http.DefaultClient and without a bearer token.
type Client struct {
	HTTP  *http.Client
	Token string
}

// Do sends body as JSON, unless it is nil, and decodes the answer into `into`: not at all when that is nil, the bytes as they are when it
// is a *[]byte. Errors: StatusError.
func (c Client) Do(ctx context.Context, method, url string, body, into any) (err error) {
	var payload io.Reader = http.NoBody
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode the body of %s: %w", url, err)
		}
		payload = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, payload)
	if err != nil {
		return fmt.Errorf("make the request %s: %w", url, err)
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", url, err)
	}
	if res.StatusCode >= http.StatusMultipleChoices {
		return &StatusError{Status: res.StatusCode, URL: url, Body: string(raw)}
	}
	switch into := into.(type) {
	case nil:
		return nil
	case *[]byte:
		*into = raw
		return nil
	default:
		if err := json.Unmarshal(raw, into); err != nil {
			return fmt.Errorf("decode the answer of %s: %w", url, err)
		}
		return nil
	}
}
