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
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	id, other := uuid.New(), uuid.New()
	for name, c := range map[string]struct {
		change func(r *db.CallReportLoadRow)
		want   step
		until  time.Time
		why    string
	}{
		"to be written first": {func(*db.CallReportLoadRow) {}, stepCreate, now, ""},
		"written":             {func(r *db.CallReportLoadRow) { r.CallReport.Status = StatusWritten }, stepNothing, now, ""},
		"failed":              {func(r *db.CallReportLoadRow) { r.CallReport.Status = StatusFailed }, stepNothing, now, ""},
		"to be updated":       {func(r *db.CallReportLoadRow) { r.CallReport.Written, r.CallReport.Revision = 1, 2 }, stepUpdate, now, ""},
		"nothing is new":      {func(r *db.CallReportLoadRow) { r.CallReport.Written = 1 }, stepClose, now, ""},
		"at work":             {func(r *db.CallReportLoadRow) { r.CallReport.BusyUntil = new(now.Add(time.Second)) }, stepWait, now.Add(time.Second), ""},
		"its process died":    {func(r *db.CallReportLoadRow) { r.CallReport.BusyUntil = new(now) }, stepCreate, now, ""},
		"not yet":             {func(r *db.CallReportLoadRow) { r.CallReport.NextAttemptAt = now.Add(time.Hour) }, stepWait, now.Add(time.Hour), ""},
		"a day is over": {func(r *db.CallReportLoadRow) {
			r.CallReport.GiveUpAt, r.CallReport.LastError = now, new("answered 503")
		}, stepFail, now, "answered 503"},
		"a day is over, untried":  {func(r *db.CallReportLoadRow) { r.CallReport.GiveUpAt = now }, stepFail, now, "it was not possible within 24 hours"},
		"removed":                 {func(r *db.CallReportLoadRow) { r.ConfiguredID = nil }, stepFail, now, "the integration was removed"},
		"paused":                  {func(r *db.CallReportLoadRow) { r.IsActive = new(false) }, stepWait, now.Add(time.Minute), ""},
		"its tenant is suspended": {func(r *db.CallReportLoadRow) { r.Suspended = true }, stepWait, now.Add(time.Minute), ""},
		"another CRM, unwritten":  {func(r *db.CallReportLoadRow) { r.ConfiguredID = &other }, stepCreate, now, ""},
		"another CRM, written": {func(r *db.CallReportLoadRow) {
			r.ConfiguredID, r.CallReport.Written, r.CallReport.Revision = &other, 1, 2
		}, stepClose, now, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row := db.CallReportLoadRow{
				CallReport: db.CallReport{
					Status: StatusPending, Revision: 1, IntegrationID: id, NextAttemptAt: now, GiveUpAt: now.Add(time.Hour),
				},
				ConfiguredID: &id, IsActive: new(true),
			}
			c.change(&row)
			do, until, why := plan(row, now)
			require.Equal(t, c.want, do)
			require.Equal(t, c.until, until)
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
	require.Equal(t, began.Add(24*time.Hour-time.Minute), now, "the last attempt is made as the day is over")
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

// One tenant's reports take four slots at most; who waits is told moments apart, and a system that is away gets few attempts.
func TestLimitsOfATenant(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	l, a, b := newLimits(), uuid.New(), uuid.New()
	for range tenantSlots {
		require.Zero(t, l.enter(a, now))
	}
	first, second := l.enter(a, now), l.enter(a, now)
	require.Positive(t, first)
	require.Greater(t, second, first, "they don't come back at once")
	require.Zero(t, l.enter(b, now), "another tenant's do")
	l.leave(b, now, time.Second, false, 0)
	var last time.Duration
	for range 10_000 {
		last = l.enter(a, now)
	}
	require.LessOrEqual(t, last, parkMost)

	for range tenantSlots {
		l.leave(a, now, 10*time.Second, true, 0)
	}
	now = now.Add(time.Minute)
	require.Zero(t, l.enter(a, now), "four failures are not yet a system that is away")
	l.leave(a, now, 10*time.Second, true, 0)
	require.Equal(t, 1, l.broken(now))
	require.Positive(t, l.enter(a, now))
	now = now.Add(breakFirst)
	require.Zero(t, l.enter(a, now), "one attempt tells whether it is back")
	require.Positive(t, l.enter(a, now), "one alone")
	l.leave(a, now, 10*time.Second, true, 0)
	require.GreaterOrEqual(t, l.enter(a, now), 2*breakFirst)
	now = now.Add(2 * breakFirst)
	require.Zero(t, l.enter(a, now))
	l.leave(a, now, time.Second, false, 0)
	require.Zero(t, l.broken(now))
	require.Zero(t, l.enter(a, now), "it is back, though slow")
	require.Positive(t, l.enter(a, now), "so that it gets one slot")
	for range 20 {
		l.leave(a, now, 100*time.Millisecond, false, 0)
		require.Zero(t, l.enter(a, now))
	}
	for range tenantSlots - 1 {
		require.Zero(t, l.enter(a, now), "and all of them as it is quick")
	}
	l.leave(a, now, time.Second, true, 20*time.Second)
	require.GreaterOrEqual(t, l.enter(a, now.Add(time.Second)), 19*time.Second, "what it asks for holds for all")
	require.Zero(t, l.enter(uuid.New(), now.Add(2*idleAfter)))
}
