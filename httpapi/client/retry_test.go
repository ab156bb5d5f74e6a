package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/client"
)

// script answers one request after the other as it is written, and keeps what came.
type script struct {
	mu    sync.Mutex
	steps []http.HandlerFunc
	keys  []string
	sizes []int64
	waits []time.Duration
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.keys, s.sizes = append(s.keys, r.Header.Get("Idempotency-Key")), append(s.sizes, r.ContentLength)
	if len(s.steps) == 0 {
		s.mu.Unlock()
		answers(http.StatusTeapot, `{}`)(w, r)
		return
	}
	step := s.steps[0]
	s.steps = s.steps[1:]
	s.mu.Unlock()
	step(w, r)
}

// came gives the requests' keys.
func (s *script) came() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.keys)
}

// lengths gives the lengths that requests said.
func (s *script) lengths() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sizes)
}

// again begins another script.
func (s *script) again(steps ...http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps, s.keys = steps, nil
}

// serve gives a client of a script, which doesn't wait.
func (s *script) serve(t *testing.T, token string) *client.Client {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	// Without kept connections: on those, net/http repeats requests by itself.
	c, err := client.New(client.Config{
		BaseURL: server.URL + "/", Token: token, HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	})
	require.NoError(t, err)
	c.WaitBy(func(ctx context.Context, d time.Duration) error {
		s.waits = append(s.waits, d)
		return ctx.Err()
	})
	return c
}

func answers(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// lost ends the connection without an answer.
func lost(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	panic(http.ErrAbortHandler)
}

const aCall = `{"id": "0197a3f2-0000-7000-8000-00000000000b", "to": "+919876543210"}`

func TestLostConnections(t *testing.T) {
	t.Parallel()
	ask := map[string]func(context.Context, *client.Client) error{
		"GET": func(ctx context.Context, c *client.Client) error {
			_, err := c.Calls.GetCall(ctx, uuid.UUID{})
			return err
		},
		"POST with a key": func(ctx context.Context, c *client.Client) error {
			_, err := c.Calls.PlaceCall(ctx, client.PlaceCall{To: "9876543210"})
			return err
		},
		"POST of the Dialer API": func(ctx context.Context, c *client.Client) error {
			_, err := c.Campaigns.PausePredictive(ctx, uuid.UUID{}, nil)
			return err
		},
		"PATCH": func(ctx context.Context, c *client.Client) error {
			_, err := c.Leads.PatchLead(ctx, uuid.UUID{}, client.LeadEdit{})
			return err
		},
		"POST without a key": func(ctx context.Context, c *client.Client) error {
			_, err := c.Campaigns.PauseCampaignDialer(ctx, uuid.UUID{})
			return err
		},
	}
	for _, c := range []struct {
		what, token string
		repeated    bool
	}{
		{"GET", "svc_live_1", true},
		{"POST with a key", "svc_live_1", true},
		{"POST of the Dialer API", "svc_live_1", true},
		{"POST of the Dialer API", "a session", false}, // its key is ignored there
		{"PATCH", "svc_live_1", false},
		{"POST without a key", "a session", false},
	} {
		s := &script{steps: []http.HandlerFunc{lost, lost, answers(http.StatusOK, aCall)}}
		api := s.serve(t, c.token)
		err := ask[c.what](t.Context(), api)
		if !c.repeated {
			require.ErrorIs(t, err, io.EOF, c.what)
			require.Equal(t, []string{""}, s.came(), c.what)
			continue
		}
		require.NoError(t, err, c.what)
		require.Len(t, s.came(), 3)
		require.Equal(t, []string{s.came()[0], s.came()[0], s.came()[0]}, s.came(), "the same request")
		require.Less(t, s.waits[0], 400*time.Millisecond)
		require.Greater(t, s.waits[1], 200*time.Millisecond)
		if strings.HasPrefix(c.what, "POST") {
			require.Equal(t, uuid.Version(4), uuid.MustParse(s.came()[0]).Version())
		}

		s.again(lost, lost, lost, lost, answers(http.StatusOK, aCall))
		require.ErrorIs(t, ask[c.what](t.Context(), api), io.EOF, "it gives up")
		require.Len(t, s.came(), 4)
	}
}

func TestRefusalsThatPass(t *testing.T) {
	t.Parallel()
	refused := func(status int, code, after string) http.HandlerFunc {
		return answers(status, `{"code": "`+code+`", "detail": "No."}`, "Retry-After", after)
	}
	for _, c := range []struct {
		what   string
		first  http.HandlerFunc
		waited time.Duration // 0 when it isn't repeated
	}{
		{"a limit", refused(429, "rate_limited", "7"), 7 * time.Second},
		{"a limit in the body", answers(429, `{"code": "rate_limited", "detail": "No.", "retry_after_s": 3}`), 3 * time.Second},
		{"a limit without a time", answers(429, `{"code": "max_concurrent", "detail": "No."}`), 0},
		{"a limit that is far", refused(429, "rate_limited", "31"), 0},
		{"a host that is away", refused(503, "host_unreachable", "2"), 2 * time.Second},
		{"an attempt at work", refused(409, "unknown_outcome", "1"), time.Second},
		{"a state", refused(409, "calling_window", "1"), 0},
	} {
		s := &script{steps: []http.HandlerFunc{c.first, answers(http.StatusCreated, aCall)}}
		_, err := s.serve(t, "svc_live_1").Calls.PlaceCall(t.Context(), client.PlaceCall{To: "9876543210"})
		if c.waited == 0 {
			require.Error(t, err, c.what)
			require.Len(t, s.came(), 1, c.what)
			continue
		}
		require.NoError(t, err, c.what)
		require.Equal(t, []time.Duration{c.waited}, s.waits, c.what)
	}

	s := &script{steps: []http.HandlerFunc{refused(429, "rate_limited", "7")}}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := s.serve(t, "svc_live_1").Calls.GetCall(ctx, uuid.UUID{})
	require.Equal(t, client.ErrorCodeRateLimited, client.CodeOf(err), "the time is over before")
}

func TestKeysOfACaller(t *testing.T) {
	t.Parallel()
	s := &script{steps: []http.HandlerFunc{answers(http.StatusOK, aCall)}}
	_, err := s.serve(t, "svc_live_1").Calls.PlaceCall(client.WithIdempotencyKey(t.Context(), "order 7"), client.PlaceCall{})
	require.NoError(t, err)
	require.Equal(t, []string{"order 7"}, s.came())
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := &script{steps: []http.HandlerFunc{func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}}}
	_, err := s.serve(t, "svc_live_1").Calls.GetCall(ctx, uuid.UUID{})
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, s.came(), 1)
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ answer, text string }{
		{
			`{"status": 422, "code": "validation_failed", "detail": "Wrong.", "request_id": "r1", "errors": [{"field": "to", "message": "is no number"}]}`,
			"getCall: 422 validation_failed: Wrong.; to: is no number (request r1)",
		},
		{
			`{"detail": [{"loc": ["body", "nodes", 2], "msg": "is missing", "type": "missing"}], "request_id": "r1"}`,
			"getCall: 422: The request has invalid members.; nodes.2: is missing (request r1)",
		},
		{`{"detail": "No.", "code": "call_ended", "request_id": "r1"}`, "getCall: 422 call_ended: No. (request r1)"},
		{`<html>`, "getCall: 422: Unprocessable Entity (request r1)"},
	} {
		s := &script{steps: []http.HandlerFunc{answers(http.StatusUnprocessableEntity, c.answer, "X-Request-Id", "r1")}}
		_, err := s.serve(t, "svc_live_1").Calls.GetCall(t.Context(), uuid.UUID{})
		require.EqualError(t, err, c.text)
	}
	s := &script{steps: []http.HandlerFunc{answers(http.StatusConflict, `{"code": "duplicate_lead", "detail": "It is there.", "id": "l1"}`)}}
	_, err := s.serve(t, "svc_live_1").Leads.PushLead(t.Context(), uuid.UUID{}, client.LeadInput{})
	refusal, ok := errors.AsType[*client.Error](err)
	require.True(t, ok)
	require.JSONEq(t, `"l1"`, string(refusal.Members["id"]))
	require.Empty(t, client.CodeOf(io.EOF))
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"", "ringmaster.example", "ftp://ringmaster.example", "http://", "http://a b", "http://ringmaster.example", "http://192.0.2.1", "http://localhost.example",
	} {
		_, err := client.New(client.Config{BaseURL: address})
		require.ErrorContains(t, err, "the API's address", address)
	}
	_, err := client.New(client.Config{BaseURL: "https://ringmaster.example", Token: "svc_\r\nHost: thief"})
	require.ErrorContains(t, err, "line break")
	for _, cfg := range []client.Config{
		{BaseURL: "http://localhost:8080"}, {BaseURL: "http://127.0.0.2"}, {BaseURL: "http://[::1]:80"}, {BaseURL: "http://192.0.2.1", Insecure: true},
	} {
		_, err := client.New(cfg)
		require.NoError(t, err)
	}
}

// TestRedirections are refusals: a POST doesn't become a GET elsewhere, and nobody else gets the token.
func TestRedirections(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		s := &script{steps: []http.HandlerFunc{answers(status, "moved", "Location", "/elsewhere"), answers(http.StatusOK, aCall)}}
		_, err := s.serve(t, "svc_live_1").Calls.PlaceCall(t.Context(), client.PlaceCall{To: "9876543210"})
		var refusal *client.Error
		require.ErrorAs(t, err, &refusal)
		require.Equal(t, status, refusal.Status)
		require.Contains(t, refusal.Detail, "/elsewhere")
		require.Len(t, s.came(), 1)
	}
}

// TestDownloadsGoOn loses the connection in the midst of a recording.
func TestDownloadsGoOn(t *testing.T) {
	t.Parallel()
	audio := bytes.Repeat([]byte("0123456789"), 1000)
	var mu sync.Mutex
	var ranges []string
	broken := 3
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		ranges = append(ranges, r.Header.Get("Range")+" "+r.Header.Get("If-Range"))
		breaks := broken > 0
		broken--
		mu.Unlock()
		w.Header().Set("ETag", `"a"`)
		if !breaks {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(audio))
			return
		}
		start, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-"))
		w.Header().Set("Content-Length", strconv.Itoa(len(audio)-start))
		if start > 0 {
			w.WriteHeader(http.StatusPartialContent)
		}
		_, _ = w.Write(audio[start : start+100])
		w.(http.Flusher).Flush() //nolint:forcetypeassert // the server's
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(server.Close)
	c, err := client.New(client.Config{BaseURL: server.URL, HTTP: server.Client(), Retries: -1})
	require.NoError(t, err)
	var sizes []int64
	var got bytes.Buffer
	n, err := c.Recordings.DownloadRecording(t.Context(), uuid.UUID{}, &got, client.Download{Begin: func(size int64, tag string) error {
		sizes = append(sizes, size)
		require.Equal(t, `"a"`, tag)
		return nil
	}})
	require.NoError(t, err)
	require.Equal(t, audio, got.Bytes())
	require.EqualValues(t, len(audio), n)
	require.Equal(t, []string{" ", `bytes=100- "a"`, `bytes=200- "a"`, `bytes=300- "a"`}, ranges)
	require.Equal(t, []int64{int64(len(audio))}, sizes)

	got.Reset()
	n, err = c.Recordings.DownloadRecording(t.Context(), uuid.UUID{}, &got, client.Download{Offset: 9_990})
	require.NoError(t, err)
	require.Equal(t, "0123456789", got.String())
	require.EqualValues(t, len(audio), n)
	_, err = c.Recordings.DownloadRecording(t.Context(), uuid.UUID{}, failing{}, client.Download{})
	require.ErrorIs(t, err, errFull, "a full disk is not tried again")
	require.Len(t, ranges, 6)
	_, err = c.Recordings.DownloadRecording(t.Context(), uuid.UUID{}, failing{}, client.Download{Begin: func(int64, string) error { return errFull }})
	require.ErrorIs(t, err, errFull)
	got.Reset()
	_, err = c.Recordings.DownloadRecording(t.Context(), uuid.UUID{}, &got, client.Download{Offset: 10, Tag: `"b"`})
	require.ErrorIs(t, err, client.ErrOtherRecording)
	require.Empty(t, got.Bytes())
}

var errFull = errors.New("no space left")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }

// TestUploads sends a lead file as it is read: anew after a lost connection where it can be read anew.
func TestUploads(t *testing.T) {
	t.Parallel()
	takes := func(w http.ResponseWriter, r *http.Request) {
		file, header, err := r.FormFile("file")
		if err != nil {
			answers(http.StatusUnprocessableEntity, `{}`)(w, r)
			return
		}
		text, _ := io.ReadAll(file)
		_, _ = fmt.Fprintf(w, `{"total": %d, "errors": [{"row": 1, "field": %q, "message": "x"}]}`, len(text), header.Filename)
	}
	s := &script{steps: []http.HandlerFunc{lost, takes}}
	file := strings.NewReader("skipped:Phone\n9876543210\n")
	_, err := file.Seek(8, io.SeekStart)
	require.NoError(t, err)
	done, err := s.serve(t, "svc_live_1").Leads.UploadLeads(t.Context(), uuid.UUID{}, "leads.csv", file)
	require.NoError(t, err)
	require.Equal(t, 17, done.Total)
	require.Equal(t, "leads.csv", done.Errors[0].Field)
	require.Equal(t, s.came()[0], s.came()[1])
	require.Greater(t, s.lengths()[0], int64(17), "the length is said")

	s = &script{steps: []http.HandlerFunc{takes}}
	done, err = s.serve(t, "svc_live_1").Leads.UploadLeads(t.Context(), uuid.UUID{}, "leads.csv", iotest.OneByteReader(strings.NewReader("Phone\n")))
	require.NoError(t, err)
	require.Equal(t, 6, done.Total)
	require.EqualValues(t, -1, s.lengths()[0])

	s = &script{steps: []http.HandlerFunc{lost, takes}}
	_, err = s.serve(t, "svc_live_1").Leads.UploadLeads(t.Context(), uuid.UUID{}, "leads.csv", iotest.OneByteReader(strings.NewReader("Phone\n")))
	require.Error(t, err)
	require.Len(t, s.came(), 1, "half of it is gone")
}

// TestVerbs has every verb under the name that the document has for it.
func TestVerbs(t *testing.T) {
	t.Parallel()
	require.Len(t, client.Verbs(), 25)
	for _, event := range client.Verbs() {
		s := &script{steps: []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(r.Body)
			_, _ = fmt.Fprintf(w, `{"ok": true, "result": %s}`, raw)
		}}}
		done, err := s.serve(t, "svc_cb_1").AISessions.ControlCall(t.Context(), uuid.UUID{}, client.NewVerb(event))
		require.NoError(t, err)
		require.Equal(t, event, done.Result["event"])
	}
	require.Nil(t, client.NewVerb("dance"))

	bodies := make(chan string, 1)
	s := &script{steps: []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		bodies <- string(raw)
		_, _ = io.WriteString(w, `{"ok": true}`)
	}}}
	destination := "1001"
	_, err := s.serve(t, "svc_cb_1").AISessions.ControlCall(t.Context(), uuid.UUID{}, client.ControlTransfer{Destination: &destination})
	require.NoError(t, err)
	require.JSONEq(t, `{"event": "transfer", "destination": "1001"}`, <-bodies)
}

// TestPages reads lists by their cursors, and those without by numbers.
func TestPages(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex // guards asked
	var asked []string
	taken := func() []string {
		mu.Lock()
		defer mu.Unlock()
		out := asked
		asked = nil
		return out
	}
	page := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			asked = append(asked, r.URL.RawQuery)
			mu.Unlock()
			_, _ = io.WriteString(w, body)
		}
	}
	call := func(id int) string { return fmt.Sprintf(`{"id": "0197a3f2-0000-7000-8000-%012d"}`, id) }
	s := &script{steps: []http.HandlerFunc{
		page(`{"items": [` + call(1) + `,` + call(2) + `], "next_cursor": "0197a3f2-0000-7000-8000-000000000002"}`),
		page(`{"items": [` + call(3) + `], "next_cursor": null}`),
	}}
	size, status, from := 2, client.CallStatusCompleted, "2026-11-01"
	params := &client.ListCallsParams{PageSize: &size, Status: &status, From: &from}
	var ids []string
	for c, err := range s.serve(t, "svc_live_1").Calls.AllCalls(t.Context(), params) {
		require.NoError(t, err)
		ids = append(ids, c.ID.String()[35:])
	}
	require.Equal(t, []string{"1", "2", "3"}, ids)
	require.Equal(t, []string{
		"from=2026-11-01&page_size=2&status=completed",
		"cursor=0197a3f2-0000-7000-8000-000000000002&from=2026-11-01&page_size=2&status=completed",
	}, taken())
	require.Nil(t, params.Cursor, "the caller's own are untouched")

	s = &script{steps: []http.HandlerFunc{
		page(`{"items": [{"id": "0197a3f2-0000-7000-8000-000000000001"}], "total": 2, "page": 1, "page_size": 1}`),
		page(`{"items": [{"id": "0197a3f2-0000-7000-8000-000000000002"}], "total": 2, "page": 2, "page_size": 1}`),
		answers(http.StatusForbidden, `{"code": "insufficient_scope", "detail": "No."}`),
	}}
	api := s.serve(t, "svc_live_1")
	n := 0
	for _, err := range api.Webhooks.AllWebhookDeliveries(t.Context(), nil) {
		require.NoError(t, err)
		n++
	}
	require.Equal(t, 2, n)
	require.Equal(t, []string{"page_size=200", "page=2&page_size=200"}, taken())
	for _, err := range api.Webhooks.AllWebhookDeliveries(t.Context(), nil) {
		require.Equal(t, client.ErrorCodeInsufficientScope, client.CodeOf(err))
	}
}
