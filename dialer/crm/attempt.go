package crm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// keepTime bounds the writing of what came of an attempt.
const keepTime = 10 * time.Second

// claim is an attempt that has been counted.
type claim struct {
	id       store.ReportID
	do       step
	report   db.CallReport
	facts    facts
	frozen   frozen
	settings configured
}

// attempt does what is due of a report that was leased until a moment. It gives what came of it, nil where no attempt was made, and whether the report
// is due again.
func (s *Service) attempt(ctx context.Context, id store.ReportID, lease time.Time) (res *result, again bool, err error) {
	c, err := s.begin(ctx, id, lease)
	if err != nil || c.do == stepNothing {
		return nil, false, err
	}
	began := s.now()
	res = new(s.perform(ctx, &c))
	took := s.now().Sub(began)
	s.metrics.observe(id.Purpose, *res, took)
	again, err = s.keep(ctx, c, *res, took)
	return res, again, err
}

// begin locks a report whose lease is ours, and counts the attempt. What it closes, or has another lease by now, gives stepNothing.
func (s *Service) begin(ctx context.Context, id store.ReportID, lease time.Time) (c claim, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	now := s.databaseNow()
	err = s.store.InTenant(ctx, id.TenantID, func(tx *store.Tx) error {
		c = claim{id: id}
		row, err := tx.Q.CallReportLoad(ctx, id.TenantID, id.CallID, string(id.Purpose))
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil // forgotten meanwhile
		case err != nil:
			return err
		case row.CallReport.BusyUntil == nil || !row.CallReport.BusyUntil.Equal(lease):
			return nil
		}
		do, why := plan(row)
		switch do {
		case stepNothing:
			return nil
		case stepClose, stepFail:
			return s.close(ctx, tx, id, do, why)
		case stepCreate, stepUpdate:
		}
		if c.settings, err = s.open(row); err != nil {
			s.log.ErrorContext(ctx, "the settings of an integration can't be read", "tenant_id", id.TenantID, "purpose", id.Purpose, "error", err)
			return s.close(ctx, tx, id, stepFail, "the integration's settings can't be read: they must be given anew")
		}
		if do == stepUpdate && c.settings.writer != nil && !c.settings.writer.updates() {
			return s.close(ctx, tx, id, stepClose, "")
		}
		return s.count(ctx, tx, &c, row, do, now)
	})
	return c, err
}

// close ends a report without an attempt.
func (s *Service) close(ctx context.Context, tx *store.Tx, id store.ReportID, do step, why string) error {
	p := db.CallReportCloseParams{TenantID: id.TenantID, CallID: id.CallID, Purpose: string(id.Purpose), Status: StatusWritten}
	if do == stepFail {
		p.Status, p.LastError = StatusFailed, &why
		s.metrics.ended(id.Purpose, StatusFailed)
		s.log.WarnContext(ctx, "reporting a call failed for good", "call_id", id.CallID, "tenant_id", id.TenantID, "purpose", id.Purpose, "error", why)
	}
	return tx.Q.CallReportClose(ctx, p)
}

// count begins an attempt.
func (s *Service) count(ctx context.Context, tx *store.Tx, c *claim, row db.CallReportLoadRow, do step, now time.Time) error {
	found, err := tx.Q.CallReportFacts(ctx, c.id.TenantID, c.id.CallID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return s.close(ctx, tx, c.id, stepFail, "the call is not kept any more")
	case err != nil:
		return err
	}
	c.do, c.report = do, row.CallReport
	c.facts = facts{row: found, strict: row.PrivacyMode == string(store.PrivacyStrict)}
	if found.RecordingStatus != nil && *found.RecordingStatus == recordingReady {
		c.facts.recording = new(s.links(c.id.TenantID, c.id.CallID, c.id.Purpose))
	}
	var kept json.RawMessage
	if c.id.Purpose == store.ReportCRM {
		if c.frozen, kept, err = c.facts.freeze(row.CallReport, c.settings.writer.updates(), now); err != nil {
			return err
		}
	} else {
		c.frozen.Revision, kept = int(row.CallReport.Revision), row.CallReport.Outcome
	}
	c.report.Attempts++
	return tx.Q.CallReportBegin(ctx, db.CallReportBeginParams{
		TenantID: c.id.TenantID, CallID: c.id.CallID, Purpose: string(c.id.Purpose), At: now, BusyUntil: now.Add(busyTime),
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
		out.secrets = append(querySecrets(out.insights.URL), out.insights.Secret)
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
var numbers = regexp.MustCompile(`\+?[0-9](?:[ ()./-]*[0-9]){7,}`)

// reason is a failure as it is kept and logged: what a system answers may repeat what it was sent.
func (c claim) reason(err error) string {
	text := redact(clean(err.Error()), c.settings.secrets)
	if c.facts.strict {
		text = numbers.ReplaceAllString(text, redacted)
	}
	return cut(text, 2*maxReason) //nolint:mnd // what a message adds to an answer
}

// clean makes one line of a text of others, such as the names in a certificate.
func clean(s string) string {
	return strings.Join(strings.Fields(oneLine(strings.ToValidUTF8(s, ""))), " ")
}

// perform makes the attempt. The secrets that it was made with are known afterwards. A panic is counted, and is a failure.
func (s *Service) perform(ctx context.Context, c *claim) (res result) {
	defer func() {
		if r := recover(); r != nil {
			s.panicked(ctx, c.id, r)
			res = result{err: errors.New("internal error")}
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	if c.settings.writer == nil {
		res, _ := s.asks.ask(ctx, c.settings.insights, c.facts, c.frozen.Revision)
		return res
	}
	res, made := c.settings.writer.write(ctx, write{
		integration: c.settings.id, outcome: c.frozen.Outcome, revision: c.frozen.Revision, external: c.report.ExternalID, update: c.do == stepUpdate,
		again: c.report.Failures > 0 || c.report.Attempts > 1,
	})
	c.settings.secrets = append(c.settings.secrets, sentSecrets(made.request.header)...)
	return res
}

func (s *Service) panicked(ctx context.Context, id store.ReportID, r any) {
	s.metrics.panics.Inc()
	s.log.ErrorContext(ctx, "panic in the report of a call", "panic", fmt.Sprint(r), "call_id", id.CallID, "tenant_id", id.TenantID, "purpose", id.Purpose,
		"stack", string(debug.Stack()))
}

// keep writes what came of an attempt, though the process is stopping, and tells whether the report is due again.
func (s *Service) keep(ctx context.Context, c claim, res result, took time.Duration) (again bool, err error) {
	now := s.databaseNow()
	status, next := follow(c.report, res, now, jitter())
	if res.err != nil && !res.final && ctx.Err() != nil { // cut off by us
		status, next = StatusPending, now.Add(hubspotSettle)
	}
	p := db.CallReportRecordParams{
		TenantID: c.id.TenantID, CallID: c.id.CallID, Purpose: string(c.id.Purpose), Attempt: c.report.Attempts, Status: status, At: now,
		NextAttemptAt: next, GiveUpAt: now.Add(store.ReportTime), IsUpdate: c.do == stepUpdate && status == StatusWritten,
	}
	if res.err != nil {
		p.LastError = new(c.reason(res.err))
	} else {
		p.Written = int32(c.frozen.Revision) //nolint:gosec // it was one
	}
	if res.externalID != "" && res.err == nil {
		p.ExternalID = &res.externalID
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTime)
	defer cancel()
	row, late, err := s.record(ctx, c, p, res.insights)
	if errors.Is(err, store.ErrValue) { // no text of others keeps a report from its end
		p.ExternalID = nil
		if p.LastError != nil {
			p.LastError = new("what was answered can't be kept")
		}
		row, late, err = s.record(ctx, c, p, insights{})
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		s.log.WarnContext(ctx, "an attempt to report a call took too long, another one was made", "call_id", c.id.CallID, "tenant_id", c.id.TenantID,
			"purpose", c.id.Purpose)
		return false, nil
	case err != nil:
		return false, fmt.Errorf("keep what came of an attempt: %w", err)
	}
	if !late {
		s.tell(ctx, c, res, row, took)
	}
	return row.Status == StatusPending && !row.NextAttemptAt.After(now), nil
}

// record writes what came of an attempt to its report. Of one after which another was begun, which is late, a success counts alone: store.ErrNotFound
// for the rest.
func (s *Service) record(ctx context.Context, c claim, p db.CallReportRecordParams, said insights) (row db.CallReport, late bool, err error) {
	err = s.store.Persist(ctx, c.id.TenantID, func(tx *store.Tx) error {
		now, err := tx.Q.CallReportGet(ctx, p.TenantID, p.CallID, p.Purpose) // not locked: that of the CRM comes first
		if err != nil {
			return err
		}
		late = now.Attempts != p.Attempt
		if c.id.Purpose == store.ReportInsights {
			if p.Said, err = keepInsights(ctx, tx, now, said, late); err != nil {
				return err
			}
		}
		if !late {
			if row, err = tx.Q.CallReportRecord(ctx, p); !errors.Is(err, store.ErrNotFound) {
				return err
			}
			late = true
		}
		if p.Written == 0 {
			return store.ErrNotFound
		}
		row, err = tx.Q.CallReportRecordLate(ctx, db.CallReportRecordLateParams{
			TenantID: p.TenantID, CallID: p.CallID, Purpose: p.Purpose, Written: p.Written, ExternalID: p.ExternalID, At: p.At, Said: p.Said, GiveUpAt: p.GiveUpAt,
		})
		return err
	})
	return row, late, err
}

func (s *Service) tell(ctx context.Context, c claim, res result, row db.CallReport, took time.Duration) {
	if row.Status == StatusFailed || res.err == nil {
		s.metrics.ended(c.id.Purpose, map[bool]string{true: StatusWritten, false: StatusFailed}[res.err == nil])
	}
	attrs := []slog.Attr{
		slog.String("call_id", c.id.CallID.String()), slog.String("tenant_id", c.id.TenantID.String()), slog.String("purpose", string(c.id.Purpose)),
		slog.Int("attempt", int(c.report.Attempts)), slog.String("status", row.Status), slog.Int64("latency_ms", took.Milliseconds()),
	}
	if res.err == nil {
		s.log.LogAttrs(ctx, slog.LevelDebug, "call reported", attrs...)
		return
	}
	s.log.LogAttrs(ctx, slog.LevelWarn, "reporting a call failed", append(attrs, slog.String("error", c.reason(res.err)))...)
}
