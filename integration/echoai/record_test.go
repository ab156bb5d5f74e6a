package echoai_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/echoai"
)

type answer struct {
	status int
	body   string
}

func do(t *testing.T, method string, s *echoai.Server, path, body string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.Addr()+path, strings.NewReader(body))
	require.NoError(t, err)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	require.NoError(t, err)
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return answer{res.StatusCode, string(b)}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	s := start(t, echoai.Config{Token: "secret"})
	for path, want := range map[string]int{"/refuse": 401, "/refuse?status=503": 503, "/refuse?status=99": 400, "/echo": 401, "/nowhere": 404} {
		_, status, err := dial(t, s, path, http.Header{"Authorization": {"Bearer wrong"}})
		require.Error(t, err, path)
		require.Equal(t, want, status, path)
	}
	bearer := http.Header{"Authorization": {"Bearer secret"}}
	for _, path := range []string{
		"/tone?hz=x", "/tone?every=1s", "/tone?duration=2s&every=1s", "/tone?play=raw", "/echo?end_by=magic", "/tone?delay=-1s",
		"/echo?script=x", "/echo?script=" + url.QueryEscape(`[{"after":"soon","send":1}]`), "/tone?duration=2m", "/echo?greet=maybe",
	} {
		_, status, err := dial(t, s, path, bearer)
		require.Error(t, err, path)
		require.Equal(t, 400, status, path)
	}
	_, _, err := dial(t, s, "/echo", bearer)
	require.NoError(t, err)
	require.EqualValues(t, 3, s.Stats().Refused)
}

func TestStallNeverAnswers(t *testing.T) {
	t.Parallel()
	s := start(t, echoai.Config{})
	d := websocket.Dialer{HandshakeTimeout: 300 * time.Millisecond}
	_, res, err := d.DialContext(t.Context(), "ws://"+s.Addr()+"/stall", nil)
	if res != nil {
		require.NoError(t, res.Body.Close())
	}
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout())
	require.Eventually(t, func() bool { return s.Stats().Stalled == 1 }, 20*time.Second, 5*time.Millisecond)
}

func TestBadFirstFrames(t *testing.T) {
	t.Parallel()
	s := start(t, echoai.Config{})
	conn, _, err := dial(t, s, "/silent", nil)
	require.NoError(t, err)
	require.NoError(t, conn.WriteMessage(websocket.BinaryMessage, []byte{1, 2, 3}))
	require.Eventually(t, func() bool { l := s.Sessions(""); return len(l) == 1 && l[0].Error != "" }, 20*time.Second, 5*time.Millisecond)
	require.Contains(t, s.Sessions("")[0].Error, "metadata")
	conn, _, err = dial(t, s, "/silent", nil)
	require.NoError(t, err)
	require.NoError(t, conn.WriteMessage(websocket.TextMessage, []byte(`{"audio_format":{"encoding":"opus"}}`)))
	require.Eventually(t, func() bool { l := s.Sessions(""); return len(l) == 2 && l[1].Error != "" }, 20*time.Second, 5*time.Millisecond)
}

func TestRecordsAreRead(t *testing.T) {
	t.Parallel()
	s := start(t, echoai.Config{})
	c := open(t, s, "/silent?x=1", map[string]any{"tenant_id": "t9"})
	session(t, s, func(echoai.Session) bool { return true })
	var got []echoai.Session
	require.NoError(t, json.Unmarshal([]byte(do(t, http.MethodGet, s, "/sessions/c1", "").body), &got))
	require.Len(t, got, 1)
	require.Equal(t, "/silent?x=1", got[0].Path)
	require.JSONEq(t, `"t9"`, string(mustField(t, got[0].Metadata, "tenant_id")))
	require.Equal(t, 404, do(t, http.MethodGet, s, "/sessions/c2", "").status)
	require.JSONEq(t, `{"forgotten":0}`, do(t, http.MethodDelete, s, "/sessions", "").body, "a live session is kept")
	require.NoError(t, c.Close())
	session(t, s, isOver)
	require.JSONEq(t, `{"forgotten":1}`, do(t, http.MethodDelete, s, "/sessions", "").body)
	require.JSONEq(t, `[]`, do(t, http.MethodGet, s, "/sessions", "").body)
	require.JSONEq(t, `{"ok":true}`, do(t, http.MethodGet, s, "/health", "").body)
	require.Contains(t, do(t, http.MethodGet, s, "/stats", "").body, `"connections":1`)
}

func mustField(t *testing.T, raw json.RawMessage, name string) json.RawMessage {
	t.Helper()
	var m map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(raw, &m))
	return m[name]
}

func TestCloseEndsConnectionsAndStartIsOnce(t *testing.T) {
	t.Parallel()
	for range 10 {
		s := start(t, echoai.Config{})
		c := open(t, s, "/tone?hz=1000", nil)
		session(t, s, func(r echoai.Session) bool { return r.FramesOut > 2 })
		ended := make(chan error, 1) // who reads answers the close frame, which Close waits for
		go func() {
			var err error
			for err == nil {
				_, _, err = c.ReadMessage()
			}
			ended <- err
		}()
		require.NoError(t, s.Close(t.Context()))
		require.NoError(t, s.Close(t.Context()))
		require.ErrorIs(t, s.Start(t.Context()), echoai.ErrClosed)
		err := <-ended
		require.True(t, websocket.IsCloseError(err, websocket.CloseGoingAway), "%v", err)
	}
}

func TestRunServesUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- echoai.Run(ctx, echoai.Config{Logger: slog.New(slog.DiscardHandler), Ready: func(addr string) { ready <- addr }})
	}()
	require.NotEmpty(t, <-ready)
	cancel()
	require.NoError(t, <-done)
}
