package simcarrier

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/ringmaster/ringmaster/integration/rest"
)

// Client drives the control surface of a carrier in another process. Its zero HTTP client is http.DefaultClient.
type Client struct {
	// BaseURL is http://host:port of the control surface.
	BaseURL string
	HTTP    *http.Client
}

// Place calls the switch; see Server.Place.
func (c *Client) Place(ctx context.Context, req PlaceRequest) (PlaceResult, error) {
	return ask[PlaceResult](ctx, c, http.MethodPost, "/inbound", req)
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
	return ask[[]Report](ctx, c, http.MethodGet, "/calls?"+q.Encode(), nil)
}

// Call is the report of the latest call with a Call-ID or number; ErrUnknownCall when there is none.
func (c *Client) Call(ctx context.Context, key string) (Report, error) {
	return ask[Report](ctx, c, http.MethodGet, "/calls/"+url.PathEscape(key), nil)
}

// Hangup makes a subscriber hang up.
func (c *Client) Hangup(ctx context.Context, key string) error {
	return c.do(ctx, http.MethodPost, "/calls/"+url.PathEscape(key)+"/hangup", nil, nil)
}

// Press presses keys on a live call.
func (c *Client) Press(ctx context.Context, key string, req PressRequest) error {
	return c.do(ctx, http.MethodPost, "/calls/"+url.PathEscape(key)+"/keys", req, nil)
}

// Tape is what a live call has heard since it was asked first.
func (c *Client) Tape(ctx context.Context, key string) ([]Taped, error) {
	return ask[[]Taped](ctx, c, http.MethodPost, "/calls/"+url.PathEscape(key)+"/tape", nil)
}

// Forget drops the reports of ended calls.
func (c *Client) Forget(ctx context.Context) error {
	return c.do(ctx, http.MethodDelete, "/calls", nil, nil)
}

// Stats are the carrier's totals.
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	return ask[Stats](ctx, c, http.MethodGet, "/stats", nil)
}

// SetTarget says where inbound calls are placed from now on.
func (c *Client) SetTarget(ctx context.Context, addr string) error {
	return c.do(ctx, http.MethodPut, "/target", map[string]string{"target": addr}, nil)
}

// Health is nil when the carrier serves.
func (c *Client) Health(ctx context.Context) error {
	return c.do(ctx, http.MethodGet, "/health", nil, nil)
}

// do asks the control surface. Errors: rest.StatusError, joined with ErrUnknownCall for what is not found.
func (c *Client) do(ctx context.Context, method, path string, body, out any) error {
	err := rest.Client{HTTP: c.HTTP}.Do(ctx, method, strings.TrimSuffix(c.BaseURL, "/")+path, body, out)
	if refused, ok := errors.AsType[*rest.StatusError](err); ok && refused.Status == http.StatusNotFound {
		return errors.Join(ErrUnknownCall, err)
	}
	return err
}

// ask is do for an answer of one type.
func ask[T any](ctx context.Context, c *Client, method, path string, body any) (out T, err error) {
	err = c.do(ctx, method, path, body, &out)
	return out, err
}

// AddAgent makes a softphone and registers it; see Server.AddAgent.
func (c *Client) AddAgent(ctx context.Context, spec AgentSpec) (AgentState, error) {
	return ask[AgentState](ctx, c, http.MethodPost, "/agents", spec)
}

// Agents lists the softphones.
func (c *Client) Agents(ctx context.Context) ([]AgentState, error) {
	return ask[[]AgentState](ctx, c, http.MethodGet, "/agents", nil)
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
