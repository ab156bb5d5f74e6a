package crm

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/ringmaster/ringmaster/media/netguard"
)

const (
	// maxAnswer is how much of an answer is read, maxHeader of its headers.
	maxAnswer = 64 << 10
	maxHeader = 32 << 10
	// maxReason is how much of an answer is kept as the reason of a failure.
	maxReason = 300
	userAgent = "Ringmaster-CRM/1"
)

// client makes requests to systems that tenants name, at addresses that the guard allows. It follows no redirect and uses no proxy.
type client struct {
	guard     netguard.Policy
	http      *http.Client
	transport *http.Transport
	now       func() time.Time
}

func newClient(guard netguard.Policy, now func() time.Time) *client {
	dialer := &net.Dialer{Timeout: requestTime, Control: guard.Control}
	transport := &http.Transport{
		DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, TLSHandshakeTimeout: requestTime,
		MaxIdleConns: 128, MaxIdleConnsPerHost: tenantSlots, IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: maxHeader, ForceAttemptHTTP2: true,
	}
	return &client{guard: guard, transport: transport, now: now, http: &http.Client{
		Transport: transport, Timeout: requestTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (c *client) close() { c.transport.CloseIdleConnections() }

// request is one to make.
type request struct {
	method, url string
	header      http.Header
	body        []byte
}

// exchange is a request with what came back.
type exchange struct {
	request
	// code is 0 when no answer came; then err says why. An answer that is cut off, or too long, has both.
	code   int
	answer []byte
	header http.Header
	took   time.Duration
	err    error
	// internal tells that it was with a network of the operator's own: what is answered there is not the tenant's to read.
	internal bool
}

// do makes a request.
func (c *client) do(ctx context.Context, r request) (out exchange) {
	out = exchange{request: r}
	ctx, internal := c.guard.Watch(ctx)
	defer func() { out.internal = internal() }()
	req, err := http.NewRequestWithContext(ctx, r.method, r.url, bytes.NewReader(r.body))
	if err != nil {
		out.err = errBadURL
		return out
	}
	req.Header = r.header.Clone()
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", userAgent)
	}
	began := c.now()
	res, err := c.http.Do(req)
	if err != nil {
		out.took, out.err = c.now().Sub(began), describe(err)
		return out
	}
	defer func() { _ = res.Body.Close() }()
	out.code, out.header = res.StatusCode, res.Header
	out.answer, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	out.took = c.now().Sub(began)
	switch {
	case err != nil:
		out.err = describe(err)
	case len(out.answer) > maxAnswer:
		out.err, out.answer = errLongAnswer, out.answer[:maxAnswer]
	}
	return out
}

var (
	errBadURL     = errors.New("the URL can't be used")
	errLongAnswer = fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
)

// done tells whether the other end has done what was asked: what it said after the status doesn't matter for that.
func (e exchange) done() bool { return e.code >= 200 && e.code < 300 }

// failure is the result of an exchange that isn't done. What the request itself is to blame for won't change; all else may.
func (e exchange) failure(now time.Time) result {
	if e.code == 0 {
		return result{err: e.err, final: errors.Is(e.err, errBadURL), away: true}
	}
	refused := &RefusedError{Status: e.code}
	if !e.internal {
		refused.Reason = reasonOf(e.answer)
	}
	res := result{err: refused, retryAfter: retryAfter(e.header, now)}
	switch e.code {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusGone, http.StatusLengthRequired,
		http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		res.final = true
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		res.away = true
	default:
		res.away = e.code >= 500
	}
	return res
}

// RefusedError is an answer that is no success.
type RefusedError struct {
	Status int
	// Reason is what the answer says, cut short; it may be empty.
	Reason string
}

// Error implements error.
func (e *RefusedError) Error() string {
	text := "answered " + strconv.Itoa(e.Status)
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// reasonOf is the beginning of an answer: its message, where it has one.
func reasonOf(answer []byte) string {
	var said struct{ Message, Detail, Error json.RawMessage }
	text := string(answer)
	if json.Unmarshal(answer, &said) == nil {
		for _, raw := range []json.RawMessage{said.Message, said.Detail, said.Error} {
			var s string
			if json.Unmarshal(raw, &s) == nil && s != "" {
				text = s
				break
			}
		}
	}
	return cut(clean(text), maxReason)
}

// cut shortens a text to some bytes.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// retryAfter reads the header, in seconds or as a date; zero when there is none, and a day at most.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	var wait time.Duration
	if s, err := strconv.ParseUint(text, 10, 31); err == nil {
		wait = time.Duration(s) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	}
	return max(0, min(wait, 24*time.Hour))
}

// describe tells what went wrong without the URL, which may hold a secret.
func describe(err error) error {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, netguard.ErrForbidden):
		return netguard.ErrForbidden
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return errors.New("no answer in time")
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return errors.New("the host name does not resolve")
	}
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return &RefusedError{Status: refused.Response.StatusCode, Reason: reasonOf(refused.Body)}
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("the connection failed: %w", op.Err)
	}
	if outer, ok := errors.AsType[*url.Error](err); ok {
		return outer.Err
	}
	return err
}
