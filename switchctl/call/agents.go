package call

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// People on the phone: the call is bridged by the switch, caller and agent's leg, and is steered over the host link alone. The
// bridge's end gives the caller back by transfer_after_bridge, whoever ended it; what follows depends on how the agent's leg went.

// agentTone is what the agent hears when a caller comes: mixed into the leg, so that it costs no time.
const agentTone = "tone_stream://%(60,0,600)"

type humanPhase int

const (
	humanClaiming   humanPhase = iota // the phone is asked for its leg
	humanReady                        // it is there; the caller's socket is still to come
	humanWhispering                   // the agent hears what the caller does not
	humanBridging                     // the switch was asked to bridge
	humanBridged                      // caller and agent hear each other
)

// human is a call's agent. All fields belong to the actor's goroutine.
type human struct {
	serial  uint64
	phase   humanPhase
	agent   uuid.UUID
	mode    phone.Mode
	channel string // of the agent's leg
	req     switchctl.AgentConnect
	reply   chan<- agentResult // nil after a restart: whoever waited is gone
	asked   time.Time
	checks  int
	// told: the agent hears the whisper.
	told bool
	// bySwitch: the switch has ended the agent's leg, since the caller was leaving.
	bySwitch bool
}

// The questions that other states ask; nil is a call without an agent.
func (h *human) bridging() bool { return h != nil && h.phase == humanBridging }
func (h *human) bridged() bool  { return h != nil && h.phase == humanBridged }

// steered reports whether the switch leads the caller to an agent, so that it has no socket.
func (h *human) steered() bool { return h.bridging() || h.bridged() }

// answer tells Leg.ConnectAgent how it went, once.
func (h *human) answer(outcome switchctl.AgentOutcome, err error) {
	if h.reply != nil {
		h.reply <- agentResult{outcome: outcome, err: err}
		h.reply = nil
	}
}

// agentCommand connects the caller with an agent's phone.
type agentCommand struct {
	req   switchctl.AgentConnect
	reply chan<- agentResult
}

func (agentCommand) Name() string    { return "connect_agent" }
func (agentCommand) Essential() bool { return false }

func (m agentCommand) refused(_ *core, err error) {
	m.reply <- agentResult{outcome: switchctl.AgentUnavailable, err: err}
}

type agentResult struct {
	outcome switchctl.AgentOutcome
	err     error
}

// agentCancel gives an agent up who is not bridged yet; reply is the one of the command that it is about.
type agentCancel struct {
	reply chan<- agentResult
	err   error
}

func (agentCancel) Name() string    { return "connect_agent cancelled" }
func (agentCancel) Essential() bool { return true }

// whisperReady brings the audio that the agent hears first; path is empty when it can't be had.
type whisperReady struct {
	serial uint64
	path   string
	lasts  time.Duration
}

func (whisperReady) Name() string    { return "whisper" }
func (whisperReady) Essential() bool { return true }

// agentBridge is the call's part with agents: the one who has it, or is being tried.
type agentBridge struct {
	*core
	line    *callerLine
	machine *machine
	music   *musicPlayer
	parties *parties
	rec     *recorder
	// supervised are told when the agent leaves.
	supervised *supervised
	talking    *talking
	// human is the call's agent; humans numbers them.
	human  *human
	humans uint64
	// gaveBack: an agent, or whom the caller was transferred to after one, has hung up, and the caller, who goes on, is on the way back from them.
	gaveBack bool
	// left is the agent who has hung up since the call was found again, and of whose end its flow has still to hear; nil for nobody.
	left *uuid.UUID
}

// connectAgent asks the phone for its leg.
func (b *agentBridge) connectAgent(ctx context.Context, m agentCommand) (state, error) {
	left := b.left
	b.left = nil
	switch {
	case b.killCause != "":
		return b.state, ledger.ErrCallEnded
	case b.parties.machine.grip() != gripNone:
		m.reply <- agentResult{outcome: switchctl.AgentMachine}
		return b.state, nil
	case left != nil && m.req.Theirs && *left == m.req.Phone.AgentID:
		b.hasLeft(ctx, m)
		return b.state, nil
	case b.human.bridged() && b.human.reply == nil:
		return b.state, b.joinAgent(m)
	}
	if err := b.parties.refuse(forAgent, m.Name()); err != nil {
		return b.state, err
	}
	if b.c.link.Generation() == 0 {
		return b.state, switchctl.ErrLinkDown
	}
	b.humans++
	h := &human{
		serial: b.humans, agent: m.req.Phone.AgentID, mode: m.req.Phone.Mode, req: m.req, reply: m.reply, asked: b.c.clock.Now(),
	}
	claim := phone.Claim{Call: legClaim{b.core, h.serial}, Ring: m.req.RingTimeout, Number: b.peerNumber(), Caller: m.req.CallerName}
	if err := b.c.phones.Claim(m.req.Phone, claim); err != nil {
		return b.state, err
	}
	b.human = h
	b.talking.stopDigits(ctx)
	b.rec.recordHuman(ctx)
	return b.state, nil
}

// joinAgent has a command wait for the end of a conversation that nobody waits for: it was found after a restart.
func (b *agentBridge) joinAgent(m agentCommand) error {
	h := b.human
	if h.agent != m.req.Phone.AgentID {
		return &switchctl.AgentOnCallError{AgentID: h.agent}
	}
	h.req, h.reply = m.req, m.reply
	return nil
}

// agentMessage is what concerns the call's agent.
func (b *agentBridge) agentMessage(ctx context.Context, m message) (state, error) {
	h := b.human
	switch m := m.(type) {
	case agentLeg:
		switch {
		case h == nil || h.serial != m.serial || h.phase != humanClaiming:
			b.freeAgent(h, m.serial, false)
		case m.reason != "":
			b.agentUnavailable(ctx, m.reason)
		default:
			h.channel, h.phase = m.channel, humanReady
			b.c.registry.bind(b.core, h.channel)
			b.tryAgent(ctx)
		}
	case whisperReady:
		if h != nil && h.serial == m.serial && h.phase == humanWhispering {
			b.whisper(ctx, m)
		}
	case agentGone:
		if h != nil && h.serial == m.serial {
			return b.agentGone(ctx, m.reason), nil
		}
	case bridgeUnconfirmed:
		return b.settleUnconfirmed(ctx, m), nil
	case agentWaits:
		if h != nil && h.serial == m.serial && h.phase == humanClaiming {
			b.music.ringToCaller(ctx)
		}
	case agentCancel:
		b.cancelAgent(ctx, m)
	}
	return b.state, nil
}

// tryAgent goes on once both legs are there. Before its socket is up the caller may still be on the way out of the originate,
// which would undo a bridge.
func (b *agentBridge) tryAgent(ctx context.Context) {
	h := b.human
	if h == nil || h.phase != humanReady || b.sock == nil || b.away || b.killCause != "" {
		return
	}
	if h.req.Connecting != nil {
		h.req.Connecting()
	}
	if h.req.WhisperURL == "" || b.c.cfg.Prompts == nil {
		b.bridgeAgent(ctx, true)
		return
	}
	h.phase = humanWhispering
	b.music.ringToCaller(ctx)
	url, serial := h.req.WhisperURL, h.serial
	b.beside(func() {
		ctx, cancel := context.WithTimeout(ctx, whisperTimeout)
		defer cancel()
		file, err := b.c.promptFile(ctx, b.tenant, url)
		if err != nil {
			b.log.WarnContext(ctx, "whisper to the agent failed", "error", err)
		}
		b.post(whisperReady{serial: serial, path: file.path, lasts: file.length})
	})
}

// whisperTimeout is how long a caller waits for what the agent is to hear first.
const whisperTimeout = 3 * time.Second

// broadcastLead is how long the switch waits before it plays a broadcast (lead-frames in switch_ivr_async.c).
const broadcastLead = 100 * time.Millisecond

// whisper plays what the agent is told before the caller is heard.
func (b *agentBridge) whisper(ctx context.Context, m whisperReady) {
	if m.path == "" {
		b.bridgeAgent(ctx, true)
		return
	}
	b.human.told = true
	b.quickly(ctx, fs.Play(b.human.channel, m.path))
	b.arm(timerAgent, m.lasts+broadcastLead)
}

// bridgeAgent connects caller and agent. Each leg is told first what becomes of it when the bridge ends; the switch forgets that
// with each use. The tone is mixed into the agent's leg, and sounds while the switch builds the bridge.
func (b *agentBridge) bridgeAgent(ctx context.Context, tone bool) {
	h := b.human
	h.phase = humanBridging
	b.arm(timerAgent, bridgeTimeout)
	caller, agent, serial, after := b.channel, h.channel, h.serial, ""
	if h.mode != phone.OnHook {
		after = fs.AfterBridge(phone.Extension, b.c.cfg.Context)
	}
	first := fs.Script{
		fs.SetVar(caller, varAfterBridge, fs.AfterBridge(reattachExtension, b.c.cfg.Context)),
		fs.SetVar(agent, varAfterBridge, after),
	}
	if tone {
		first = append(first, fs.Try(fs.PlayInto(agent, agentTone)))
	}
	b.inOrder(ctx, first, fs.Bridge(caller, agent), func(body string, err error) {
		b.post(jobDone{job: jobAgentBridge, attempt: int(serial), body: body, err: err})
	})
}

// agentBridgeReply is the switch's word on the bridge; the event says the rest.
func (b *agentBridge) agentBridgeReply(ctx context.Context, m jobDone) {
	reason := refusedJob(m)
	if !b.human.bridging() || int(b.human.serial) != m.attempt || reason == "" || m.unknown() { // of which the event tells, or the time-out's look
		return
	}
	b.log.WarnContext(ctx, "bridging the agent failed", "reply", reason)
	b.checkBridge(ctx)
}

// bridgeUnconfirmed tells which of the two legs are there after a bridge that did not come about.
type bridgeUnconfirmed struct {
	serial        uint64
	caller, agent bool
	// other is the channel that the caller is bridged with.
	other string
	err   error
}

func (bridgeUnconfirmed) Name() string    { return "bridge unconfirmed" }
func (bridgeUnconfirmed) Essential() bool { return true }

// checkBridge finds out whose leg is missing, so that no agent answers for a caller who has hung up.
func (b *agentBridge) checkBridge(ctx context.Context) {
	h := b.human
	b.arm(timerAgent, bridgeTimeout)
	m, caller, agent := bridgeUnconfirmed{serial: h.serial}, b.channel, h.channel
	b.beside(func() {
		found, err := fs.FindChannel(ctx, b.c.link, caller)
		m.caller, m.err = found != nil, err
		if found != nil {
			m.other = found.Var("signal_bond")
		}
		if err == nil {
			found, err = fs.FindChannel(ctx, b.c.link, agent)
			m.agent, m.err = found != nil, err
		}
		b.post(m)
	})
}

func (b *agentBridge) settleUnconfirmed(ctx context.Context, m bridgeUnconfirmed) state {
	h := b.human
	if !h.bridging() || h.serial != m.serial || m.err != nil {
		return b.state // without the switch's word there is no verdict: the timer asks again, and so does the next connection
	}
	h.checks++
	switch {
	case m.caller && m.other == h.channel:
		return b.agentConfirmed(ctx, b.c.clock.Now().UTC()) // its event was missed
	case !m.caller && h.checks < 2:
		b.probe(ctx) // the caller's end is on its way, and answers
	case m.caller && !m.agent && !h.bySwitch:
		b.agentUnavailable(ctx, phone.Lost)
	default:
		b.agentFailed(ctx, switchctl.ErrTimeout)
	}
	return b.state
}

// agentFailed ends a try that the switch did not carry out; it is no fault of the agent's.
func (b *agentBridge) agentFailed(ctx context.Context, err error) {
	h := b.human
	b.human = nil
	b.disarm(timerAgent)
	b.freeAgent(h, h.serial, true)
	h.answer("", err)
	b.callerComesBack(ctx)
}

// agentDue: the agent has heard the whisper, or the bridge timed out.
func (b *agentBridge) agentDue(ctx context.Context) {
	switch h := b.human; {
	case h == nil:
	case h.phase == humanWhispering:
		h.told = false
		b.bridgeAgent(ctx, false)
	case h.phase == humanBridging:
		b.log.WarnContext(ctx, "bridge with an agent was not confirmed by the switch")
		b.checkBridge(ctx)
	}
}

// agentBridged: the switch has bridged the caller with somebody. With the agent's leg, they hear each other.
func (b *agentBridge) agentBridged(ctx context.Context, ev *esl.Event) state {
	h := b.human
	if !h.bridging() {
		return b.state
	}
	one, two := ev.Get("Bridge-A-Unique-ID"), ev.Get("Bridge-B-Unique-ID")
	if (one != b.channel || two != h.channel) && (one != h.channel || two != b.channel) {
		return b.state
	}
	return b.agentConfirmed(ctx, fs.EventTime(ev))
}

// agentConfirmed: caller and agent hear each other since at.
func (b *agentBridge) agentConfirmed(ctx context.Context, at time.Time) state {
	h := b.human
	h.phase = humanBridged
	b.disarm(timerAgent)
	b.disarm(timerSocket)
	b.music.playing, b.music.on = false, false // the bridge has cut it off
	b.c.metrics.agentConnect.Observe(max(0, b.c.clock.Now().Sub(h.asked).Seconds()))
	b.writeAgent(ctx, at)
	b.machine.personConnected(ctx)
	b.log.InfoContext(ctx, "call is connected with an agent", "agent_id", h.agent.String())
	return stateAgentConnected
}

// writeAgent commits that the caller hears this agent since at.
func (b *agentBridge) writeAgent(ctx context.Context, at time.Time) {
	b.noteConnected(ctx, &b.human.agent, at)
}
