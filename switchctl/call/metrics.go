package call

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/switchctl/hostlink"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// metrics of a controller's calls; other packages have their own (dialer/service.go, dialer/acd, media, httpapi, switchctl/recordings), and
// conf/README.md lists those that one watches. Every label's values are listed where it is used, so their number is bounded. A new one is a member here,
// made and registered below. A gauge of what calls are in goes up where a part begins it and where a call is found so after a restart (line.go), and down
// where it ends and where the call does (ending.go).
type metrics struct {
	live      prometheus.GaugeFunc
	ended     *prometheus.CounterVec // status: completed, failed; cause: those of causeLabel
	link      hostlink.Metrics
	skew      prometheus.Gauge
	dropped   prometheus.Counter
	rejected  prometheus.Counter
	throttled prometheus.Counter
	// logsDropped counts entries of AI sessions' logs.
	logsDropped prometheus.Counter
	panics      prometheus.Counter
	lostWrites  prometheus.Counter
	unrecorded  prometheus.Counter
	sessions    *prometheus.CounterVec   // outcome: those of ledger.SessionOutcome
	answered    *prometheus.CounterVec   // answered_by: human, machine; decided_by: detection_off, verdict, timeout, hangup, others
	verdict     *prometheus.HistogramVec // class: human, machine, unknown
	machines    *prometheus.CounterVec   // result: hung_up, message_left, message_failed, no_end_of_greeting, callee_gone
	quality     qualityMetrics
	bypass      *prometheus.CounterVec   // change: entered, left, failed, silent
	bypassGap   *prometheus.HistogramVec // change: entered, left
	recovered   *prometheus.CounterVec   // how: resumed, closed, never_begun, orphan_killed, phone, closed_elsewhere
	nodesLost   prometheus.Gauge
	lostCalls   prometheus.Counter
	phones      phone.Metrics
	agentMetrics
}

func newMetrics(reg prometheus.Registerer, live func() float64) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "ringmaster", Name: name, Help: help})
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "ringmaster", Name: name, Help: help}, labels)
	}
	m := &metrics{
		live: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "ringmaster", Name: "calls_live", Help: "Calls that this controller runs.",
		}, live),
		ended: vec("calls_ended_total", "Calls closed, by status and hangup cause.", "status", "cause"),
		skew: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "ringmaster", Name: "switch_clock_skew_seconds", Help: "By how much this host's clock is ahead of the switch's.",
		}),
		link:      hostlink.NewMetrics(),
		dropped:   counter("call_mailbox_drops_total", "Switch events dropped because a call's mailbox was full."),
		rejected:  counter("call_events_rejected_total", "Events and commands that a call's state did not take."),
		throttled: counter("call_verbs_throttled_total", "Verbs refused because their call had reached ten a second."),
		logsDropped: counter("session_logs_dropped_total",
			"Log entries of AI sessions that were dropped: the session's log was full, too many waited, or the database refused them."),
		panics:     counter("call_panics_total", "Panics caught at the top of a call."),
		lostWrites: counter("call_writes_lost_total", "Changes of a call that could not be written."),
		unrecorded: counter("switch_recording_failures_total", "Recordings that the switch failed to start."),
		sessions:   vec("ai_sessions_ended_total", "AI sessions ended, by outcome.", "outcome"),
		answered: vec("calls_answered_total", "Answered calls, by who answered and what decided it.", "answered_by",
			"decided_by"),
		verdict: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "ringmaster", Name: "amd_verdict_seconds", Help: "Time from answer to the verdict of machine detection, by class.",
			Buckets: []float64{0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 10},
		}, []string{"class"}),
		machines: vec("machines_handled_total",
			"Answering machines on which the voicemail action was applied, by result.", "result"),
		quality:   newQualityMetrics(),
		bypass:    vec("bypass_changes_total", "Changes of calls into and out of bypass media, by result.", "change"),
		bypassGap: newBypassGap(),
		recovered: vec("calls_recovered_total",
			"Calls, and legs of agents' phones, found again after a restart or a lost link, by what became of them.", "how"),
		nodesLost: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "ringmaster", Name: "hosts_lost",
			Help: "Other hosts whose controllers have sent no heartbeat for node_grace, and have not started again since; 3 days at most.",
		}),
		lostCalls: counter("lost_host_calls_closed_total", "Calls of lost hosts that this controller has closed."),
		phones:    phone.NewMetrics(), agentMetrics: newAgentMetrics(),
	}
	for _, change := range []string{"entered", "left", "failed", "silent"} {
		m.bypass.WithLabelValues(change)
	}
	for _, result := range []string{machineHungUp, machineLeft, machineFailed, machineUnheard, machineGone} {
		m.machines.WithLabelValues(result)
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range append(slices.Concat(m.quality.collectors(), m.link.Collectors(), m.phones.Collectors(), m.agentCollectors()),
		m.live, m.ended, m.skew, m.dropped, m.rejected, m.throttled, m.logsDropped, m.panics, m.lostWrites, m.unrecorded, m.sessions,
		m.answered, m.verdict, m.machines, m.recovered, m.nodesLost, m.lostCalls, m.bypass, m.bypassGap,
	) {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// causeLabel bounds the causes that the metric tells apart.
func causeLabel(cause string) string {
	switch cause {
	case ledger.CauseNormalClearing, ledger.CauseServiceUnavailable, ledger.CauseNoRoute, ledger.CauseUnallocated, ledger.CauseUserBusy,
		ledger.CauseTemporaryFailure, ledger.CauseNetworkOutOfOrder, ledger.CauseCrash, ledger.CauseHostLost, "NO_ANSWER", "CALL_REJECTED", "ORIGINATOR_CANCEL",
		"NO_USER_RESPONSE", "INVALID_NUMBER_FORMAT", "RECOVERY_ON_TIMER_EXPIRE", "MEDIA_TIMEOUT",
		"INCOMPATIBLE_DESTINATION":
		return cause
	}
	return "other"
}

// newBypassGap measures what a change of the audio's way costs the caller's voice agent.
func newBypassGap() *prometheus.HistogramVec {
	gap := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "ringmaster", Name: "bypass_gap_seconds",
		Help:    "Gap in the caller's audio when a call enters or leaves bypass media.",
		Buckets: []float64{0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2},
	}, []string{"change"})
	gap.WithLabelValues("entered")
	gap.WithLabelValues("left")
	return gap
}
