package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/ringmaster/ringmaster/media/netguard"
)

// maxResponse is how much of a response is read, so that its connection can be used again.
const maxResponse = 64 << 10

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
}

func newSender(policy netguard.Policy, timeout time.Duration) *sender {
	dialer := &net.Dialer{Timeout: timeout, Control: policy.Control}
	transport := &http.Transport{
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    timeout,
		ResponseHeaderTimeout:  timeout,
		MaxIdleConns:           256,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: maxResponse,
		ForceAttemptHTTP2:      true,
	}
	return &sender{transport: transport, client: &http.Client{
		Transport:     transport,
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (s *sender) close() { s.transport.CloseIdleConnections() }

// post sends one event. Its errors name no address: they stand in the delivery's record for the customer to read.
func (s *sender) post(ctx context.Context, to string, header http.Header, body []byte) result {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return result{err: errors.New("the URL can't be used"), final: true}
	}
	req.Header = header
	resp, err := s.client.Do(req)
	if err != nil {
		return result{err: describe(err), final: errors.Is(err, netguard.ErrForbidden)}
	}
	defer func() { _ = resp.Body.Close() }()
	// A response that breaks off after its status has still been one.
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxResponse))
	return judge(resp.StatusCode)
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

// Headers of a delivery.
const (
	HeaderSignature = "X-Service-Signature"
	HeaderEventID   = "X-Service-Event-Id"
	HeaderEventType = "X-Service-Event-Type"
)

// NewSecret makes a signing secret of 256 bits.
func NewSecret() string {
	var b [32]byte
	// crypto/rand never fails since Go 1.24.
	_, _ = rand.Read(b[:])
	return "whsec_" + hex.EncodeToString(b[:])
}

// Sign gives the signature header's value: the time of sending and the HMAC-SHA256, under the subscription's secret, of that
// time, a full stop and the body as it is sent.
func Sign(secret string, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(t))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return "t=" + t + ",v0=" + hex.EncodeToString(mac.Sum(nil))
}
