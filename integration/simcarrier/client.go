package simcarrier

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Client drives the control surface of a carrier in another process. Its zero HTTP client is http.DefaultClient.
type Client struct {
	// BaseURL is http://host:port of the control surface.
	BaseURL string
	HTTP    *http.Client
}

// StatusError is an error that the control surface answered.
type StatusError struct {
	Status  int
	Message string
}

// Error implements error.
func (e *StatusError) Error() string {
	return fmt.Sprintf("carrier answered %d: %s", e.Status, e.Message)
}

// Place calls the switch; see Server.Place.
func (c *Client) Place(ctx context.Context, req PlaceRequest) (PlaceResult, error) {
	var out PlaceResult
	return out, c.do(ctx, http.MethodPost, "/inbound", req, &out)
}

// Calls lists the reports kept.
func (c *Client) Calls(ctx context.Context, f Filter) ([]Report, error) {
	q := url.Values{}
	if f.Number != "" {
		q.Set("number", f.Number)
	}
	if f.Live {
		q.Set("live", "true")
	}
	var out []Report
	return out, c.do(ctx, http.MethodGet, "/calls?"+q.Encode(), nil, &out)
}

// Call is the report of the latest call with a Call-ID or number; ErrUnknownCall when there is none.
func (c *Client) Call(ctx context.Context, key string) (Report, error) {
	var out Report
	return out, c.do(ctx, http.MethodGet, "/calls/"+url.PathEscape(key), nil, &out)
}

// Hangup makes a subscriber hang up.
func (c *Client) Hangup(ctx context.Context, key string) error {
	return c.do(ctx, http.MethodPost, "/calls/"+url.PathEscape(key)+"/hangup", nil, nil)
}

// Press presses keys on a live call.
func (c *Client) Press(ctx context.Context, key string, req PressRequest) error {
	return c.do(ctx, http.MethodPost, "/calls/"+url.PathEscape(key)+"/keys", req, nil)
}

// Forget drops the reports of ended calls.
func (c *Client) Forget(ctx context.Context) error {
	return c.do(ctx, http.MethodDelete, "/calls", nil, nil)
}

// Stats are the carrier's totals.
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	var out Stats
	return out, c.do(ctx, http.MethodGet, "/stats", nil, &out)
}

// SetTarget says where inbound calls are placed from now on.
func (c *Client) SetTarget(ctx context.Context, addr string) error {
	return c.do(ctx, http.MethodPut, "/target", map[string]string{"target": addr}, nil)
}

// Health is nil when the carrier serves.
func (c *Client) Health(ctx context.Context) error {
	return c.do(ctx, http.MethodGet, "/health", nil, nil)
}

func (c *Client) do(ctx context.Context, method, path string, body, out any) (err error) {
	var payload bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&payload).Encode(body); err != nil {
			return fmt.Errorf("encode request to carrier: %w", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.BaseURL, "/")+path, &payload)
	if err != nil {
		return fmt.Errorf("build request to carrier: %w", err)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask carrier: %w", err)
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	if res.StatusCode != http.StatusOK {
		var failure struct {
			Error string `json:"error"`
		}
		if err := json.NewDecoder(res.Body).Decode(&failure); err != nil {
			failure.Error = http.StatusText(res.StatusCode)
		}
		statusErr := &StatusError{res.StatusCode, failure.Error}
		if res.StatusCode == http.StatusNotFound {
			return errors.Join(ErrUnknownCall, statusErr)
		}
		return statusErr
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(res.Body).Decode(out); err != nil {
		return fmt.Errorf("decode the carrier's answer: %w", err)
	}
	return nil
}

// AddAgent makes a softphone and registers it; see Server.AddAgent.
func (c *Client) AddAgent(ctx context.Context, spec AgentSpec) (AgentState, error) {
	var out AgentState
	return out, c.do(ctx, http.MethodPost, "/agents", spec, &out)
}

// Agents lists the softphones.
func (c *Client) Agents(ctx context.Context) ([]AgentState, error) {
	var out []AgentState
	return out, c.do(ctx, http.MethodGet, "/agents", nil, &out)
}

// Agent is one softphone's state.
func (c *Client) Agent(ctx context.Context, extension string) (AgentState, error) {
	return c.agent(ctx, http.MethodGet, extension, "", nil)
}

// SetAgentManner changes how a softphone takes its next call.
func (c *Client) SetAgentManner(ctx context.Context, extension string, m AgentManner) (AgentState, error) {
	return c.agent(ctx, http.MethodPatch, extension, "", m)
}

// RegisterAgent registers a softphone once more.
func (c *Client) RegisterAgent(ctx context.Context, extension string) (AgentState, error) {
	return c.agent(ctx, http.MethodPost, extension, "/register", nil)
}

// LoseAgent cuts a softphone's network; see Server.LoseAgent.
func (c *Client) LoseAgent(ctx context.Context, extension string) (AgentState, error) {
	return c.agent(ctx, http.MethodPost, extension, "/lose", nil)
}

// RecoverAgent gives it back; see Server.RecoverAgent.
func (c *Client) RecoverAgent(ctx context.Context, extension string) (AgentState, error) {
	return c.agent(ctx, http.MethodPost, extension, "/recover", nil)
}

// HangupAgent makes the agent hang up.
func (c *Client) HangupAgent(ctx context.Context, extension string) (AgentState, error) {
	return c.agent(ctx, http.MethodPost, extension, "/hangup", nil)
}

// RemoveAgent takes a softphone's registration back and forgets it.
func (c *Client) RemoveAgent(ctx context.Context, extension string) (AgentState, error) {
	return c.agent(ctx, http.MethodDelete, extension, "", nil)
}

func (c *Client) agent(ctx context.Context, method, extension, action string, body any) (AgentState, error) {
	var out AgentState
	return out, c.do(ctx, method, "/agents/"+url.PathEscape(extension)+action, body, &out)
}
