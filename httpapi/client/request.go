package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/google/uuid"
)

// request is one operation's.
type request struct {
	operation, method, path string
	values                  url.Values
	header                  http.Header
	body                    any
	// repeatable says that the operation takes an Idempotency-Key.
	repeatable bool
	// open makes the body anew for each attempt, in place of body; once says that there can be only one.
	open func() (io.Reader, int64, error)
	once bool
}

// nothing is the answer of operations that answer none.
type nothing struct{}

// pathOf puts ids into a path.
func pathOf(pattern string, ids ...uuid.UUID) string {
	for _, id := range ids {
		before, rest, _ := strings.Cut(pattern, "{")
		_, after, _ := strings.Cut(rest, "}")
		pattern = before + id.String() + after
	}
	return pattern
}

// query sends what is set of the parameters, a pointer to a struct or nil, by the names of their tags.
func (r *request) query(params any) {
	at := reflect.ValueOf(params)
	if at.IsNil() {
		return
	}
	at, r.values = at.Elem(), url.Values{}
	for i := range at.NumField() {
		value := at.Field(i)
		if value.Kind() == reflect.Pointer {
			if value.IsNil() {
				continue
			}
			value = value.Elem()
		}
		name, _, _ := strings.Cut(at.Type().Field(i).Tag.Get("form"), ",")
		r.values.Set(name, fmt.Sprint(value.Interface()))
	}
}

// optional is a body that may be absent.
func optional[T any](body *T) any {
	if body == nil {
		return nil
	}
	return body
}

// keyOfRequest is where a context has the Idempotency-Key.
type keyOfRequest struct{}

// WithIdempotencyKey has the requests of a context carry this Idempotency-Key in place of one that the client makes up: a request that is repeated
// after the program was started anew happens once then. The control operation takes a UUID of version 4 alone.
func WithIdempotencyKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyOfRequest{}, key)
}

// ask sends a request and decodes the answer.
func ask[T any](ctx context.Context, t *transport, r request) (T, error) {
	var out T
	if r.body != nil {
		raw, err := json.Marshal(r.body)
		if err != nil {
			return out, fmt.Errorf("%s: encode the request: %w", r.operation, err)
		}
		if verb, ok := r.body.(Verb); ok {
			raw = withEvent(raw, verb.event())
		}
		r.open = func() (io.Reader, int64, error) { return bytes.NewReader(raw), int64(len(raw)), nil }
		r.header = http.Header{"Content-Type": {"application/json"}}
	}
	_, silent := any(out).(nothing)
	err := t.do(ctx, r, func(res *http.Response) error {
		if silent {
			return nil
		}
		return json.NewDecoder(res.Body).Decode(&out)
	})
	return out, err
}

// Verb is what can be asked of a call that a voice agent is on: ControlHangup, ControlTransfer and the others of their name.
type Verb interface{ event() string }

// withEvent adds its name to a verb's members.
func withEvent(verb []byte, event string) []byte {
	named := []byte(`{"event":"` + event + `"`)
	if !bytes.Equal(verb, []byte("{}")) {
		named = append(named, ',')
	}
	return append(named, verb[1:]...)
}
