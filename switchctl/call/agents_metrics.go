package call

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/switchctl"
)

// agentMetrics are those of the calls' agents.
type agentMetrics struct {
	agentOutcomes *prometheus.CounterVec // outcome: those of AgentOutcome
	agentConnect  prometheus.Histogram
}

func newAgentMetrics() agentMetrics {
	outcomes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "ringmaster", Name: "agent_connects_total", Help: "Tries to connect a caller with an agent, by outcome.",
	}, []string{"outcome"})
	for _, o := range []switchctl.AgentOutcome{
		switchctl.AgentEnded, switchctl.AgentUnavailable, switchctl.AgentLost, switchctl.AgentCallerGone, switchctl.AgentTaken, switchctl.AgentWithdrawn,
		switchctl.AgentMachine,
	} {
		outcomes.WithLabelValues(string(o))
	}
	return agentMetrics{
		agentOutcomes: outcomes,
		agentConnect: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "ringmaster", Name: "agent_connect_seconds",
			Help:    "Time from asking for an agent's leg until the caller is bridged with it, ringing and whisper included.",
			Buckets: []float64{0.02, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2, 5, 10, 20},
		}),
	}
}

func (m agentMetrics) agentCollectors() []prometheus.Collector {
	return []prometheus.Collector{m.agentOutcomes, m.agentConnect}
}
