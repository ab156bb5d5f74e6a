package webhook

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	// mostFailing is how many endpoints have metrics of their own: those that have failed most.
	mostFailing = 20
	// failingFrom is how many attempts in a row must have failed for that.
	failingFrom = 3
	// agesFor is how long after a look at the queue the age of the oldest is known.
	agesFor = 30 * time.Second
)

// age is that of the oldest delivery when the queue was looked at.
type age struct {
	at   time.Time
	then time.Duration
}

// metrics of deliveries. Their labels are bounded: results, statuses, and the subscriptions of mostFailing endpoints.
type metrics struct {
	attempts   *prometheus.CounterVec
	deliveries *prometheus.CounterVec
	latency    prometheus.Histogram
	failures   *prometheus.GaugeVec
	endpoints  prometheus.Gauge
	open       prometheus.Gauge
	oldest     prometheus.GaugeFunc
	age        atomic.Pointer[age]
	shown      map[uuid.UUID]bool
}

func newMetrics() *metrics {
	m := &metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ringmaster_webhook_attempts_total", Help: "Attempts to deliver an event, by result.",
		}, []string{"result"}),
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ringmaster_webhook_deliveries_total", Help: "Deliveries that came to an end, by their final status.",
		}, []string{"status"}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ringmaster_webhook_latency_seconds", Help: "Time from sending an event to the receiver's answer.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
		failures: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ringmaster_webhook_endpoint_failures",
			Help: "Attempts in a row that failed, of the endpoints that failed most (20 at most) of those that this controller delivers to.",
		}, []string{"subscription_id"}),
		endpoints: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ringmaster_webhook_endpoints", Help: "Endpoints that this controller delivers to.",
		}),
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ringmaster_webhook_endpoints_silent", Help: "Endpoints that get one request at a time, since they don't answer.",
		}),
		shown: map[uuid.UUID]bool{},
	}
	m.oldest = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ringmaster_webhook_oldest_undelivered_seconds",
		Help: "Age of the oldest event that is next in an endpoint's queue, of all controllers; -1 when the queue could not be read for 30 s.",
	}, func() float64 {
		known := m.age.Load()
		if known == nil || time.Since(known.at) > agesFor {
			return -1
		}
		if known.then == 0 {
			return 0
		}
		return (known.then + time.Since(known.at)).Seconds()
	})
	return m
}

func (m *metrics) register(r prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{m.attempts, m.deliveries, m.latency, m.failures, m.endpoints, m.open, m.oldest} {
		if err := r.Register(c); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}

func (m *metrics) attempt(res result, entry Attempt) {
	label := "failed"
	if entry.Error == nil {
		label = "delivered"
	}
	m.attempts.WithLabelValues(label).Inc()
	if res.code != 0 {
		m.latency.Observe(float64(entry.LatencyMS) / float64(time.Second/time.Millisecond))
	}
}

// observe shows the age of the oldest delivery and the endpoints that fail.
func (m *metrics) observe(all map[uuid.UUID]*endpoint, oldest time.Duration) {
	m.age.Store(&age{time.Now(), max(0, oldest)})
	var failing []*endpoint
	open := 0
	for _, e := range all {
		if e.failed >= failingFrom {
			failing = append(failing, e)
		}
		if e.open {
			open++
		}
	}
	m.endpoints.Set(float64(len(all)))
	m.open.Set(float64(open))
	slices.SortFunc(failing, func(a, b *endpoint) int { return cmp.Compare(b.failed, a.failed) })
	failing = failing[:min(mostFailing, len(failing))]
	now := make(map[uuid.UUID]bool, len(failing))
	for _, e := range failing {
		now[e.id] = true
		m.failures.WithLabelValues(e.id.String()).Set(float64(e.failed))
	}
	for id := range m.shown {
		if !now[id] {
			m.failures.DeleteLabelValues(id.String())
		}
	}
	m.shown = now
}
