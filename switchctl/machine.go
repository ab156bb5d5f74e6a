package switchctl

import (
	"context"
	"errors"
	"time"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/amd"
	"github.com/ringmaster/ringmaster/store/db"
)

// What becomes of a call that a machine has answered. The handler says it beforehand; the verdict comes to the actor, which takes the
// caller from whoever was to have them, and then hangs up, or waits for the end of the greeting and leaves a message.

const (
	// greetingTimeout is how long a greeting may last, beepTimeout how long after its end the beep is waited for.
	greetingTimeout = 70 * time.Second
	beepTimeout     = 2500 * time.Millisecond
)

const (
	// machineSure is the confidence from which on something is done about a machine. In a cross-validation of the detector's training
	// half in nine parts, machines were 93% of what was judged 0.90 to 0.95, 95% up to 0.98, and 99% from there on.
	machineSure = 0.95
	// agentListens is how long an agent has had a callee who is no longer taken away: whoever talks hears who it is.
	agentListens = time.Second
)

// MachineSure tells whether detection is as sure of a machine as it takes to act. Who was called one with less is treated as a person,
// and counts as one when abandoned.
func MachineSure(call db.Call) bool {
	return call.AmdClass != nil && *call.AmdClass == string(amd.ClassMachine) && call.AmdConfidence != nil && *call.AmdConfidence >= machineSure
}

// MachineTaken tells whether a call that a machine has answered is taken from whoever has it, where its campaign wants that: the verdict
// is sure, and no agent had the callee for longer than a moment by then.
func MachineTaken(call db.Call) bool {
	if !MachineSure(call) {
		return false
	}
	if call.AgentID == nil || call.AgentConnectTime == nil || call.AnswerTime == nil || call.AmdAfterMs == nil {
		return true
	}
	heard := call.AnswerTime.Add(time.Duration(*call.AmdAfterMs) * time.Millisecond)
	return heard.Sub(*call.AgentConnectTime) <= agentListens
}

// What came of a machine, as the metric names it.
const (
	machineHungUp  = "hung_up"
	machineLeft    = "message_left"
	machineFailed  = "message_failed"
	machineUnheard = "no_end_of_greeting"
	machineGone    = "callee_gone"
)

type machinePhase int

const (
	machineNone   machinePhase = iota // nobody has said that it is one
	machineGreets                     // the end of its greeting is waited for
	machineDue                        // the message is to be played as soon as the caller is on a socket of ours
	machineTold                       // nothing is left to do but to hang up
)

// machine is what an actor knows of the machine that has answered. Its fields belong to the actor's goroutine.
type machine struct {
	action *MachineAction
	phase  machinePhase
	// quiet: its greeting has ended.
	quiet bool
}

// taken reports whether the caller is kept from everybody because of a machine.
func (m *machine) taken() bool { return m.phase == machineGreets || m.phase == machineDue }

// machineCommand says what to do about a machine.
type machineCommand struct {
	action MachineAction
	reply  chan<- error
}

func (machineCommand) Name() string            { return "machine action" }
func (machineCommand) Essential() bool         { return false }
func (m machineCommand) refusedTalk(err error) { m.reply <- err }

func (l *leg) OnMachine(ctx context.Context, action MachineAction) error {
	return l.a.ask(ctx, func(reply chan<- error) message { return machineCommand{action: action, reply: reply} })
}

// onMachine keeps what to do. A verdict that is older than that is from before a restart: whoever listened for the end of the
// greeting is gone.
func (a *actor) onMachine(ctx context.Context, m machineCommand) error {
	if a.killCause != "" {
		return ErrCallEnded
	}
	if a.call.AmdClass != nil && *a.call.AmdClass == string(amd.ClassMachine) {
		m.action.MessageURL = ""
	}
	a.machine.action = &m.action
	m.reply <- nil
	a.considerMachine(ctx)
	return nil
}

// considerMachine acts when both a verdict to act on and what to do about it are there. A caller who was led to somebody else stays there.
func (a *actor) considerMachine(ctx context.Context) {
	s := &a.machine
	if s.action == nil || s.phase != machineNone || a.killCause != "" || a.transfer.bridged() || !MachineTaken(a.call) {
		return
	}
	message := s.action.MessageURL != ""
	a.log.InfoContext(ctx, "machine is dealt with as its campaign wants", "message", message)
	if s.phase = machineGreets; !message {
		s.phase = machineTold
	}
	a.partFromMachine(ctx, message)
	a.dismissHandler(ErrMachine)
	if t := a.transfer; t.pending() {
		a.transfer = nil
		a.dropTransferLeg(ctx, t)
	}
	if !message {
		a.c.metrics.machines.WithLabelValues(machineHungUp).Inc()
		a.hangupMachine(ctx)
		return
	}
	a.hush(ctx)
	if !a.ai.live() {
		a.recordHuman(ctx) // unless that has begun: what is left is on the record
	}
	a.arm(timerMachine, greetingTimeout)
	url := s.action.MessageURL
	a.beside(func() { // it is played without a wait for the network
		if _, err := a.c.promptFile(ctx, a.tenant, url); err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "message for machines can't be had yet", "error", err)
		}
	})
}

// dismissHandler ends what the handler does, and doesn't wait for it.
func (a *actor) dismissHandler(cause error) {
	a.handler++
	if s := a.ai; s != nil {
		s.reply = nil // the handler's context tells
	}
	if a.stopHandler != nil {
		a.stopHandler(cause)
		a.stopHandler = nil
	}
}

// partFromMachine frees the agent whom the caller has, or was about to have. back: the caller is wanted here.
func (a *actor) partFromMachine(ctx context.Context, back bool) {
	h := a.human
	if h == nil {
		return
	}
	a.human = nil
	a.disarm(timerAgent)
	a.c.metrics.agentOutcomes.WithLabelValues(string(AgentMachine)).Inc()
	a.freeAgent(h, h.serial, h.phase == humanBridging)
	h.answer(AgentMachine, nil)
	if back && h.steered() {
		a.away = true
		a.takeBack(ctx, "", false) // the agent's leg follows the end of the bridge by itself
	}
}

// hush has a machine hear nothing while it greets: neither music nor the voice agent.
func (a *actor) hush(ctx context.Context) {
	a.afterMusic(ctx, func(context.Context) {})
	if s := a.ai; s.live() && s.media != nil {
		s.media.SetMute(media.FromAgent, true)
	}
}

func (a *actor) hangupMachine(ctx context.Context) {
	a.machine.phase = machineTold
	a.disarm(timerMachine)
	if a.ai.live() {
		a.hangupSession(ctx, nil)
		return
	}
	a.kill(ctx, CauseNormalClearing)
}

// greetingHeard is what detection reports after its verdict.
func (a *actor) greetingHeard(ctx context.Context, kind amd.EventKind) {
	if a.machine.phase != machineGreets {
		return
	}
	switch kind {
	case amd.KindBeep:
		a.leaveMessage(ctx)
	case amd.KindGreetingEnd:
		a.machine.quiet = true
		a.arm(timerMachine, beepTimeout)
	case amd.KindVerdict:
	}
}

// machineOver: the beep, or the end of the greeting, had to be heard by now. A machine that never ends gets no message.
func (a *actor) machineOver(ctx context.Context) {
	if a.machine.phase != machineGreets {
		return
	}
	if a.machine.quiet {
		a.leaveMessage(ctx)
		return
	}
	a.log.InfoContext(ctx, "machine's greeting does not end, hanging up")
	a.c.metrics.machines.WithLabelValues(machineUnheard).Inc()
	a.hangupMachine(ctx)
}

// leaveMessage brings the caller to a socket of ours, where the message is played.
func (a *actor) leaveMessage(ctx context.Context) {
	a.machine.phase = machineDue
	a.disarm(timerMachine)
	a.endDetection(ctx)
	if !a.ai.live() {
		a.playMessage(ctx)
		return
	}
	a.withSwitchMedia(ctx, func(ctx context.Context) {
		if a.machine.phase == machineDue && a.ai.live() && a.killCause == "" {
			a.leaveVoiceAgent(ctx)
			a.playMessage(ctx)
		}
	})
}

// leaveVoiceAgent ends the AI session of a call that goes on without it. The caller comes back from the media leg by
// transfer_after_bridge.
func (a *actor) leaveVoiceAgent(ctx context.Context) {
	s := a.ai
	a.bypass.holds = max(0, a.bypass.holds-1)
	at := a.c.clock.Now().UTC()
	a.away = s.legUp || s.bridging
	opened := s.media != nil
	a.endSessionWith(ctx, sessionEnd{outcome: sessionHangup, at: at, final: finalMetadata("voicemail_message", nil, nil)}, media.CloseHangup)
	if opened {
		a.recordRest(ctx, at)
	}
	if a.away {
		a.awaitCaller(ctx)
	}
}

// playMessage plays the message once the caller is there, and then hangs up.
func (a *actor) playMessage(ctx context.Context) {
	if a.machine.phase != machineDue || a.sock == nil || a.away || a.ai.live() || a.killCause != "" {
		return
	}
	a.machine.phase = machineTold
	url := a.machine.action.MessageURL
	a.runBeside(ctx, func(ctx context.Context, l *leg) error {
		err := l.Play(ctx, url)
		result := machineLeft
		switch {
		case ctx.Err() != nil, errors.Is(err, ErrCallEnded):
			result = machineGone
		case err != nil:
			result = machineFailed
			a.log.WarnContext(ctx, "message for a machine is not played", "error", err)
		}
		a.c.metrics.machines.WithLabelValues(result).Inc()
		return nil // whatever came of it, the call ends as it should
	})
}
