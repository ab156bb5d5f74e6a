package httpapi

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/httpapi/auth"
)

// serverMetrics are labelled by route pattern, never by path, so that their number is that of the operations.
type serverMetrics struct {
	requests     *prometheus.CounterVec
	latency      *prometheus.HistogramVec
	panics       prometheus.Counter
	refusedConns prometheus.Counter
	signIns      *prometheus.CounterVec
	credentials  auth.Metrics
}

func newServerMetrics(reg prometheus.Registerer) (*serverMetrics, error) {
	m := &serverMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ringmaster_http_requests_total", Help: "HTTP requests by method, route pattern and class of status.",
		}, []string{"method", "route", "class"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ringmaster_http_request_duration_seconds", Help: "Time from a request's arrival to its response.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"method", "route"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ringmaster_http_panics_total", Help: "Panics in HTTP handlers, each answered with 500.",
		}),
		refusedConns: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ringmaster_http_connections_refused_total", Help: "Connections closed because http.max_connections or http.max_connections_per_client was reached.",
		}),
		signIns: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ringmaster_http_sign_ins_total", Help: "Attempts to sign in: succeeded, failed, limited (too many failed), busy (too many at once).",
		}, []string{"outcome"}),
		credentials: auth.Metrics{
			Lookups: prometheus.NewCounterVec(prometheus.CounterOpts{
				Name: "ringmaster_http_credential_lookups_total",
				Help: "Look-ups of keys, of the users of sessions and of OAuth tokens, and of callback tokens, by credential (key, session, callback, oauth) and source (memory, database).",
			}, []string{"credential", "source"}),
			Watched: prometheus.NewGauge(prometheus.GaugeOpts{
				Name: "ringmaster_http_credentials_watched",
				Help: "1 while the database tells of changed credentials, so that they are remembered; 0 while each is read for every request.",
			}),
		},
	}
	for _, c := range []prometheus.Collector{m.requests, m.latency, m.panics, m.refusedConns, m.signIns, m.credentials.Lookups, m.credentials.Watched} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register HTTP metrics: %w", err)
		}
	}
	return m, nil
}
