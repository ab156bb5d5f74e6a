package switchctl

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// People on the phone: the call is bridged by the switch, caller and agent's leg, and is steered over the host link alone. The
// bridge's end gives the caller back by transfer_after_bridge, whoever ended it; what follows depends on how the agent's leg went.

const (
	// agentTone is what the agent hears when a caller comes: mixed into the leg, so that it costs no time.
	agentTone = "tone_stream://%(60,0,600)"
	// ringback is the Indian ringing tone (400 Hz, 0.4 s on, 0.2 off, 0.4 on, 2 off).
	ringback = "tone_stream://%(400,200,400);%(400,2000,400);loops=-1"
)

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
	mode    PhoneMode
	channel string // of the agent's leg
	req     AgentConnect
	reply   chan<- agentResult // nil after a restart: whoever waited is gone
	asked   time.Time
	doubts  int
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
func (h *human) answer(outcome AgentOutcome, err error) {
	if h.reply != nil {
		h.reply <- agentResult{outcome: outcome, err: err}
		h.reply = nil
	}
}

// agentCommand connects the caller with an agent's phone.
type agentCommand struct {
	req   AgentConnect
	reply chan<- agentResult
}

func (agentCommand) Name() string    { return "connect_agent" }
func (agentCommand) Essential() bool { return false }

type agentResult struct {
	outcome AgentOutcome
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

// connectAgent asks the phone for its leg.
func (a *actor) connectAgent(ctx context.Context, m agentCommand) (state, error) {
	conflict := func(detail string) error {
		return &StateError{State: a.state.String(), Event: m.Name(), Detail: detail}
	}
	switch {
	case a.killCause != "":
		return a.state, ErrCallEnded
	case a.machine.phase != machineNone:
		m.reply <- agentResult{outcome: AgentMachine}
		return a.state, nil
	case a.ai.live():
		return a.state, conflict("an AI session is on the call")
	case a.transfer != nil:
		return a.state, conflict("the call is transferred")
	case a.human.bridged() && a.human.reply == nil:
		return a.state, a.joinAgent(m)
	case a.human != nil:
		return a.state, conflict("an agent is on the call")
	case a.c.link.Generation() == 0:
		return a.state, ErrLinkDown
	}
	a.humans++
	h := &human{
		serial: a.humans, agent: m.req.Phone.AgentID, mode: m.req.Phone.Mode, req: m.req, reply: m.reply, asked: a.c.clock.Now(),
	}
	claim := phoneClaim{
		call: a, serial: h.serial, ring: m.req.RingTimeout, number: a.peerNumber(), caller: m.req.CallerName,
	}
	if err := a.c.phones.send(a.c, h.agent, &m.req.Phone, claim); err != nil {
		return a.state, err
	}
	a.human = h
	a.deafen(ctx)
	a.recordHuman(ctx)
	return a.state, nil
}

// peerNumber is the number of the party outside, as far as the call's row may hold it.
func (a *actor) peerNumber() string {
	if a.inbound {
		return a.call.FromNumber.Reveal()
	}
	return a.call.ToNumber.Reveal()
}

// joinAgent has a command wait for the end of a conversation that nobody waits for: it was found after a restart.
func (a *actor) joinAgent(m agentCommand) error {
	h := a.human
	if h.agent != m.req.Phone.AgentID {
		return &AgentOnCallError{AgentID: h.agent}
	}
	h.req, h.reply = m.req, m.reply
	return nil
}

// agentMessage is what concerns the call's agent.
func (a *actor) agentMessage(ctx context.Context, m message) (state, error) {
	h := a.human
	switch m := m.(type) {
	case agentLeg:
		switch {
		case h == nil || h.serial != m.serial || h.phase != humanClaiming:
			a.freeAgent(h, m.serial, false)
		case m.reason != "":
			a.agentUnavailable(ctx, m.reason)
		default:
			h.channel, h.phase = m.channel, humanReady
			a.c.registry.bind(a, h.channel)
			a.tryAgent(ctx)
		}
	case whisperReady:
		if h != nil && h.serial == m.serial && h.phase == humanWhispering {
			a.whisper(ctx, m)
		}
	case agentGone:
		if h != nil && h.serial == m.serial {
			return a.agentGone(ctx, m.reason), nil
		}
	case musicFetched:
		a.musicThere(ctx, m)
	case musicEnded:
		if a.killCause == "" {
			m.then(ctx)
		}
	case agentDoubt:
		return a.settleDoubt(ctx, m), nil
	case agentWaits:
		if h != nil && h.serial == m.serial && h.phase == humanClaiming {
			a.ringToCaller(ctx)
		}
	case agentCancel:
		a.cancelAgent(ctx, m)
	}
	return a.state, nil
}

// tryAgent goes on once both legs are there. Before its socket is up the caller may still be on the way out of the originate,
// which would undo a bridge.
func (a *actor) tryAgent(ctx context.Context) {
	h := a.human
	if h == nil || h.phase != humanReady || a.sock == nil || a.away || a.killCause != "" {
		return
	}
	if h.req.Connecting != nil {
		h.req.Connecting()
	}
	if h.req.WhisperURL == "" || a.c.cfg.Prompts == nil {
		a.bridgeAgent(ctx, true)
		return
	}
	h.phase = humanWhispering
	a.ringToCaller(ctx)
	url, serial := h.req.WhisperURL, h.serial
	a.beside(func() {
		ctx, cancel := context.WithTimeout(ctx, whisperTimeout)
		defer cancel()
		file, err := a.c.promptFile(ctx, a.tenant, url)
		if err != nil {
			a.log.WarnContext(ctx, "whisper to the agent can't be played", "error", err)
		}
		a.post(whisperReady{serial: serial, path: file.path, lasts: file.length})
	})
}

// whisperTimeout is how long a caller waits for what the agent is to hear first.
const whisperTimeout = 3 * time.Second

// broadcastLead is how long the switch waits before it plays a broadcast (lead-frames in switch_ivr_async.c).
const broadcastLead = 100 * time.Millisecond

// whisper plays what the agent is told before the caller is heard.
func (a *actor) whisper(ctx context.Context, m whisperReady) {
	if m.path == "" {
		a.bridgeAgent(ctx, true)
		return
	}
	a.human.told = true
	a.quickly(ctx, fs.Play(a.human.channel, m.path))
	a.arm(timerAgent, m.lasts+broadcastLead)
}

// quickly sends a command whose reply says nothing that events don't.
func (a *actor) quickly(ctx context.Context, cmd fs.Command) {
	link := a.c.link
	a.beside(func() {
		if _, err := link.Background(ctx, cmd); err != nil {
			a.log.DebugContext(ctx, "command failed", "command", cmd.String(), "error", err)
		}
	})
}

// bridgeAgent connects caller and agent. Each leg is told first what becomes of it when the bridge ends; the switch forgets that
// with each use. The tone is mixed into the agent's leg, and sounds while the switch builds the bridge.
func (a *actor) bridgeAgent(ctx context.Context, tone bool) {
	h := a.human
	h.phase = humanBridging
	a.arm(timerAgent, bridgeTimeout)
	caller, agent, serial, after := a.channel, h.channel, h.serial, ""
	if h.mode != PhoneOnHook {
		after = fs.AfterBridge(agentExtension, a.c.cfg.Context)
	}
	first := fs.Script{
		fs.SetVar(caller, varAfterBridge, fs.AfterBridge(reattachExtension, a.c.cfg.Context)),
		fs.SetVar(agent, varAfterBridge, after),
	}
	if tone {
		first = append(first, fs.Try(fs.PlayInto(agent, agentTone)))
	}
	a.inOrder(ctx, first, fs.Bridge(caller, agent), func(body string, err error) {
		a.post(jobDone{job: jobAgentBridge, attempt: int(serial), body: body, err: err})
	})
}

// agentBridgeReply is the switch's word on the bridge; the event says the rest.
func (a *actor) agentBridgeReply(ctx context.Context, m jobDone) {
	reason := refusedJob(m)
	if !a.human.bridging() || int(a.human.serial) != m.attempt || reason == "" || errors.Is(m.err, errLinkLost) {
		return
	}
	a.log.WarnContext(ctx, "agent could not be bridged", "reply", reason)
	a.doubtAgent(ctx)
}

// agentDoubt tells which of the two legs are there after a bridge that did not come about.
type agentDoubt struct {
	serial        uint64
	caller, agent bool
	// other is the channel that the caller is bridged with.
	other string
	err   error
}

func (agentDoubt) Name() string    { return "bridge in doubt" }
func (agentDoubt) Essential() bool { return true }

// doubtAgent finds out whose leg is missing, so that no agent answers for a caller who has hung up.
func (a *actor) doubtAgent(ctx context.Context) {
	h := a.human
	a.arm(timerAgent, bridgeTimeout)
	m, caller, agent := agentDoubt{serial: h.serial}, a.channel, h.channel
	a.beside(func() {
		found, err := a.c.dump(ctx, caller)
		m.caller, m.err = found != nil, err
		if found != nil {
			m.other = found.Var("signal_bond")
		}
		if err == nil {
			found, err = a.c.dump(ctx, agent)
			m.agent, m.err = found != nil, err
		}
		a.post(m)
	})
}

func (a *actor) settleDoubt(ctx context.Context, m agentDoubt) state {
	h := a.human
	if !h.bridging() || h.serial != m.serial || m.err != nil {
		return a.state // without the switch's word there is no verdict: the timer asks again, and so does the next connection
	}
	h.doubts++
	switch {
	case m.caller && m.other == h.channel:
		return a.agentConfirmed(ctx, a.c.clock.Now().UTC()) // its event was missed
	case !m.caller && h.doubts < 2:
		a.probe(ctx) // the caller's end is on its way, and answers
	case m.caller && !m.agent && !h.bySwitch:
		a.agentUnavailable(ctx, PhoneLost)
	default:
		a.agentFailed(ctx, ErrTimeout)
	}
	return a.state
}

// agentFailed ends a try that the switch did not carry out; it is no fault of the agent's.
func (a *actor) agentFailed(ctx context.Context, err error) {
	h := a.human
	a.human = nil
	a.disarm(timerAgent)
	a.freeAgent(h, h.serial, true)
	h.answer("", err)
	a.callerComesBack(ctx)
}

// agentDue: the agent has heard the whisper, or the bridge had to be there by now.
func (a *actor) agentDue(ctx context.Context) {
	switch h := a.human; {
	case h == nil:
	case h.phase == humanWhispering:
		h.told = false
		a.bridgeAgent(ctx, false)
	case h.phase == humanBridging:
		a.log.WarnContext(ctx, "bridge with an agent was not confirmed by the switch")
		a.doubtAgent(ctx)
	}
}

// agentBridged: the switch has bridged the caller with somebody. With the agent's leg, they hear each other.
func (a *actor) agentBridged(ctx context.Context, ev *esl.Event) state {
	h := a.human
	if !h.bridging() {
		return a.state
	}
	one, two := ev.Get("Bridge-A-Unique-ID"), ev.Get("Bridge-B-Unique-ID")
	if (one != a.channel || two != h.channel) && (one != h.channel || two != a.channel) {
		return a.state
	}
	return a.agentConfirmed(ctx, eventTime(ev))
}

// agentConfirmed: caller and agent hear each other since at.
func (a *actor) agentConfirmed(ctx context.Context, at time.Time) state {
	h := a.human
	h.phase = humanBridged
	a.disarm(timerAgent)
	a.disarm(timerSocket)
	a.music.playing, a.music.on = false, false // the bridge has cut it off
	a.c.metrics.agentConnect.Observe(max(0, a.c.clock.Now().Sub(h.asked).Seconds()))
	a.writeAgent(ctx, at)
	a.log.InfoContext(ctx, "call is connected with an agent", "agent_id", h.agent.String())
	return stateAgentConnected
}

// writeAgent commits that the caller hears this agent since at.
func (a *actor) writeAgent(ctx context.Context, at time.Time) {
	a.call.AgentID, a.call.AgentConnectTime = &a.human.agent, &at
	call := a.call
	a.record(ctx, "agent connected", func(ctx context.Context) error {
		return a.c.ledger.AgentConnected(ctx, call, at)
	}, nil)
}
