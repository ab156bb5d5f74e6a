package switchctl

import "github.com/prometheus/client_golang/prometheus"

// phoneMetrics are those of agents' phones and of the calls' agents.
type phoneMetrics struct {
	phoneDials    *prometheus.CounterVec // result: answered, and why not
	phoneLosses   *prometheus.CounterVec // reason: hung_up, lost
	agentOutcomes *prometheus.CounterVec // outcome: those of AgentOutcome
	agentConnect  prometheus.Histogram
}

func newPhoneMetrics() phoneMetrics {
	vec := func(name, help, label string, values ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "ringmaster", Name: name, Help: help}, []string{label})
		for _, value := range values {
			v.WithLabelValues(value)
		}
		return v
	}
	return phoneMetrics{
		phoneDials: vec("agent_phone_dials_total", "Legs dialed to agents' phones, by what became of them.", "result",
			"answered", PhoneNotRegistered, PhoneNoAnswer, PhoneBusy, PhoneRejected, PhoneLost),
		phoneLosses: vec("agent_phone_losses_total", "Agents' legs that ended without our asking, by reason.", "reason", PhoneHungUp, PhoneLost),
		agentOutcomes: vec("agent_connects_total", "Tries to connect a caller with an agent, by outcome.", "outcome",
			string(AgentEnded), string(AgentUnavailable), string(AgentLost), string(AgentCallerGone)),
		agentConnect: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "ringmaster", Name: "agent_connect_seconds",
			Help:    "Time from asking for an agent's leg until the caller is bridged with it, ringing and whisper included.",
			Buckets: []float64{0.02, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2, 5, 10, 20},
		}),
	}
}

func (m phoneMetrics) phoneCollectors() []prometheus.Collector {
	return []prometheus.Collector{m.phoneDials, m.phoneLosses, m.agentOutcomes, m.agentConnect}
}

// phoneLoss counts the end of a leg that was in a phase.
func (m phoneMetrics) phoneLoss(before legPhase, reason string) {
	switch before {
	case legNone, legDialing:
		m.phoneDials.WithLabelValues(reason).Inc()
	case legUp:
		m.phoneLosses.WithLabelValues(reason).Inc()
	case legEnding:
	}
}
