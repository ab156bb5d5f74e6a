package switchctl

import (
	"context"
	"encoding/json"
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/rtp"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// Quality is how the audio between a call's caller and its voice agents has fared, as the call's record keeps it. A direction
// that nobody measured is nil.
type Quality struct {
	// Inbound is what the caller sent, Outbound what the caller heard.
	Inbound  *DirectionQuality `json:"inbound"`
	Outbound *DirectionQuality `json:"outbound"`
}

// DirectionQuality is one direction of a call's audio. Of several sessions it is the mean, weighted by their packets.
type DirectionQuality struct {
	MOS     float64 `json:"mos"`
	LossPct float64 `json:"loss_pct"`
	// JitterMS is 0 outbound when nobody has told it: see rtp.Quality.
	JitterMS     float64 `json:"jitter_ms"`
	LatePct      float64 `json:"late_pct"`
	ConcealedPct float64 `json:"concealed_pct"`
	// Packets is the weight.
	Packets uint64 `json:"packets"`
}

// ParseQuality reads a record's quality; nil for a call without measured audio.
func ParseQuality(column json.RawMessage) (*Quality, error) {
	if len(column) == 0 {
		return nil, nil //nolint:nilnil // no quality is no error
	}
	var q Quality
	if err := json.Unmarshal(column, &q); err != nil {
		return nil, err
	}
	return &q, nil
}

// column is how a record keeps it: nil when nothing was measured.
func (q Quality) column() json.RawMessage {
	if q.Inbound == nil && q.Outbound == nil {
		return nil
	}
	raw, err := json.Marshal(q)
	if err != nil {
		return nil // numbers that are finite always encode
	}
	return raw
}

// with adds a session.
func (q Quality) with(m media.Quality) Quality {
	out := combine(q.Outbound, m.Outbound)
	if b := q.Outbound; b != nil && m.Outbound.Measured && (b.JitterMS == 0 || m.Outbound.JitterMS == 0) {
		out.JitterMS = max(b.JitterMS, m.Outbound.JitterMS) // a 0 was not told
	}
	return Quality{Inbound: combine(q.Inbound, m.Inbound), Outbound: out}
}

// combine gives the mean of two, weighted by packets and in two decimals.
func combine(before *DirectionQuality, m rtp.Quality) *DirectionQuality {
	if !m.Measured {
		return before
	}
	now := DirectionQuality{
		MOS: m.MOS, LossPct: m.LossPct, JitterMS: m.JitterMS, LatePct: m.LatePct, ConcealedPct: m.ConcealedPct,
		Packets: max(1, m.Packets),
	}
	old := now
	if before != nil {
		old = *before
	} else {
		old.Packets = 0
	}
	total := old.Packets + now.Packets
	mean := func(a, b float64) float64 {
		v := (a*float64(old.Packets) + b*float64(now.Packets)) / float64(total)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return 0
		}
		return math.Round(v*100) / 100
	}
	return &DirectionQuality{
		MOS: mean(old.MOS, now.MOS), LossPct: mean(old.LossPct, now.LossPct), JitterMS: mean(old.JitterMS, now.JitterMS),
		LatePct: mean(old.LatePct, now.LatePct), ConcealedPct: mean(old.ConcealedPct, now.ConcealedPct), Packets: total,
	}
}

// measured closes a call's sessions, the last one with its reason, and gives the quality of the whole call: what a controller
// before us has kept, and all sessions of this one. A session that is closed already only tells its counts.
func measured(column json.RawMessage, sessions []mediaSession, reason media.CloseReason) (Quality, []media.Stats) {
	var q Quality
	// What can't be read is not ours: it is replaced.
	if kept, err := ParseQuality(column); err == nil && kept != nil {
		q = *kept
	}
	stats := make([]media.Stats, 0, len(sessions))
	for _, s := range sessions {
		st := s.Close(reason)
		q = q.with(st.Quality)
		stats = append(stats, st)
	}
	return q, stats
}

// keepQuality writes what was measured so far, for a call that outlives this controller.
func (v *voice) keepQuality(ctx context.Context) {
	sessions, call := v.sessions, v.call
	if len(sessions) == 0 {
		return
	}
	v.beside(func() {
		q, _ := measured(call.Quality, sessions, media.CloseShutdown)
		if column := q.column(); column != nil {
			v.record(ctx, "quality", func(ctx context.Context) error { return v.c.ledger.Quality(ctx, call, column) }, nil)
		}
	})
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

func (m qualityMetrics) observe(q Quality, stats []media.Stats) {
	for direction, d := range map[string]*DirectionQuality{ledger.DirectionInbound: q.Inbound, ledger.DirectionOutbound: q.Outbound} {
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
