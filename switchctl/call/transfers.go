package call

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/admission"
	"github.com/ringmaster/ringmaster/switchctl/cdr"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

const bridgeTimeout = 5 * time.Second

// varTransfer is the channel variable that keeps, through a crash of ours, where the voice agent has led the caller, or was about to: the type of the
// destination, and it, escaped, since what a URI ends with may be anything.
const varTransfer = "rm_transfer"

// varHangupAfter has the end of a bridge hang up a channel that has no varAfterBridge.
const varHangupAfter = "hangup_after_bridge"

type transferPhase int

const (
	transferAdmitting transferPhase = iota // the gate is asked
	transferDialing                        // the second leg rings
	transferAnswered                       // it has answered: the park is waited for, or it hears who comes
	transferBridging                       // the switch was asked to bridge
	transferBridged                        // caller and destination hear each other
)

// transfer is a call's way to somebody else. All fields belong to the actor's goroutine.
type transfer struct {
	phase   transferPhase
	to      store.Phone
	facts   ledger.TransferFacts
	adm     admission.Terms
	route   int
	channel string // of the second leg
	refusal string
	failed  string // how the last route ended, while the ledger is asked for the next; else empty
	media   bool   // it holds the switch's media
	// announcement is what the second leg hears first; nil for nothing.
	announcement *announcement
	// parked: the switch has said that it has the second leg, which waits there.
	parked bool
	// lost: nobody has heard whether the switch dials the second leg.
	lost bool
	// overdue is since when the bridge should have come about; zero before that. A look from then on tells.
	overdue time.Time
	// unheard is since when it is known that the link was lost before the switch's reply to the bridge, which may never have reached it; zero for not.
	unheard time.Time
	// handover is set for a transfer to people, which is done when the queue has the caller.
	handover *handover
	reply    chan<- controlResult
	// refused: the verb's answer has said that it failed, so that no frame does.
	refused bool
	// handler: the call's handler asked for it, and waits on waiter; when it is over the caller is still there. uri is a
	// destination that is no number, and recording the file that the switch writes meanwhile.
	handler   bool
	waiter    chan<- connectResult
	uri       string
	recording string
	// referral is the voice agent's REFER that asked for it; nil for another way.
	referral *referral
}

// The questions that other states ask; nil is a call that is not being transferred.
func (t *transfer) pending() bool  { return t != nil && t.phase != transferBridged }
func (t *transfer) bridging() bool { return t != nil && t.phase == transferBridging }
func (t *transfer) bridged() bool  { return t != nil && t.phase == transferBridged }

// transfers is the call's way to somebody else: a number, a SIP URI, the queue.
type transfers struct {
	*core
	conference *conference
	bypass     *bypass
	dial       *origination
	handling   *handling
	line       *callerLine
	machine    *machine
	music      *musicPlayer
	parties    *parties
	refers     *referrals
	rec        *recorder
	talking    *talking
	voice      *voice

	// now is the transfer that is under way, or stands; nil for none.
	now *transfer
	// over is how a handler's transfer has ended that has outlived a restart of ours, before the handler was back to ask; else nil.
	over *switchctl.Outcome
	// rings is the session whose caller hears ringback.
	rings *aiSession
	// taken is whom a supervisor has given the caller to; nil for nobody.
	taken *switchctl.QueueRequest
	// ends keeps in order what the switch is told of the end of the caller's bridge.
	ends rt.Serial
}

// startTransfer checks a transfer and asks the gate. reply, which may be nil, hears when it is dispatched.
func (x *transfers) startTransfer(ctx context.Context, req switchctl.ControlRequest, reply chan<- controlResult) error {
	if x.voice.ai == nil || x.voice.ai.phase != phaseOpen || x.killCause != "" {
		return switchctl.ErrSessionTerminated
	}
	if x.now.pending() {
		return &switchctl.StateError{State: x.state.String(), Event: VerbTransfer, Detail: "a transfer is under way"}
	}
	if x.voice.ai.referring != nil { // with the session's end nobody would act on that, and the caller would be bridged with the endpoint again
		return x.conflict(VerbTransfer, "the voice agent is just asking for a transfer")
	}
	if x.conference.grip() != gripNone {
		return x.conference.occupied(VerbTransfer)
	}
	facts := ledger.TransferFacts{DestinationType: req.DestinationType, Destination: req.Destination, Metadata: req.Metadata}
	people := facts.DestinationType == switchctl.DestinationQueue || facts.DestinationType == switchctl.DestinationAgent
	if facts.Destination == "" && !people && x.voice.ai.agent.TransferDestination != nil {
		facts.Destination = *x.voice.ai.agent.TransferDestination
	}
	if facts.Destination == "" && !people {
		return switchctl.MalformedControl("destination", "is missing, and the voice agent has no transfer_destination")
	}
	if facts.DestinationType == "" {
		facts.DestinationType = switchctl.DestinationE164
		if strings.HasPrefix(facts.Destination, "sip:") {
			facts.DestinationType = switchctl.DestinationSIP
		}
	}
	t := &transfer{reply: reply}
	switch facts.DestinationType {
	case switchctl.DestinationQueue, switchctl.DestinationAgent:
		return x.startHandover(ctx, facts, reply)
	case switchctl.DestinationSIP:
		if !strings.HasPrefix(facts.Destination, "sip:") {
			return switchctl.MalformedControl("destination", "must be a SIP URI, such as sip:desk@example.com")
		}
		t.uri = facts.Destination
	default:
		to, err := store.ParsePhone(facts.Destination)
		if err != nil {
			return switchctl.MalformedControl("destination", "can't be called: "+err.Error())
		}
		t.to, facts.Destination = to, to.E164()
	}
	t.facts = facts
	x.now = t
	x.fetchAnnouncement(ctx, t)
	x.admitTransfer(ctx, req.Metadata)
	return nil
}

// admitTransfer asks the gate for the second leg.
func (x *transfers) admitTransfer(ctx context.Context, metadata json.RawMessage) {
	request := admission.Request{
		TenantID: x.tenant, CampaignID: x.call.CampaignID, LeadID: x.call.LeadID, VoiceAgentID: x.call.VoiceAgentID,
		To: x.now.to, ToURI: x.now.uri, Purpose: admission.PurposeTransfer, ParentCallID: &x.id,
		Environment: x.call.Environment, Metadata: metadata,
	}
	t := x.now
	x.arm(timerTransfer, decisionLimit)
	x.beside(func() {
		ctx, cancel := context.WithTimeout(ctx, decisionLimit)
		defer cancel()
		adm, err := x.c.gate.Admit(ctx, request)
		x.post(transferAdmitted{transfer: t, adm: adm, err: err})
	})
}

// callState tells the AI how its call stands.
func (x *transfers) callState(name, reason string) {
	if x.voice.ai == nil || x.voice.ai.media == nil {
		return
	}
	data := map[string]any{"state": name}
	if reason != "" {
		data["reason"] = reason
	}
	if err := x.voice.ai.media.SendText("call_state", data); err != nil {
		x.log.Debug("sending the call state failed", "error", err)
	}
}

// transferAllowed: the gate has answered.
func (x *transfers) transferAllowed(ctx context.Context, m transferAdmitted) (state, error) {
	t := x.now
	if t == nil || t.phase != transferAdmitting || t != m.transfer {
		return x.state, x.notTaken(m)
	}
	x.disarm(timerTransfer)
	if m.err == nil {
		t.adm, m.err = m.adm.Use()
	}
	if m.err != nil {
		x.log.InfoContext(ctx, "transfer refused by the gate", "error", m.err)
		t.tell(controlResult{err: m.err})
		x.failTransfer(ctx, failureCause(m.err))
		return x.state, nil //nolint:nilerr // the failure is the event, and it is handled
	}
	t.phase = transferDialing
	t.facts.Destination = shownAs(t.to, t.uri, t.adm.Privacy)
	if !t.handler {
		x.callState("transferring", "")
	}
	x.keepInsights(ctx, t.facts.Metadata)
	t.tell(controlResult{result: map[string]any{}})
	x.log.InfoContext(ctx, "transfer dispatched", "destination_type", t.facts.DestinationType)
	x.dialTransfer(ctx, t.adm.UnitID)
	return x.state, nil
}

// ringOrNot is called after each step of the call: while the voice agent's transfer to a number or a SIP URI is on its way, the caller hears ringback
// whenever the voice agent says nothing.
func (x *transfers) ringOrNot() {
	t, s := x.now, x.voice.ai
	there := s.live() && s.media != nil
	rings := there && t.pending() && !t.handler && t.handover == nil && t.phase != transferAdmitting
	if rings == (x.rings == s && s != nil) {
		return
	}
	if x.rings = nil; rings {
		x.rings = s
	}
	if there {
		s.media.Ring(rings)
	}
}

// ringAlone has a caller whom a SIP endpoint has left hear ringback while the transfer that they wait for is on its way.
func (x *transfers) ringAlone(ctx context.Context) {
	t, s := x.now, x.voice.ai
	forced := t != nil && t.handover != nil && t.handover.forced // it is the queue that rings
	if s.live() && s.overSIP() && s.answered && !s.legUp && t.pending() && !t.bridging() && !forced {
		x.music.ringToCaller(ctx)
	}
}

// tell answers the verb, once.
func (t *transfer) tell(r controlResult) {
	if t != nil && t.reply != nil {
		t.reply <- r
		t.reply, t.refused = nil, r.err != nil
	}
}

// dialTransfer originates the second leg over the current route. The caller goes on hearing the AI, and ringback where that says nothing.
func (x *transfers) dialTransfer(ctx context.Context, channel uuid.UUID) {
	t := x.now
	t.refusal, t.failed, t.parked, t.lost = "", "", false, false
	x.attempt++ // a late reply belongs to the route before
	if t.route >= len(t.adm.Routes) {
		x.failTransfer(ctx, ledger.CauseNoRoute)
		return
	}
	t.channel = channel.String()
	x.c.registry.bind(x.core, t.channel)
	vars := x.c.callerVariables(x.core)
	delete(vars, varAfterBridge)
	delete(vars, "continue_on_fail")
	vars["rm_role"] = roleTransfer
	vars[varHangupAfter] = "true" // both legs end together
	if unit := t.adm.UnitID; channel != unit {
		vars[varUnit] = unit.String() // its name doesn't tell that
	}
	route := t.adm.Routes[t.route]
	vars = outboundVariables(vars, t.channel, t.adm.From, t.adm.RingTimeout, route)
	cmd, err := fs.Originate(vars, route.Endpoint, fs.Park)
	if err != nil {
		x.log.ErrorContext(ctx, "dialing the route of a transfer failed", "route", t.route, "error", err)
		x.failTransfer(ctx, ledger.CauseNoRoute)
		return
	}
	x.arm(timerTransfer, t.adm.RingTimeout+fs.OriginateSlack)
	x.command(ctx, jobTransferOriginate, cmd)
}

// transferEvent is an event of the second leg.
func (x *transfers) transferEvent(ctx context.Context, m channelEvent) (state, error) {
	t := x.now
	if t == nil || m.ev.UUID() != t.channel {
		return x.state, nil // of a leg that was given up
	}
	switch m.ev.Name() {
	case fs.ChannelAnswer:
		if t.phase == transferDialing {
			x.transferAnswered(ctx)
		}
	case fs.ChannelBridge:
		return x.bridged(ctx, m.ev)
	case fs.ChannelHangupComplete:
		x.bridgedUnseen(ctx, m.ev)
		return x.transferLegEnded(ctx, cdr.Final(m.ev.Get, x.c.clock.Now()))
	}
	return x.state, nil
}

// bridgeTransfer connects caller and destination. Each command waits for the one before: without
// transfer_after_bridge, and with hangup_after_bridge, both legs end together.
func (x *transfers) bridgeTransfer(ctx context.Context) {
	caller, other := x.channel, x.now.channel
	x.now.overdue, x.now.unheard = time.Time{}, time.Time{}
	x.arm(timerTransfer, bridgeTimeout)
	if x.now.handler {
		x.command(ctx, jobTransferBridge, fs.Bridge(caller, other))
		return
	}
	attempt := x.attempt
	first := fs.Script{
		fs.SetVar(caller, varTransfer, x.now.facts.DestinationType+":"+url.QueryEscape(x.now.facts.Destination)),
		fs.SetVar(caller, varAfterBridge, ""), fs.SetVar(caller, varHangupAfter, "true"),
	}
	x.inTurn(&x.ends, func() {
		x.c.sendInOrder(ctx, first, fs.Bridge(caller, other), func(body string, err error) {
			x.post(jobDone{job: jobTransferBridge, attempt: attempt, body: body, err: err})
		})
	})
}

// transferReply is the switch's word on the second leg; the events say the rest.
func (x *transfers) transferReply(ctx context.Context, m jobDone) (state, error) {
	t := x.now
	if t == nil || t.failed != "" || m.attempt != x.attempt {
		return x.state, nil
	}
	reason := refusedJob(m)
	switch {
	case reason == "":
		if m.job == jobTransferOriginate {
			t.parked = true
			x.announce(ctx)
		}
	case m.job == jobTransferOriginate && t.phase == transferDialing && m.unknown():
		t.lost = true // it may ring: its events tell, or a look once there is a link again
	case m.job == jobTransferOriginate && t.phase == transferDialing:
		t.refusal = ledger.CauseNetworkOutOfOrder
		if m.err == nil {
			t.refusal = refusalCause(m.body)
		}
		x.arm(timerTransfer, refusedGrace) // the leg's own end tells more
	case m.job == jobTransferBridge && m.unknown():
		t.unheard = x.c.clock.Now() // the event tells, or a look once there is a link again
	case m.job == jobTransferBridge && t.phase == transferBridging:
		x.log.WarnContext(ctx, "bridging the transfer failed", "reply", reason)
		x.unbridge(ctx, ledger.CauseTemporaryFailure)
	}
	return x.state, nil
}

// transferDue: the second leg timed out.
func (x *transfers) transferDue(ctx context.Context) (state, error) {
	t := x.now
	switch {
	case t == nil || t.phase == transferBridged:
	case t.handover != nil:
		return x.queueAnswered(ctx, queueAllowed{transfer: t, err: errUndecided})
	case t.phase == transferAdmitting:
		return x.transferAllowed(ctx, transferAdmitted{transfer: t, err: errUndecided})
	case t.phase == transferAnswered:
		x.connectTransfer(ctx)
	case t.phase == transferBridging:
		x.log.WarnContext(ctx, "transfer was not confirmed by the switch, asking it")
		if t.overdue.IsZero() {
			t.overdue = x.c.clock.Now()
		}
		x.arm(timerTransfer, bridgeTimeout) // it may be out of reach
		x.probe(ctx)
	case t.refusal != "":
		x.failTransfer(ctx, t.refusal)
	default:
		x.failTransfer(ctx, "NO_ANSWER")
	}
	return x.state, nil
}

// transferRouteFound dials the second leg over the route that was chosen.
func (x *transfers) transferRouteFound(ctx context.Context, m routeChosen) (state, error) {
	t := x.now
	if t == nil || t.phase != transferDialing || t.failed == "" || m.unit != t.adm.UnitID {
		return x.state, x.notTaken(m)
	}
	next, err := uuid.NewV7()
	if m.err != nil || m.index < 0 || err != nil || x.killCause != "" {
		x.failTransfer(ctx, t.failed)
		return x.state, nil //nolint:nilerr // the transfer fails as its last route did
	}
	t.route += 1 + m.index
	x.dialTransfer(ctx, next)
	return x.state, nil
}

// bridged: the switch has bridged the caller with somebody. With the second leg, the transfer is done.
func (x *transfers) bridged(ctx context.Context, ev *esl.Event) (state, error) {
	t := x.now
	if !t.bridging() {
		return x.state, nil
	}
	one, two := ev.Get("Bridge-A-Unique-ID"), ev.Get("Bridge-B-Unique-ID")
	if one == "" && two == "" {
		one, two = ev.UUID(), ev.Get("Other-Leg-Unique-ID")
	}
	if (one != x.channel || two != t.channel) && (one != t.channel || two != x.channel) {
		return x.state, nil // caller and voice agent
	}
	x.comesAbout(ctx, fs.EventTime(ev))
	return x.state, nil
}

// comesAbout: caller and destination hear each other since at, by the switch's clock.
func (x *transfers) comesAbout(ctx context.Context, at time.Time) {
	x.cameAbout(ctx, at)
	ours := at.Add(x.ahead()) // recordings and sessions go by our clock
	if x.now.handler {
		x.handlerBridged(ctx, ours)
		return
	}
	x.stands(ctx, ours)
}

// cameAbout: they have heard each other since then.
func (x *transfers) cameAbout(ctx context.Context, at time.Time) {
	x.now.phase = transferBridged
	x.bypass.forget()
	x.disarm(timerTransfer)
	x.disarm(timerLeg)
	x.noteServed(ctx, at)
	x.machine.personConnected(ctx)
}

// stands ends the session of a voice agent whose transfer has come about, at a time of our clock.
func (x *transfers) stands(ctx context.Context, ours time.Time) {
	facts, outcome := x.now.facts, ledger.SessionTransferredE164
	x.log.InfoContext(ctx, "call is transferred", "destination_type", facts.DestinationType)
	if facts.DestinationType == switchctl.DestinationSIP {
		outcome = ledger.SessionTransferredSIPURI
	}
	x.voice.endSessionWith(ctx, ledger.SessionEnd{
		Outcome: outcome, At: ours, Final: finalMetadata("transfer", &facts, facts.Metadata), Transfer: &facts,
	}, media.CloseTransferred)
	x.rec.recordRest(ctx, ours)
}
