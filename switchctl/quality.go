package switchctl

import (
	"encoding/json"
	"math"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/rtp"
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

// Column is how a record keeps it: nil when nothing was measured.
func (q Quality) Column() json.RawMessage {
	if q.Inbound == nil && q.Outbound == nil {
		return nil
	}
	raw, err := json.Marshal(q)
	if err != nil {
		return nil // numbers that are finite always encode
	}
	return raw
}

// With adds a session.
func (q Quality) With(m media.Quality) Quality {
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
