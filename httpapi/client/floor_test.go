package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/client"
)

// The floor's stream goes on behind the last event when its connection ends, and ends with a refusal, or when its reader leaves.
func TestFloorStream(t *testing.T) {
	t.Parallel()
	var opened []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		opened = append(opened, r.Header.Get("Last-Event-ID"))
		switch len(opened) {
		case 1:
			_, _ = fmt.Fprint(w, "retry: 2000\n\nid: a-1\nevent: floor\ndata: {\"queue\":[],\ndata: \"kpis\":{\"calls_live\":3}}\n\n:\n\nid: a-2\nevent: change\ndata: {\"kpis\":{\"calls_live\":4}}\n\nid: cut")
		case 2:
			_, _ = fmt.Fprint(w, "id: a-3\nevent: stale\ndata: {}\n\nevent: news\ndata: {}\n\n")
		default:
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprint(w, `{"code": "invalid_credential", "detail": "The session has ended."}`)
		}
	}))
	t.Cleanup(server.Close)
	c, err := client.New(client.Config{BaseURL: server.URL, Token: "a.b.c", HTTP: server.Client()})
	require.NoError(t, err)
	c.WaitBy(func(ctx context.Context, _ time.Duration) error { return ctx.Err() })
	var got []client.FloorEvent
	for e, err := range c.Supervisors.SupervisorFloorStream(t.Context(), "a-0") {
		if err != nil {
			require.Equal(t, client.ErrorCodeInvalidCredential, client.CodeOf(err))
			break
		}
		got = append(got, e)
	}
	require.Equal(t, []string{"a-0", "a-2", "a-3"}, opened)
	require.Len(t, got, 3)
	require.Equal(t, 3, got[0].Floor.Kpis.CallsLive)
	require.Equal(t, 4, got[1].Change.Kpis.CallsLive)
	require.True(t, got[2].Stale)

	opened = nil
	for _, err := range c.Supervisors.SupervisorFloorStream(t.Context(), "") {
		require.NoError(t, err)
		break
	}
	require.Len(t, opened, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range c.Supervisors.SupervisorFloorStream(ctx, "") {
		require.ErrorIs(t, err, context.Canceled)
	}
}

// A signed URL is asked for without the client's token, wherever it leads, and not in clear.
func TestOpenSignedRecording(t *testing.T) {
	t.Parallel()
	bucket := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" && r.URL.RawQuery == "presigned=1" {
			_, _ = fmt.Fprint(w, "RIFF")
		}
	}))
	t.Cleanup(bucket.Close)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" && r.URL.Query().Get("sig") == "x" {
			http.Redirect(w, r, bucket.URL+"/object?presigned=1", http.StatusFound)
		}
	}))
	t.Cleanup(server.Close)
	c, err := client.New(client.Config{BaseURL: "https://other.example", Token: "svc_test_1"})
	require.NoError(t, err)
	var audio strings.Builder
	n, err := c.Recordings.OpenSignedRecording(t.Context(), server.URL+"/recordings/1?sig=x", &audio, client.Download{})
	require.NoError(t, err)
	require.EqualValues(t, 4, n)
	require.Equal(t, "RIFF", audio.String())
	for _, bad := range []string{"http://other.example/recordings/1?sig=x", "file:///etc/passwd", "call.wav"} {
		_, err = c.Recordings.OpenSignedRecording(t.Context(), bad, &audio, client.Download{})
		require.Error(t, err, bad)
	}
}
