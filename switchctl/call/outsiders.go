package call

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// Whispers are for those who work for the tenant: the agent, the voice agent. Who else hears what the caller says, a number or a SIP URI outside, would
// hear a whisper as well. While one is on the call nobody whispers; who does when one comes is heard by nobody from then on. Barging in stays possible:
// that is meant for all.

// errOutsiderDetail refuses a whisper.
const errOutsiderDetail = "a number or SIP URI outside is on the call, and would hear the whisper"

// outsider tells whether somebody outside is on the call, or is being led to it.
func (p *parties) outsider() bool {
	if p.destination.grip() >= gripBridging {
		return true
	}
	return slices.ContainsFunc(p.conference.guests.list, func(m *member) bool { return m.role == roleDestination && m.phase >= memberJoining })
}

// watchOutsiders ends whispers when somebody outside comes.
func (a *actor) watchOutsiders() {
	if len(a.taps.list)+len(a.supervised.list) == 0 || !a.supervised.parties.outsider() {
		return
	}
	a.supervised.outsiderCame()
	a.taps.outsiderCame()
}

// outsiderCame has the supervisors who whisper listen alone.
func (sv *supervised) outsiderCame() {
	for _, l := range sv.list {
		if l.wants == switchctl.SupervisorWhispers {
			l.wants = switchctl.SupervisorListens
			l.owner.post(supervisionFallBack{serial: l.serial})
		}
	}
}

// outsiderCame has the monitors that are heard by the caller's partner listen alone, and ends what they play.
func (ts *taps) outsiderCame() {
	for _, t := range ts.list {
		whispers := t.audience == audiencePartner
		if t.fork != nil && t.audience != audienceAll && (whispers || t.said) {
			t.legs[0].session.Speak(false)
		}
		t.said = false
		if !whispers {
			continue
		}
		t.audience = audienceNone
		if t.owner != nil {
			t.owner.post(monitorFellBack{id: t.id})
		}
	}
}

// superviseWhisper asks the call whether a supervisor who listens may whisper; the answer is a supervisionMayWhisper.
type superviseWhisper struct {
	owner   *supervision
	serial  uint64
	replies []chan<- error
}

func (superviseWhisper) Name() string    { return "supervisor whispers" }
func (superviseWhisper) Essential() bool { return false }

func (m superviseWhisper) refused(_ *core, err error) {
	m.owner.post(supervisionMayWhisper{serial: m.serial, replies: m.replies, err: err})
}

// mayWhisper answers a supervisor who is about to whisper.
func (sv *supervised) mayWhisper(m superviseWhisper) error {
	l := sv.leg(m.owner.id, m.serial)
	switch {
	case l == nil:
		return ledger.ErrCallEnded
	case sv.parties.outsider():
		return sv.conflict(eventSupervise, errOutsiderDetail)
	}
	l.wants = switchctl.SupervisorWhispers
	m.refused(sv.core, nil)
	return nil
}

// supervisionMayWhisper is the call's answer, supervisionFallBack its word that nobody may whisper any more.
type (
	supervisionMayWhisper struct {
		serial  uint64
		replies []chan<- error
		err     error
	}
	supervisionFallBack struct{ serial uint64 }
)

func (supervisionMayWhisper) Name() string    { return "call's answer to a whisper" }
func (supervisionMayWhisper) Essential() bool { return true }
func (supervisionFallBack) Name() string      { return "nobody whispers" }
func (supervisionFallBack) Essential() bool   { return true }

// wish changes the mode of a session that listens; a whisper needs the call's word.
func (s *supervision) wish(ctx context.Context, mode switchctl.SupervisorMode, replies ...chan<- error) {
	if mode != switchctl.SupervisorWhispers {
		s.tune(ctx, mode, replies...)
		return
	}
	ask := superviseWhisper{owner: s, serial: s.serial, replies: replies}
	if err := s.call.box.Put(ask); err != nil {
		s.mayWhisper(ctx, supervisionMayWhisper{serial: s.serial, replies: replies, err: err})
	}
}

// mayWhisper: the call lets the supervisor whisper, or doesn't.
func (s *supervision) mayWhisper(ctx context.Context, m supervisionMayWhisper) {
	switch {
	case m.serial != s.serial || s.phase != supervisionListening:
		answerAll(m.replies, nil) // it has left that call, and asks the next one
	case m.err != nil:
		if s.mode == switchctl.SupervisorWhispers {
			s.mode = s.heard
		}
		answerAll(m.replies, targetError(m.err, eventSupervise))
	case s.mode != switchctl.SupervisorWhispers:
		answerAll(m.replies, &switchctl.StateError{State: string(s.heard), Event: eventSupervise, Detail: "another mode was asked for meanwhile"})
	default:
		s.tune(ctx, switchctl.SupervisorWhispers, m.replies...)
	}
}

// fallBack has a supervisor who whispers, or is about to, listen alone.
func (s *supervision) fallBack(ctx context.Context, m supervisionFallBack) {
	if m.serial != s.serial || s.mode != switchctl.SupervisorWhispers {
		return
	}
	s.mode = switchctl.SupervisorListens
	s.fell = true
	if s.phase == supervisionListening {
		s.tune(ctx, s.mode)
		return
	}
	answerAll(s.modes, &switchctl.StateError{State: string(s.mode), Event: eventSupervise, Detail: errOutsiderDetail})
	s.modes = nil
	s.sayFallen(ctx)
}

// sayFallen tells the watcher of a session that has fallen back.
func (s *supervision) sayFallen(ctx context.Context) {
	s.fell = false
	s.log.InfoContext(ctx, "supervisor's whisper ended: an outside party is on the call")
	if w := s.c.cfg.Supervisions; w != nil {
		w.SupervisionFellBack(s.id)
	}
}

// monitorFellBack tells the call that listens that its monitor is heard by nobody any more.
type monitorFellBack struct{ id uuid.UUID }

func (monitorFellBack) Name() string    { return "monitor fell back" }
func (monitorFellBack) Essential() bool { return true }

// fellBack takes that, and has it told and audited. While a change is under way that is done after it.
func (ms *monitors) fellBack(ctx context.Context, m monitorFellBack) {
	for _, mon := range ms.of {
		switch {
		case mon.id != m.id || mon.phase == monitorEnded:
		case mon.phase == monitorStarting || mon.busy:
			mon.fell = true
		case mon.mode == ledger.MonitorWhisper:
			ms.listensAlone(ctx, mon)
		}
	}
}

// listensAlone is the new mode of a monitor that has fallen back.
func (ms *monitors) listensAlone(ctx context.Context, mon *monitor) {
	mon.fell, mon.mode = false, ledger.MonitorListen
	ms.monitorChanged(ctx, mon, changeMonitorStarted, mon.source)
	start := ms.audited(switchctl.ControlRequest{Source: monitorFellSource, By: monitorFellSource}, mon.target, mon.mode)
	ms.record(ctx, "monitor fell back", func(ctx context.Context) error { return ms.permitMonitor(ctx, start) }, nil)
}

// monitorFellSource is whose doing it is, as the audit has it.
const monitorFellSource = "system"
