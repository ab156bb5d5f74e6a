package crm

import (
	"math/rand/v2"
	"time"

	"github.com/ringmaster/ringmaster/store/db"
)

// The statuses of a report.
const (
	StatusPending = "pending"
	StatusWritten = "written"
	StatusFailed  = "failed"
)

const (
	retryFirst, retryMost = time.Minute, time.Hour
	// attemptTime bounds an attempt, with all its requests, and requestTime one of these.
	attemptTime, requestTime = 30 * time.Second, 10 * time.Second
	// jobTime bounds a job: an attempt, and what it keeps of it.
	jobTime = attemptTime + 15*time.Second
	// busyTime is how long nobody else takes up a report after an attempt began: longer than a job, so that one whose process died is over.
	busyTime = jobTime + 10*time.Second
	// pausedWait is how often a report looks again whether its integration is active, and its tenant no longer suspended.
	pausedWait = time.Minute
)

// step is what is to be done with a report.
type step int

const (
	stepNothing step = iota // it is at its end
	stepWait                // until a moment
	stepFail                // for good, without an attempt
	stepClose               // nothing is left to write
	stepCreate              // the first write
	stepUpdate              // of a record that the other end has
)

// plan says what is to be done with a report: until when to wait, or why it fails.
func plan(r db.CallReportLoadRow, now time.Time) (do step, until time.Time, why string) {
	report := r.CallReport
	lastly := func(fallback string) string {
		if report.LastError != nil {
			return *report.LastError
		}
		return fallback
	}
	switch {
	case report.Status != StatusPending:
		return stepNothing, now, ""
	case report.BusyUntil != nil && report.BusyUntil.After(now):
		return stepWait, *report.BusyUntil, ""
	case report.Written >= report.Revision:
		return stepClose, now, ""
	case r.ConfiguredID == nil:
		return stepFail, now, "the integration was removed"
	case report.Written > 0 && report.IntegrationID != *r.ConfiguredID:
		return stepClose, now, "" // the record is in another CRM
	case !now.Before(report.GiveUpAt):
		return stepFail, now, lastly("it was not possible within 24 hours")
	case report.NextAttemptAt.After(now):
		return stepWait, report.NextAttemptAt, ""
	case isPaused(r):
		return stepWait, now.Add(pausedWait), ""
	case report.Written == 0:
		return stepCreate, now, ""
	}
	return stepUpdate, now, ""
}

// isPaused tells whether nothing is to be sent: the integration is not active, or its tenant is suspended.
func isPaused(r db.CallReportLoadRow) bool {
	return r.IsActive != nil && !*r.IsActive || r.Suspended
}

// result is what came of an attempt.
type result struct {
	err error
	// final says that the same attempt would fail again; away, that the other end isn't there, or has too much to do.
	final, away bool
	// retryAfter is what the other end asks for; zero for nothing.
	retryAfter time.Duration
	// externalID is the record's at the other end; empty when it gave none.
	externalID string
	// insights are what was said in the call.
	insights insights
}

// follow says what an attempt leads to: the report's status, and when it is looked at again.
func follow(report db.CallReport, res result, now time.Time, jitter float64) (status string, next time.Time) {
	switch {
	case res.err == nil:
		return StatusWritten, now
	case res.final:
		return StatusFailed, now
	}
	// What asks for more than an hour is asked each hour whether it still does. The last attempt is made as the time is over.
	next = now.Add(max(delay(int(report.Failures), jitter), min(res.retryAfter, retryMost)))
	if last := report.GiveUpAt.Add(-retryFirst); next.After(last) && now.Before(last) {
		next = last
	}
	if !next.Before(report.GiveUpAt) {
		return StatusFailed, now
	}
	return StatusPending, next
}

// delay is the wait after one more failure than those: 1 min, doubled up to 1 h, and up to a fifth less; jitter is from 0 to 1.
func delay(failures int, jitter float64) time.Duration {
	wait := retryMost
	if failures < 6 {
		wait = min(retryFirst<<failures, retryMost)
	}
	return max(retryFirst, wait-time.Duration(jitter*float64(wait)/5)) //nolint:mnd // a fifth
}

func jitter() float64 { return rand.Float64() }
