package recordings

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// result is a metric label; its values are these constants.
type result string

const (
	resultReady   result = "ready"
	resultFailed  result = "failed"
	resultRetried result = "retried"
)

type metrics struct {
	processed *prometheus.CounterVec
	bytes     prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		processed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ringmaster_recordings_processed_total",
			Help: "Attempts to process a recording by result; failed ones are lost and need somebody's attention.",
		}, []string{"result"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ringmaster_recordings_stored_bytes_total",
			Help: "Bytes of recordings uploaded and verified.",
		}),
	}
	for _, r := range []result{resultReady, resultFailed, resultRetried} {
		m.processed.WithLabelValues(string(r))
	}
	if registerer == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.processed, m.bytes} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of recordings: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) count(r result) { m.processed.WithLabelValues(string(r)).Inc() }
