package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config says whom to ask, and as whom. Only BaseURL is required.
type Config struct {
	// BaseURL is the server's address, such as https://ringmaster.example.
	BaseURL string
	// Token is an API key, a session's access token or a callback token.
	Token string
	// HTTP makes the requests; a client of its own by default, without a limit of time: contexts have it.
	HTTP *http.Client
	// UserAgent is sent with every request.
	UserAgent string
	// Retries is how often a request is repeated at most: 3 by default, -1 for never.
	Retries int
	// MaxWait is the longest that a Retry-After is waited for, 30 s by default; beyond it the refusal is the result.
	MaxWait time.Duration
}

// Client has the operations of the API by their tags in its description. A method has the operationId of its operation. Safe for concurrent use.
type Client struct {
	VoiceAgents *VoiceAgents
	Campaigns   *Campaigns
	Leads       *Leads
	Calls       *Calls
	Recordings  *Recordings
	AISessions  *AISessions
	Webhooks    *Webhooks
	Keys        *Keys
	Dialer      *Dialer
	Accounts    *Accounts
	Agents      *Agents
	Supervisors *Supervisors
	Health      *Health
}

// The services, each with the operations of one tag.
type (
	// VoiceAgents are where the audio of calls goes.
	VoiceAgents struct{ client *transport }
	// Campaigns are leads to call, and the rules by which they are called.
	Campaigns struct{ client *transport }
	// Leads are whom campaigns call, and the numbers that nobody calls.
	Leads struct{ client *transport }
	// Calls are single calls, what became of each call, and what was used.
	Calls struct{ client *transport }
	// Recordings are the audio of answered calls.
	Recordings struct{ client *transport }
	// AISessions are what a voice agent does with the call that it is on.
	AISessions struct{ client *transport }
	// Webhooks are subscriptions to events, and their deliveries.
	Webhooks struct{ client *transport }
	// Keys are the API keys of a tenant. They take a session.
	Keys struct{ client *transport }
	// Dialer has what signs in, and operations that take a session as well as a key.
	Dialer struct{ client *transport }
	// Accounts are what a tenant consists of: users, numbers, trunks, flows and settings.
	Accounts struct{ client *transport }
	// Agents are the desk of human agents, and their figures.
	Agents struct{ client *transport }
	// Supervisors have the floor, supervision of calls, escalations and the audit.
	Supervisors struct{ client *transport }
	// Health says whether the service works.
	Health struct{ client *transport }
)

const (
	defaultRetries = 3
	defaultMaxWait = 30 * time.Second
)

// New makes a client. It sends nothing.
func New(cfg Config) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(cfg.BaseURL, "/"))
	if err != nil {
		return nil, fmt.Errorf("read the API's address: %w", err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("the API's address %q doesn't begin with http:// or https://", cfg.BaseURL)
	}
	if strings.ContainsAny(cfg.Token, "\r\n") {
		return nil, errors.New("the token has a line break")
	}
	if cfg.HTTP == nil {
		cfg.HTTP = &http.Client{}
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "ringmaster-go"
	}
	if cfg.Retries == 0 {
		cfg.Retries = defaultRetries
	}
	if cfg.MaxWait == 0 {
		cfg.MaxWait = defaultMaxWait
	}
	t := &transport{cfg: cfg, base: base.String(), wait: wait}
	return &Client{
		VoiceAgents: &VoiceAgents{t}, Campaigns: &Campaigns{t}, Leads: &Leads{t}, Calls: &Calls{t}, Recordings: &Recordings{t},
		AISessions: &AISessions{t}, Webhooks: &Webhooks{t}, Keys: &Keys{t}, Dialer: &Dialer{t}, Accounts: &Accounts{t}, Agents: &Agents{t},
		Supervisors: &Supervisors{t}, Health: &Health{t},
	}, nil
}
