package crm

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
)

// TestResult is what came back of a made-up outcome.
type TestResult struct {
	OK         bool          `json:"ok"`
	StatusCode *int          `json:"status_code"`
	LatencyMS  int64         `json:"latency_ms"`
	Error      *string       `json:"error"`
	ExternalID *string       `json:"external_id"`
	Request    *TestRequest  `json:"request"`
	Response   *TestResponse `json:"response"`
	Warnings   []string      `json:"warnings,omitempty"`
}

// TestRequest is the request as it was sent, but for secrets.
type TestRequest struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

// TestResponse is the beginning of the answer.
type TestResponse struct {
	ContentType string `json:"content_type"`
	Body        string `json:"body"`
}

// maxShown bounds what a test shows of a body.
const maxShown = 4 << 10

// Test writes a made-up outcome, whether or not the integration is active.
func (s *Service) Test(ctx context.Context, tenant uuid.UUID) (TestResult, error) {
	var settings Settings
	row, err := s.read(ctx, tenant, store.ReportCRM, &settings)
	if err != nil {
		return TestResult{}, fault.Wrap("test the CRM", err)
	}
	w, err := settings.writer(s.tokens)
	if err != nil {
		return TestResult{}, fault.Wrap("test the CRM", err)
	}
	call, err := newID()
	if err != nil {
		return TestResult{}, fault.Wrap("test the CRM", err)
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	limits := s.queues[store.ReportCRM].limits
	began := s.now()
	grants, _ := limits.take([]uuid.UUID{tenant}, began)
	if len(grants) == 0 {
		return TestResult{}, &fault.Error{
			Kind: fault.Limit, Code: codeBusy, RetryAfter: max(time.Second, min(limits.shutFor(tenant, began), pauseMost)),
			Detail: "The CRM is busy with the calls that are being written, or doesn't answer.",
		}
	}
	limits.claimed(grants[0], 1)
	var res result
	defer func() { limits.leave(tenant, s.now(), began, &res, ctx.Err() != nil) }()
	res, made := w.write(ctx, write{integration: row.ID, outcome: Sample(call, s.now()), revision: 1})
	secrets := append(settings.secrets(), sentSecrets(made.request.header)...)
	out := TestResult{OK: res.err == nil, LatencyMS: made.took.Milliseconds(), Warnings: settings.warnings()}
	if made.code != 0 {
		out.StatusCode = &made.code
	}
	if made.code != 0 && !made.internal { // what a network of the operator's own answers is not the tenant's to read
		out.Response = &TestResponse{ContentType: made.header.Get("Content-Type"), Body: cut(redact(string(made.answer), secrets), maxShown)}
		if res.externalID != "" {
			out.ExternalID = &res.externalID
		}
	}
	if res.err != nil {
		out.Error = new(redact(clean(res.err.Error()), secrets))
	}
	if made.method != "" {
		out.Request = &TestRequest{
			Method: made.method, URL: redact(maskQuery(made.url), secrets), Headers: shownHeaders(made.request.header),
			Body: cut(redact(string(made.body), secrets), maxShown),
		}
	}
	return out, nil
}
