package crm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

const (
	// workers is how many reports of a purpose a controller writes at once.
	workers = 64
	// retryStore is how soon a report is looked at again that the database kept from being read.
	retryStore = time.Second
	// keepTime bounds the writing of what came of an attempt.
	keepTime = 10 * time.Second
)

// worker is River's view of the Service.
type worker struct {
	river.WorkerDefaults[store.CallReportArgs]
	s *Service
}

// AddWorker makes River's client report calls. It tells which queues must be worked, with how many jobs at once.
func (s *Service) AddWorker(all *river.Workers) (queues map[string]int, err error) {
	if err := river.AddWorkerSafely(all, &worker{s: s}); err != nil {
		return nil, fmt.Errorf("add the worker of calls' reports: %w", err)
	}
	return map[string]int{string(store.ReportCRM): workers, string(store.ReportInsights): workers}, nil
}

// Timeout implements river.Worker.
func (*worker) Timeout(*river.Job[store.CallReportArgs]) time.Duration { return jobTime }

// NextRetry implements river.Worker, for jobs whose process died.
func (w *worker) NextRetry(*river.Job[store.CallReportArgs]) time.Time {
	return time.Now().Add(retryStore)
}

// Work implements river.Worker: it makes the attempt that is due, or sleeps until it is.
func (w *worker) Work(ctx context.Context, job *river.Job[store.CallReportArgs]) error {
	again, err := w.s.attempt(ctx, job.Args)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil // the report, or its tenant, is gone
	case err != nil && !errors.Is(err, context.Canceled):
		w.s.log.WarnContext(ctx, "reporting a call failed, it will be tried again", "call_id", job.Args.CallID, "tenant_id", job.Args.TenantID,
			"purpose", job.Args.Purpose, "error", err)
		return river.JobSnooze(retryStore)
	case err != nil:
		return river.JobSnooze(retryStore)
	case again == nil:
		return nil
	}
	return river.JobSnooze(max(0, *again))
}

// claim is an attempt that has been counted.
type claim struct {
	args     store.CallReportArgs
	do       step
	report   db.CallReport
	facts    facts
	frozen   frozen
	settings configured
	// paused says that nothing of its tenant is to be sent just now.
	paused bool
}

// attempt does what is due of a report, and tells in how long to look again; nil for never.
func (s *Service) attempt(ctx context.Context, args store.CallReportArgs) (again *time.Duration, err error) {
	limits := s.limits[args.Purpose]
	if wait := limits.enter(args.TenantID, s.now()); wait > 0 {
		return &wait, nil
	}
	c, wait, err := s.begin(ctx, args)
	if err != nil || c.do == stepNothing {
		if c.paused { // and with it all that its tenant has to report: one look a minute tells whether it still is
			limits.hold(args.TenantID, s.now().Add(pausedWait))
		}
		limits.release(args.TenantID)
		return wait, err
	}
	began := s.now()
	res := result{away: true}
	defer func() { // whatever comes of it: a slot that isn't given back is one less for good
		limits.leave(args.TenantID, s.now(), s.now().Sub(began), res.away && ctx.Err() == nil, res.retryAfter)
	}()
	res = s.perform(ctx, c)
	took := s.now().Sub(began)
	s.metrics.observe(args.Purpose, res, took)
	return s.keep(ctx, c, res, took)
}

// begin locks a report, and counts the attempt that is due. wait is for one that isn't; nil where there is none to come.
func (s *Service) begin(ctx context.Context, args store.CallReportArgs) (c claim, wait *time.Duration, err error) {
	now := s.now()
	err = s.store.InTenant(ctx, args.TenantID, func(tx *store.Tx) error {
		c, wait = claim{args: args}, nil
		row, err := tx.Q.CallReportLoad(ctx, args.TenantID, args.CallID, string(args.Purpose))
		if err != nil {
			return err
		}
		do, until, why := plan(row, now)
		switch do {
		case stepNothing:
			return nil
		case stepWait:
			wait, c.paused = new(until.Sub(now)), isPaused(row)
			return nil
		case stepClose, stepFail:
			return s.close(ctx, tx, args, do, why)
		case stepCreate, stepUpdate:
		}
		if c.settings, err = s.open(row); err != nil {
			s.log.ErrorContext(ctx, "the settings of an integration can't be read", "tenant_id", args.TenantID, "purpose", args.Purpose, "error", err)
			return s.close(ctx, tx, args, stepFail, "the integration's settings can't be read: they must be given anew")
		}
		if do == stepUpdate && c.settings.writer != nil && !c.settings.writer.updates() {
			return s.close(ctx, tx, args, stepClose, "")
		}
		return s.count(ctx, tx, &c, row, do, now)
	})
	return c, wait, err
}

// close ends a report without an attempt.
func (s *Service) close(ctx context.Context, tx *store.Tx, args store.CallReportArgs, do step, why string) error {
	p := db.CallReportCloseParams{TenantID: args.TenantID, CallID: args.CallID, Purpose: string(args.Purpose), Status: StatusWritten}
	if do == stepFail {
		p.Status, p.LastError = StatusFailed, &why
		s.metrics.ended(args.Purpose, StatusFailed)
		s.log.WarnContext(ctx, "reporting a call failed for good", "call_id", args.CallID, "tenant_id", args.TenantID, "purpose", args.Purpose, "error", why)
	}
	return tx.Q.CallReportClose(ctx, p)
}

// count begins an attempt.
func (s *Service) count(ctx context.Context, tx *store.Tx, c *claim, row db.CallReportLoadRow, do step, now time.Time) error {
	found, err := tx.Q.CallReportFacts(ctx, c.args.TenantID, c.args.CallID)
	if err != nil {
		return err
	}
	c.do, c.report = do, row.CallReport
	c.facts = facts{row: found, strict: row.PrivacyMode == string(store.PrivacyStrict)}
	if found.RecordingStatus != nil && *found.RecordingStatus == recordingReady {
		c.facts.recording = new(s.links(c.args.TenantID, c.args.CallID, c.args.Purpose))
	}
	var kept json.RawMessage
	if c.args.Purpose == store.ReportCRM {
		if c.frozen, kept, err = c.facts.freeze(row.CallReport, c.settings.writer.updates()); err != nil {
			return err
		}
	} else {
		c.frozen.Revision, kept = int(row.CallReport.Revision), row.CallReport.Outcome
	}
	c.report.Attempts++
	return tx.Q.CallReportBegin(ctx, db.CallReportBeginParams{
		TenantID: c.args.TenantID, CallID: c.args.CallID, Purpose: string(c.args.Purpose), At: now, BusyUntil: now.Add(busyTime),
		IntegrationID: *row.ConfiguredID, Outcome: kept,
	})
}

// configured are the settings that an attempt is made with: a CRM's writer, or those of what gives insights.
type configured struct {
	id       uuid.UUID
	writer   writer
	insights InsightSettings
	secrets  []string
}

func (s *Service) open(row db.CallReportLoadRow) (configured, error) {
	out := configured{id: *row.ConfiguredID}
	plain, err := s.store.Unseal(store.IntegrationConfig(out.id), row.ConfigSealed)
	if err != nil {
		return out, err
	}
	if store.ReportPurpose(row.CallReport.Purpose) == store.ReportInsights {
		err := json.Unmarshal(plain, &out.insights)
		out.secrets = []string{out.insights.Secret}
		return out, err
	}
	var settings Settings
	if err := json.Unmarshal(plain, &settings); err != nil {
		return out, err
	}
	out.writer, err = settings.writer(s.tokens)
	out.secrets = settings.secrets()
	return out, err
}

// numbers are runs of digits that may be a customer's.
var numbers = regexp.MustCompile(`\+?[0-9][0-9 ()-]{6,}[0-9]`)

// reason is a failure as it is kept and logged: what a system answers may repeat what it was sent.
func (c claim) reason(err error) string {
	text := redact(err.Error(), c.settings.secrets)
	if c.facts.strict {
		text = numbers.ReplaceAllString(text, redacted)
	}
	return cut(text, 2*maxReason) //nolint:mnd // what a message adds to an answer
}

// perform makes the attempt.
func (s *Service) perform(ctx context.Context, c claim) result {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	var res result
	if c.settings.writer == nil {
		res, _ = s.asks.ask(ctx, c.settings.insights, c.facts, c.frozen.Revision)
		return res
	}
	res, _ = c.settings.writer.write(ctx, write{
		integration: c.settings.id, outcome: c.frozen.Outcome, revision: c.frozen.Revision, external: c.report.ExternalID, update: c.do == stepUpdate,
		again: c.report.Failures > 0 || c.report.Attempts > 1,
	})
	return res
}

// keep writes what came of an attempt, though the process is stopping, and tells in how long to look again.
func (s *Service) keep(ctx context.Context, c claim, res result, took time.Duration) (*time.Duration, error) {
	now := s.now()
	status, next := follow(c.report, res, now, jitter())
	if res.err != nil && !res.final && ctx.Err() != nil { // cut off by us
		status, next = StatusPending, now.Add(hubspotSettle)
	}
	p := db.CallReportRecordParams{
		TenantID: c.args.TenantID, CallID: c.args.CallID, Purpose: string(c.args.Purpose), Attempt: c.report.Attempts, Status: status, At: now,
		NextAttemptAt: next, GiveUpAt: now.Add(store.ReportTime), IsUpdate: c.do == stepUpdate && status == StatusWritten,
	}
	if res.err != nil {
		p.LastError = new(c.reason(res.err))
	} else {
		p.Written = int32(c.frozen.Revision) //nolint:gosec // it was one
	}
	if res.externalID != "" {
		p.ExternalID = &res.externalID
	}
	if !res.insights.none() {
		said, err := json.Marshal(res.insights)
		if err != nil {
			return nil, fmt.Errorf("keep insights: %w", err)
		}
		p.Said = said
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTime)
	defer cancel()
	var row db.CallReport
	err := s.store.Persist(ctx, c.args.TenantID, func(tx *store.Tx) error {
		if !res.insights.none() {
			if err := s.keepInsights(ctx, tx, c, res.insights); err != nil {
				return err
			}
		}
		var err error
		row, err = tx.Q.CallReportRecord(ctx, p)
		return err
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		// Somebody has taken it for that of a process that died, and made another: the report goes on as that one leaves it. This job looks again,
		// since it may be the only one that there is.
		s.log.WarnContext(ctx, "an attempt to report a call took too long, another one was made", "call_id", c.args.CallID, "tenant_id", c.args.TenantID,
			"purpose", c.args.Purpose)
		return new(busyTime), nil
	case err != nil:
		return nil, fmt.Errorf("keep what came of an attempt: %w", err)
	}
	s.tell(ctx, c, res, row, took)
	if row.Status != StatusPending {
		return nil, nil //nolint:nilnil // never again
	}
	return new(row.NextAttemptAt.Sub(s.now())), nil
}

// keepInsights fills in what the voice agent has not said itself, or what was given before, without the recording, and has the CRM told.
func (s *Service) keepInsights(ctx context.Context, tx *store.Tx, c claim, in insights) error {
	var before insights
	if len(c.report.Outcome) > 0 {
		if err := json.Unmarshal(c.report.Outcome, &before); err != nil {
			return fmt.Errorf("read the insights of before: %w", err)
		}
	}
	n, err := tx.Q.CallSetInsightsOf(ctx, db.CallSetInsightsOfParams{
		TenantID: c.args.TenantID, ID: c.args.CallID, AiSummary: in.Summary, AiSentiment: in.Sentiment, AiNextAction: in.NextAction,
		WasSummary: before.Summary, WasSentiment: before.Sentiment, WasNextAction: before.NextAction,
	})
	if err != nil || n == 0 {
		return err
	}
	return tx.CallChanged(ctx, c.args.TenantID, c.args.CallID)
}

func (s *Service) tell(ctx context.Context, c claim, res result, row db.CallReport, took time.Duration) {
	if row.Status == StatusFailed || res.err == nil {
		s.metrics.ended(c.args.Purpose, map[bool]string{true: StatusWritten, false: StatusFailed}[res.err == nil])
	}
	attrs := []slog.Attr{
		slog.String("call_id", c.args.CallID.String()), slog.String("tenant_id", c.args.TenantID.String()), slog.String("purpose", string(c.args.Purpose)),
		slog.Int("attempt", int(c.report.Attempts)), slog.String("status", row.Status), slog.Int64("latency_ms", took.Milliseconds()),
	}
	if res.err == nil {
		s.log.LogAttrs(ctx, slog.LevelDebug, "call reported", attrs...)
		return
	}
	s.log.LogAttrs(ctx, slog.LevelWarn, "reporting a call failed", append(attrs, slog.String("error", c.reason(res.err)))...)
}
