package recordings

import (
	"fmt"
	"syscall"

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
	deleted   prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer, spool string) (*metrics, error) {
	m := &metrics{
		processed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ringmaster_recordings_processed_total",
			Help: "Attempts to process a recording by result: failed ones were given up, see the log, many retried " +
				"ones mean that the bucket can't be reached.",
		}, []string{"result"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ringmaster_recordings_stored_bytes_total",
			Help: "Bytes of recordings uploaded and verified.",
		}),
		deleted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ringmaster_recordings_deleted_total",
			Help: "Recordings deleted because their tenant keeps them no longer (recording_retention_days).",
		}),
	}
	for _, r := range []result{resultReady, resultFailed, resultRetried} {
		m.processed.WithLabelValues(string(r))
	}
	if registerer == nil {
		return m, nil
	}
	collectors := []prometheus.Collector{m.processed, m.bytes, m.deleted}
	if spool != "" {
		collectors = append(collectors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ringmaster_recordings_spool_free_bytes",
			Help: "Free space where recordings are written while their calls live; -1 when it can't be asked. Without space " +
				"recordings end early.",
		}, func() float64 { return freeBytes(spool) }))
	}
	for _, c := range collectors {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of recordings: %w", err)
		}
	}
	return m, nil
}

// freeBytes is the space that we may use in a folder's file system, -1 when that is not known.
func freeBytes(dir string) float64 {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return -1
	}
	return float64(s.Bavail) * float64(s.Bsize)
}

func (m *metrics) count(r result) { m.processed.WithLabelValues(string(r)).Inc() }
