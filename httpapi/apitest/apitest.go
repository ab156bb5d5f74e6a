// Package apitest is the client through which tests talk to the API. It holds every response, and every request that was
// accepted, against the OpenAPI document, and fails the test when one is not as documented.
package apitest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ringmaster/ringmaster/httpapi/openapi"
)

// requestTimeout bounds one request of a test.
const requestTimeout = 30 * time.Second

// Client talks to one server with one credential.
type Client struct {
	// BaseURL is the server's address, such as http://127.0.0.1:8080.
	BaseURL string
	// Key is sent as a bearer token unless it is empty: an API key, a callback token or a session's token.
	Key string
	// Header is added to every request.
	Header http.Header
	// HTTP makes the requests; a client of its own, without kept connections, when nil.
	HTTP *http.Client
}

// With gives a copy of the client that sends one more header.
func (c Client) With(name, value string) Client {
	c.Header = maps.Clone(c.Header)
	if c.Header == nil {
		c.Header = http.Header{}
	}
	c.Header.Set(name, value)
	return c
}

// As gives a copy of the client with another credential.
func (c Client) As(key string) Client {
	c.Key = key
	return c
}

// Do makes one request. A body that is a string, a []byte or a json.RawMessage is sent as it is, any other as JSON; nil sends
// none. The test fails when the response is not as documented.
func (c Client) Do(tb testing.TB, method, path string, body any) (int, http.Header, []byte) {
	tb.Helper()
	raw, err := encode(body)
	require.NoError(tb, err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.BaseURL, "/")+path, bytes.NewReader(raw))
	require.NoError(tb, err)
	for name, values := range c.Header {
		req.Header[name] = slices.Clone(values)
	}
	if c.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.Key)
	}
	if raw != nil && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	client := c.HTTP
	if client == nil {
		client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	}
	resp, err := client.Do(req)
	require.NoError(tb, err)
	answer, err := io.ReadAll(resp.Body)
	require.NoError(tb, resp.Body.Close())
	require.NoError(tb, err)
	require.NoError(tb, Check(ctx, req, raw, resp, answer), "%s %s answered %d: %.2000s", method, path, resp.StatusCode, answer)
	return resp.StatusCode, resp.Header, answer
}

// JSON makes a request that must be answered with a status, and decodes the answer into out unless that is nil.
func (c Client) JSON(tb testing.TB, method, path string, body any, status int, out any) http.Header {
	tb.Helper()
	got, header, answer := c.Do(tb, method, path, body)
	require.Equal(tb, status, got, "%s %s answered %.2000s", method, path, answer)
	if out != nil {
		require.NoError(tb, json.Unmarshal(answer, out))
	}
	return header
}

func encode(body any) ([]byte, error) {
	switch b := body.(type) {
	case nil:
		return nil, nil
	case []byte:
		return b, nil
	case json.RawMessage:
		return b, nil
	case string:
		return []byte(b), nil
	default:
		return json.Marshal(body)
	}
}

// document is read once per process: it is the same for all tests.
//
//nolint:gochecknoglobals // never written after the first use
var document = sync.OnceValues(load)

// described is the document with the routes that it describes.
type described struct {
	doc     *openapi3.T
	router  routers.Router
	schemas *schemas
}

func load() (described, error) {
	raw, err := openapi.Strict()
	if err != nil {
		return described{}, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(raw)
	if err != nil {
		return described{}, fmt.Errorf("load the OpenAPI document: %w", err)
	}
	// Any host serves what is described.
	doc.Servers = nil
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		return described{}, fmt.Errorf("route the OpenAPI document: %w", err)
	}
	schemas, err := newSchemas(raw)
	if err != nil {
		return described{}, err
	}
	return described{doc: doc, router: router, schemas: schemas}, nil
}

// Document gives the document. That it is valid OpenAPI has a test of its own, since every process of tests would pay for it.
func Document() (*openapi3.T, error) {
	d, err := document()
	return d.doc, err
}

// Check holds one exchange against the document.
func Check(ctx context.Context, req *http.Request, sent []byte, resp *http.Response, body []byte) error {
	d, err := document()
	if err != nil {
		return err
	}
	asked := req.Clone(ctx)
	switch asked.Method {
	case http.MethodHead:
		// HEAD is GET without its body.
		asked.Method = http.MethodGet
	case http.MethodOptions:
		return nil
	}
	asked.Body = io.NopCloser(bytes.NewReader(sent))
	route, params, err := d.router.FindRoute(asked)
	if err != nil {
		return checkUndescribed(resp, body, err)
	}
	// Parameters and headers are the filter's; bodies of JSON are the schemas'.
	sentType, gotType := asked.Header.Get("Content-Type"), resp.Header.Get("Content-Type")
	input := &openapi3filter.RequestValidationInput{
		Request: asked, PathParams: params, Route: route,
		Options: &openapi3filter.Options{
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, MultiError: true, ExcludeRequestBody: hasJSON(sentType, sent),
		},
	}
	if resp.StatusCode < http.StatusBadRequest {
		err := openapi3filter.ValidateRequest(ctx, input)
		if err == nil && input.Options.ExcludeRequestBody {
			err = d.schemas.checkRequest(route, sentType, sent)
		}
		if err != nil {
			return fmt.Errorf("the request was accepted but is not as documented: %w", err)
		}
	}
	media, _, _ := mime.ParseMediaType(gotType)
	binary := strings.HasPrefix(media, "audio/")
	if binary && !takes(route, resp.StatusCode, media) {
		return fmt.Errorf("content type %s is not documented", media)
	}
	inJSON := hasJSON(gotType, body) && req.Method != http.MethodHead
	err = openapi3filter.ValidateResponse(ctx, &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: resp.StatusCode, Header: resp.Header, Body: io.NopCloser(bytes.NewReader(body)),
		Options: &openapi3filter.Options{
			MultiError: true, IncludeResponseStatus: true, ExcludeResponseBody: binary || inJSON || req.Method == http.MethodHead,
		},
	})
	if err == nil && inJSON {
		err = d.schemas.checkResponse(route, resp.StatusCode, gotType, body)
	}
	return err
}

// hasJSON tells of a body of JSON.
func hasJSON(contentType string, body []byte) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && isJSON(media) && len(body) > 0
}

func takes(route *routers.Route, status int, media string) bool {
	response := route.Operation.Responses.Status(status)
	return response != nil && response.Value != nil && response.Value.Content.Get(media) != nil
}

// checkUndescribed holds an answer on no documented operation against the two styles of errors.
func checkUndescribed(resp *http.Response, body []byte, reason error) error {
	if resp.StatusCode < http.StatusBadRequest {
		return fmt.Errorf("answered %d, and the operation is not documented: %w", resp.StatusCode, reason)
	}
	if resp.Request != nil && resp.Request.Method == http.MethodHead {
		return nil
	}
	d, err := document()
	if err != nil {
		return err
	}
	name := map[string]string{"application/problem+json": "Problem", "application/json": "DialerError"}[resp.Header.Get("Content-Type")]
	if name == "" {
		return fmt.Errorf("an error has content type %q", resp.Header.Get("Content-Type"))
	}
	if err := d.schemas.check("#"+pointer("components", "schemas", name), body); err != nil {
		return fmt.Errorf("an error is not as documented: %w", err)
	}
	return nil
}

// LeakOptions excuses two goroutines of fasthttp that a closed server leaves: one that keeps the Date header for the whole
// process, and one that looks up to ten seconds later that its server is closed.
func LeakOptions() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
	}
}

// ExamplesOf gives the examples of a body, or of an answer, by their names; the only one has none.
func ExamplesOf(media *openapi3.MediaType) map[string]any {
	out := map[string]any{}
	if media.Example != nil {
		out[""] = media.Example
	}
	for name, example := range media.Examples {
		out[name] = example.Value.Value
	}
	return out
}

// CheckSchema holds JSON against one of the document's named schemas.
func CheckSchema(name string, body []byte) error {
	d, err := document()
	if err != nil {
		return err
	}
	return d.schemas.check("#"+pointer("components", "schemas", name), body)
}

// CheckEvent holds the body of a webhook against the document.
func CheckEvent(body []byte) error {
	d, err := document()
	if err != nil {
		return err
	}
	var event struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return fmt.Errorf("decode an event: %w", err)
	}
	if d.doc.Webhooks[event.Type] == nil {
		return fmt.Errorf("the document has no event %q", event.Type)
	}
	at := "#" + pointer("webhooks", event.Type, "post", "requestBody", "content", "application/json", "schema")
	if err := d.schemas.check(at, body); err != nil {
		return fmt.Errorf("event %s is not as documented: %w", event.Type, err)
	}
	return nil
}
