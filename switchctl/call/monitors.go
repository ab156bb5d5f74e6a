package call

import (
	"cmp"
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// maxMonitors bounds the calls that one AI session listens to at a time.
const maxMonitors = 8

type monitorPhase int

const (
	monitorStarting monitorPhase = iota
	monitorActive
	monitorEnded
)

// monitor is an AI session's relationship with a call that it listens to. `whisper`, `barge` and `monitor_stop` ask for it
// (see [monitors.monitoring]). One that has ended is remembered, so that a repeated monitor_stop is no fault. It belongs to the
// goroutine of the actor that listens.
type monitor struct {
	id      uuid.UUID
	target  uuid.UUID
	mode    ledger.MonitorMode
	phase   monitorPhase
	source  string
	members []ledger.ConferenceMember
	reply   chan<- controlResult
	// gone is why the tap has ended before the word of its start was here.
	gone string
	// barged: caller and partner hear the session. busy: a change of who does is under way.
	barged, busy bool
	// fell: somebody outside has come to the target, and it is heard by nobody any more.
	fell bool
	// before is the relationship of an earlier monitor_start, which stands when this one fails.
	before *monitor
}

// monitorUp tells the call that listens how its monitor_start went.
type monitorUp struct {
	target uuid.UUID
	id     uuid.UUID
	up     tapUp
}

func (monitorUp) Name() string    { return "monitor up" }
func (monitorUp) Essential() bool { return true }

func (m monitorUp) refused(k *core, _ error) {
	if m.up.err == nil {
		k.c.stopTap(m.target, m.id, media.CloseHangup)
	}
}

// monitorOver tells it that the tap has ended on the target's side.
type monitorOver struct {
	id uuid.UUID
	// reason is why the monitor has ended, as the audit says it.
	reason string
}

func (monitorOver) Name() string    { return "monitor over" }
func (monitorOver) Essential() bool { return true }

// monitors are the calls whose audio this call's AI session has forked.
type monitors struct {
	*core
	voice *voice
	// of are the monitors, by the call that is listened to.
	of map[uuid.UUID]*monitor
	// whispers keeps what is fetched to be whispered in the order in which it was asked for.
	whispers rt.Serial
}

// monitoring is the relationship with a call that is being listened to; [switchctl.RelationError] when there is none.
func (ms *monitors) monitoring(target uuid.UUID) (*monitor, error) {
	if m := ms.of[target]; m != nil && m.phase == monitorActive {
		return m, nil
	}
	return nil, &switchctl.RelationError{Target: target.String()}
}

// monitorTarget reads the target of a verb.
func (ms *monitors) monitorTarget(req switchctl.ControlRequest) (uuid.UUID, error) {
	target, err := uuid.Parse(req.TargetCallID)
	switch {
	case req.TargetCallID == "":
		return uuid.Nil, switchctl.MalformedControl("target_call_id", "is needed")
	case err != nil:
		return uuid.Nil, switchctl.MalformedControl("target_call_id", "must be a UUID")
	}
	return target, nil
}

// startMonitor forks a call's audio to a second connection of the session's voice agent. The reply comes when it runs.
func (ms *monitors) startMonitor(ctx context.Context, req switchctl.ControlRequest, reply chan<- controlResult) error {
	target, err := ms.monitorTarget(req)
	switch {
	case err != nil:
		return err
	case target == ms.id:
		return switchctl.InvalidControl("target_call_id", "must be another call")
	}
	mode := ledger.MonitorMode(cmp.Or(req.Mode, string(ledger.MonitorListen)))
	if mode != ledger.MonitorListen && mode != ledger.MonitorWhisper {
		return switchctl.MalformedControl("mode", "must be one of listen, listen_and_whisper")
	}
	start := ms.audited(req, target, mode)
	before, live := ms.of[target], 0
	for _, m := range ms.of {
		if m.phase != monitorEnded {
			live++
		}
	}
	switch {
	case before != nil && before.phase == monitorStarting:
		return &switchctl.StateError{State: ms.state.String(), Event: req.Event, Detail: "the monitor is being started"}
	case before != nil && before.phase == monitorActive && (before.mode != mode || before.barged):
		return ms.changeMonitor(ctx, before, start, reply)
	case before != nil && before.phase == monitorActive:
		reply <- controlResult{result: map[string]any{}}
		return nil
	case live >= maxMonitors:
		return &switchctl.StateError{State: ms.state.String(), Event: req.Event, Detail: "the session has as many monitors as it may have"}
	}
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	spec, err := ms.monitorSpec(id, target)
	if err != nil {
		return err
	}
	if ms.of == nil {
		ms.of = map[uuid.UUID]*monitor{}
	}
	ms.of[target] = &monitor{id: id, target: target, mode: mode, source: req.Source, reply: reply, before: before}
	same := req.Source == ledger.SourceAI && ms.voice.ai.agent.MonitorScope == ledger.MonitorScopeSameAgent
	ms.beside(func() {
		up := tapUp{err: ms.permitMonitor(ctx, start)}
		if up.err == nil {
			up = ms.c.tapCall(ctx, ms.tenant, target, tapRequest{id: id, spec: spec, owner: ms.core, audience: modeAudience(mode), sameAgent: same})
		}
		ms.post(monitorUp{target: target, id: id, up: up})
	})
	return nil
}

// monitorSpec describes the second connection: the session's own address, format and token, with the monitor's metadata.
func (ms *monitors) monitorSpec(id, target uuid.UUID) (media.SessionSpec, error) {
	s := ms.voice.ai
	metadata, format, err := ms.c.monitorMetadata(ms.call, s.grant, target)
	if err != nil {
		return media.SessionSpec{}, err
	}
	ai, err := openaiSession(s.agent, ms.codec, &format)
	if err != nil {
		return media.SessionSpec{}, err
	}
	ai.Config.Functions, ai.Config.Greet, ai.Config.FirstMessage = nil, false, "" // it listens
	return media.SessionSpec{
		ID: id.String(), CallID: target.String(), URL: s.agent.WsUrl, Transport: transportOf(s.agent), Subprotocol: subprotocolOf(s.agent),
		Twilio: twilioStream(ms.call, id), OpenAI: ai, AuthToken: s.grant.AuthToken, Audio: format, Metadata: metadata, ReconnectFor: socketReconnect, MediaTimeout: mediaSilence,
	}, nil
}

// monitorIsUp: the target's actor has answered. A session that has ended meanwhile wants the tap no more.
func (ms *monitors) monitorIsUp(ctx context.Context, m monitorUp) {
	mon := ms.of[m.target]
	if mon == nil || mon.id != m.id || mon.phase != monitorStarting {
		m.refused(ms.core, nil)
		return
	}
	if m.up.err != nil {
		delete(ms.of, m.target)
		if mon.before != nil {
			ms.of[m.target] = mon.before
		}
		ms.c.metrics.rejected.Inc()
		mon.answer(controlResult{err: m.up.err})
		return
	}
	mon.phase, mon.before = monitorActive, nil
	mon.members = append(slices.Clone(m.up.members), ledger.ConferenceMember{MemberID: mon.id.String(), Role: "monitor", Destination: new(ms.id.String())})
	ms.log.InfoContext(ctx, "monitor has started", "target_call_id", m.target.String(), "tap_id", m.id.String())
	ms.monitorChanged(ctx, mon, changeMonitorStarted, mon.source)
	mon.answer(controlResult{result: map[string]any{}})
	if mon.fell {
		ms.listensAlone(ctx, mon)
	}
	if mon.gone != "" {
		ms.endMonitor(ctx, mon, monitorEnding{reason: mon.gone, source: sourceSystem})
	}
}

// monitorIsOver: the tap ended with its call, or the AI has closed its socket.
func (ms *monitors) monitorIsOver(ctx context.Context, m monitorOver) {
	for _, mon := range ms.of {
		switch {
		case mon.id != m.id:
		case mon.phase == monitorStarting:
			mon.gone = m.reason
		case mon.phase == monitorActive:
			ms.endMonitor(ctx, mon, monitorEnding{reason: m.reason, source: sourceSystem})
		}
	}
}

// stopMonitor is monitor_stop. One that has ended already is what was wanted.
func (ms *monitors) stopMonitor(ctx context.Context, req switchctl.ControlRequest) error {
	target, err := ms.monitorTarget(req)
	if err != nil {
		return err
	}
	mon, err := ms.monitoring(target)
	if err != nil {
		switch before := ms.of[target]; {
		case before == nil:
			return err
		case before.phase == monitorStarting:
			return &switchctl.StateError{State: ms.state.String(), Event: req.Event, Detail: "the monitor is being started"}
		}
		return nil // it has ended already
	}
	mon.source = req.Source
	ms.endMonitor(ctx, mon, monitorEnding{reason: monitorStopped, source: req.Source, by: req.By})
	ms.c.stopTap(target, mon.id, media.CloseHangup)
	return nil
}

// monitorEnding is who ends a monitor, as the audit is told it.
type monitorEnding struct{ reason, source, by string }

// sourceSystem is the source of what nobody has asked for.
const sourceSystem = "system"

// Why a monitor has ended.
const (
	// monitorStopped: by monitor_stop.
	monitorStopped = "stopped"
	// monitorSessionEnded: the session that listened has ended. monitorTargetEnded: the call has that it listened to.
	monitorSessionEnded = "session_ended"
	monitorTargetEnded  = "target_ended"
	// monitorDisconnected: the voice agent has closed the connection. monitorFailed: connection or leg were lost.
	monitorDisconnected = "disconnected"
	monitorFailed       = "failed"
)

// monitorReason tells why a tap has ended that its monitor has not.
func monitorReason(reason media.CloseReason) string {
	switch reason {
	case media.CloseDisconnect:
		return monitorDisconnected
	case media.CloseError, media.CloseTimeout:
		return monitorFailed
	case media.CloseHangup, media.CloseTransferred, media.CloseShutdown:
	}
	return monitorTargetEnded
}

// endMonitor ends the relationship, and says so when it had begun: to the audit, then to those who listen to events.
func (ms *monitors) endMonitor(ctx context.Context, mon *monitor, by monitorEnding) {
	before := mon.phase
	mon.phase = monitorEnded
	if before == monitorActive {
		stop := ledger.MonitorStop{
			Call: ms.call, Session: ms.voice.ai.id, VoiceAgentID: ms.voice.ai.agent.ID, Target: mon.target, Mode: mon.mode, Barged: mon.barged,
			Reason: by.reason, Source: by.source, By: by.by, At: ms.c.clock.Now().UTC(),
		}
		ms.record(ctx, "monitor's end", func(ctx context.Context) error { return ms.c.ledger.MonitorStopped(ctx, stop) }, nil)
		mon.members = slices.DeleteFunc(slices.Clone(mon.members), func(m ledger.ConferenceMember) bool { return m.MemberID == mon.id.String() })
		ms.monitorChanged(ctx, mon, changeMonitorStopped, mon.source)
	}
	mon.answer(controlResult{err: switchctl.ErrSessionTerminated})
}

// endMonitors ends what a session listens to, before the session itself.
func (ms *monitors) endMonitors(ctx context.Context) {
	for target, mon := range ms.of {
		if mon.phase != monitorEnded {
			ms.c.stopTap(target, mon.id, media.CloseHangup)
		}
		ms.endMonitor(ctx, mon, monitorEnding{reason: monitorSessionEnded, source: sourceSystem})
	}
}

// letGo answers who waits.
func (ms *monitors) letGo() {
	for _, mon := range ms.of {
		mon.answer(controlResult{err: ledger.ErrCallEnded})
	}
}

// stopTap tells the target's actor, if the call still lives, that nobody listens any more.
func (c *host) stopTap(target, id uuid.UUID, reason media.CloseReason) {
	if a := c.registry.call(target); a != nil {
		a.post(tapStop{id: id, reason: reason})
	}
}

// refreshMonitors gives the taps' sockets the new token for the case that they are dialed again.
func (ms *monitors) refreshMonitors() {
	for target, mon := range ms.of {
		t := ms.c.registry.call(target)
		if mon.phase != monitorActive || t == nil {
			continue
		}
		if metadata, _, err := ms.c.monitorMetadata(ms.call, ms.voice.ai.grant, target); err == nil {
			t.post(tapMetadata{id: mon.id, metadata: metadata})
		}
	}
}

// answer tells the verb, once.
func (m *monitor) answer(r controlResult) {
	if m.reply != nil {
		m.reply <- r
		m.reply = nil
	}
}

// The changes that ai_session.conference_changed tells of a monitor, or of a supervisor.
const (
	changeMonitorStarted = "monitor_started"
	changeMonitorStopped = "monitor_stopped"
	changeWhisper        = "whisper"
	changeBarge          = "barge"
)

// monitorChanged commits the event. source is who has changed it.
func (ms *monitors) monitorChanged(ctx context.Context, mon *monitor, change, source string) {
	who := "tenant_api"
	if source == ledger.SourceAI {
		who = "ai"
	}
	target, call := mon.target, ms.call
	c := ledger.ConferenceChange{
		Change: change, Actor: who, Members: mon.members, At: ms.c.clock.Now().UTC(), Target: &target, Mode: mon.mode,
		VoiceAgentID: ms.voice.ai.agent.ID,
	}
	ms.record(ctx, change, func(ctx context.Context) error { return ms.c.ledger.ConferenceChanged(ctx, call, c) }, nil)
}
