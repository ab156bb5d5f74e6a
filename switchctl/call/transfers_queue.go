package call

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// Handing a caller over: the voice agent's session ends, and AnswerHandler.Queue finds the caller a person. The AI talks on until
// somebody who is logged in may take the caller.

const (
	actionQueue  = "transfer_to_queue"
	defaultQueue = "default"
)

// handover is a caller's way from the voice agent to people. All fields belong to the actor's goroutine.
type handover struct {
	req switchctl.QueueRequest
	// answered: the queue has said whether it takes the caller, or has not said so in time.
	answered bool
	// forced: the session is over anyway. Without a queue it ends with outcome, and the call with cause.
	forced  bool
	outcome ledger.SessionOutcome
	cause   string
	reason  media.CloseReason
}

// queueAllowed is the queue's answer.
type queueAllowed struct {
	transfer *transfer
	err      error
}

func (queueAllowed) Name() string    { return "queue allowed" }
func (queueAllowed) Essential() bool { return true }

// queueRequest is what a transfer to people asks for.
func queueRequest(facts ledger.TransferFacts) switchctl.QueueRequest {
	req := switchctl.QueueRequest{Metadata: facts.Metadata, AnnounceURL: announceURL(facts.Metadata)}
	if facts.DestinationType == switchctl.DestinationAgent {
		req.Extension = facts.Destination
	} else {
		req.Queue = cmp.Or(facts.Destination, defaultQueue)
	}
	return req
}

// startHandover asks the queue. Until it has answered the transfer is pending.
func (x *transfers) startHandover(ctx context.Context, facts ledger.TransferFacts, reply chan<- controlResult) error {
	if facts.DestinationType == switchctl.DestinationAgent && facts.Destination == "" {
		return switchctl.InvalidControl("destination", "must be an agent's extension")
	}
	if facts.DestinationType == switchctl.DestinationQueue {
		facts.Destination = cmp.Or(facts.Destination, defaultQueue)
	}
	x.askQueue(ctx, &transfer{facts: facts, reply: reply, handover: &handover{req: queueRequest(facts)}})
	return nil
}

func (x *transfers) askQueue(ctx context.Context, t *transfer) {
	x.now = t
	x.arm(timerTransfer, decisionLimit)
	tenant, req := x.tenant, t.handover.req
	x.beside(func() {
		x.post(queueAllowed{transfer: t, err: x.c.canQueue(ctx, tenant, req)})
	})
}

// disconnected is what the voice agent's record says of a session that can't go on: its caller is handed over, or the call ends.
func (x *transfers) disconnected(ctx context.Context, outcome ledger.SessionOutcome, cause string, reason media.CloseReason) {
	s := x.voice.ai
	if t := x.now; s.live() && t.pending() && !t.handler && x.killCause == "" {
		if s.broke == nil {
			s.broke = &sessionBreak{outcome: outcome, cause: cause, reason: reason}
		}
		return // a pending transfer wins: should it fail, this follows
	}
	if s.live() && x.conference.peopled() && x.killCause == "" {
		x.conference.voiceAgentLeaves(ctx, ledger.SourceAI, ledger.SessionEnd{Outcome: outcome, At: x.c.clock.Now().UTC()}, reason)
		return
	}
	if !s.live() || s.agent.WsDisconnectAction != actionQueue || x.killCause != "" {
		x.kill(ctx, cause)
		x.voice.endSession(ctx, outcome, nil, reason)
		return
	}
	facts := ledger.TransferFacts{DestinationType: switchctl.DestinationQueue, Destination: defaultQueue}
	x.askQueue(ctx, &transfer{facts: facts, handover: &handover{
		req: queueRequest(facts), forced: true, outcome: outcome, cause: cause, reason: reason,
	}})
}

// canQueue asks the queue, for as long as a caller can wait.
func (c *host) canQueue(ctx context.Context, tenant uuid.UUID, req switchctl.QueueRequest) error {
	ctx, cancel := context.WithTimeout(ctx, decisionLimit)
	defer cancel()
	return c.handler.CanQueue(ctx, tenant, req)
}

// sessionBreak is why a session can't go on.
type sessionBreak struct {
	outcome ledger.SessionOutcome
	cause   string
	reason  media.CloseReason
}

// afterTransfer: a transfer has failed. A session that could not go on meanwhile ends now, as its voice agent's record says.
func (x *transfers) afterTransfer(ctx context.Context) {
	if s := x.voice.ai; s.live() && s.broke != nil && x.killCause == "" {
		b := *s.broke
		s.broke = nil
		x.disconnected(ctx, b.outcome, b.cause, b.reason)
	}
}

// queueAnswered: the queue takes the caller, or not.
func (x *transfers) queueAnswered(ctx context.Context, m queueAllowed) (state, error) {
	t := x.now
	if t == nil || t != m.transfer || t.handover.answered {
		return x.state, nil
	}
	h := t.handover
	h.answered = true
	x.disarm(timerTransfer)
	switch {
	case m.err != nil && h.forced:
		x.log.WarnContext(ctx, "queueing the caller failed, hanging up", "error", m.err)
		x.now = nil
		t.tell(controlResult{err: m.err})
		x.kill(ctx, h.cause)
		x.voice.endSession(ctx, h.outcome, nil, h.reason)
	case m.err != nil:
		x.log.InfoContext(ctx, "queueing the caller failed", "error", m.err)
		t.tell(controlResult{err: m.err})
		x.failTransfer(ctx, failureCause(m.err))
	default:
		x.keepInsights(ctx, t.facts.Metadata)
		t.tell(controlResult{result: map[string]any{}})
		x.refers.done(ctx, t.referral, func(ctx context.Context) {
			if x.now == t {
				x.queueTakes(ctx, t)
			}
		})
	}
	return x.state, nil
}

// queueTakes hands the caller over to the queue, which has said that it takes them.
func (x *transfers) queueTakes(ctx context.Context, t *transfer) {
	t.handover.answered, t.media = true, true
	x.callState("transferring", "")
	x.bypass.withSwitchMedia(ctx, func(ctx context.Context) {
		x.onceAsBefore(func(ctx context.Context) {
			if x.now == t {
				x.handOver(ctx, t)
			}
		})
	})
}

// handOver ends the AI session and starts the queue. The caller comes back from the media leg by transfer_after_bridge, and hears
// ringback as soon as its socket is there.
func (x *transfers) handOver(ctx context.Context, t *transfer) {
	s, h := x.voice.ai, t.handover
	if !s.live() || x.killCause != "" {
		return
	}
	x.now = nil
	x.bypass.holds = max(0, x.bypass.holds-1)
	at, facts := x.c.clock.Now().UTC(), t.facts
	end := ledger.SessionEnd{
		Outcome: ledger.SessionTransferredAgent, At: at, Transfer: &facts, Final: finalMetadata("transfer", &facts, facts.Metadata),
	}
	reason := media.CloseTransferred
	if h.outcome == ledger.SessionTimeout {
		end.Outcome, end.Transfer, reason = ledger.SessionTimeout, nil, media.CloseTimeout
	}
	x.log.InfoContext(ctx, "caller is handed over", "queue", h.req.Queue, "destination", h.req.Extension)
	fromConference := x.conference.holds()
	if fromConference {
		x.conference.dissolve(ctx)
	}
	x.away = s.legUp || s.bridging
	s.reply = nil // the handler's context tells
	if x.handling.stopHandler != nil {
		x.handling.stopHandler(switchctl.ErrHandedOver)
	}
	x.voice.endSessionWith(ctx, end, reason)
	if s.media != nil {
		x.rec.recordRest(ctx, at)
	}
	x.music.ringNext()
	switch {
	case fromConference:
		x.away = true
		x.line.reattach(ctx, s.leg, false)
	case s.bridging && !s.legUp:
		// The bridge was never there, so that nothing brings the caller back from it: the switch keeps trying it, and then parks.
		x.line.reattach(ctx, s.leg, false)
	case x.away || x.sock == nil:
		x.voice.awaitCaller(ctx)
	default:
		x.music.playMusic(ctx)
	}
	x.startQueue(ctx, h.req)
}

// startQueue runs AnswerHandler.Queue beside the actor, in place of the handler before.
func (x *transfers) startQueue(ctx context.Context, req switchctl.QueueRequest) {
	x.startQueueAfter(ctx, req, nil)
}

// startQueueAfter starts it once before is closed, if there is such a channel.
func (x *transfers) startQueueAfter(ctx context.Context, req switchctl.QueueRequest, before <-chan struct{}) {
	x.handling.handled = true
	x.handling.runBeside(ctx, func(ctx context.Context, l *leg) error {
		if before != nil {
			select {
			case <-before:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return x.c.handler.Queue(ctx, l, req)
	})
}

// queuedBefore is the queue that a call was handed over to before a restart; nil for none.
func queuedBefore(session db.AiSession) *switchctl.QueueRequest {
	var kept struct {
		Final struct {
			Action          string          `json:"action"`
			DestinationType string          `json:"destination_type"`
			Destination     string          `json:"destination"`
			Metadata        json.RawMessage `json:"metadata"`
		} `json:"final"`
	}
	if session.Status != "ended" || json.Unmarshal(session.Metadata, &kept) != nil || kept.Final.Action != "transfer" {
		return nil
	}
	facts := ledger.TransferFacts{DestinationType: kept.Final.DestinationType, Destination: kept.Final.Destination, Metadata: kept.Final.Metadata}
	if facts.DestinationType != switchctl.DestinationQueue && facts.DestinationType != switchctl.DestinationAgent {
		return nil
	}
	req := queueRequest(facts)
	return &req
}

// queued is the queue that a supervisor, or the call's voice agent, has handed its caller over to; nil for none.
func (x *transfers) queued() *switchctl.QueueRequest {
	if x.taken != nil && !x.voice.ai.live() {
		return x.taken
	}
	if x.voice.ai == nil || x.voice.ai.phase != phaseEnded {
		return nil
	}
	return queuedBefore(x.voice.ai.grant.Session)
}
