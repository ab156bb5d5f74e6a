package call

import (
	"context"
	"errors"
	"math"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// Force-transfer: a supervisor takes the caller away from whoever has them, and AnswerHandler.Queue finds the one agent who is to have them.

const (
	// varTaken is the channel variable that keeps, through a crash of ours, the extension that a supervisor has given the caller to.
	varTaken = "rm_taken"
	// frontOfQueue is the priority of such a caller.
	frontOfQueue = math.MaxInt32
	eventTake    = "force_transfer"
)

// takeaway is the call's part with supervisors who give the caller to somebody else. Its fields belong to the actor's goroutine.
type takeaway struct {
	*core
	agents    *agentBridge
	bypass    *bypass
	handling  *handling
	line      *callerLine
	music     *musicPlayer
	parties   *parties
	talking   *talking
	transfers *transfers
	voice     *voice

	// marks keeps what is noted on the channel in order.
	marks rt.Serial
}

// takeCommand gives the caller to the agent with an extension.
type takeCommand struct {
	req   switchctl.QueueRequest
	reply chan<- error
}

func (takeCommand) Name() string    { return eventTake }
func (takeCommand) Essential() bool { return false }

func (m takeCommand) refused(_ *core, err error) { m.reply <- err }

// takeNoted: the channel keeps to whom the caller goes.
type takeNoted struct {
	m   takeCommand
	err error
}

func (takeNoted) Name() string    { return "force_transfer noted" }
func (takeNoted) Essential() bool { return true }

func (m takeNoted) refused(_ *core, err error) { m.m.reply <- err }

// takenRequest is whom the caller waits for.
func takenRequest(extension string) switchctl.QueueRequest {
	return switchctl.QueueRequest{Extension: extension, Priority: frontOfQueue}
}

// ForceTransfer implements [switchctl.Supervisions].
func (c *Controller) ForceTransfer(ctx context.Context, tenant, call uuid.UUID, extension string) error {
	a, err := c.liveCall(ctx, tenant, call, eventTake)
	if err != nil {
		return err
	}
	req := takenRequest(extension)
	if err = c.canQueue(ctx, tenant, req); err != nil {
		return err
	}
	err = a.outlived(a.ask(ctx, func(reply chan<- error) message { return takeCommand{req: req, reply: reply} }))
	if errors.Is(err, ledger.ErrCallEnded) {
		return &switchctl.StateError{State: ledger.StatusCompleted, Event: eventTake, Detail: "The call is over."}
	}
	return err
}

// take notes on the channel to whom the caller goes, before anything is done: a process after us goes on from there.
func (t *takeaway) take(ctx context.Context, m takeCommand) error {
	if err := t.refusal(m.req); err != nil {
		return err
	}
	t.note(ctx, m.req.Extension, func(err error) { t.post(takeNoted{m: m, err: err}) })
	return nil
}

func (t *takeaway) note(ctx context.Context, extension string, done func(err error)) {
	link, note := t.c.link, fs.SetVar(t.channel, varTaken, extension)
	t.inTurn(&t.marks, func() {
		_, err := link.API(ctx, note)
		done(err)
	})
}

// refusal is why the caller can't be taken away now; nil when they can.
func (t *takeaway) refusal(req switchctl.QueueRequest) error {
	h := t.agents.human
	switch {
	case t.killCause != "":
		return ledger.ErrCallEnded
	case t.parties.machine.grip() != gripNone:
		return t.conflict(eventTake, "A machine has answered the call.")
	case t.voice.ai.live() && t.voice.ai.referring != nil:
		return t.conflict(eventTake, "The voice agent is just asking for a transfer.")
	case t.transfers.now.bridging():
		return t.conflict(eventTake, "The caller is just being connected with the destination of a transfer.")
	case t.parties.conference.phase == conferenceStarting:
		return t.conflict(eventTake, "The call is just being made a conference.")
	case h.bridged() && h.req.Phone.Extension == req.Extension:
		return t.conflict(eventTake, "The agent with this extension has the call.")
	}
	return t.parties.refuse(toTakeAway, eventTake)
}

// noted takes the caller away, unless the call has changed meanwhile.
func (t *takeaway) noted(ctx context.Context, m takeNoted) (state, error) {
	if m.err == nil {
		m.err = t.refusal(m.m.req)
	}
	if m.err != nil {
		if t.killCause == "" && !fs.IsUnsent(m.err) { // the note stands, or may: its reply was lost
			t.noteBefore(ctx)
		}
		m.m.reply <- m.err
		return t.state, nil
	}
	req := m.m.req
	t.transfers.taken = &req
	t.log.InfoContext(ctx, "supervisor transfers the caller", "destination", req.Extension)
	if t.voice.ai.live() {
		t.fromVoiceAgent(ctx, req)
	} else {
		t.fromOthers(ctx, req)
	}
	m.m.reply <- nil
	return t.state, nil
}

// noteBefore has the channel keep whom the caller waited for before, if for anybody.
func (t *takeaway) noteBefore(ctx context.Context) {
	before := ""
	if t.transfers.taken != nil {
		before = t.transfers.taken.Extension
	}
	note := fs.Script{fs.Try(fs.SetVar(t.channel, varTaken, before))}
	t.inTurn(&t.marks, func() { t.c.insist(ctx, note) })
}

// fromVoiceAgent ends the voice agent's session as its own transfer to that agent would. A transfer that it has begun itself is given up.
func (t *takeaway) fromVoiceAgent(ctx context.Context, req switchctl.QueueRequest) {
	x := t.transfers
	if now := x.now; now != nil && now.media {
		t.bypass.holds = max(0, t.bypass.holds-1)
	}
	t.disarm(timerTransfer)
	facts := ledger.TransferFacts{DestinationType: switchctl.DestinationAgent, Destination: req.Extension}
	next := &transfer{facts: facts, handover: &handover{req: req}}
	x.replace(ctx, t.conflict(VerbTransfer, "A supervisor has transferred the caller."), next, func(ctx context.Context) {
		if x.now == next {
			x.queueTakes(ctx, next)
		}
	})
}

// fromOthers frees whoever has the caller, and starts the queue once the handler before has come to its end: the agent who had the caller is
// nobody's owner any more by then.
func (t *takeaway) fromOthers(ctx context.Context, req switchctl.QueueRequest) {
	before := t.handling.over
	if t.handling.stopHandler != nil {
		t.handling.stopHandler(switchctl.ErrHandedOver)
	}
	t.talking.stopDigits(ctx)
	t.agents.left = nil
	switch h, now := t.agents.human, t.transfers.now; {
	case h != nil:
		t.fromAgent(ctx, h)
	case now.bridged():
		t.fromDestination(ctx, now)
	case t.parties.conference.up():
		t.parties.conference.dissolve(ctx)
		t.music.ringNext()
		t.away = true
		t.line.reattach(ctx, "", false)
	default:
		if now != nil {
			t.disarm(timerTransfer)
			t.transfers.abandon(ctx, switchctl.ErrHandedOver)
		}
		t.ring(ctx)
	}
	t.transfers.startQueueAfter(ctx, req, before)
}

// fromAgent frees the agent whom the caller has, or was about to have.
func (t *takeaway) fromAgent(ctx context.Context, h *human) {
	outcome, steered := switchctl.AgentWithdrawn, h.steered()
	if h.bridged() {
		outcome = switchctl.AgentTaken
	}
	t.agents.leave(outcome)
	if !steered {
		t.ring(ctx)
		return
	}
	t.music.ringNext()
	t.away = true
	t.line.reattach(ctx, "", false) // the agent's leg follows the end of the bridge by itself
}

// fromDestination ends the second leg of a transfer. The caller comes back by transfer_after_bridge, which a voice agent's transfer has taken
// from them, or by what sends a caller without a socket to us.
func (t *takeaway) fromDestination(ctx context.Context, now *transfer) {
	x := t.transfers
	t.music.ringNext()
	t.away = true
	t.arm(timerSocket, socketTimeout)
	if now.handler {
		x.handlerTransferOver(ctx, switchctl.OutcomeEnded, nil)
		x.dropTransferLeg(ctx, now)
		return
	}
	x.now = nil
	x.endAsBefore(ctx, func(ctx context.Context) {
		if now.channel == "" { // of before a restart
			t.line.reattach(ctx, "", false)
			return
		}
		x.dropTransferLeg(ctx, now)
	})
}

// ring has a caller on our socket hear ringback, once what plays has ended.
func (t *takeaway) ring(ctx context.Context) {
	t.music.url = ""
	if t.music.playing && t.music.path == "" {
		return
	}
	t.music.changeMusic(ctx, "")
}

// found takes what the process before has noted: other is the channel that the caller is bridged with. A note of which nothing came leaves the
// caller where they are.
func (t *takeaway) found(ctx context.Context, extension, other string) {
	if extension == "" {
		return
	}
	x := t.transfers
	if now := x.now; now.bridged() {
		if now.channel != "" && now.channel == other {
			return
		}
		x.now = nil
		x.dropTransferLeg(ctx, now)
	}
	req := takenRequest(extension)
	x.taken = &req
}
