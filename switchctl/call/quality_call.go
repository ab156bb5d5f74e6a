package call

import (
	"encoding/json"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// measured closes a call's sessions, the last one with its reason, and gives the quality of the whole call: what a controller
// before us has kept, and all sessions of this one. A session that is closed already only tells its counts.
func measured(column json.RawMessage, sessions []mediaSession, reason media.CloseReason) (switchctl.Quality, []media.Stats) {
	var q switchctl.Quality
	// What can't be read is not ours: it is replaced.
	if kept, err := switchctl.ParseQuality(column); err == nil && kept != nil {
		q = *kept
	}
	stats := make([]media.Stats, 0, len(sessions))
	for _, s := range sessions {
		st := s.Close(reason)
		q = q.With(st.Quality)
		stats = append(stats, st)
	}
	return q, stats
}

// qualityMetrics are the audio of calls that have ended. direction: inbound, outbound.
type qualityMetrics struct {
	mos       *prometheus.HistogramVec
	loss      *prometheus.HistogramVec
	jitter    *prometheus.HistogramVec
	late      prometheus.Counter
	concealed prometheus.Counter
}

func newQualityMetrics() qualityMetrics {
	histogram := func(name, help string, buckets ...float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "ringmaster", Name: name, Help: help, Buckets: buckets,
		}, []string{"direction"})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "ringmaster", Name: name, Help: help})
	}
	return qualityMetrics{
		mos: histogram("call_mos", "Estimated mean opinion score of AI calls that have ended, by direction.",
			1.5, 2, 2.5, 3, 3.3, 3.6, 3.8, 4, 4.1, 4.2, 4.3, 4.4, 4.5),
		loss: histogram("call_packet_loss_ratio", "Share of the packets that never came, of AI calls that have ended, by direction.",
			0, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5),
		jitter: histogram("call_jitter_seconds", "Interarrival jitter of AI calls that have ended, by direction; outbound, of those that were in bypass.",
			0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.5),
		late:      counter("call_late_packets_total", "Packets of callers that came too late to be heard, of AI calls that have ended."),
		concealed: counter("call_concealed_frames_total", "Frames of 20 ms that were concealed, of AI calls that have ended."),
	}
}

func (m qualityMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.mos, m.loss, m.jitter, m.late, m.concealed}
}

func (m qualityMetrics) observe(q switchctl.Quality, stats []media.Stats) {
	for direction, d := range map[string]*switchctl.DirectionQuality{ledger.DirectionInbound: q.Inbound, ledger.DirectionOutbound: q.Outbound} {
		if d == nil {
			continue
		}
		m.mos.WithLabelValues(direction).Observe(d.MOS)
		m.loss.WithLabelValues(direction).Observe(d.LossPct / 100)
		if direction == ledger.DirectionInbound || d.JitterMS > 0 {
			m.jitter.WithLabelValues(direction).Observe(d.JitterMS / 1000)
		}
	}
	for _, s := range stats {
		m.late.Add(float64(s.Late))
		m.concealed.Add(float64(s.Concealed))
	}
}
