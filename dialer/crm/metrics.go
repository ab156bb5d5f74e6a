package crm

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/retry"
)

const (
	// backlogEvery is how often what waits is counted, up to backlogMost of a tenant, and for backlogTime at most.
	backlogEvery = time.Minute
	backlogMost  = 1_000
	backlogTime  = 3 * time.Second
)

type metrics struct {
	attempts *prometheus.CounterVec
	reports  *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	backlog  *prometheus.GaugeVec
	oldest   *prometheus.GaugeVec
	broken   *prometheus.GaugeVec
	panics   prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ringmaster_call_report_attempts_total", Help: "Attempts to report a call, by purpose (crm, insights) and result (written, failed).",
		}, []string{"purpose", "result"}),
		reports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ringmaster_call_reports_total", Help: "Reports of calls that were written, or failed for good, by purpose and status.",
		}, []string{"purpose", "status"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ringmaster_call_report_seconds", Help: "How long attempts to report a call took, by purpose.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"purpose"}),
		backlog: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ringmaster_call_reports_pending", Help: "Calls that are still to be reported, of all controllers, by purpose, 1,000 of a tenant at most; without those of tenants that are suspended or have paused it.",
		}, []string{"purpose"}),
		oldest: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ringmaster_call_reports_oldest_seconds", Help: "How long ago the oldest of these calls ended, by purpose.",
		}, []string{"purpose"}),
		broken: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ringmaster_call_report_systems_away", Help: "Tenants whose system doesn't answer, or answers errors, so that few attempts are made, by purpose.",
		}, []string{"purpose"}),
	}
	m.panics = prometheus.NewCounter(prometheus.CounterOpts{Name: "ringmaster_call_report_panics_total", Help: "Panics caught at the top of a report of a call."})
	for _, p := range purposes() {
		for _, status := range []string{StatusWritten, StatusFailed} {
			m.attempts.WithLabelValues(string(p), status)
			m.reports.WithLabelValues(string(p), status)
		}
	}
	if reg != nil {
		reg.MustRegister(m.attempts, m.reports, m.latency, m.backlog, m.oldest, m.broken, m.panics)
	}
	return m
}

func purposes() []store.ReportPurpose {
	return []store.ReportPurpose{store.ReportCRM, store.ReportInsights}
}

func (m *metrics) observe(p store.ReportPurpose, res result, took time.Duration) {
	label := StatusWritten
	if res.err != nil {
		label = StatusFailed
	}
	m.attempts.WithLabelValues(string(p), label).Inc()
	m.latency.WithLabelValues(string(p)).Observe(took.Seconds())
}

func (m *metrics) ended(p store.ReportPurpose, status string) {
	m.reports.WithLabelValues(string(p), status).Inc()
}

// watch keeps the gauges of what waits, until ctx ends.
func (s *Service) watch(ctx context.Context) {
	for {
		for _, p := range purposes() { // one after the other: a database that stalls holds one connection for it
			s.metrics.broken.WithLabelValues(string(p)).Set(float64(s.queues[p].limits.broken(s.now())))
			s.countBacklog(ctx, p)
		}
		if retry.Pause(ctx, backlogEvery) != nil {
			return
		}
	}
}

func (s *Service) countBacklog(ctx context.Context, p store.ReportPurpose) {
	ctx, cancel := context.WithTimeout(ctx, backlogTime)
	defer cancel()
	var row db.CallReportsPendingRow
	err := s.store.InSystem(ctx, func(tx *store.Tx) (err error) {
		row, err = tx.Q.CallReportsPending(ctx, string(p), backlogMost)
		return err
	})
	if err != nil {
		s.log.DebugContext(ctx, "counting the calls to report failed", "purpose", p, "error", err)
		return
	}
	s.metrics.backlog.WithLabelValues(string(p)).Set(float64(row.Pending))
	s.metrics.oldest.WithLabelValues(string(p)).Set(row.OldestS)
}
