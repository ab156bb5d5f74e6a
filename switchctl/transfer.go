package switchctl

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

const (
	bridgeTimeout = 5 * time.Second

	destinationE164   = "e164"
	destinationSIP    = "sip_uri"
	destinationQueue  = "agent_queue"
	destinationPerson = "agent"
)

type transferPhase int

const (
	transferAdmitting transferPhase = iota // the gate is asked
	transferDialing                        // the second leg rings
	transferBridging                       // it has answered, and the switch was asked to bridge
	transferBridged                        // caller and destination hear each other
)

// transfer is a call's way to somebody else. All fields belong to the actor's goroutine.
type transfer struct {
	phase   transferPhase
	to      store.Phone
	facts   transferFacts
	adm     Admission
	route   int
	channel string // of the second leg
	refusal string
	failed  string // how the last route ended, while the ledger is asked for the next; else empty
	media   bool   // it holds the switch's media
	// handover is set for a transfer to people, which is done when the queue has the caller.
	handover *handover
	reply    chan<- controlResult
	// handler: the call's handler asked for it, and waits on waiter; when it is over the caller is still there. uri is a
	// destination that is no number, and recording the file that the switch writes meanwhile.
	handler   bool
	waiter    chan<- connectResult
	uri       string
	recording string
}

// The questions that other states ask; nil is a call that is not being transferred.
func (t *transfer) pending() bool  { return t != nil && t.phase != transferBridged }
func (t *transfer) bridging() bool { return t != nil && t.phase == transferBridging }
func (t *transfer) bridged() bool  { return t != nil && t.phase == transferBridged }

// startTransfer checks a transfer and asks the gate. reply, which may be nil, hears when it is dispatched.
func (a *actor) startTransfer(ctx context.Context, req ControlRequest, reply chan<- controlResult) error {
	if a.ai == nil || a.ai.phase != phaseOpen || a.killCause != "" {
		return ErrSessionTerminated
	}
	if a.transfer.pending() {
		return &StateError{State: a.state.String(), Event: VerbTransfer, Detail: "a transfer is under way"}
	}
	facts := transferFacts{destinationType: req.DestinationType, destination: req.Destination, metadata: req.Metadata}
	people := facts.destinationType == destinationQueue || facts.destinationType == destinationPerson
	if facts.destination == "" && !people && a.ai.agent.TransferDestination != nil {
		facts.destination = *a.ai.agent.TransferDestination
	}
	if facts.destinationType == "" {
		facts.destinationType = destinationE164
		if strings.HasPrefix(facts.destination, "sip:") {
			facts.destinationType = destinationSIP
		}
	}
	t := &transfer{reply: reply}
	switch facts.destinationType {
	case destinationQueue, destinationPerson:
		return a.startHandover(ctx, facts, reply)
	case destinationSIP:
		if !strings.HasPrefix(facts.destination, "sip:") {
			return &MalformedError{Field: "destination", Message: "must be a SIP URI, such as sip:desk@example.com"}
		}
		t.uri = facts.destination
	default:
		to, err := store.ParsePhone(facts.destination)
		if err != nil {
			return &MalformedError{Field: "destination", Message: "can't be called: " + err.Error()}
		}
		t.to, facts.destination = to, to.E164()
	}
	t.facts = facts
	a.transfer = t
	a.callState("transferring", "")
	a.admitTransfer(ctx, req.Metadata)
	return nil
}

// admitTransfer asks the gate for the second leg.
func (a *actor) admitTransfer(ctx context.Context, metadata json.RawMessage) {
	request := OriginateRequest{
		TenantID: a.tenant, CampaignID: a.call.CampaignID, LeadID: a.call.LeadID, VoiceAgentID: a.call.VoiceAgentID,
		To: a.transfer.to, ToURI: a.transfer.uri, Purpose: PurposeTransfer, ParentCallID: &a.id,
		Environment: a.call.Environment, Metadata: metadata,
	}
	t := a.transfer
	a.arm(timerTransfer, decisionLimit)
	a.beside(func() {
		ctx, cancel := context.WithTimeout(ctx, decisionLimit)
		defer cancel()
		adm, err := a.c.gate.Admit(ctx, request)
		a.post(transferAdmitted{transfer: t, adm: adm, err: err})
	})
}

// callState tells the AI how its call stands.
func (a *actor) callState(name, reason string) {
	if a.ai == nil || a.ai.media == nil {
		return
	}
	data := map[string]any{"state": name}
	if reason != "" {
		data["reason"] = reason
	}
	if err := a.ai.media.SendText("call_state", data); err != nil {
		a.log.Debug("call state could not be sent", "error", err)
	}
}

// transferAllowed: the gate has answered.
func (a *actor) transferAllowed(ctx context.Context, m transferAdmitted) (state, error) {
	t := a.transfer
	if t == nil || t.phase != transferAdmitting || t != m.transfer {
		return a.state, a.notTaken(m)
	}
	a.disarm(timerTransfer)
	if m.err != nil {
		a.log.InfoContext(ctx, "transfer is not admitted", "error", m.err)
		t.tell(controlResult{err: m.err})
		a.failTransfer(ctx, failureCause(m.err))
		return a.state, nil //nolint:nilerr // the failure is the event, and it is handled
	}
	t.adm, t.phase = m.adm, transferDialing
	t.tell(controlResult{result: map[string]any{}})
	a.dialTransfer(ctx, m.adm.UnitID)
	return a.state, nil
}

// tell answers the verb, once.
func (t *transfer) tell(r controlResult) {
	if t.reply != nil {
		t.reply <- r
		t.reply = nil
	}
}

// dialTransfer originates the second leg over the current route. The caller goes on hearing the AI.
func (a *actor) dialTransfer(ctx context.Context, channel uuid.UUID) {
	t := a.transfer
	t.refusal, t.failed = "", ""
	a.dial.attempt++ // a late reply belongs to the route before
	if t.route >= len(t.adm.Routes) {
		a.failTransfer(ctx, CauseNoRoute)
		return
	}
	t.channel = channel.String()
	a.c.registry.bind(a, t.channel)
	vars := a.c.callerVariables(a)
	delete(vars, varAfterBridge)
	delete(vars, "continue_on_fail")
	vars["rm_role"] = roleTransfer
	vars["hangup_after_bridge"] = "true" // both legs end together
	route := t.adm.Routes[t.route]
	vars = outboundVariables(vars, t.channel, t.adm.From, t.adm.RingTimeout, route)
	cmd, err := fs.Originate(vars, route.Endpoint, fs.Park)
	if err != nil {
		a.log.ErrorContext(ctx, "route of a transfer can't be dialed", "route", t.route, "error", err)
		a.failTransfer(ctx, CauseNoRoute)
		return
	}
	a.arm(timerTransfer, t.adm.RingTimeout+originateSlack)
	a.command(ctx, jobTransferOriginate, cmd)
}

// transferEvent is an event of the second leg.
func (a *actor) transferEvent(ctx context.Context, m channelEvent) (state, error) {
	t := a.transfer
	if t == nil || m.ev.UUID() != t.channel {
		return a.state, nil // of a leg that was given up
	}
	switch m.ev.Name() {
	case evAnswer:
		if t.phase == transferDialing {
			t.phase, t.media = transferBridging, true
			a.arm(timerTransfer, bridgeTimeout)
			a.withSwitchMedia(ctx, func(ctx context.Context) {
				if a.transfer == t && t.phase == transferBridging {
					a.bridgeTransfer(ctx)
				}
			})
		}
	case evBridge:
		return a.bridged(ctx, m.ev)
	case evHangupComplete:
		return a.transferLegEnded(ctx, finalFrom(m.ev.Get, a.c.clock.Now()))
	}
	return a.state, nil
}

// bridgeTransfer connects caller and destination. Each command waits for the one before: without
// transfer_after_bridge, and with hangup_after_bridge, both legs end together.
func (a *actor) bridgeTransfer(ctx context.Context) {
	caller, other := a.channel, a.transfer.channel
	if a.transfer.handler {
		a.command(ctx, jobTransferBridge, fs.Bridge(caller, other))
		return
	}
	attempt := a.dial.attempt
	first := fs.Script{fs.SetVar(caller, varAfterBridge, ""), fs.SetVar(caller, "hangup_after_bridge", "true")}
	a.inOrder(ctx, first, fs.Bridge(caller, other), func(body string, err error) {
		a.post(jobDone{job: jobTransferBridge, attempt: attempt, body: body, err: err})
	})
}

// transferReply is the switch's word on the second leg; the events say the rest.
func (a *actor) transferReply(ctx context.Context, m jobDone) (state, error) {
	t := a.transfer
	reason := refusedJob(m)
	if t == nil || reason == "" || t.failed != "" || m.attempt != a.dial.attempt {
		return a.state, nil
	}
	switch {
	case m.job == jobTransferOriginate && t.phase == transferDialing:
		t.refusal = CauseNetworkOutOfOrder
		if m.err == nil {
			t.refusal = refusalCause(m.body)
		}
		a.arm(timerTransfer, refusedGrace) // the leg's own end tells more
	case m.job == jobTransferBridge && t.phase == transferBridging:
		a.log.WarnContext(ctx, "transfer could not be bridged", "reply", reason)
		a.unbridge(ctx, CauseTemporaryFailure)
	}
	return a.state, nil
}

// transferDue: the second leg had to be decided by now.
func (a *actor) transferDue(ctx context.Context) (state, error) {
	t := a.transfer
	switch {
	case t == nil || t.phase == transferBridged:
	case t.handover != nil:
		return a.queueAnswered(ctx, queueAllowed{transfer: t, err: errUndecided})
	case t.phase == transferAdmitting:
		return a.transferAllowed(ctx, transferAdmitted{transfer: t, err: errUndecided})
	case t.phase == transferBridging:
		a.log.WarnContext(ctx, "transfer was not confirmed by the switch")
		a.unbridge(ctx, CauseTemporaryFailure)
	case t.refusal != "":
		a.failTransfer(ctx, t.refusal)
	default:
		a.failTransfer(ctx, "NO_ANSWER")
	}
	return a.state, nil
}

// transferRouteFound dials the second leg over the route that was chosen.
func (a *actor) transferRouteFound(ctx context.Context, m routeChosen) (state, error) {
	t := a.transfer
	if t == nil || t.phase != transferDialing || t.failed == "" || m.unit != t.adm.UnitID {
		return a.state, a.notTaken(m)
	}
	next, err := uuid.NewV7()
	if m.err != nil || m.index < 0 || err != nil || a.killCause != "" {
		a.failTransfer(ctx, t.failed)
		return a.state, nil //nolint:nilerr // the transfer fails as its last route did
	}
	t.route += 1 + m.index
	a.dialTransfer(ctx, next)
	return a.state, nil
}

// transferLegEnded: the second leg is gone.
func (a *actor) transferLegEnded(ctx context.Context, rec finalRecord) (state, error) {
	t := a.transfer
	switch t.phase {
	case transferAdmitting:
	case transferDialing:
		if rec.failsOver() && t.route+1 < len(t.adm.Routes) && a.killCause == "" {
			a.c.registry.unbind(t.channel)
			t.channel, t.failed = "", rec.Cause
			a.chooseRoute(ctx, t.adm.UnitID, t.adm, nil, t.adm.Routes[t.route+1:])
			return a.state, nil
		}
		a.failTransfer(ctx, rec.Cause)
	case transferBridging:
		a.unbridge(ctx, rec.Cause)
	case transferBridged:
		unit := t.adm.UnitID
		a.record(ctx, "transfer unit", func(ctx context.Context) error {
			return a.c.ledger.ReleaseUnit(ctx, a.tenant, unit)
		}, nil)
		switch {
		case a.killCause != "":
		case t.handler:
			a.handlerTransferOver(ctx, OutcomeEnded)
		default:
			a.kill(ctx, CauseNormalClearing)
		}
	}
	return a.state, nil
}

// unbridge gives up a bridge that did not come about: the caller goes back to the AI.
func (a *actor) unbridge(ctx context.Context, cause string) {
	link, handler := a.c.link, a.transfer.handler
	asBefore := fs.Script{
		fs.SetVar(a.channel, "hangup_after_bridge", "false"),
		fs.SetVar(a.channel, varAfterBridge, fs.AfterBridge(reattachExtension, a.c.cfg.Context)),
	}
	a.endTransfer(ctx, cause)
	if handler {
		return // its variables are as they were
	}
	a.beside(func() {
		if err := asBefore.Run(ctx, link); err != nil {
			a.log.WarnContext(ctx, "caller's variables could not be set back", "error", err)
		}
		a.post(musicEnded{then: a.afterTransfer})
	})
	if a.ai.live() && !a.ai.legUp {
		a.arm(timerLeg, legRetry)
	}
}

// failTransfer ends a transfer that did not come about; the session goes on, if it can.
func (a *actor) failTransfer(ctx context.Context, cause string) {
	a.endTransfer(ctx, cause)
	a.afterTransfer(ctx)
}

func (a *actor) endTransfer(ctx context.Context, cause string) {
	t := a.transfer
	a.disarm(timerTransfer)
	if t.handler {
		a.log.InfoContext(ctx, "transfer failed", "destination_type", t.facts.destinationType, "cause", cause)
		a.dropTransferLeg(ctx, t)
		a.handlerTransferOver(ctx, OutcomeFailed)
		return
	}
	a.transfer = nil
	t.tell(controlResult{err: &StateError{State: a.state.String(), Event: VerbTransfer, Detail: cause}})
	a.dropTransferLeg(ctx, t)
	a.transferFailed(ctx, ControlRequest{DestinationType: t.facts.destinationType, Destination: t.facts.destination}, cause)
	if t.media {
		a.switchMediaDone(ctx)
		return
	}
	a.considerBypass(ctx)
}

// dropTransferLeg ends the second leg, if there is one, and gives its unit back.
func (a *actor) dropTransferLeg(ctx context.Context, t *transfer) {
	if t == nil || t.phase == transferAdmitting {
		return
	}
	if t.channel != "" {
		a.c.registry.unbind(t.channel)
		a.command(ctx, jobKillLeg, fs.Kill(t.channel, CauseNormalClearing))
	}
	unit := t.adm.UnitID
	a.record(ctx, "transfer unit", func(ctx context.Context) error {
		return a.c.ledger.ReleaseUnit(ctx, a.tenant, unit)
	}, nil)
}

// transferFailed tells the AI.
func (a *actor) transferFailed(ctx context.Context, req ControlRequest, cause string) {
	if a.ai == nil || a.ai.media == nil || a.ai.socketGone {
		return
	}
	err := a.ai.media.SendText("transfer_failed", map[string]any{
		"destination_type": req.DestinationType, "destination": req.Destination, "cause": cause,
	})
	if err != nil {
		a.log.WarnContext(ctx, "transfer_failed could not be sent", "error", err)
	}
}

// failureCause names why a transfer was refused.
func failureCause(err error) string {
	var invalid *InvalidError
	var conflict *StateError
	var rate *VerbRateError
	switch {
	case errors.As(err, &rate):
		return "RATE_LIMITED"
	case errors.Is(err, ErrNobodyLoggedIn):
		return "NoAgentAvailable"
	case errors.Is(err, ErrUnknownExtension):
		return CauseUnallocated
	case errors.As(err, &invalid):
		return "INVALID_NUMBER_FORMAT"
	case errors.As(err, &conflict) && conflict.Code != "":
		return conflict.Code
	case errors.As(err, &conflict):
		return "INVALID_STATE"
	case errors.Is(err, ErrSessionTerminated):
		return "AISessionTerminated"
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return CauseTemporaryFailure
	}
	return "OUTGOING_CALL_BARRED"
}

// bridged: the switch has bridged the caller with somebody. With the second leg, the transfer is done.
func (a *actor) bridged(ctx context.Context, ev *esl.Event) (state, error) {
	t := a.transfer
	if !t.bridging() {
		return a.state, nil
	}
	one, two := ev.Get("Bridge-A-Unique-ID"), ev.Get("Bridge-B-Unique-ID")
	if one == "" && two == "" {
		one, two = ev.UUID(), ev.Get("Other-Leg-Unique-ID")
	}
	if (one != a.channel || two != t.channel) && (one != t.channel || two != a.channel) {
		return a.state, nil // caller and voice agent
	}
	t.phase = transferBridged
	a.bypass = bypass{serial: a.bypass.serial + 1}
	a.disarm(timerBypass)
	a.disarm(timerTransfer)
	a.disarm(timerLeg)
	at := eventTime(ev)
	if t.handler {
		a.handlerBridged(ctx, at)
		return a.state, nil
	}
	a.log.InfoContext(ctx, "call is transferred", "destination_type", t.facts.destinationType)
	facts, outcome := t.facts, sessionTransferredE164
	if facts.destinationType == destinationSIP {
		outcome = sessionTransferredSIPURI
	}
	a.endSessionWith(ctx, sessionEnd{
		outcome: outcome, at: at, final: finalMetadata("transfer", &facts, facts.metadata), transfer: &facts,
	}, media.CloseTransferred)
	a.recordRest(ctx, at)
	return a.state, nil
}

// recordRest finishes the AI's part of the recording, and has the switch record the rest in stereo.
func (a *actor) recordRest(ctx context.Context, at time.Time) {
	if a.answerAt == nil {
		return
	}
	answered, call := *a.answerAt, a.call
	if m := a.ai.media; m != nil {
		a.ai.partDone = true
		reason := a.ai.closeReason // the first to close says why, and closeMedia is on its way
		a.beside(func() {
			m.Close(reason)
			_, err := m.FinishRecording(answered, at)
			a.post(partFinished{err: err})
		})
	}
	a.endHumanPart(ctx)
	path := filepath.Join(a.c.cfg.RecordDir, a.id.String()+".2.wav")
	a.record(ctx, "second recording part", func(ctx context.Context) error {
		return a.c.ledger.AddRecordingPart(ctx, call, path, max(0, at.Sub(answered)))
	}, nil)
	a.startSecond(ctx, path, true)
}

func (a *actor) partReady(ctx context.Context, m partFinished) (state, error) {
	if m.err != nil {
		a.log.ErrorContext(ctx, "recording before the transfer is not whole", "error", m.err)
	}
	return a.state, nil
}
