package store

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/db"
)

// ReportPurpose is what a call is reported for.
type ReportPurpose string

// The purposes: the tenant's CRM keeps what came of the call, and what gives insights says what was said in it.
const (
	ReportCRM      ReportPurpose = "crm"
	ReportInsights ReportPurpose = "insights"
)

const (
	// ReportTime is for how long a report is tried, from when there is something to report.
	ReportTime = 24 * time.Hour
	// recordingWait is for how long insights wait for a call's recording.
	recordingWait = 6 * time.Hour
)

// ReportID names a report: its row says what is to be done, and when.
type ReportID struct {
	TenantID, CallID uuid.UUID
	Purpose          ReportPurpose
}

// DueReport tells whose reports have one more that is due.
type DueReport struct {
	TenantID uuid.UUID
	Purpose  ReportPurpose
}

// reportWatchers are told of reports that are due. The zero value is ready.
type reportWatchers struct {
	mu   sync.Mutex // guards next and list
	next int
	list map[int]func(DueReport)
}

// WatchReports has fn called for each report that this process has made due, after its commit, until the function that it gives is called. fn must
// return at once. Reports of other processes are found by looking for them from time to time.
func (s *Store) WatchReports(fn func(DueReport)) (stop func()) {
	w := &s.reports
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.list == nil {
		w.list = map[int]func(DueReport){}
	}
	id := w.next
	w.next++
	w.list[id] = fn
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.list, id)
	}
}

func (w *reportWatchers) tell(due []DueReport) {
	if len(due) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, fn := range w.list {
		for _, d := range due {
			fn(d)
		}
	}
}

func (t *Tx) reportDue(tenant uuid.UUID, p ReportPurpose) {
	t.reports = append(t.reports, DueReport{TenantID: tenant, Purpose: p})
}

// CallEnds ends what the flows of a call that has ended have left open, and opens the reports that its tenant's integrations get of it, with what the
// transaction sends next.
func (t *Tx) CallEnds(ctx context.Context, call db.Call) error {
	now := time.Now()
	return t.Later(ctx, func(q *db.Queries) error {
		opened, err := q.CallEndFollows(ctx, db.CallEndFollowsParams{
			TenantID: call.TenantID, CallID: call.ID, EndedAt: *call.EndTime, GiveUpAt: now.Add(ReportTime), WithoutRecordingAt: now.Add(recordingWait),
			IsLive: call.Environment == "live", WasAnswered: call.AnswerTime != nil,
		})
		for _, purpose := range opened {
			t.reportDue(call.TenantID, ReportPurpose(purpose))
		}
		return err
	})
}

// CallChanged has the CRM told of what is known of an ended call since it was written there. It does nothing for a call that is reported to none.
func (t *Tx) CallChanged(ctx context.Context, tenantID, callID uuid.UUID) error {
	return t.reportChanged(ctx, ReportID{TenantID: tenantID, CallID: callID, Purpose: ReportCRM})
}

func (t *Tx) reportChanged(ctx context.Context, id ReportID) error {
	due, err := t.Q.CallReportChanged(ctx, db.CallReportChangedParams{
		TenantID: id.TenantID, CallID: id.CallID, Purpose: string(id.Purpose), GiveUpAt: time.Now().Add(ReportTime),
	})
	if len(due) > 0 && due[0] {
		t.reportDue(id.TenantID, id.Purpose)
	}
	return err
}

// RecordingSettled reports that a call's recording is ready, or, when it isn't, that there will be none.
func (t *Tx) RecordingSettled(ctx context.Context, tenantID, callID uuid.UUID, ready bool) error {
	insights := ReportID{TenantID: tenantID, CallID: callID, Purpose: ReportInsights}
	if ready {
		if err := t.CallChanged(ctx, tenantID, callID); err != nil {
			return err
		}
		// Insights that have gone without it so far are asked for again.
		if err := t.reportChanged(ctx, insights); err != nil {
			return err
		}
	}
	n, err := t.Q.CallReportHasten(ctx, tenantID, callID, string(ReportInsights))
	if n > 0 {
		t.reportDue(tenantID, ReportInsights)
	}
	return err
}

// RearmReport has a report that failed written again, and one that waits for its next attempt at a moment, if that is earlier.
func (t *Tx) RearmReport(ctx context.Context, id ReportID, now, at time.Time) (db.CallReport, error) {
	row, err := t.Q.CallReportRearm(ctx, db.CallReportRearmParams{
		TenantID: id.TenantID, CallID: id.CallID, Purpose: string(id.Purpose), Now: now, At: at, GiveUpAt: now.Add(ReportTime),
	})
	t.reportDue(id.TenantID, id.Purpose)
	return row, err
}

// OpenReport makes a report of a call that has none.
func (t *Tx) OpenReport(ctx context.Context, id ReportID, integration uuid.UUID, now time.Time) (db.CallReport, error) {
	row, err := t.Q.CallReportOpen(ctx, db.CallReportOpenParams{
		TenantID: id.TenantID, CallID: id.CallID, Purpose: string(id.Purpose), IntegrationID: integration, GiveUpAt: now.Add(ReportTime),
	})
	t.reportDue(id.TenantID, id.Purpose)
	return row, err
}
