package phone

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are those of agents' phones.
type Metrics struct {
	dials  *prometheus.CounterVec // result: answered, and why not
	losses *prometheus.CounterVec // reason: hung_up, lost
}

// NewMetrics makes them, with a series for each value.
func NewMetrics() Metrics {
	vec := func(name, help, label string, values ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "ringmaster", Name: name, Help: help}, []string{label})
		for _, value := range values {
			v.WithLabelValues(value)
		}
		return v
	}
	return Metrics{
		dials: vec("agent_phone_dials_total", "Legs dialed to agents' phones, by what became of them.", "result",
			"answered", NotRegistered, NoAnswer, Busy, Rejected, Lost),
		losses: vec("agent_phone_losses_total", "Agents' legs that ended without our asking, by reason.", "reason", HungUp, Lost),
	}
}

// Collectors are those to register.
func (m Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.dials, m.losses}
}

// loss counts the end of a leg that was in a phase.
func (m Metrics) loss(before legPhase, reason string) {
	switch before {
	case legNone, legDialing:
		m.dials.WithLabelValues(reason).Inc()
	case legUp:
		m.losses.WithLabelValues(reason).Inc()
	case legEnding:
	}
}
