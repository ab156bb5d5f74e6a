package simcarrier_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/rest"
	"github.com/ringmaster/ringmaster/integration/simcarrier"
)

func ask(t *testing.T, s *simcarrier.Server, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.HTTPAddr()+path, strings.NewReader(body))
	require.NoError(t, err)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	require.NoError(t, err)
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode, string(b)
}

func TestInboundOverHTTP(t *testing.T) {
	t.Parallel()
	p := setup(t, simcarrier.Config{}, simcarrier.Config{})
	status, body := ask(t, p.from, http.MethodPost, "/inbound", `{"from":"+919800000100","to":"9180000001"}`)
	require.Equal(t, 200, status, body)
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(body), &got))
	require.Equal(t, true, got["answered"])
	require.InDelta(t, 200, got["sip_status"], 0)
	id, ok := got["call_id"].(string)
	require.True(t, ok)

	status, body = ask(t, p.from, http.MethodPost, "/inbound", `{"from":"+919800000100","to":"9180000060"}`)
	require.Equal(t, 200, status, body)
	require.NoError(t, json.Unmarshal([]byte(body), &got))
	require.Equal(t, false, got["answered"])
	require.InDelta(t, 486, got["sip_status"], 0)

	for _, bad := range []string{``, `{`, `{"from":"1"}`, `{"from":"+91980","to":""}`, `{"from":"x y","to":"1"}`, `{"from":"1","to":"2","no":1}`, `{"from":"1","to":"2","voice":"opera"}`, `[]`} {
		status, body = ask(t, p.from, http.MethodPost, "/inbound", bad)
		require.Equal(t, 400, status, bad)
		require.Contains(t, body, `"error"`)
	}
	status, _ = ask(t, p.to, http.MethodPost, "/inbound", `{"from":"+919800000100","to":"9180000001"}`)
	require.Equal(t, 502, status, "no switch is set")
	status, _ = ask(t, p.from, http.MethodGet, "/inbound", "")
	require.Equal(t, 405, status)

	for _, key := range []string{id, "+919800000100", "9800000100", "09800000100"} {
		status, body = ask(t, p.from, http.MethodGet, "/calls/"+key, "")
		require.Equal(t, 200, status, key)
		require.Contains(t, body, `"sip_status":`)
	}
	status, _ = ask(t, p.from, http.MethodGet, "/calls/"+url.PathEscape("no/such"), "")
	require.Equal(t, 404, status)
	status, _ = ask(t, p.from, http.MethodPost, "/calls/none/hangup", "")
	require.Equal(t, 404, status)
	status, body = ask(t, p.from, http.MethodDelete, "/calls", "")
	require.Equal(t, 200, status)
	require.JSONEq(t, `{"forgotten":1}`, body, "the live call is kept")
	status, _ = ask(t, p.from, http.MethodPut, "/target", `{"target":"nowhere"}`)
	require.Equal(t, 400, status)
}

func TestClient(t *testing.T) {
	t.Parallel()
	p := setup(t, simcarrier.Config{}, simcarrier.Config{})
	transport := &http.Transport{DisableKeepAlives: true}
	c := &simcarrier.Client{BaseURL: "http://" + p.from.HTTPAddr(), HTTP: &http.Client{Transport: transport}}
	ctx := t.Context()
	require.NoError(t, c.Health(ctx))
	require.NoError(t, c.SetTarget(ctx, p.to.SIPAddr()))
	res, err := c.Place(ctx, simcarrier.PlaceRequest{From: caller, To: "9800000000", Voice: "babble"})
	require.NoError(t, err)
	require.True(t, res.Answered)
	live, err := c.Calls(ctx, simcarrier.Filter{Live: true, Number: caller})
	require.NoError(t, err)
	require.Len(t, live, 1)
	to := eventually(t, p.to, res.CallID, func(r simcarrier.Report) bool { return r.HearsNow })
	require.NotEmpty(t, to.Bursts, "babble is heard as audio")
	require.NoError(t, c.Hangup(ctx, res.CallID))
	require.Eventually(t, func() bool {
		r, err := c.Call(ctx, res.CallID)
		return err == nil && !r.Live && r.EndedBy == simcarrier.Us
	}, 20*time.Second, 10*time.Millisecond)
	none, err := c.Calls(ctx, simcarrier.Filter{Live: true})
	require.NoError(t, err)
	require.Empty(t, none)
	stats, err := c.Stats(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 1, stats.Placed)
	require.NoError(t, c.Forget(ctx))
	_, err = c.Call(ctx, res.CallID)
	require.ErrorIs(t, err, simcarrier.ErrUnknownCall)
	_, err = c.Place(ctx, simcarrier.PlaceRequest{From: "?", To: "1"})
	var refused *rest.StatusError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 400, refused.Status)
}
