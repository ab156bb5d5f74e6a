package crm

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/db"
)

// Every state of a report leads to one step.
func TestPlanOfAReport(t *testing.T) {
	t.Parallel()
	id, other := uuid.New(), uuid.New()
	for name, c := range map[string]struct {
		change func(r *db.CallReportLoadRow)
		want   step
		why    string
	}{
		"to be written first":     {func(*db.CallReportLoadRow) {}, stepCreate, ""},
		"written":                 {func(r *db.CallReportLoadRow) { r.CallReport.Status = StatusWritten }, stepNothing, ""},
		"failed":                  {func(r *db.CallReportLoadRow) { r.CallReport.Status = StatusFailed }, stepNothing, ""},
		"to be updated":           {func(r *db.CallReportLoadRow) { r.CallReport.Written, r.CallReport.Revision = 1, 2 }, stepUpdate, ""},
		"nothing is new":          {func(r *db.CallReportLoadRow) { r.CallReport.Written = 1 }, stepClose, ""},
		"removed":                 {func(r *db.CallReportLoadRow) { r.ConfiguredID = nil }, stepFail, "the integration was removed"},
		"paused":                  {func(r *db.CallReportLoadRow) { r.IsActive = new(false) }, stepNothing, ""},
		"its tenant is suspended": {func(r *db.CallReportLoadRow) { r.Suspended = true }, stepNothing, ""},
		"another CRM, unwritten":  {func(r *db.CallReportLoadRow) { r.ConfiguredID = &other }, stepCreate, ""},
		"another CRM, written": {func(r *db.CallReportLoadRow) {
			r.ConfiguredID, r.CallReport.Written, r.CallReport.Revision = &other, 1, 2
		}, stepClose, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row := db.CallReportLoadRow{
				CallReport: db.CallReport{
					Status: StatusPending, Revision: 1, IntegrationID: id,
				},
				ConfiguredID: &id, IsActive: new(true),
			}
			c.change(&row)
			do, why := plan(row)
			require.Equal(t, c.want, do)
			require.Equal(t, c.why, why)
		})
	}
}

// Waits grow from a minute to an hour, for a day; what the other end asks for is heeded, and what can't help isn't tried.
func TestWhatFollowsAnAttempt(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	report := db.CallReport{GiveUpAt: began.Add(24 * time.Hour)}
	away := result{err: errors.New("away"), away: true}
	var waits []time.Duration
	now := began
	for {
		status, next := follow(report, away, now, 0)
		if status != StatusPending {
			require.Equal(t, StatusFailed, status)
			break
		}
		waits = append(waits, next.Sub(now))
		now = next
		report.Failures++
	}
	m := time.Minute
	require.Equal(t, []time.Duration{m, 2 * m, 4 * m, 8 * m, 16 * m, 32 * m, 60 * m}, waits[:7])
	require.Len(t, waits, 6+23, "63 minutes, and then each hour of a day")
	require.Equal(t, began.Add(24*time.Hour), now, "the last attempt is made as the day is over")
	for n := range 40 {
		for _, at := range []float64{0, 0.5, 0.999} {
			require.GreaterOrEqual(t, delay(n, at), time.Minute)
			require.LessOrEqual(t, delay(n, at), time.Hour)
		}
	}
	report.Failures = 0
	status, next := follow(report, result{err: errors.New("busy"), retryAfter: 3 * time.Hour}, began, 0.5)
	require.Equal(t, StatusPending, status)
	require.Equal(t, began.Add(time.Hour), next, "whether it still does is asked each hour")
	_, next = follow(report, result{err: errors.New("busy"), retryAfter: time.Second}, began, 0)
	require.Equal(t, began.Add(time.Minute), next, "a minute at least")
	status, _ = follow(report, result{err: errors.New("busy"), retryAfter: 25 * time.Hour}, began, 0)
	require.Equal(t, StatusPending, status, "no answer ends it alone")
	status, _ = follow(report, result{err: errors.New("wrong"), final: true}, began, 0)
	require.Equal(t, StatusFailed, status)
	status, _ = follow(report, result{}, began, 0)
	require.Equal(t, StatusWritten, status)
}

func TestAnswersOfACRM(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	for code, want := range map[int]result{
		400: {final: true}, 422: {final: true}, 413: {final: true}, 401: {}, 403: {}, 404: {}, 409: {}, 302: {}, 408: {away: true}, 429: {away: true},
		500: {away: true}, 503: {away: true},
	} {
		got := exchange{code: code, answer: []byte(`{"message": "no\n such   thing"}`), header: http.Header{"Retry-After": {"7"}}}.failure(now)
		require.Equal(t, want.final, got.final, code)
		require.Equal(t, want.away, got.away, code)
		require.Equal(t, 7*time.Second, got.retryAfter)
		require.ErrorContains(t, got.err, "no such thing")
	}
	require.Equal(t, time.Minute, retryAfter(http.Header{"Retry-After": {now.Add(time.Minute).Format(http.TimeFormat)}}, now))
	require.Equal(t, 24*time.Hour, retryAfter(http.Header{"Retry-After": {"99999999"}}, now))
	for _, text := range []string{"", "soon", "-5", now.Add(-time.Minute).Format(http.TimeFormat)} {
		require.Zero(t, retryAfter(http.Header{"Retry-After": {text}}, now), text)
	}
	for answer, id := range map[string]string{
		`{"id": "a-1"}`: "a-1", `{"id": 9007199254740993}`: "9007199254740993", `{"data": {"Id": "x"}}`: "x", `{"data": [{"details": {"id": 5}}]}`: "5",
		`[{"id": 1}]`: "1", `{"records": []}`: "", `"x"`: "", ``: "", `{"id": {"a": 1}}`: "", `{"id": "a\u0000"}`: "", `{"success": true, "result": {"record_id": "r"}}`: "r",
	} {
		require.Equal(t, id, idIn([]byte(answer)), answer)
	}
	made := exchange{code: 201, header: http.Header{"Location": {"https://crm.test/calls/77?x=1"}}}
	require.Equal(t, "77", externalOf(made))
	made.header.Set("Location", "/calls/%ff")
	require.Empty(t, externalOf(made), "what no text can hold is no id")
}
