package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ringmaster/ringmaster/media/netguard"
)

const (
	// maxResponse is how much of a response is read, so that its connection can be used again.
	maxResponse = 64 << 10
	maxHeader   = 16 << 10
	// maxError bounds what a delivery's record says of a failure.
	maxError = 300
	// maxShown is how much of it a test shows.
	maxShown = 4 << 10
	// mostIdle is how many connections are kept for the next event.
	mostIdle = 1024
)

// sender makes the requests. It follows no redirect, uses no proxy, and connects only to addresses that the policy allows.
type sender struct {
	client    *http.Client
	transport *http.Transport
}

// result is what came of one request.
type result struct {
	code int // 0 when no response came
	err  error
	// final says that trying again would not help.
	final bool
	// own says that nothing was sent, for a reason of ours.
	own bool
	// retryAfter is what the receiver asked for.
	retryAfter time.Duration
	// header and body are the answer's; the body is cut after shown bytes.
	header http.Header
	body   []byte
}

func newSender(policy netguard.Policy, timeout time.Duration) *sender {
	dialer := &net.Dialer{Timeout: timeout, Control: policy.Control}
	transport := &http.Transport{
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    timeout,
		ResponseHeaderTimeout:  timeout,
		MaxIdleConns:           mostIdle,
		MaxIdleConnsPerHost:    mostRequests,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: maxHeader,
		ForceAttemptHTTP2:      true,
	}
	return &sender{transport: transport, client: &http.Client{
		Transport:     transport,
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// newTester makes a sender that keeps no connection.
func newTester(policy netguard.Policy) *sender {
	s := newSender(policy, Timeout)
	s.transport.DisableKeepAlives = true
	return s
}

func (s *sender) close() { s.transport.CloseIdleConnections() }

// post sends one event. Its errors name no address: they stand in the delivery's record for the customer to read.
func (s *sender) post(ctx context.Context, to string, header http.Header, body []byte) result {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return result{err: errors.New("the URL can't be used"), final: true, own: true}
	}
	req.Header = header
	resp, err := s.client.Do(req)
	if err != nil {
		forbidden := errors.Is(err, netguard.ErrForbidden)
		return result{err: describe(err), final: forbidden, own: forbidden}
	}
	defer func() { _ = resp.Body.Close() }()
	// A response that breaks off after its status has still been one.
	shown, _ := io.ReadAll(io.LimitReader(resp.Body, maxShown))
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxResponse))
	res := judge(resp.StatusCode)
	res.header, res.body, res.retryAfter = resp.Header, shown, retryAfter(resp.Header, time.Now())
	return res
}

// judge says what a status means: 2xx is success; 4xx won't change by itself, except 408 and 429; all else is worth a retry.
func judge(code int) result {
	switch {
	case code >= 200 && code < 300:
		return result{code: code}
	case code == http.StatusRequestTimeout || code == http.StatusTooManyRequests:
		return result{code: code, err: fmt.Errorf("the receiver answered %d", code)}
	default:
		return result{code: code, err: fmt.Errorf("the receiver answered %d", code), final: code >= 400 && code < 500}
	}
}

// describe tells what went wrong without the URL, which http.Client puts into its errors and which may hold a secret.
func describe(err error) error {
	var timeout interface{ Timeout() bool }
	var name *net.DNSError
	var op *net.OpError
	var outer *url.Error
	switch {
	case errors.Is(err, netguard.ErrForbidden):
		return netguard.ErrForbidden
	case errors.As(err, &timeout) && timeout.Timeout():
		return errors.New("no answer in time")
	case errors.As(err, &name):
		return errors.New("the host name does not resolve")
	case errors.As(err, &op):
		return fmt.Errorf("the connection failed: %w", op.Err)
	case errors.As(err, &outer):
		return outer.Err
	default:
		return err
	}
}

// clean makes a text that may have come from a receiver fit for the database and the log: valid, in one line, short.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
	if len(s) > maxError {
		s = strings.ToValidUTF8(s[:maxError], "") + "…"
	}
	return s
}
