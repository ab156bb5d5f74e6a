package client

import (
	"errors"
	"fmt"
	"net"
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
	// Insecure allows an address of http:// that is not this machine's: whoever is on the way can read the token.
	Insecure bool
	// HTTP makes the requests; a client of its own by default, without a limit of time: contexts have it. Redirections are not followed in any
	// case: they would make a GET of a POST, and take the token elsewhere.
	HTTP *http.Client
	// UserAgent is sent with every request.
	UserAgent string
	// Retries is how often a request is repeated at most: 3 by default, -1 for never.
	Retries int
	// MaxWait is the longest that a Retry-After is waited for, 30 s by default; beyond it the refusal is the result.
	MaxWait time.Duration
}

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
	if base.Scheme == "http" && !cfg.Insecure && !isHere(base.Hostname()) {
		return nil, fmt.Errorf("the API's address %q is not encrypted: it must begin with https://", cfg.BaseURL)
	}
	if strings.ContainsAny(cfg.Token, "\r\n") {
		return nil, errors.New("the token has a line break")
	}
	var own http.Client
	if cfg.HTTP != nil {
		own = *cfg.HTTP
	}
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	cfg.HTTP = &own
	if cfg.UserAgent == "" {
		cfg.UserAgent = "ringmaster-go"
	}
	if cfg.Retries == 0 {
		cfg.Retries = defaultRetries
	}
	if cfg.MaxWait == 0 {
		cfg.MaxWait = defaultMaxWait
	}
	return services(&transport{cfg: cfg, base: base.String(), wait: wait}), nil
}

// isHere tells of a host that is this machine.
func isHere(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}
