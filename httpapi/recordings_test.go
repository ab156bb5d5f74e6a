package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
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

// A player that seeks gets the part that it asks for, whoever has the audio already gets none, and the audit has each fetch, of parts one in a minute.
func TestRecordingByRange(t *testing.T) {
	t.Parallel()
	b := setup(t)
	call := b.call(t, b.tenant, nil, "")
	audio := make([]byte, 150_000)
	for i := range audio {
		audio[i] = byte(i * 7)
	}
	b.recording(t, call, "ready", audio)
	storetest.Exec(t, b.st, b.tenant, "UPDATE recordings SET sha256 = $1", strings.Repeat("ab", 32))
	tag := `"` + strings.Repeat("ab", 32) + `"`
	var signed struct {
		URL string `json:"url"`
	}
	b.api.JSON(t, http.MethodGet, callPath(call)+"/recording", nil, http.StatusOK, &signed)
	for _, at := range []struct {
		apitest.Client
		path string
	}{{b.scoped(t, "recordings:download"), callPath(call) + "/recording/audio"}, {b.client(""), signed.URL}} {
		fetched := func() int {
			return storetest.Count(t, b.st, "SELECT count(*) FROM recording_access WHERE method = 'stream'")
		}
		before := fetched()
		for asked, want := range map[string]struct {
			from, to int
		}{
			"bytes=0-0": {0, 1}, "bytes=100-299": {100, 300}, "bytes=149000-": {149_000, 150_000}, "bytes=-70000": {80_000, 150_000},
			"bytes=10-999999": {10, 150_000}, "bytes=-999999": {0, 150_000},
			"bytes=10-99999999999999999999": {10, 150_000}, "bytes=-99999999999999999999": {0, 150_000},
		} {
			for _, same := range []string{"", tag} {
				status, header, body := at.With("Range", asked).With("If-Range", same).Do(t, http.MethodGet, at.path, nil)
				require.Equal(t, http.StatusPartialContent, status, asked)
				require.Equal(t, fmt.Sprintf("bytes %d-%d/150000", want.from, want.to-1), header.Get("Content-Range"))
				require.Equal(t, strconv.Itoa(want.to-want.from), header.Get("Content-Length"))
				require.Equal(t, tag, header.Get("ETag"))
				require.Equal(t, audio[want.from:want.to], body, asked)
			}
		}
		for header, values := range map[string][]string{"Range": {"bytes=0-1,5-6", "items=0-1"}, "If-Range": {`"another"`, "Wed, 21 Oct 2026 07:28:00 GMT", "W/" + tag}} {
			for _, value := range values {
				status, _, body := at.With("Range", "bytes=0-1").With(header, value).Do(t, http.MethodGet, at.path, nil)
				require.Equal(t, http.StatusOK, status, value)
				require.Equal(t, audio, body)
			}
		}
		require.Equal(t, before+1+5, fetched(), "the parts of a minute are one access")
		b.clock.Advance(time.Minute)
		for range 3 {
			status, _, _ := at.With("Range", "bytes=0-0").Do(t, http.MethodGet, at.path, nil)
			require.Equal(t, http.StatusPartialContent, status)
		}
		require.Equal(t, before+1+5+1, fetched(), "the next minute's are another one")
		for _, bad := range []string{"bytes=150000-", "bytes=-0", "bytes=9-3", "bytes=x-y", "bytes=", "bytes=-", "bytes=99999999999999999999-"} {
			status, header, _ := at.With("Range", bad).Do(t, http.MethodGet, at.path, nil)
			require.Equal(t, http.StatusRequestedRangeNotSatisfiable, status, bad)
			require.Equal(t, "bytes */150000", header.Get("Content-Range"))
		}
		for _, tags := range []string{tag, `"another", W/` + tag, "*"} {
			status, header, body := at.With("If-None-Match", tags).Do(t, http.MethodGet, at.path, nil)
			require.Equal(t, http.StatusNotModified, status, tags)
			require.Equal(t, tag, header.Get("ETag"))
			require.Empty(t, body)
		}
		status, header, _ := at.With("Range", "bytes=0-1").Do(t, http.MethodHead, at.path, nil)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "150000", header.Get("Content-Length"))
		require.Equal(t, "bytes", header.Get("Accept-Ranges"))
		require.Equal(t, "private, max-age=300", header.Get("Cache-Control"))
		require.Equal(t, "Origin", header.Get("Vary"), "what is in store names the origin that it is for, when it is for none as well")
		require.Equal(t, before+1+5+1, fetched(), "headers are no audio")
	}
}

// Who has a signed URL, and no credential, can't ask for ever.
func TestSignedURLsAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	call, other := b.call(t, b.tenant, nil, ""), b.call(t, b.tenant, nil, "")
	urls := map[uuid.UUID]string{}
	for _, id := range []uuid.UUID{call, other} {
		b.recording(t, id, "ready", []byte("RIFF"))
		var signed struct {
			URL string `json:"url"`
		}
		b.api.JSON(t, http.MethodGet, callPath(id)+"/recording", nil, http.StatusOK, &signed)
		urls[id] = signed.URL
	}
	c := b.client("")
	for range 600 {
		status, _, _ := c.Do(t, http.MethodHead, urls[call], nil)
		require.Equal(t, http.StatusOK, status)
	}
	refused(t, c, http.MethodGet, urls[call], nil, http.StatusTooManyRequests, "rate_limited")
	status, _, _ := c.Do(t, http.MethodGet, urls[other], nil)
	require.Equal(t, http.StatusOK, status)
	b.clock.Advance(time.Minute)
	status, _, _ = c.Do(t, http.MethodGet, urls[call], nil)
	require.Equal(t, http.StatusOK, status)
}
