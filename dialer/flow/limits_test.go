package flow

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/netguard"
)

// webFunc answers requests.
type webFunc func(r Request) ([]byte, error)

func (f webFunc) Do(_ context.Context, r Request) ([]byte, error) { return f(r) }

// TestSavedVariablesAreBounded in their sum: answers that don't fit any more fail their nodes, and what is kept stays small.
func TestSavedVariablesAreBounded(t *testing.T) {
	t.Parallel()
	const asked = 40
	list := make([]string, asked)
	for i := range list {
		list[i] = fmt.Sprintf(`{"id":"n%d","type":"http_request","data":{"method":"GET","url":"http://x/","timeout_s":1,"save_as":"v%d"},"next":{"default":"n%d","failed":"n%d"}}`, i, i, i+1, i+1)
	}
	list = append(list, fmt.Sprintf(`{"id":"n%d","type":"hangup"}`, asked))
	g, err := Parse(nodes(list...))
	require.NoError(t, err)
	facts := Variables{"call_id": "c", "call.big": strings.Repeat("f", 1<<20)}
	largest, failed := 0, 0
	_, err = g.Run(t.Context(), &script{}, Options{
		Variables: facts, Web: webFunc(func(Request) ([]byte, error) { return []byte(`{"a":"` + strings.Repeat("x", 15<<10) + `"}`), nil }),
		Keep: func(_ context.Context, s State) error {
			largest, failed = max(largest, s.Variables.size()), 0
			for _, step := range s.Trace {
				if step.Outcome == OutcomeFailed {
					require.Contains(t, step.Detail, "256 KiB")
					failed++
				}
			}
			return nil
		},
	})
	require.NoError(t, err)
	require.LessOrEqual(t, largest, maxVariables)
	require.Greater(t, largest, maxVariables/2)
	require.Equal(t, asked-8, failed, "eight answers of 30 KiB fit")
}

// TestRequestsAreNamed: each step's has a key of its own, a step that a restart repeats has the same, and a flow may give its own.
func TestRequestsAreNamed(t *testing.T) {
	t.Parallel()
	node := func(id, headers, next string) string {
		return `{"id":"` + id + `","type":"http_request","data":{"method":"POST","url":"http://x/","timeout_s":1,"save_as":"v"` + headers + `},"next":{` + next + `}}`
	}
	g, err := Parse(nodes(node("a", "", `"default":"b"`), node("b", "", `"default":"a","failed":"c"`), node("c", `,"headers":{"idempotency-key":"mine"}`, "")))
	require.NoError(t, err)
	var keys []string
	var states []State
	web := webFunc(func(r Request) ([]byte, error) {
		keys = append(keys, r.Header[idempotencyHeader]+r.Header["idempotency-key"])
		if len(keys) == 4 {
			return nil, http.ErrHandlerTimeout
		}
		return []byte("{}"), nil
	})
	o := Options{Variables: Variables{"call_id": "call-1"}, Web: web, Keep: func(_ context.Context, s State) error {
		states = append(states, s)
		return nil
	}}
	_, err = g.Run(t.Context(), &script{}, o)
	require.NoError(t, err)
	require.Equal(t, []string{"call-1/a/1", "call-1/b/2", "call-1/a/3", "call-1/b/4", "mine"}, keys)
	keys, o.Resume = nil, &states[2]
	_, err = g.Run(t.Context(), &script{}, o)
	require.NoError(t, err)
	require.Equal(t, "call-1/a/3", keys[0], "the step that was cut off")
}

// TestReasonsAreShort: what is told of a failure neither quotes a server at length nor tells the addresses that names have.
func TestReasonsAreShort(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack() //nolint:forcetypeassert // HTTP/1.1
		if err == nil {
			_, _ = c.Write([]byte(strings.Repeat("x", 10<<10) + "\r\n\r\n"))
			_ = c.Close()
		}
	}))
	defer server.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	client := NewClient(netguard.Policy{AllowLoopback: true})
	defer client.Close()
	for address, why := range map[string]string{
		server.URL: "the answer is not HTTP", strings.Replace(gone.URL, "127.0.0.1", "localhost", 1): "the connection was refused",
		"http://no..body/": "the name of the host can't be resolved",
	} {
		_, err := client.Do(t.Context(), Request{Method: http.MethodGet, URL: address, Timeout: time.Minute})
		require.ErrorContains(t, err, why)
		require.LessOrEqual(t, len(err.Error()), maxReason)
		require.NotRegexp(t, `\d+\.\d+\.\d+\.\d+|::1`, err.Error())
	}
}

// TestRedirectsLoseTheirSecrets on the way to another host, and keep them on their own.
func TestRedirectsLoseTheirSecrets(t *testing.T) {
	t.Parallel()
	var got []http.Header
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	elsewhere := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	mux.HandleFunc("/same", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, server.URL+"/end", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/other", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere+"/twice", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/twice", func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Clone())
		http.Redirect(w, r, elsewhere+"/end", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/end", func(_ http.ResponseWriter, r *http.Request) { got = append(got, r.Header.Clone()) })
	client := NewClient(netguard.Policy{AllowLoopback: true})
	defer client.Close()
	ask := func(path string) []http.Header {
		got = nil
		_, err := client.Do(t.Context(), Request{
			Method: http.MethodPost, URL: server.URL + path, Body: []byte("{}"), Timeout: time.Minute,
			Header: map[string]string{"X-Api-Key": "secret", "Authorization": "Bearer secret", "Content-Type": "application/json", "Accept": "text/plain"},
		})
		require.NoError(t, err)
		return got
	}
	require.Equal(t, "secret", ask("/same")[0].Get("X-Api-Key"))
	for _, h := range ask("/other") {
		require.Equal(t, "application/json", h.Get("Content-Type"))
		require.Equal(t, "text/plain", h.Get("Accept"))
		for name := range h {
			require.Contains(t, []string{"Content-Type", "Accept", "Accept-Encoding", "Content-Length", "User-Agent"}, name)
		}
	}
	require.Len(t, got, 2)
}
