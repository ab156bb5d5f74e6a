package media

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/media/amd"
	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/record"
)

// metrics are the endpoint's figures. All label values are listed here.
type metrics struct {
	sessions, legs prometheus.Gauge
	tapLegs        prometheus.Gauge
	tapDropped     prometheus.Counter
	packets        *prometheus.CounterVec // direction: in, out
	rtcp           *prometheus.CounterVec // direction: in, out
	discarded      *prometheus.CounterVec // reason: stranger, malformed, duplicate, late, payload_type
	concealed      prometheus.Counter
	frames         *prometheus.CounterVec // direction: to_ai, from_ai
	framesDropped  prometheus.Counter
	playoutDropped prometheus.Counter
	texts          *prometheus.CounterVec // type: the known ones, unknown, bad
	opens          *prometheus.CounterVec // result: ok, refused, untrusted, timeout, failed
	reconnects     *prometheus.CounterVec // result: ok, failed
	invites        *prometheus.CounterVec // status: 200, 400, 404, 420, 481, 486, 488, 500
	digits         *prometheus.CounterVec // way: rtp, info, switch, tone, repeated, dropped, sent_rtp, sent_info
	recordings     record.Metrics
	amd            *prometheus.CounterVec // event: verdict, greeting_end, beep; class: human, machine, unknown
	listens        *prometheus.CounterVec // result: heard, late, failed
	limits         *prometheus.CounterVec // limit: limitLabels
	// responsesFailed counts responses of OpenAI's Realtime API.
	responsesFailed prometheus.Counter
	lateSlots       prometheus.Counter
	panics          prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	const ns, sub = "ringmaster", "media"
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help})
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help}, labels)
	}
	m := &metrics{
		sessions:      gauge("sessions", "Open AI sessions."),
		legs:          gauge("legs", "SIP legs that are up."),
		tapLegs:       gauge("tap_legs", "Open taps, those of two channels twice."),
		tapDropped:    counter("tap_audio_dropped_total", "Pieces of audio that voice agents sent on taps, where nobody hears them."),
		packets:       vec("rtp_packets_total", "RTP packets moved.", "direction"),
		rtcp:          vec("rtcp_packets_total", "RTCP packets moved.", "direction"),
		discarded:     vec("rtp_discarded_total", "RTP packets that were dropped.", "reason"),
		concealed:     counter("concealed_frames_total", "Frames of 20 ms of callers that were lost or late, and concealed; pauses don't count."),
		frames:        vec("ai_frames_total", "Binary frames on the voice agents' sockets.", "direction"),
		framesDropped: counter("ai_frames_dropped_total", "Audio frames that a slow voice agent did not get."),
		playoutDropped: counter("ai_playout_dropped_seconds_total",
			"Audio of voice agents that callers never hear: it came more than 5 minutes ahead of time."),
		texts:      vec("ai_texts_total", "Text frames from voice agents.", "type"),
		opens:      vec("ai_opens_total", "Sockets dialed when a session opens.", "result"),
		reconnects: vec("ai_reconnects_total", "Broken sockets that were dialed again.", "result"),
		invites:    vec("sip_invites_total", "INVITEs answered.", "status"),
		digits:     vec("dtmf_digits_total", "Digits of callers, by the way they came first, and digits sent to them.", "way"),
		recordings: record.NewMetrics(),
		amd:        vec("amd_total", "Findings of the answering-machine detection.", "event", "class"),
		listens:    vec("amd_listens_total", "Times that answering-machine detection wanted words listened to; late are those whose answer wasn't there in time.", "result"),
		limits:     vec("ai_limits_total", "Limits that voice agents' sockets have exceeded.", "limit"),
		responsesFailed: counter("ai_responses_failed_total",
			"Responses that OpenAI's Realtime API could not make, or refused."),
		lateSlots: counter("late_slots_total", "Slots of 5 ms that a media thread skipped because it was late."),
		panics:    counter("panics_total", "Panics caught at the top of a request or a session."),
	}
	m.initialise()
	if reg == nil {
		return m, nil
	}
	var errs []error
	for _, c := range append(m.recordings.Collectors(),
		m.sessions, m.legs, m.tapLegs, m.tapDropped, m.packets, m.rtcp, m.discarded, m.concealed, m.frames, m.framesDropped,
		m.playoutDropped, m.texts, m.opens, m.reconnects, m.invites, m.digits, m.amd, m.listens,
		m.limits, m.responsesFailed, m.lateSlots, m.panics,
	) {
		errs = append(errs, reg.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("registering the media metrics: %w", err)
	}
	return m, nil
}

// initialise shows every series from the beginning, at 0: an increase from nothing would go unseen.
func (m *metrics) initialise() {
	for vec, values := range map[*prometheus.CounterVec][]string{
		m.packets:    {"in", "out"},
		m.rtcp:       {"in", "out"},
		m.discarded:  {"stranger", "malformed", "duplicate", "late", "payload_type"},
		m.frames:     {"to_ai", "from_ai"},
		m.texts:      {textPlayAudio, textKillAudio, textClearMarks, textMark, textTransfer, textDisconnect, textJSON, textCommand, "unknown", "bad"},
		m.opens:      {"ok", "refused", "untrusted", "timeout", "failed"},
		m.reconnects: {"ok", "failed"},
		m.limits:     limitLabels(),
		m.listens:    {"heard", "late", "failed"},
		m.invites:    {"200", "400", "404", "420", "481", "486", "488", "500"},
		m.digits:     {"rtp", "info", "switch", "tone", "repeated", "dropped", "sent_rtp", "sent_info"},
	} {
		for _, v := range values {
			vec.WithLabelValues(v)
		}
	}
	for _, kind := range []amd.EventKind{amd.KindVerdict, amd.KindGreetingEnd, amd.KindBeep} {
		for _, class := range []amd.Class{amd.ClassHuman, amd.ClassMachine, amd.ClassUnknown} {
			m.amd.WithLabelValues(string(kind), string(class))
		}
	}
}

// tally collects a shard's hot counts, which go to the metrics once a second.
type tally struct {
	packetsIn, packetsOut, rtcpIn, rtcpOut        uint64
	stranger, malformed, duplicate, late, badType uint64
	conceal                                       int64 // ns
	toAI, fromAI, dropped                         uint64
	unplayed                                      uint64 // samples (of 8 kHz) of the AI that found no room
}

func (t *tally) flush(m *metrics) {
	m.packets.WithLabelValues("in").Add(float64(t.packetsIn))
	m.packets.WithLabelValues("out").Add(float64(t.packetsOut))
	m.rtcp.WithLabelValues("in").Add(float64(t.rtcpIn))
	m.rtcp.WithLabelValues("out").Add(float64(t.rtcpOut))
	m.discarded.WithLabelValues("stranger").Add(float64(t.stranger))
	m.discarded.WithLabelValues("malformed").Add(float64(t.malformed))
	m.discarded.WithLabelValues("duplicate").Add(float64(t.duplicate))
	m.discarded.WithLabelValues("late").Add(float64(t.late))
	m.discarded.WithLabelValues("payload_type").Add(float64(t.badType))
	m.concealed.Add(float64(t.conceal) / float64(dsp.FrameNS))
	m.frames.WithLabelValues("to_ai").Add(float64(t.toAI))
	m.frames.WithLabelValues("from_ai").Add(float64(t.fromAI))
	m.framesDropped.Add(float64(t.dropped))
	m.playoutDropped.Add(float64(t.unplayed) / dsp.SampleRate)
	*t = tally{}
}
