package flow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/media/netguard"
)

const (
	// maxAnswer is how much of an answer is read; a longer one is a failure.
	maxAnswer    = 64 << 10
	maxRedirects = 3
	maxHeader    = 16 << 10
)

// Request is what an http_request node asks.
type Request struct {
	Method, URL string
	Header      map[string]string
	Body        []byte
	Timeout     time.Duration
	// KeepMethod refuses a redirect that would make another method of it, and lose the body: 301, 302 and 303 of a POST.
	KeepMethod bool
}

// Web carries out requests. *Client does.
type Web interface {
	// Do gives the body of an answer of 2xx; any other answer is an error, which names no URL.
	Do(ctx context.Context, r Request) ([]byte, error)
}

// Client asks servers that customers name, at addresses that the policy allows. It is safe for concurrent use.
type Client struct {
	http      *http.Client
	keeps     *http.Client // for KeepMethod
	transport *http.Transport
}

// NewClient makes a client.
func NewClient(guard netguard.Policy) *Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second, Control: guard.Control}
	transport := &http.Transport{
		DialContext: dialer.DialContext, TLSHandshakeTimeout: 10 * time.Second, MaxIdleConns: 64, MaxIdleConnsPerHost: 4,
		IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: maxHeader, ForceAttemptHTTP2: true,
	}
	return &Client{
		transport: transport, http: &http.Client{Transport: transport, CheckRedirect: checkRedirect},
		keeps: &http.Client{Transport: transport, CheckRedirect: keepMethod},
	}
}

func keepMethod(req *http.Request, via []*http.Request) error {
	if req.Method != via[0].Method {
		return fmt.Errorf("the server answered %d, a redirect to %s that turns a %s into a %s; only 307 and 308 are followed",
			req.Response.StatusCode, req.URL.Host, via[0].Method, req.Method)
	}
	return checkRedirect(req, via)
}

func checkRedirect(req *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxRedirects:
		return errors.New("too many redirects")
	case req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return netguard.ErrForbidden
	}
	if first := via[0].URL; req.URL.Host != first.Host || req.URL.Scheme != first.Scheme {
		// Another server gets none of the secrets that the flow has for the first one.
		maps.DeleteFunc(req.Header, func(name string, _ []string) bool { return name != "Accept" && name != "Content-Type" })
	}
	return nil
}

// Close drops the connections that idle.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Do implements Web.
func (c *Client) Do(ctx context.Context, r Request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, bytes.NewReader(r.Body))
	if err != nil || req.URL.Scheme != "http" && req.URL.Scheme != "https" {
		return nil, errors.New("the URL can't be used")
	}
	for name, value := range r.Header {
		req.Header.Set(name, value)
	}
	client := c.http
	if r.KeepMethod {
		client = c.keeps
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, describe(err)
	}
	defer res.Body.Close() //nolint:errcheck // it was read, or is of no use
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case res.StatusCode < 200 || res.StatusCode > 299:
		return nil, fmt.Errorf("the server answered %d", res.StatusCode)
	case err != nil:
		return nil, describe(err)
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	return body, nil
}

// maxReason bounds what is told of a failure: it may quote the server.
const maxReason = 200

// describe tells what went wrong without the URL, which may hold a secret, and without the addresses that its host, or the resolver, has.
func describe(err error) error {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, netguard.ErrForbidden):
		return netguard.ErrForbidden
	case errors.As(err, &timeout) && timeout.Timeout():
		return errors.New("no answer in time")
	}
	if reason, ok := netguard.Reason(err); ok {
		err = errors.New(reason)
	} else if strings.Contains(err.Error(), "malformed HTTP") { // net/http quotes what there was, which its error has no type for
		err = errors.New("the answer is not HTTP")
	} else if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	return fmt.Errorf("%.*s", maxReason, err)
}
