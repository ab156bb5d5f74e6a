package remote_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/cmd/remote"
	"github.com/ringmaster/ringmaster/httpapi/webhook/receiver"
)

// outbox answers listEvents. Before each look, which asks for more than one event, the next of steps is done; after the last the command is interrupted.
type outbox struct {
	mu        sync.Mutex
	ids       []string // in the order of time
	events    map[string]string
	steps     []func()
	status    int // of a refusal; 0 for none
	interrupt context.CancelFunc
}

// happens adds an event of the n-th second after nine, whenever it can be seen, and occurs one of a millisecond.
func (o *outbox) happens(n int, eventType, data string) { o.occurs(1000*n, eventType, data) }

func (o *outbox) occurs(ms int, eventType, data string) {
	at := time.Date(2026, 11, 25, 9, 0, 0, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
	id := fmt.Sprintf("evt_%012x7c419a393c1f0f2a7b10", at.UnixMilli())
	o.ids = append(o.ids, id)
	slices.Sort(o.ids)
	o.events[id] = fmt.Sprintf(`{"id":%q,"type":%q,"created_at":%q,"tenant_id":%q,"data":%s}`, id, eventType, at.Format(time.RFC3339Nano), anID, data)
}

func (o *outbox) serve(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := r.URL.Query()
	size, _ := strconv.Atoi(q.Get("page_size"))
	if size > 1 && q.Get("cursor") == "" {
		if len(o.steps) == 0 {
			o.interrupt()
			return
		}
		o.steps[0]()
		o.steps = o.steps[1:]
	}
	status, code := o.status, "refused"
	if q.Get("type") == "moon.*" {
		status, code = http.StatusUnprocessableEntity, "validation_error"
	}
	if status != 0 {
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"code": %q, "detail": "No."}`, code)
		return
	}
	var page []string
	var cursor any
	for _, id := range slices.Backward(o.ids) {
		if q.Get("cursor") != "" && strings.TrimPrefix(id, "evt_") >= strings.ReplaceAll(q.Get("cursor"), "-", "") {
			continue
		}
		if page = append(page, o.events[id]); len(page) == size {
			cursor = dashed(id)
			break
		}
	}
	raw, _ := json.Marshal(cursor)
	_, _ = fmt.Fprintf(w, `{"items": [%s], "next_cursor": %s, "total": 0, "page": 1, "page_size": %d}`, strings.Join(page, ","), raw, size)
}

func dashed(id string) string {
	d := strings.TrimPrefix(id, "evt_")
	return d[:8] + "-" + d[8:12] + "-" + d[12:16] + "-" + d[16:20] + "-" + d[20:]
}

// listen runs the command until the steps are done.
func listen(t *testing.T, steps func(o *outbox) []func(), args ...string) (stdout, stderr string, err error) {
	t.Helper()
	b := setup(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o := &outbox{events: map[string]string{}, interrupt: cancel}
	o.steps = steps(o)
	b.Answer("listEvents", o.serve)
	var out, faults bytes.Buffer
	parser := grammar(t, remote.Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &faults, Environ: b.environ})
	command, err := parser.Parse(append([]string{"webhooks", "listen", "--every", "1ms"}, args...))
	require.NoError(t, err)
	command.BindTo(ctx, (*context.Context)(nil))
	err = command.Run()
	return out.String(), faults.String(), err
}

// hooks is where events are forwarded to: it answers as it is told, and with 200 then.
func hooks(t *testing.T, answers ...int) (url string, got *[]*http.Request, bodies *[]string) {
	t.Helper()
	got, bodies = &[]*http.Request{}, &[]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*got, *bodies = append(*got, r), append(*bodies, string(body))
		status := http.StatusOK
		if n := len(*got) - 1; n < len(answers) {
			status = answers[n]
		}
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	return server.URL, got, bodies
}

const listenSecret = "whsec_b2YgdGhlIHRlc3QsIHRoaXJ0eS10d28gYnl0ZXMhIQ=="

// aDay is one of each type of event, as the document's examples have them.
func aDay(o *outbox) []func() {
	o.happens(0, "call.started", `{"call_id":"`+anID+`"}`)
	call := `"call_id":"` + anID + `"`
	return []func(){
		func() {}, // where the command stands
		func() {
			o.happens(1, "call.started", `{`+call+`,"direction":"outbound","from":"+918000000001","to":"+919876543210"}`)
			o.happens(2, "call.answered", `{`+call+`,"answered_by_amd":"human"}`)
		},
		func() {},
		func() {
			o.happens(3, "ai_session.started", `{`+call+`,"ws_url":"wss://ai.example/ws"}`)
			o.happens(4, "call.disposition_set", `{`+call+`,"disposition":"interested","previous_disposition":"callback","source":"ai"}`)
			o.happens(5, "ai_session.escalated", `{`+call+`,"reason":"angry\u001b[31m caller","urgency":"high","supervisor_id":null}`)
			o.happens(6, "ai_session.conference_changed", `{`+call+`,"change":"added","actor":"ai","conference_id":"conf-1"}`)
			o.happens(7, "ai_session.transferred", `{`+call+`,"destination_type":"e164","destination":"+919876543211"}`)
			o.happens(8, "ai_session.ended", `{`+call+`,"outcome":"transferred_e164"}`)
			o.happens(9, "call.ended", `{`+call+`,"status":"completed","hangup_cause":"NORMAL_CLEARING","talk_duration_s":70,"disposition":"interested"}`)
			o.happens(10, "lead.completed", `{"lead_id":"`+anID+`","campaign_id":"0197a3f2-0000-7000-8000-000000000003","status":"completed","disposition":null,"attempts":1}`)
			o.happens(11, "call.recording_ready", `{`+call+`,"duration_s":70,"format":"audio/wav"}`)
			o.happens(12, "campaign.paused", `{"campaign_id":"0197a3f2-0000-7000-8000-000000000003","source":"manual","abandon_rate":0.0125}`)
			o.happens(13, "webhook.disabled", `{"subscription_id":"0197a3f2-0000-7000-8000-000000000006","url":"https://hooks.example","reason":"all deliveries failed for three days"}`)
			o.happens(14, "webhook.test", `{"subscription_id":"0197a3f2-0000-7000-8000-000000000006","message":"This is a test."}`)
			o.happens(15, "call.moved", `{"what":"is new"}`)
		},
	}
}

// TestListen shows each event once, and what the receiver answers.
func TestListen(t *testing.T) {
	t.Parallel()
	url, _, _ := hooks(t, http.StatusOK, http.StatusInternalServerError, http.StatusFound)
	var all strings.Builder
	for _, args := range [][]string{
		nil,
		{"--events", "call.*,lead.completed"},
		{"--forward-to", url + "/hooks", "--secret", listenSecret, "--events", "call.*"},
		{"--json", "--events", "ai_session.escalated,call.answered"},
		{"--json", "--forward-to", "http://127.0.0.1:9", "--secret", listenSecret, "--events", "call.answered"},
		{"--forward-to", "http://127.0.0.1:9", "--secret", listenSecret, "--events", "call.answered"},
	} {
		stdout, stderr, err := listen(t, aDay, args...)
		require.NoError(t, err)
		fmt.Fprintf(&all, "$ ringmaster webhooks listen %s\n! %s\n%s\n", strings.Join(args, " "), strings.ReplaceAll(strings.TrimSpace(stderr), "\n", "\n! "), stdout)
	}
	text := strings.ReplaceAll(all.String(), url, "http://localhost:4242")
	text = regexp.MustCompile(`\d+ ms|"latency_ms":\d+`).ReplaceAllStringFunc(text, func(s string) string { return regexp.MustCompile(`\d+`).ReplaceAllString(s, "1") })
	require.NotContains(t, text, "\x1b")
	golden(t, "listen", text)
}

// TestListenRefuses says what is wrong.
func TestListenRefuses(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"422 validation_error": {"--events", "call.*,moon.*"},
		"begins with http://":  {"--forward-to", "localhost:4242"},
		"whsec_ and base64":    {"--forward-to", "http://localhost:4242", "--secret", "hunter2"},
		"give both":            {"--secret", listenSecret},
		"use --json":           {"--columns", "id"},
		"is not encrypted":     {"--api-url", "http://ringmaster.example", "--api-key", "svc_live_1"},
		"connection refused":   {"--api-url", "http://127.0.0.1:9", "--api-key", "svc_live_1"},
	} {
		_, _, err := listen(t, func(*outbox) []func() { return nil }, args...)
		require.ErrorContains(t, err, want)
	}
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		_, _, err := listen(t, func(o *outbox) []func() { return []func(){func() { o.status = status }} })
		require.ErrorContains(t, err, strconv.Itoa(status)+" refused: No.", "at once")
		_, stderr, err := listen(t, func(o *outbox) []func() { return []func(){func() {}, func() {}, func() { o.status = status }} })
		require.ErrorContains(t, err, strconv.Itoa(status)+" refused: No.", "later")
		require.Equal(t, "listening; Ctrl-C ends it\n", stderr)
	}
}

// TestListenForwardsAsDelivered sends what a receiver of deliveries verifies, in the order of the events, each once; a secret that wasn't given is shown.
func TestListenForwardsAsDelivered(t *testing.T) {
	t.Parallel()
	url, got, bodies := hooks(t, http.StatusInternalServerError)
	stdout, stderr, err := listen(t, func(o *outbox) []func() {
		return []func(){func() {}, func() {
			o.happens(1, "call.ended", `{"call_id":"`+anID+`","metadata":{"order":12345678901234567890,"<a>":1.10}}`)
			for i := range 300 { // more than a page of the next look
				o.happens(2+i, "call.started", `{"n":`+strconv.Itoa(i)+`}`)
			}
		}}
	}, "--forward-to", url+"/hooks?x=1", "--json")
	require.NoError(t, err)
	secret := regexp.MustCompile(`whsec_\S+`).FindString(stderr)
	standard, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	require.Len(t, *got, 301)
	require.Equal(t, 301, strings.Count(stdout, "\n"))
	for i, r := range *got {
		body := (*bodies)[i]
		require.Equal(t, "/hooks?x=1", r.RequestURI)
		require.NoError(t, standard.Verify([]byte(body), r.Header))
		require.True(t, receiver.Verify(secret, r.Header.Get("X-Service-Signature"), []byte(body), time.Now()))
		require.Contains(t, body, `{"id":"`+r.Header.Get("X-Service-Event-Id")+`","type":"`+r.Header.Get("X-Service-Event-Type")+`","created_at":`)
		require.Equal(t, "application/json", r.Header.Get("Content-Type"))
		if i > 0 {
			require.Contains(t, body, `"data":{"n":`+strconv.Itoa(i-1)+`}`)
		}
	}
	require.Contains(t, (*bodies)[0], `"metadata":{"order":12345678901234567890,"\u003ca\u003e":1.10}`, "as deliveries are encoded")
}

// TestListenLooksBehindAPage finds what can be seen late, behind a page of what came after it.
func TestListenLooksBehindAPage(t *testing.T) {
	t.Parallel()
	stdout, _, err := listen(t, func(o *outbox) []func() {
		steps := []func(){func() {}, func() {
			for i := range 60 {
				o.occurs(20_000+100*i, "call.started", `{}`)
			}
		}, func() { o.happens(19, "call.answered", `{}`) }}
		for range 5 {
			steps = append(steps, func() {})
		}
		return steps
	})
	require.NoError(t, err)
	require.Equal(t, 61, strings.Count(stdout, "\n"))
	require.Regexp(t, `\n\S+  call\.answered[^\n]*\n$`, stdout)
}

// TestListenLosesNothing has the service away, and an event that can be seen later than one with a later id: both are shown, and none twice.
func TestListenLosesNothing(t *testing.T) {
	t.Parallel()
	stdout, stderr, err := listen(t, func(o *outbox) []func() {
		for i := range 500 { // what was before isn't read
			o.happens(i-2000, "call.started", `{}`)
		}
		return []func(){
			func() {},
			func() { o.happens(20, "call.started", `{}`) },
			func() { o.happens(19, "call.answered", `{}`) },
			func() { o.happens(21, "call.ended", `{}`); o.status = http.StatusInternalServerError },
			func() { o.status = 0; o.happens(50, "lead.completed", `{}`) },
			func() { o.happens(30, "call.recording_ready", `{}`) }, // too late
			func() { o.happens(51, "campaign.paused", `{}`) },
		}
	})
	require.NoError(t, err)
	require.Regexp(t, `(?s)^\S+  call\.started.*\n\S+  call\.answered.*\n\S+  call\.ended.*\n\S+  lead\.completed.*\n\S+  campaign\.paused[^\n]*\n$`, stdout)
	require.Equal(t, 5, strings.Count(stdout, "\n"))
	require.Equal(t, "listening; Ctrl-C ends it\nthe service can't be asked, and is asked again: listEvents: 500 refused: No.\nthe service is there again; nothing is lost\n", stderr)
}
