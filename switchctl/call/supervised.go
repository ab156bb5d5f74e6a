package call

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// roleSupervisor is the role of a supervisor among the participants of a call, as events show them.
const roleSupervisor = "supervisor"

// superviseCommand asks a call whether a supervisor may listen to it. The answer is a supervisionGrant: the supervisor's session sends its phone to
// the caller's channel then, and says so by superviseBegan.
type superviseCommand struct {
	owner  *supervision
	serial uint64
	mode   switchctl.SupervisorMode
	member ledger.ConferenceMember
}

func (superviseCommand) Name() string    { return "supervise" }
func (superviseCommand) Essential() bool { return false }

func (m superviseCommand) refused(_ *core, err error) {
	m.owner.post(supervisionGrant{serial: m.serial, err: err})
}

// superviseBegan tells the call that the supervisor's phone listens, and superviseMode that it does in another mode; superviseLeft that it doesn't
// any more. superviseLost tells a call that was found again of one who listened before.
type (
	superviseBegan struct {
		session uuid.UUID
		serial  uint64
		mode    switchctl.SupervisorMode
	}
	superviseMode superviseBegan
	superviseLeft struct {
		session uuid.UUID
		serial  uint64
	}
	superviseLost struct{}
)

func (superviseBegan) Name() string    { return "supervisor listens" }
func (superviseBegan) Essential() bool { return true }
func (superviseMode) Name() string     { return "supervisor's mode" }
func (superviseMode) Essential() bool  { return true }
func (superviseLeft) Name() string     { return "supervisor left" }
func (superviseLeft) Essential() bool  { return true }
func (superviseLost) Name() string     { return "supervisor lost" }
func (superviseLost) Essential() bool  { return true }

// supervisorLeg is a supervisor who listens to this call, or is about to. It belongs to the goroutine of the call's actor; the phone's leg is the
// session's.
type supervisorLeg struct {
	owner  *supervision
	serial uint64
	// mode is the one that the switch has; wants is the one that was granted last.
	mode, wants switchctl.SupervisorMode
	member      ledger.ConferenceMember
	// listens: the phone's leg hears the call. told: the AI session's customer knows.
	listens, told bool
	// gone: it is not on the list any more.
	gone bool
}

// supervised are the supervisors whose phones listen to this call: as long as there is one the call's audio is the switch's, and they are
// maxSupervisors at most.
type supervised struct {
	*core
	bypass  *bypass
	machine *machine
	parties *parties
	voice   *voice
	list    []*supervisorLeg
}

// message is what a supervisor's session says.
func (sv *supervised) message(ctx context.Context, m message) (state, error) {
	switch m := m.(type) {
	case superviseCommand:
		return sv.state, sv.admit(ctx, m)
	case superviseBegan:
		if l := sv.leg(m.session, m.serial); l != nil {
			if l.listens, l.mode = true, m.mode; m.mode != switchctl.SupervisorListens {
				sv.machine.othersHeard(ctx)
			}
			sv.tell(ctx, l)
		}
	case superviseWhisper:
		return sv.state, sv.mayWhisper(m)
	case superviseMode:
		if l := sv.leg(m.session, m.serial); l != nil && l.listens {
			if m.mode != switchctl.SupervisorListens {
				sv.machine.othersHeard(ctx)
			}
			before := l.mode
			l.mode, l.wants = m.mode, m.mode
			if l.told && l.mode != before {
				sv.changed(ctx, l, modeChange(l.mode))
			}
		}
	case superviseLeft:
		if l := sv.leg(m.session, m.serial); l != nil {
			sv.drop(ctx, l)
		}
	case superviseLost:
		sv.changed(ctx, &supervisorLeg{}, changeMonitorStopped)
	}
	return sv.state, nil
}

func (sv *supervised) leg(session uuid.UUID, serial uint64) *supervisorLeg {
	i := slices.IndexFunc(sv.list, func(l *supervisorLeg) bool { return l.owner.id == session && l.serial == serial })
	if i < 0 {
		return nil
	}
	return sv.list[i]
}

// admit has the call's audio kept on the switch for a supervisor, and tells the session when it is there.
func (sv *supervised) admit(ctx context.Context, m superviseCommand) error {
	switch {
	case sv.killCause != "":
		return ledger.ErrCallEnded
	case len(sv.list) >= maxSupervisors:
		return sv.conflict(m.Name(), "the call has as many supervisors as it may have")
	}
	whispers := m.mode == switchctl.SupervisorWhispers && sv.parties.outsider()
	if whispers && !m.owner.spec.Follows {
		return sv.conflict(m.Name(), errOutsiderDetail)
	}
	l := &supervisorLeg{owner: m.owner, serial: m.serial, mode: m.mode, wants: m.mode, member: m.member}
	sv.list = append(sv.list, l)
	if whispers {
		sv.outsiderCame() // who follows an agent hears the call all the same
	}
	sv.bypass.withSwitchMedia(ctx, func(context.Context) {
		if !l.gone {
			l.owner.post(supervisionGrant{serial: l.serial, channel: sv.channel})
		}
	})
	return nil
}

// drop ends a supervisor's part in the call.
func (sv *supervised) drop(ctx context.Context, l *supervisorLeg) {
	l.gone = true
	sv.list = slices.DeleteFunc(sv.list, func(other *supervisorLeg) bool { return other == l })
	if l.told {
		sv.changed(ctx, l, changeMonitorStopped)
	}
	sv.bypass.switchMediaDone(ctx)
}

// tell has the AI session's customer know of a supervisor who listens, once there is a session.
func (sv *supervised) tell(ctx context.Context, l *supervisorLeg) {
	if ai := sv.voice.ai; ai == nil || ai.phase != phaseOpen {
		return
	}
	l.told = true
	sv.changed(ctx, l, changeMonitorStarted)
	if l.mode != switchctl.SupervisorListens {
		sv.changed(ctx, l, modeChange(l.mode))
	}
}

// sessionBegins has the customer of a new AI session know who listens.
func (sv *supervised) sessionBegins(ctx context.Context) {
	for _, l := range sv.list {
		if l.listens && !l.told {
			sv.tell(ctx, l)
		}
	}
}

// sessionEnds ends what the AI session's customer knows, before the session itself. The supervisors go on listening.
func (sv *supervised) sessionEnds(ctx context.Context) {
	for _, l := range sv.list {
		if l.told {
			sv.changed(ctx, l, changeMonitorStopped)
			l.told = false
		}
	}
}

// agentLeft tells the sessions that follow the call's agent that the call goes on without them.
func (sv *supervised) agentLeft() {
	for _, l := range sv.list {
		if l.owner.spec.Follows {
			l.owner.post(supervisedAgentLeft{serial: l.serial})
		}
	}
}

// callEnds tells the sessions that their call is over.
func (sv *supervised) callEnds(ctx context.Context) {
	sv.sessionEnds(ctx)
	for _, l := range sv.list {
		l.gone = true
		l.owner.post(supervisedCallOver{serial: l.serial})
	}
	sv.list = nil
}

// modeChange is what ai_session.conference_changed calls a supervisor's mode.
func modeChange(mode switchctl.SupervisorMode) string {
	switch mode {
	case switchctl.SupervisorWhispers:
		return changeWhisper
	case switchctl.SupervisorBarges:
		return changeBarge
	case switchctl.SupervisorListens:
	}
	return changeMonitorStarted
}

// present are the supervisors who listen, but one who leaves just now.
func (sv *supervised) present(leaves *supervisorLeg) []ledger.ConferenceMember {
	var list []ledger.ConferenceMember
	for _, l := range sv.list {
		if l.listens && l != leaves {
			list = append(list, l.member)
		}
	}
	return list
}

// changed commits the event on this call's AI session. Who listens is among the participants unless they have stopped.
func (sv *supervised) changed(ctx context.Context, l *supervisorLeg, change string) {
	if !sv.voice.ai.live() {
		return
	}
	leaves := l
	if change != changeMonitorStopped {
		leaves = nil
	}
	members := append(sv.parties.members(), sv.present(leaves)...)
	call := sv.call
	c := ledger.ConferenceChange{
		ConferenceID: sv.parties.conference.eventID(), Change: change, Actor: roleSupervisor, Members: members, At: sv.c.clock.Now().UTC(), Mode: ledger.MonitorMode(l.mode),
		VoiceAgentID: sv.voice.ai.grant.Session.VoiceAgentID,
	}
	sv.record(ctx, change, func(ctx context.Context) error { return sv.c.ledger.ConferenceChanged(ctx, call, c) }, nil)
}
