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
	// busyTime is how long nobody else takes up a report after an attempt began: longer than it takes to make it and to keep what came of it, so
	// that one whose process died is over.
	busyTime = attemptTime + keepTime + 15*time.Second
)

// step is what is to be done with a report.
type step int

const (
	stepNothing step = iota // now
	stepFail                // for good, without an attempt
	stepClose               // nothing is left to write
	stepCreate              // the first write
	stepUpdate              // of a record that the other end has
)

// plan says what is to be done with a report that is due, and why it fails.
func plan(r db.CallReportLoadRow) (do step, why string) {
	report := r.CallReport
	switch {
	case report.Status != StatusPending:
		return stepNothing, ""
	case report.Written >= report.Revision:
		return stepClose, ""
	case r.ConfiguredID == nil:
		return stepFail, "the integration was removed"
	case report.Written > 0 && report.IntegrationID != *r.ConfiguredID:
		return stepClose, "" // the record is in another CRM
	case r.IsActive != nil && !*r.IsActive, r.Suspended: // since it was claimed
		return stepNothing, ""
	case report.Written == 0:
		return stepCreate, ""
	}
	return stepUpdate, ""
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
	// What asks for more than an hour is asked each hour whether it still does. The last attempt is made as the time is over; one that waited for
	// longer, since its tenant was suspended or had paused the integration, is the last one.
	next = now.Add(max(delay(int(report.Failures), jitter), min(res.retryAfter, retryMost)))
	if !next.After(report.GiveUpAt) {
		return StatusPending, next
	}
	if report.GiveUpAt.Sub(now) < retryFirst {
		return StatusFailed, now
	}
	return StatusPending, report.GiveUpAt
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
