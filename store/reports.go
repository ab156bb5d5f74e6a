package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

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
	// reportTries is for jobs whose process died: attempts at the other end are counted in the report's row.
	reportTries = 1000
	// recordingWait is for how long insights wait for a call's recording.
	recordingWait = 6 * time.Hour
)

// CallReportArgs is the River job that brings the other end of a report up to date. The report's row says what is to be done and when; the job
// only wakes its worker.
type CallReportArgs struct {
	TenantID uuid.UUID     `json:"tenant_id"`
	CallID   uuid.UUID     `json:"call_id"`
	Purpose  ReportPurpose `json:"purpose"`
}

// Kind implements river.JobArgs.
func (CallReportArgs) Kind() string { return "call_report" }

// InsertOpts implements river.JobArgsWithInsertOpts. Each purpose has a queue of its own.
func (a CallReportArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: string(a.Purpose), MaxAttempts: reportTries}
}

// CallEnds ends what the flows of a call that has ended have left open, and opens the reports that its tenant's integrations get of it.
func (t *Tx) CallEnds(ctx context.Context, call db.Call) error {
	opened, err := t.Q.CallEndFollows(ctx, db.CallEndFollowsParams{
		TenantID: call.TenantID, CallID: call.ID, EndedAt: *call.EndTime, GiveUpAt: time.Now().Add(ReportTime),
		IsLive: call.Environment == "live", WasAnswered: call.AnswerTime != nil,
	})
	if err != nil {
		return err
	}
	for _, r := range opened {
		args := CallReportArgs{TenantID: call.TenantID, CallID: call.ID, Purpose: ReportPurpose(r.Purpose)}
		var opts *river.InsertOpts
		if args.Purpose == ReportInsights && r.RecordingToCome {
			// RecordingSettled enqueues another one.
			opts = &river.InsertOpts{ScheduledAt: time.Now().Add(recordingWait)}
		}
		if err := t.Enqueue(ctx, args, opts); err != nil {
			return fmt.Errorf("report the call's end: %w", err)
		}
	}
	return nil
}

// CallChanged has the CRM told of what is known of an ended call since it was written there. It does nothing for a call that is reported to none.
func (t *Tx) CallChanged(ctx context.Context, tenantID, callID uuid.UUID) error {
	return t.reportChanged(ctx, CallReportArgs{TenantID: tenantID, CallID: callID, Purpose: ReportCRM})
}

func (t *Tx) reportChanged(ctx context.Context, args CallReportArgs) error {
	changed, err := t.Q.CallReportChanged(ctx, db.CallReportChangedParams{
		TenantID: args.TenantID, CallID: args.CallID, Purpose: string(args.Purpose), GiveUpAt: time.Now().Add(ReportTime),
	})
	if err != nil || len(changed) == 0 || !changed[0] {
		return err
	}
	return t.Enqueue(ctx, args, nil)
}

// RecordingSettled reports that a call's recording is ready, or, when it isn't, that there will be none.
func (t *Tx) RecordingSettled(ctx context.Context, tenantID, callID uuid.UUID, ready bool) error {
	args := CallReportArgs{TenantID: tenantID, CallID: callID, Purpose: ReportInsights}
	if !ready {
		return t.hasten(ctx, args)
	}
	if err := t.CallChanged(ctx, tenantID, callID); err != nil {
		return err
	}
	// Insights that have gone without it so far are asked for again.
	if err := t.reportChanged(ctx, args); err != nil {
		return err
	}
	return t.hasten(ctx, args)
}

// HastenReport has the job of a report look at it now, and makes one where there is none.
func (t *Tx) HastenReport(ctx context.Context, args CallReportArgs) error {
	which, err := json.Marshal(args)
	if err != nil {
		return fmt.Errorf("hasten a report: %w", err)
	}
	var jobs int
	err = t.tx.QueryRow(ctx, `WITH brought AS (
		UPDATE river_job SET scheduled_at = now(), state = 'available'
		WHERE kind = $1 AND args @> $2::jsonb AND state IN ('available', 'scheduled', 'retryable') RETURNING 1
	)
	SELECT (SELECT count(*) FROM brought) + (SELECT count(*) FROM river_job WHERE kind = $1 AND args @> $2::jsonb AND state = 'running')`,
		args.Kind(), string(which)).Scan(&jobs)
	if err != nil {
		return fmt.Errorf("hasten a report: %w", translate(err))
	}
	if jobs == 0 {
		return t.Enqueue(ctx, args, nil)
	}
	t.enqueued = append(t.enqueued, string(args.Purpose))
	return nil
}

// hasten enqueues a job for a report that waits for a recording.
func (t *Tx) hasten(ctx context.Context, args CallReportArgs) error {
	waits, err := t.Q.CallReportUntried(ctx, args.TenantID, args.CallID, string(args.Purpose))
	if err != nil || !waits {
		return err
	}
	return t.Enqueue(ctx, args, nil)
}
