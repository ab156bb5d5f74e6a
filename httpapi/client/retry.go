package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
)

// transport sends requests, and repeats those that may be.
type transport struct {
	cfg  Config
	base string
	wait func(context.Context, time.Duration) error // a test's own does not wait
}

const (
	// firstWait is before the first repetition after a lost connection; it doubles, and varies by half, so that many clients don't come together.
	firstWait = 200 * time.Millisecond
	// drained is how much is read of a body that nobody wants, so that its connection can be used again.
	drained = 64 << 10
)

// do makes a request, as often as it takes, and has read take the answer once it is a success.
func (t *transport) do(ctx context.Context, r request, read func(*http.Response) error) error {
	key := ""
	if r.repeatable && t.repeatable(r) { // where it would be ignored it has net/http repeat what must not be
		key = uuid.NewString()
		if given, ok := ctx.Value(keyOfRequest{}).(string); ok {
			key = given
		}
	}
	for attempt := 0; ; attempt++ {
		again, err := t.attempt(ctx, r, key, read)
		if err == nil || again < 0 || attempt >= t.cfg.Retries || r.once {
			return err
		}
		if again == 0 {
			again = firstWait << attempt
			again = again/2 + rand.N(again)
		}
		if again > t.cfg.MaxWait {
			return err
		}
		if until, ok := ctx.Deadline(); ok && time.Until(until) < again {
			return err
		}
		if ended := t.wait(ctx, again); ended != nil {
			return errors.Join(err, ended)
		}
	}
}

// never says that a request isn't repeated.
const never = -1

// attempt makes a request once. It says after which time it may be repeated: never when negative, and when the caller likes when it is 0.
func (t *transport) attempt(ctx context.Context, r request, key string, read func(*http.Response) error) (again time.Duration, err error) {
	req, err := t.request(ctx, r, key)
	if err != nil {
		return never, err
	}
	res, err := t.cfg.HTTP.Do(req)
	if err != nil {
		if ctx.Err() == nil && t.repeatable(r) {
			return 0, fmt.Errorf("%s: %w", r.operation, err)
		}
		return never, fmt.Errorf("%s: %w", r.operation, err)
	}
	defer func() {
		_, _ = io.CopyN(io.Discard, res.Body, drained)
		_ = res.Body.Close()
	}()
	if res.StatusCode >= http.StatusMultipleChoices {
		refusal := refusalOf(r, res)
		if refusal.RetryAfter > 0 && (refusal.Status == http.StatusTooManyRequests || t.repeatable(r) && passes(refusal)) {
			return refusal.RetryAfter, refusal
		}
		return never, refusal
	}
	if err := read(res); err != nil {
		if _, own := errors.AsType[*localError](err); !own && ctx.Err() == nil && t.repeatable(r) {
			return 0, fmt.Errorf("%s: read the answer: %w", r.operation, err)
		}
		return never, fmt.Errorf("%s: read the answer: %w", r.operation, err)
	}
	return never, nil
}

// passes tells of a refusal that another attempt may not meet: the service is away, or still at work on the first attempt.
func passes(e *Error) bool {
	return e.Status == http.StatusServiceUnavailable || e.Code == string(ErrorCodeUnknownOutcome)
}

// repeatable tells whether a request does the same when it comes twice: by its method, or by its Idempotency-Key, which the Dialer API
// ignores when a session asks.
func (t *transport) repeatable(r request) bool {
	switch r.method {
	case http.MethodGet, http.MethodDelete:
		return true
	default:
		return r.repeatable && (strings.HasPrefix(r.path, "/api/v1/") || strings.HasPrefix(t.cfg.Token, "svc_"))
	}
}

func (t *transport) request(ctx context.Context, r request, key string) (*http.Request, error) {
	var body io.Reader
	var size int64
	if r.open != nil {
		var err error
		if body, size, err = r.open(); err != nil {
			return nil, fmt.Errorf("%s: read what is to be sent: %w", r.operation, err)
		}
	}
	url := t.base + r.path
	if len(r.values) > 0 {
		url += "?" + r.values.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, url, body)
	if err != nil {
		return nil, fmt.Errorf("%s: make the request: %w", r.operation, err)
	}
	maps.Copy(req.Header, r.header)
	if body != nil {
		req.ContentLength = size
	}
	if t.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+t.cfg.Token)
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	req.Header.Set("User-Agent", t.cfg.UserAgent)
	return req, nil
}

// wait waits, unless the context ends before.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
