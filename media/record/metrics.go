package record

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the figures of all recordings. All label values are listed here.
type Metrics struct {
	files    *prometheus.CounterVec // result: ok, failed
	failures *prometheus.CounterVec // reason: disk_full, disk_slow, missing, permission, io
	queue    prometheus.Gauge
	skipped  prometheus.Counter
}

// NewMetrics shows every series from the beginning, at 0.
func NewMetrics() Metrics {
	const ns, sub = "ringmaster", "media"
	m := Metrics{
		files: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: ns, Subsystem: sub, Name: "recordings_total", Help: "Recordings closed; failed ones ended before their call.",
		}, []string{"result"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: ns, Subsystem: sub, Name: "recording_failures_total",
			Help: "Recordings that ended before their call, by reason. Any increase deserves an alert: audio is being lost.",
		}, []string{"reason"}),
		queue: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: ns, Subsystem: sub, Name: "recording_queue_bytes",
			Help: "Recorded audio that waits for the disk; above 11 s of a call it is left out.",
		}),
		skipped: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: ns, Subsystem: sub, Name: "recording_skipped_seconds_total",
			Help: "Audio that recordings lack, as silence, because the disk did not keep up.",
		}),
	}
	for _, result := range []string{"ok", "failed"} {
		m.files.WithLabelValues(result)
	}
	for _, reason := range []string{"disk_full", "disk_slow", "missing", "permission", "io"} {
		m.failures.WithLabelValues(reason)
	}
	return m
}

// Collectors are all of them, to be registered.
func (m Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.files, m.failures, m.queue, m.skipped}
}
