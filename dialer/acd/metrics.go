package acd

import (
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	waited    prometheus.Histogram
	offers    *prometheus.CounterVec
	served    *prometheus.CounterVec
	moves     *prometheus.CounterVec
	corrected *prometheus.CounterVec
}

// The results of a caller's time with the queue, as ringmaster_queue_callers_total names them beside the outcomes of Connect.
const resultGone = "caller_gone"

func newMetrics(reg prometheus.Registerer, s *Service) *metrics {
	m := &metrics{
		waited: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ringmaster_queue_wait_seconds", Help: "Time from asking for an agent to the bridge with one.",
			Buckets: []float64{0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600},
		}),
		offers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ringmaster_queue_offers_total",
			Help: "Callers given to an agent, by how that ended (ended, unavailable, lost, caller_gone, taken, withdrawn, machine, refused, error).",
		}, []string{"outcome"}),
		served: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ringmaster_queue_callers_total",
			Help: "Callers who asked for an agent, by result (ended: they talked; timeout, unavailable, caller_gone: nobody took them).",
		}, []string{"result"}),
		moves: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ringmaster_agent_transitions_total", Help: "Changes of agents' states, by what caused them.",
		}, []string{"trigger"}),
		corrected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ringmaster_agent_corrections_total",
			Help: "Agents whose state was found behind the facts and set right, by kind (ended, returned).",
		}, []string{"kind"}),
	}
	if reg != nil {
		reg.MustRegister(m.waited, m.offers, m.served, m.moves, m.corrected, &census{
			s: s,
			agents: prometheus.NewDesc("ringmaster_agents",
				"Agents logged in at this controller, by status.", []string{"status"}, nil),
			ready: prometheus.NewDesc("ringmaster_agents_ready",
				"Agents who could take a call now: available, with their phone up.", nil, nil),
			kept: prometheus.NewDesc("ringmaster_agents_kept",
				"Of those, the ones who are kept for callees whom a campaign is dialing: no other caller is given one of them.", nil, nil),
			waiting: prometheus.NewDesc("ringmaster_queue_waiting",
				"Callers who wait for an agent.", nil, nil),
		})
	}
	return m
}

// census counts agents and callers when it is asked.
type census struct {
	s                            *Service
	agents, ready, kept, waiting *prometheus.Desc
}

// Describe implements [prometheus.Collector].
func (c *census) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.agents
	ch <- c.ready
	ch <- c.kept
	ch <- c.waiting
}

// Collect implements [prometheus.Collector].
func (c *census) Collect(ch chan<- prometheus.Metric) {
	byStatus := map[Status]int{Available: 0, OnCall: 0, WrapUp: 0, Paused: 0}
	ready, kept, waiting := 0, 0, 0
	c.s.mu.Lock()
	for _, a := range c.s.desk.agents {
		if a.row.Status == string(Offline) {
			continue
		}
		byStatus[Status(a.row.Status)]++
		if a.ready() {
			ready++
			if a.kept != uuid.Nil {
				kept++
			}
		}
	}
	for _, caller := range c.s.desk.callers {
		if caller.seat == nil {
			waiting++
		}
	}
	c.s.mu.Unlock()
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	for status, n := range byStatus {
		gauge(c.agents, n, string(status))
	}
	gauge(c.ready, ready)
	gauge(c.kept, kept)
	gauge(c.waiting, waiting)
}
