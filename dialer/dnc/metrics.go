package dnc

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Results of a load.
const (
	loadDone   = "loaded"
	loadFailed = "failed"
)

func newLoads() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ringmaster_dnc_loads_total", Help: "Loads of the do-not-call registry, by result (loaded, failed).",
	}, []string{"result"})
}

func (r *Registry) register(reg prometheus.Registerer) {
	gauge := func(name, help string, value func(Status) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			if status, ok := r.Status(); ok {
				return value(status)
			}
			return 0
		})
	}
	reg.MustRegister(r.loads,
		gauge("ringmaster_dnc_numbers", "Numbers of the do-not-call registry in use that are barred to the calls made here.",
			func(s Status) float64 { return float64(s.Numbers) }),
		gauge("ringmaster_dnc_bad_rows", "Rows of the registry's files that could not be read.",
			func(s Status) float64 { return float64(s.BadRows) }),
		gauge("ringmaster_dnc_age_seconds", "Seconds since the day of the newest file of the registry in use.",
			func(s Status) float64 { return r.cfg.Now().Sub(s.AsOf).Seconds() }),
		gauge("ringmaster_dnc_loaded_timestamp_seconds", "When the registry in use was loaded, in Unix time.",
			func(s Status) float64 { return float64(s.LoadedAt.Unix()) }),
		gauge("ringmaster_dnc_load_seconds", "How long the load of the registry in use took.",
			func(s Status) float64 { return s.Took.Seconds() }),
		gauge("ringmaster_dnc_bytes", "Memory that the numbers of the registry in use take.",
			func(s Status) float64 { return float64(s.Bytes) }),
		gauge("ringmaster_dnc_version", "The version of the registry in use, its 12 hex digits as a number.",
			func(s Status) float64 {
				var v float64
				for _, c := range s.Version {
					v = v*16 + float64(strings.IndexRune("0123456789abcdef", c))
				}
				return v
			}))
}

// Results of a request to a remote provider.
const (
	remoteAnswered  = "answered"
	remoteTimeout   = "timeout"
	remoteUnreached = "unreached"
	remoteRefused   = "refused"
	remoteMalformed = "malformed"
	remoteSkipped   = "skipped"
)

type remoteMetrics struct {
	requests *prometheus.CounterVec
	seconds  prometheus.Histogram
}

func newRemoteMetrics() remoteMetrics {
	return remoteMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ringmaster_dnc_remote_requests_total",
			Help: "Requests to the remote do-not-call provider, by result (answered, timeout, unreached, refused, malformed; skipped when it is left alone after failures).",
		}, []string{"result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ringmaster_dnc_remote_duration_seconds", Help: "How long requests to the remote do-not-call provider took.",
			Buckets: []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10},
		}),
	}
}

func (m remoteMetrics) done(result string, took time.Duration) {
	m.requests.WithLabelValues(result).Inc()
	m.seconds.Observe(took.Seconds())
}

func (r *Remote) register(reg prometheus.Registerer) {
	reg.MustRegister(r.metrics.requests, r.metrics.seconds, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ringmaster_dnc_remote_open", Help: "1 while the remote do-not-call provider is left alone after failures.",
	}, func() float64 {
		if r.Open() {
			return 1
		}
		return 0
	}))
}
