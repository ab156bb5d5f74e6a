package call

import (
	"context"
	"errors"
	"time"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/amd"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// What becomes of a call that a machine has answered. The handler says it beforehand; the verdict comes to the actor, which takes the
// caller from whoever was to have them, and then hangs up, or waits for the end of the greeting and leaves a message.

const (
	// greetingTimeout is how long a greeting may last, beepTimeout how long after its end the beep is waited for.
	greetingTimeout = 70 * time.Second
	beepTimeout     = 2500 * time.Millisecond
)

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
	*core
	agents    *agentBridge
	bypass    *bypass
	handling  *handling
	line      *callerLine
	music     *musicPlayer
	rec       *recorder
	sound     *sound
	taps      *taps
	transfers *transfers
	voice     *voice

	action *switchctl.MachineAction
	phase  machinePhase
	// quiet: its greeting has ended.
	quiet bool
	// others: they are heard beside the caller, so that there is no verdict.
	others bool
	// beeped is when a beep of ours was sent to the caller last.
	beeped time.Time
}

// taken reports whether the caller is kept from everybody because of a machine.
func (mc *machine) taken() bool { return mc.phase == machineGreets || mc.phase == machineDue }

// machineCommand says what to do about a machine.
type machineCommand struct {
	action switchctl.MachineAction
	reply  chan<- error
}

func (machineCommand) Name() string    { return "machine action" }
func (machineCommand) Essential() bool { return false }

func (m machineCommand) refused(_ *core, err error) { m.reply <- err }

func (l *leg) OnMachine(ctx context.Context, action switchctl.MachineAction) error {
	return l.a.ask(ctx, func(reply chan<- error) message { return machineCommand{action: action, reply: reply} })
}

// onMachine keeps what to do. A verdict that is older than that is from before a restart: whoever listened for the end of the
// greeting is gone.
func (mc *machine) onMachine(ctx context.Context, m machineCommand) error {
	if mc.killCause != "" {
		return ledger.ErrCallEnded
	}
	if mc.call.AmdClass != nil && *mc.call.AmdClass == string(amd.ClassMachine) {
		m.action.MessageURL = ""
	}
	mc.action = &m.action
	m.reply <- nil
	mc.considerMachine(ctx)
	return nil
}

// considerMachine acts when both a verdict to act on and what to do about it are there.
func (mc *machine) considerMachine(ctx context.Context) {
	if mc.action == nil || mc.phase != machineNone || mc.killCause != "" || !switchctl.MachineTaken(mc.call) {
		return
	}
	message := mc.action.MessageURL != ""
	mc.log.InfoContext(ctx, "applying voicemail action", "message", message)
	if mc.phase = machineGreets; !message {
		mc.phase = machineTold
	}
	mc.partFromMachine(ctx, message)
	mc.dismissHandler(switchctl.ErrMachine)
	mc.transfers.abandon(ctx, mc.conflict(VerbTransfer, "A machine has answered the call."))
	if !message {
		mc.c.metrics.machines.WithLabelValues(machineHungUp).Inc()
		mc.hangupMachine(ctx)
		return
	}
	mc.muteForMachine(ctx)
	if !mc.voice.ai.live() {
		mc.rec.recordHuman(ctx) // unless that has begun: what is left is on the record
	}
	mc.arm(timerMachine, greetingTimeout)
	url := mc.action.MessageURL
	mc.beside(func() { // it is played without a wait for the network
		if _, err := mc.c.promptFile(ctx, mc.tenant, url); err != nil && ctx.Err() == nil {
			mc.log.WarnContext(ctx, "fetching the message for machines failed", "error", err)
		}
	})
}

// dismissHandler ends what the handler does, and doesn't wait for it.
func (mc *machine) dismissHandler(cause error) {
	mc.handling.handler++
	if s := mc.voice.ai; s != nil {
		s.reply = nil // the handler's context tells
	}
	if mc.handling.stopHandler != nil {
		mc.handling.stopHandler(cause)
		mc.handling.stopHandler = nil
	}
}

// partFromMachine frees the agent whom the caller has, or was about to have. back: the caller is wanted here.
func (mc *machine) partFromMachine(ctx context.Context, back bool) {
	h := mc.agents.human
	if h == nil {
		return
	}
	mc.agents.part(switchctl.AgentMachine, nil)
	if back && h.steered() {
		mc.away = true
		mc.line.reattach(ctx, "", false) // the agent's leg follows the end of the bridge by itself
	}
}

// muteForMachine has a machine hear nothing while it greets: neither music, nor the voice agent, nor what its verbs play.
func (mc *machine) muteForMachine(ctx context.Context) {
	mc.music.afterMusic(ctx, func(context.Context) {})
	if s := mc.voice.ai; s.live() && s.media != nil {
		s.media.SetMute(media.FromAgent, true)
		mc.sound.silence(ctx)
	}
}

func (mc *machine) hangupMachine(ctx context.Context) {
	mc.phase = machineTold
	mc.disarm(timerMachine)
	if mc.voice.ai.live() {
		mc.voice.hangupSession(ctx, nil)
		return
	}
	mc.kill(ctx, ledger.CauseNormalClearing)
}

// greetingHeard is what detection reports after its verdict.
func (mc *machine) greetingHeard(ctx context.Context, kind amd.EventKind) {
	if mc.phase != machineGreets {
		return
	}
	switch kind {
	case amd.KindBeep:
		mc.leaveMessage(ctx)
	case amd.KindGreetingEnd:
		mc.quiet = true
		mc.arm(timerMachine, beepTimeout)
	case amd.KindVerdict:
	}
}

// heardEnough tells whether what detection may still hear would change nothing: there is a verdict, and neither a greeting's end nor a beep is
// waited for.
func (mc *machine) heardEnough() bool {
	return mc.call.AmdClass != nil && mc.phase != machineGreets && !mc.awaitsBeep()
}

// awaitsBeep tells whether a beep would still decide: who was called a machine less surely than it takes is listened to until a person has them.
func (mc *machine) awaitsBeep() bool {
	class := mc.call.AmdClass
	unsure := class != nil && *class == string(amd.ClassMachine) && !switchctl.MachineSure(mc.call)
	return unsure && mc.action != nil && mc.phase == machineNone && !mc.personHas()
}

// afterVerdict ends a tap that was there for detection alone, or has it listen on for the beep, for as long as a greeting lasts at the most.
func (mc *machine) afterVerdict(ctx context.Context, t *tap) {
	switch {
	case mc.heardEnough():
		mc.taps.endTap(ctx, t, media.CloseHangup)
	case mc.awaitsBeep() && !mc.timers.Armed(timerMachine):
		mc.arm(timerMachine, greetingTimeout)
	}
}

// personHas tells whether a person has heard the callee: an agent, or whom they were led to.
func (mc *machine) personHas() bool {
	return mc.call.AgentID != nil && mc.call.AgentConnectTime != nil || mc.call.ServedAt != nil
}

// personConnected ends what listens for the beep alone, which changes nothing any more.
func (mc *machine) personConnected(ctx context.Context) {
	if mc.heardEnough() {
		mc.disarm(timerMachine)
		mc.taps.endDetection(ctx)
	}
}

// echoTime is how long after a beep of ours was sent its echo is told at the latest.
const echoTime = beepLength + 1200*time.Millisecond

// weBeep: the caller is about to hear a beep of ours, whose echo would be taken for a mailbox's. What listens for that alone ends.
func (mc *machine) weBeep(ctx context.Context) {
	mc.beeped = mc.c.clock.Now()
	if mc.awaitsBeep() {
		mc.disarm(timerMachine)
		mc.taps.endDetection(ctx)
	}
}

// machineOver: the beep, or the end of the greeting, timed out. A machine that never ends gets no message.
func (mc *machine) machineOver(ctx context.Context) {
	if mc.phase == machineNone {
		mc.taps.endDetection(ctx) // it has no beep
	}
	if mc.phase != machineGreets {
		return
	}
	if mc.quiet {
		mc.leaveMessage(ctx)
		return
	}
	mc.log.InfoContext(ctx, "machine's greeting did not end, hanging up")
	mc.c.metrics.machines.WithLabelValues(machineUnheard).Inc()
	mc.hangupMachine(ctx)
}

// leaveMessage brings the caller to a socket of ours, where the message is played.
func (mc *machine) leaveMessage(ctx context.Context) {
	mc.phase = machineDue
	mc.disarm(timerMachine)
	mc.taps.endDetection(ctx)
	if !mc.voice.ai.live() {
		mc.playMessage(ctx)
		return
	}
	mc.bypass.withSwitchMedia(ctx, func(ctx context.Context) {
		if mc.phase == machineDue && mc.voice.ai.live() && mc.killCause == "" {
			mc.leaveVoiceAgent(ctx)
			mc.playMessage(ctx)
		}
	})
}

// leaveVoiceAgent ends the AI session of a call that goes on without it. The caller comes back from the media leg by
// transfer_after_bridge.
func (mc *machine) leaveVoiceAgent(ctx context.Context) {
	s := mc.voice.ai
	mc.bypass.holds = max(0, mc.bypass.holds-1)
	at := mc.c.clock.Now().UTC()
	mc.away = s.legUp || s.bridging
	opened := s.media != nil
	mc.voice.endSessionWith(ctx, ledger.SessionEnd{Outcome: ledger.SessionHangup, At: at, Final: finalMetadata("voicemail_message", nil, nil)}, media.CloseHangup)
	if opened {
		mc.rec.recordRest(ctx, at)
	}
	if mc.away {
		mc.voice.awaitCaller(ctx)
	}
}

// playMessage plays the message once the caller is there, and then hangs up.
func (mc *machine) playMessage(ctx context.Context) {
	if mc.phase != machineDue || mc.sock == nil || mc.away || mc.voice.ai.live() || mc.killCause != "" {
		return
	}
	mc.phase = machineTold
	url := mc.action.MessageURL
	mc.handling.runBeside(ctx, func(ctx context.Context, l *leg) error {
		err := l.Play(ctx, url)
		result := machineLeft
		switch {
		case ctx.Err() != nil, errors.Is(err, ledger.ErrCallEnded):
			result = machineGone
		case err != nil:
			result = machineFailed
			mc.log.WarnContext(ctx, "playing the message for a machine failed", "error", err)
		}
		mc.c.metrics.machines.WithLabelValues(result).Inc()
		return nil // whatever came of it, the call ends as it should
	})
}
