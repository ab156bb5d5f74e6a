package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/httpapi/apitest"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/recordings"
)

func callPath(id uuid.UUID) string { return "/api/v1/calls/" + id.String() }

func TestGetCall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	campaign := storetest.Campaign(t, b.st, b.tenant, nil)
	at := func(s float64) time.Time { return b.clock.Now().Add(time.Duration(s * float64(time.Second))) }
	id := b.call(t, b.tenant, &campaign, `, status, dial_time, ring_time, answer_time, agent_connect_time, end_time, hangup_cause,
		hangup_disposition, disposition, ai_sentiment`, "completed", at(0), at(1.5), at(4), at(4.2), at(64.9), "NORMAL_CLEARING",
		"send_bye", "interested", "positive")
	var got map[string]any
	b.api.JSON(t, http.MethodGet, callPath(id), nil, http.StatusOK, &got)
	want := map[string]any{
		"id": id.String(), "fs_uuid": id.String(), "campaign_id": campaign.String(), "lead_id": nil, "agent_id": nil,
		"direction": "outbound", "status": "completed", "hangup_cause": "NORMAL_CLEARING", "hangup_disposition": "send_bye",
		"ring_duration_s": 2.0, "talk_duration_s": 60.0, "total_duration_s": 64.0, "has_recording": false, "recording_url": nil,
		"disposition": "interested", "notes": nil, "ai_summary": nil, "ai_sentiment": "positive", "ai_next_action": nil,
	}
	for member, value := range want {
		require.Equal(t, value, got[member], member)
	}
	for member, when := range map[string]time.Time{
		"dial_time": at(0), "ring_time": at(1.5), "answer_time": at(4), "agent_connect_time": at(4.2), "end_time": at(64.9),
	} {
		parsed, err := time.Parse(time.RFC3339Nano, fmt.Sprint(got[member]))
		require.NoError(t, err)
		require.True(t, when.Equal(parsed), member)
	}
	refused(t, b.foreign, http.MethodGet, callPath(id), nil, http.StatusNotFound, "not_found")
	refused(t, b.api, http.MethodGet, callPath(storetest.NewID(t)), nil, http.StatusNotFound, "not_found")
	refused(t, b.api, http.MethodGet, "/api/v1/calls/nonsense", nil, http.StatusNotFound, "not_found")
}

// Who answered and how it sounded: whole, in part, and not known.
func TestCallShowsVerdictAndQuality(t *testing.T) {
	t.Parallel()
	b := setup(t)
	answered := func(columns string, values ...any) map[string]any {
		id := b.call(t, b.tenant, nil, ", status, answer_time"+columns, append([]any{"answered", b.clock.Now()}, values...)...)
		var got map[string]any
		b.api.JSON(t, http.MethodGet, callPath(id), nil, http.StatusOK, &got)
		return got
	}
	got := answered(", amd, answered_by_amd, amd_class, amd_confidence, amd_after_ms, quality", true, "human", "machine", 0.93, 4210,
		`{"inbound":{"mos":3.9,"loss_pct":5.1,"jitter_ms":11.25,"late_pct":0.2,"concealed_pct":5.3,"packets":500},"outbound":null}`)
	require.Equal(t, "human", got["answered_by_amd"])
	require.Equal(t, map[string]any{"class": "machine", "confidence": 0.93, "after_ms": 4210.0}, got["amd"])
	require.Equal(t, map[string]any{
		"inbound":  map[string]any{"mos": 3.9, "loss_pct": 5.1, "jitter_ms": 11.25, "late_pct": 0.2, "concealed_pct": 5.3},
		"outbound": nil,
	}, got["quality"])
	got = answered(", amd", true)
	for _, member := range []string{"answered_by_amd", "amd", "quality"} {
		require.Contains(t, got, member)
		require.Nil(t, got[member], member)
	}
}

func TestCallThatWasNeverAnswered(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.call(t, b.tenant, nil, ", status, dial_time, end_time, hangup_cause", "failed", b.clock.Now(),
		b.clock.Now().Add(3*time.Second), "USER_BUSY")
	var got map[string]any
	b.api.JSON(t, http.MethodGet, callPath(id), nil, http.StatusOK, &got)
	require.Nil(t, got["ring_duration_s"])
	require.Nil(t, got["talk_duration_s"])
	require.InDelta(t, 3, got["total_duration_s"], 0)
	require.Nil(t, got["hangup_disposition"])
}

type callPage struct {
	Items    []struct{ ID, Status string } `json:"items"`
	Total    int                           `json:"total"`
	Page     int                           `json:"page"`
	PageSize int                           `json:"page_size"`
}

func TestCampaignCalls(t *testing.T) {
	t.Parallel()
	b := setup(t)
	campaign, empty := storetest.Campaign(t, b.st, b.tenant, nil), storetest.Campaign(t, b.st, b.tenant, nil)
	path := "/api/v1/campaigns/" + campaign.String() + "/calls"
	var ids []string
	for i := range 5 {
		columns, values := ", status", []any{"dialing"}
		if i%2 == 0 {
			columns, values = ", status, dial_time, end_time, hangup_cause, disposition",
				[]any{"failed", b.clock.Now(), b.clock.Now(), "USER_BUSY", "not_interested"}
		}
		ids = append(ids, b.call(t, b.tenant, &campaign, columns, values...).String())
	}
	b.call(t, b.tenant, &empty, "")
	list := func(query string) callPage {
		var page callPage
		b.api.JSON(t, http.MethodGet, path+query, nil, http.StatusOK, &page)
		return page
	}
	page := list("")
	require.Equal(t, []int{5, 1, 25}, []int{page.Total, page.Page, page.PageSize})
	require.Equal(t, ids[4], page.Items[0].ID, "newest first")
	page = list("?page=2&page_size=2")
	require.Equal(t, []int{5, 2, 2}, []int{page.Total, page.Page, page.PageSize})
	require.Equal(t, []string{ids[2], ids[1]}, []string{page.Items[0].ID, page.Items[1].ID})
	require.Empty(t, list("?page=4&page_size=2").Items)
	require.Equal(t, 3, list("?status=failed").Total)
	require.Equal(t, 2, list("?status=dialing&page_size=200").Total)
	require.Equal(t, 3, list("?disposition=not_interested").Total)
	require.Equal(t, 0, list("?disposition=unknown&status=failed").Total)
	for _, bad := range []string{
		"?page=0", "?page=x", "?page=-1", "?page_size=0", "?page_size=201", "?page_size=", "?status=nonsense", "?status=",
		"?page=99999999999999999999", "?disposition=%00",
	} {
		p := refused(t, b.api, http.MethodGet, path+bad, nil, http.StatusUnprocessableEntity, "validation_error")
		require.Len(t, p.Errors, 1, bad)
	}
	refused(t, b.foreign, http.MethodGet, path, nil, http.StatusNotFound, "not_found")
	refused(t, b.api, http.MethodGet, "/api/v1/campaigns/nonsense/calls", nil, http.StatusNotFound, "not_found")
}

// recording gives a call a recording in some status; the audio is that of a ready one.
func (b *bundle) recording(t *testing.T, call uuid.UUID, status string, audio []byte) {
	t.Helper()
	key := call.String() + ".wav"
	require.NoError(t, b.bucket.Put(t.Context(), key, bytes.NewReader(audio), int64(len(audio))))
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO recordings (tenant_id, id, call_id, status, storage_key, bytes, duration_ms,
		stereo, ready_at) VALUES ($1, $2, $3, $4, $5, $6, 61400, true, $7)`, b.tenant, storetest.NewID(t), call, status, key,
		len(audio), b.clock.Now())
}

func (b *bundle) audit(t *testing.T, call uuid.UUID, method, accessor string) int {
	t.Helper()
	return storetest.Count(t, b.st, `SELECT count(*) FROM recording_access WHERE call_id = $1 AND method = $2
		AND accessor LIKE $3 AND remote_addr = '127.0.0.1'`, call, method, accessor)
}

func TestRecordingURL(t *testing.T) {
	t.Parallel()
	b := setup(t)
	call := b.call(t, b.tenant, nil, "")
	audio := bytes.Repeat([]byte("RIFF"), 1000)
	b.recording(t, call, "ready", audio)
	var got struct {
		CallID    string    `json:"call_id"`
		URL       string    `json:"url"`
		ExpiresAt time.Time `json:"expires_at"`
		DurationS int       `json:"duration_s"`
		Stereo    bool      `json:"stereo"`
		Format    string    `json:"format"`
	}
	b.scoped(t, "calls:read").JSON(t, http.MethodGet, callPath(call)+"/recording", nil, http.StatusOK, &got)
	require.Equal(t, call.String(), got.CallID)
	require.Equal(t, b.clock.Now().Add(7*24*time.Hour), got.ExpiresAt)
	require.Equal(t, 61, got.DurationS)
	require.True(t, got.Stereo)
	require.Equal(t, "audio/wav", got.Format)
	require.Equal(t, 1, b.audit(t, call, "signed_url", "api_key:%"))

	anyone := b.client("")
	status, header, body := anyone.Do(t, http.MethodGet, got.URL, nil)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "audio/wav", header.Get("Content-Type"))
	require.Equal(t, audio, body)
	require.Equal(t, 1, b.audit(t, call, "stream", "signed_url"))

	var view map[string]any
	b.api.JSON(t, http.MethodGet, callPath(call), nil, http.StatusOK, &view)
	require.Equal(t, true, view["has_recording"])
	require.Equal(t, 2, storetest.Count(t, b.st, "SELECT count(*) FROM recording_access"), "showing a call writes nothing")
	var page struct {
		Items []map[string]any `json:"items"`
	}
	b.api.JSON(t, http.MethodGet, "/api/v1/calls", nil, http.StatusOK, &page)
	require.Equal(t, view["recording_url"], page.Items[0]["recording_url"])
	require.Equal(t, 2, storetest.Count(t, b.st, "SELECT count(*) FROM recording_access"))
	status, _, _ = anyone.Do(t, http.MethodGet, fmt.Sprint(view["recording_url"]), nil)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, 1, b.audit(t, call, "stream", "signed_url:api_key:%"), "its use tells whom the URL was given to")

	{ // whatever is altered breaks the signature
		u, err := url.Parse(got.URL)
		require.NoError(t, err)
		query := u.Query()
		expires, err := strconv.ParseInt(query.Get("expires"), 10, 64)
		require.NoError(t, err)
		other := b.call(t, b.tenant, nil, "")
		b.recording(t, other, "ready", audio)
		altered := func(path, name, value string) string {
			q := u.Query()
			q.Set(name, value)
			return path + "?" + q.Encode()
		}
		for _, path := range []string{
			altered(u.Path, "expires", strconv.FormatInt(expires+1, 10)),
			altered(u.Path, "tenant", b.other.String()), altered(u.Path, "tenant", "x"), altered(u.Path, "sig", "x"),
			altered(u.Path, "sig", ""), altered("/recordings/"+other.String(), "x", ""), "/recordings/" + call.String(),
			altered("/recordings/nonsense", "x", ""),
		} {
			refused(t, anyone, http.MethodGet, path, nil, http.StatusForbidden, "invalid_signature")
		}
	}
	{ // it expires after seven days
		b.clock.Advance(7*24*time.Hour - time.Second)
		status, _, _ := anyone.Do(t, http.MethodGet, got.URL, nil)
		require.Equal(t, http.StatusOK, status)
		b.clock.Advance(time.Second)
		refused(t, anyone, http.MethodGet, got.URL, nil, http.StatusForbidden, "url_expired")
	}
}

func TestRecordingThatCannotBeHandedOut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ended := b.clock.Now()
	none, running, processing, failed := b.call(t, b.tenant, nil, ", status, answer_time, end_time, hangup_cause", "completed", ended, ended, "NORMAL_CLEARING"), b.call(t, b.tenant, nil, ""),
		b.call(t, b.tenant, nil, ""), b.call(t, b.tenant, nil, "")
	live := b.call(t, b.tenant, nil, "")
	b.recording(t, running, "recording", nil)
	b.recording(t, processing, "processing", nil)
	b.recording(t, failed, "failed", nil)
	for _, suffix := range []string{"/recording", "/recording/audio"} {
		for _, tt := range []struct {
			client apitest.Client
			path   string
			status int
			code   string
		}{
			{b.api, callPath(none), 404, "recording_not_found"},
			{b.api, callPath(live), 409, "recording_processing"},
			{b.api, callPath(running), 409, "recording_processing"},
			{b.api, callPath(processing), 409, "recording_processing"},
			{b.api, callPath(failed), 404, "recording_lost"},
			{b.api, callPath(storetest.NewID(t)), 404, "not_found"},
			{b.api, "/api/v1/calls/nonsense", 404, "not_found"},
			{b.foreign, callPath(processing), 404, "not_found"},
		} {
			refused(t, tt.client, http.MethodGet, tt.path+suffix, nil, tt.status, tt.code)
		}
	}
	require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM recording_access"))
}

// The audio comes in chunks of 64 KiB, as the wire shows.
func TestRecordingStream(t *testing.T) {
	t.Parallel()
	b := setup(t)
	call := b.call(t, b.tenant, nil, "")
	audio := make([]byte, 150_000)
	for i := range audio {
		audio[i] = byte(i * 7)
	}
	b.recording(t, call, "ready", audio)
	path := callPath(call) + "/recording/audio"
	refused(t, b.scoped(t, "calls:read"), http.MethodGet, path, nil, http.StatusForbidden, "insufficient_scope")
	key := b.scoped(t, "recordings:download")
	status, header, body := key.Do(t, http.MethodGet, path, nil)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "private, max-age=300", header.Get("Cache-Control"))
	require.Equal(t, audio, body)
	require.Equal(t, 1, b.audit(t, call, "stream", "api_key:%"))
	status, header, body = key.Do(t, http.MethodHead, path, nil)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "audio/wav", header.Get("Content-Type"))
	require.Empty(t, body)

	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", b.srv.Addr())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", path, key.Key)
	require.NoError(t, err)
	in := bufio.NewReader(conn)
	for line := ""; line != "\r\n"; {
		line, err = in.ReadString('\n')
		require.NoError(t, err)
	}
	var sizes []int64
	for {
		line, err := in.ReadString('\n')
		require.NoError(t, err)
		size, err := strconv.ParseInt(strings.TrimSpace(line), 16, 32)
		require.NoError(t, err)
		if size == 0 {
			break
		}
		sizes = append(sizes, size)
		_, err = io.CopyN(io.Discard, in, size+2)
		require.NoError(t, err)
	}
	require.Equal(t, []int64{64 << 10, 64 << 10, 150_000 - 128<<10}, sizes)
}

// A strict tenant's customers appear nowhere by their numbers.
func TestCallShowsNoNumbers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET privacy_mode = 'strict' WHERE id = $1", b.tenant)
	id := b.call(t, b.tenant, nil, "")
	_, _, body := b.api.Do(t, http.MethodGet, callPath(id), nil)
	require.True(t, json.Valid(body))
	require.NotContains(t, string(body), "9812345678")
	require.NotContains(t, b.logs.String(), "9812345678")
}

// presigning is a library whose object store signs URLs of its own.
type presigning struct{ httpapi.Recordings }

func (presigning) Redirect(_ context.Context, r recordings.Recording, lifetime time.Duration) (string, error) {
	return "https://objects.example/" + r.Key + "?for=" + lifetime.String(), nil
}

// The URL of a call's recording leads on to the object store, once its use is in the audit.
func TestRecordingInAnObjectStore(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *httpapi.Config, d *httpapi.Deps) { d.Recordings = presigning{d.Recordings} })
	call := b.call(t, b.tenant, nil, "")
	b.recording(t, call, "ready", []byte("RIFF"))
	var view map[string]any
	b.api.JSON(t, http.MethodGet, callPath(call), nil, http.StatusOK, &view)
	anyone := b.client("")
	anyone.HTTP = &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	status, header, _ := anyone.Do(t, http.MethodGet, fmt.Sprint(view["recording_url"]), nil)
	require.Equal(t, http.StatusFound, status)
	require.Equal(t, "https://objects.example/"+call.String()+".wav?for=5m0s", header.Get("Location"))
	require.Equal(t, 1, b.audit(t, call, "stream", "signed_url:api_key:%"))
}
