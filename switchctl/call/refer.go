package call

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/sipagent"
)

// A REFER of a voice agent that is a SIP endpoint is a transfer, if its transport_config says so; else the switch declines it. The switch dials nobody:
// it answers 202, parks the endpoint's leg and sends the caller to the context rm_refer, whatever the REFER names (sofia.c, sofia_handle_sip_i_refer;
// force_transfer_context). Its socket brings the REFER here. Caller and endpoint are bridged again at once, and what was asked for goes the way of the
// verb transfer. The endpoint is told by one NOTIFY how that has gone: the switch can send none before it (mod_sofia.c, SWITCH_EVENT_NOTIFY).
// While nobody listens, the dialplan refuses the REFER and brings the two together.

const (
	// varReferrer is set on a caller whose voice agent has sent a REFER: the leg that did. As long as it is there, the caller's next bridge has the switch
	// tell that leg that its transfer is done (switch_core_session.c). varReferTo is where to.
	varReferrer = "blind_transfer_uuid"
	varReferTo  = "sip_refer_to"
	// varReferEvent is set on that leg: the Event of the NOTIFYs.
	varReferEvent = "sip_blind_transfer_event"
	// Each REFER takes one from the hops that are left to the caller, and the last would end the call (switch_ivr.c, switch_ivr_session_transfer).
	varHops = "max_forwards"
	// A caller who is to be bridged with a leg that ends at that moment would be hung up (switch_ivr_bridge.c, uuid_bridge_on_soft_execute).
	varParkOnCancel = "uuid_bridge_park_on_cancel"
	// What a REFER says of its sender and in its URI, refused or not, stands on the caller's channel as headers, which the switch would write, as they are,
	// into whatever it sends the caller's carrier next; but not those of a name that varNoHeaders matches (sofia_glue.c, sofia_glue_get_extra_headers).
	varNoHeaders = "exclude_outgoing_extra_header"
	// varReplaces is the Replaces of a Refer-To, which the caller's next bridge would carry on (mod_sofia.c).
	varReplaces = "_sofia_replaces_"
	// varHistory gets a line with each REFER, which holds what that names, and with each bridge. An event has all of them, and the time that the switch
	// takes for one grows with their number's square (switch_event.c, SWITCH_STACK_PUSH).
	varHistory = "transfer_history"
	// varPartner is set on both legs of a bridge: the other one. A leg without it can transfer nobody, and its REFER is refused by the switch.
	varPartner = "signal_bond"
	// referContext is where a REFER leads to (conf's vars.xml).
	referContext = "rm_refer"
)

// referral is a REFER whose sender waits to be told.
type referral struct {
	// leg is the sender's, event is what its NOTIFY is about; empty when there is nobody to tell.
	leg, event string
	referTo    string
	// up is the socket that brought the caller.
	up socketUp
	// answered: the switch has taken, or refused, what bridges caller and sender again. err is why it has not, sender is that leg before; nil when it
	// was gone.
	answered bool
	err      error
	sender   *esl.Event
	// bridged: they hear each other. crosswise: the switch was asked a second time.
	bridged, crosswise bool
	// later is the event of a REFER that came between, and was refused.
	later string
	// noted: the sender's leg says that it waits.
	noted bool
	// left is the end of the sender's leg, if that came first.
	left *esl.Event
}

// referrals are the REFERs of the call's voice agent.
type referrals struct {
	*core
	line      *callerLine
	transfers *transfers
	voice     *voice

	// replaces: the caller's channel may have the Replaces of a REFER that the switch has refused.
	replaces bool
	// refused counts those that came to nothing.
	refused int
	// held is a caller who waits until it is known whether the voice agent has answered; nil for none. lostHeld: one has left their socket meanwhile.
	held     *socketUp
	lostHeld bool
	// tells has what a leg is told of its REFERs, and what is noted of that on it, in order.
	tells rt.Serial
}

// refusedNoted is how many REFERs that came to nothing a call's session logs tell of: an endpoint that sends them without end leaves room for the rest.
const refusedNoted = 100

// decided tells whether a REFER can be acted on. The next one, of a sender that has been told, mustn't come into a bridge that is being made.
func (r *referral) decided() bool {
	return r != nil && r.answered && (r.bridged || r.left != nil || r.err != nil)
}

// referAnswered brings what the switch says to the command that bridges a REFER's sender and the caller again.
type referAnswered struct {
	referral *referral
	sender   *esl.Event
	bridged  bool // they are, and its event was missed
	err      error
}

func (referAnswered) Name() string    { return "REFER" }
func (referAnswered) Essential() bool { return true }

func (m referAnswered) refused(*core, error) { closeQuietly(m.referral.up.sock) }

// came takes a caller who comes because the voice agent has sent a REFER. It reports whether that is why.
func (f *referrals) came(ctx context.Context, m socketUp) bool {
	s, leg := f.voice.ai, m.ev.Var(varReferrer)
	if !m.refers() {
		return false
	}
	if s.live() && s.referring != nil && s.leg == leg { // one at a time; the switch refuses this one
		f.beside(func() { closeQuietly(m.sock) })
		return true
	}
	if s.live() && s.overSIP() && s.leg == leg && !s.answered && f.killCause == "" { // for certain: see holds
		f.beforeAnswer(ctx, m)
		return true
	}
	if !s.live() || !s.overSIP() || s.leg != leg || !s.legUp || f.killCause != "" || f.transfers.now.bridging() {
		f.log.WarnContext(ctx, "REFER of a leg that is not the voice agent's, ending that leg")
		f.command(ctx, jobKillLeg, fs.Kill(leg, ledger.CauseNormalClearing))
		return false
	}
	r := &referral{leg: leg, referTo: m.ev.Var(varReferTo), up: m, left: s.left}
	s.referring, s.left = r, nil
	f.disarm(timerSocket)
	f.arm(timerLeg, legUpTimeout)
	f.together(ctx, r)
	return true
}

// rebridgeTimeout is how long the switch may take to bridge caller and sender; as a rule it takes 60 ms.
const rebridgeTimeout = 300 * time.Millisecond

// together bridges caller and sender, unless the sender has left.
//
// While the switch does so, another REFER of the sender would park its leg again, and the caller would wait for that leg, unheard, for 20 s
// (switch_ivr_bridge.c, uuid_bridge_on_soft_execute). So the leg has no partner until then: the switch refuses that REFER. One that comes in the
// moment before still parks the leg. Then the bridge is asked for crosswise, which ends the caller's wait as well.
func (f *referrals) together(ctx context.Context, r *referral) {
	link, channel, crosswise := f.c.link, f.channel, r.crosswise
	again := fs.Script{fs.SetVars(channel, fs.Var{Name: varReferrer}, fs.Var{Name: varReferTo}, fs.Var{Name: varReplaces}, fs.Var{Name: varHops},
		fs.Var{Name: varHistory}, fs.Var{Name: varParkOnCancel, Value: "true"})}
	switch {
	case r.left != nil:
	case crosswise:
		again = append(again, fs.Bridge(r.leg, channel))
	default:
		again = append(again, fs.Bridge(channel, r.leg), fs.Try(fs.SetVars(r.leg, fs.Var{Name: varPartner}, fs.Var{Name: varHistory})))
	}
	f.beside(func() {
		sender, dumpErr := fs.FindChannel(ctx, link, r.leg)
		if dumpErr != nil {
			f.log.WarnContext(ctx, "reading the voice agent's leg failed", "error", dumpErr)
		}
		m := referAnswered{referral: r, sender: sender}
		told := crosswise // or some of it before, at least
		if !crosswise || sender != nil && sender.Get("Channel-State") == fs.Parked {
			if m.err = again[:1].Run(ctx, link); m.err == nil {
				told, m.err = true, again[1:].Run(ctx, link)
			}
		}
		if m.err != nil && !fs.IsUnsent(m.err) || told && errors.Is(m.err, fs.ErrLinkDown) {
			m.bridged, m.err = f.togetherAfterAll(ctx, r.leg, again)
		}
		f.post(m)
	})
}

// togetherAfterAll bridges caller and sender where the link was lost on the way, and the switch has, or may have, some of again: once there is a link, unless
// it has bridged them.
func (f *referrals) togetherAfterAll(ctx context.Context, leg string, again fs.Script) (bridged bool, err error) {
	for {
		if err := rt.Pause(ctx, f.c.clock, linkPause); err != nil {
			return false, err
		}
		caller, err := fs.FindChannel(ctx, f.c.link, f.channel)
		if err != nil {
			continue
		}
		if caller != nil && caller.Var(varPartner) == leg {
			return true, nil
		}
		err = again.Run(ctx, f.c.link)
		if _, refused := errors.AsType[*esl.ReplyError](err); err == nil || refused {
			return false, err
		}
	}
}

// beforeAnswer takes a caller of whom an endpoint that still rings wanted to be rid: it has refused the call. The switch has given up dialing it.
func (f *referrals) beforeAnswer(ctx context.Context, m socketUp) {
	s := f.voice.ai
	f.log.WarnContext(ctx, "voice agent has sent a REFER before it answered", "voice_agent_id", s.agent.ID.String())
	f.command(ctx, jobKillLeg, fs.Kill(s.leg, ledger.CauseNormalClearing))
	s.endpoint, s.leg = "", ""
	if _, err := f.line.callerCame(ctx, m); err != nil {
		f.log.WarnContext(ctx, "taking back the caller after a REFER failed", "error", err)
	}
	f.disarm(timerLeg)
	f.voice.noteSIP(ctx, map[string]any{"error": errReferEarly.Error()})
	f.voice.openFailed(ctx, errReferEarly)
}

var errReferEarly = errors.New("switchctl: voice agent has sent a REFER before it answered")

// replied notes the switch's reply.
func (f *referrals) replied(ctx context.Context, m referAnswered) (state, error) {
	if f.voice.ai == nil || f.voice.ai.referring != m.referral {
		closeQuietly(m.referral.up.sock)
		return f.state, f.notTaken(m)
	}
	r := m.referral
	r.bridged = r.bridged || m.bridged
	if r.answered, r.err = true, m.err; r.crosswise {
		f.another(ctx, r, m.sender)
	} else {
		r.sender = m.sender
	}
	if !r.decided() && !r.crosswise {
		f.arm(timerLeg, rebridgeTimeout)
	}
	f.goOn(ctx)
	return f.state, nil
}

// another refuses the REFER that came while caller and sender were being bridged, if that has come between.
func (f *referrals) another(ctx context.Context, r *referral, now *esl.Event) {
	if now == nil || r.sender == nil || now.Var(varReferEvent) == r.sender.Var(varReferEvent) {
		return
	}
	later := &referral{leg: r.leg, event: now.Var(varReferEvent)}
	r.later = later.event
	f.failed(ctx, later, "INVALID_STATE", nil)
}

// bridged: the switch has bridged caller and voice agent. Word of how they were bridged before the REFER may come after that.
func (f *referrals) bridged(ctx context.Context, ev *esl.Event) {
	const made = "Event-Date-Timestamp"
	if r := f.voice.ai.referring; r != nil && !ev.Micros(made).Before(r.up.ev.Micros(made)) {
		r.bridged = true
		f.goOn(ctx)
	}
}

// leaves keeps the end of a leg whose REFER comes first, with the caller who is on the way. It reports whether there is such a REFER.
func (f *referrals) leaves(ctx context.Context, ev *esl.Event) bool {
	s := f.voice.ai
	switch event := ev.Var(varReferEvent); {
	case s.referring != nil:
		s.referring.left = ev
		f.goOn(ctx)
		return true
	case event == "" || event == s.lastRefer || !s.legUp || f.killCause != "":
		return false
	default:
		s.left, s.lastRefer = ev, event
		f.arm(timerLeg, legGone)
		return true
	}
}

// due: the caller of a REFER didn't come, or was not bridged again. It reports whether there is such a REFER.
func (f *referrals) due(ctx context.Context) bool {
	s := f.voice.ai
	switch r, left := s.referring, s.left; {
	case f.held != nil:
		f.log.WarnContext(ctx, "voice agent's leg is gone, and no event has said whether it had answered")
		f.letGo()
	case r != nil && f.c.link.Generation() == 0: // it goes on with the next one
		f.arm(timerLeg, legUpTimeout)
	case r != nil && r.answered && !r.crosswise:
		f.log.WarnContext(ctx, "bridging caller and voice agent again takes long, trying it from the other leg")
		r.answered, r.crosswise = false, true
		f.arm(timerLeg, legUpTimeout)
		f.together(ctx, r)
	case r != nil:
		f.log.WarnContext(ctx, "bridging caller and voice agent again failed, ending the AI session")
		s.referring, s.legUp = nil, false
		f.beside(func() { closeQuietly(r.up.sock) })
		f.command(ctx, jobKillLeg, fs.Kill(r.leg, ledger.CauseNormalClearing))
		f.voice.sipOver(ctx, ledger.SessionError)
	case left != nil:
		s.left = nil
		f.voice.sipLeft(ctx, left)
	default:
		return false
	}
	return true
}

// goOn acts on a REFER, once the sender's leg is where it was, or gone: what it asks for is a transfer by the voice agent.
func (f *referrals) goOn(ctx context.Context) {
	s := f.voice.ai
	r := s.referring
	if !r.decided() {
		return
	}
	s.referring = nil
	f.disarm(timerLeg)
	if errors.Is(r.err, fs.ErrLinkDown) { // the switch has been told nothing: it refuses the REFER, and bridges both
		f.beside(func() { closeQuietly(r.up.sock) })
		return
	}
	sender := r.sender
	if sender == nil {
		sender = r.left
	}
	if sender != nil {
		r.event = sender.Var(varReferEvent)
		s.lastRefer, s.local = cmp.Or(r.later, r.event), localAddresses(sender)
	}
	gone := r.err != nil || r.left != nil
	if gone {
		f.log.InfoContext(ctx, "voice agent has left after its REFER", "error", r.err)
	} else {
		f.quickly(ctx, fs.SetVar(r.leg, varPartner, f.channel)) // its next REFER is taken
	}
	if gone && r.up.order == f.line.newest {
		if _, err := f.line.callerCame(ctx, r.up); err != nil {
			f.log.WarnContext(ctx, "taking back the caller after a REFER failed", "error", err)
		}
	} else { // the caller is bridged, or back from that on another
		f.beside(func() { closeQuietly(r.up.sock) })
	}
	if gone && f.sock == nil { // that one was another REFER's, and is closed
		f.arm(timerSocket, socketTimeout)
	}
	if err := f.start(ctx, r, s.local); err != nil {
		f.failed(ctx, r, failureCause(err), nil)
	}
	if r.left != nil {
		f.voice.sipLeft(ctx, r.left) // a transfer that is under way goes on
	}
	f.transfers.ringAlone(ctx)
}

// start starts the transfer that a REFER asks for, unless the voice agent's settings are against it.
func (f *referrals) start(ctx context.Context, r *referral, local []string) error {
	kind, destination, err := sipagent.ParseReferTo(r.referTo, local)
	if err == nil {
		err = f.takeVerb()
	}
	if err == nil && (!f.voice.ai.sip.Refers() || !f.voice.ai.sip.MayRefer(kind, destination)) {
		err = errReferDestination
	}
	if err == nil {
		err = f.transfers.startTransfer(ctx, switchctl.ControlRequest{
			Event: VerbTransfer, DestinationType: kind, Destination: destination, Source: ledger.SourceAI,
		}, nil)
	}
	if err == nil {
		f.transfers.now.referral = r
		f.pends(ctx, r)
		f.log.InfoContext(ctx, "voice agent has sent a REFER", "destination_type", kind)
		return nil
	}
	f.c.metrics.rejected.Inc()
	f.log.InfoContext(ctx, "REFER refused", "destination_type", kind, "error", err)
	return err
}

var errReferDestination error = &fault.Error{
	Kind: fault.Forbidden, Code: "destination_not_allowed", Detail: "The voice agent's REFER may not name this destination.",
}

// localAddresses are the switch's own addresses in the dialog of a leg.
func localAddresses(leg *esl.Event) []string {
	return []string{leg.Var("sip_from_host"), leg.Var("sip_local_network_addr"), contactHost(leg.Var("sip_outgoing_contact_uri"))}
}

// contactHost is host:port of a contact that the switch has sent.
func contactHost(uri string) string {
	_, host, _ := strings.Cut(strings.Trim(uri, "<>"), "@")
	host, _, _ = strings.Cut(host, ";")
	return host
}

// failed tells the sender of a REFER that the transfer came to nothing, and the session's log as well, and then runs then, if there is one.
func (f *referrals) failed(ctx context.Context, r *referral, cause string, then func(ctx context.Context)) {
	if r == nil {
		return
	}
	status := sipagent.Status(cause)
	if f.refused++; f.refused <= refusedNoted {
		f.voice.noteSIP(ctx, map[string]any{"refer": cause, "sip_status": strconv.Itoa(status)})
	}
	f.notify(ctx, r, fmt.Sprintf("%d %s", status, cause), then)
}

// done tells the sender of a REFER that its destination has answered, and then runs then on the actor's goroutine: the sender's leg ends next.
func (f *referrals) done(ctx context.Context, r *referral, then func(ctx context.Context)) {
	if r == nil || r.event == "" {
		then(ctx)
		return
	}
	f.notify(ctx, r, "200 OK", then)
	r.event = "" // the subscription is over: whatever fails now the sender is told no more
}

// notifyTime is how long the switch may take to send a NOTIFY: it takes the command for sent when others of its threads are still to do it, and a leg that
// has ended by then sends none.
const notifyTime = 100 * time.Millisecond

// notify sends the NOTIFY that ends a REFER's subscription, and then runs then, if there is one, on the actor's goroutine.
func (f *referrals) notify(ctx context.Context, r *referral, status string, then func(ctx context.Context)) {
	link, leg, event := f.c.link, r.leg, r.event
	if r.noted {
		r.noted = false
		f.note(ctx, leg, "") // first: of a controller that ends in between it hears nothing, and not twice
	}
	f.inTurn(&f.tells, func() {
		if event != "" {
			err := link.SendEvent(ctx, "NOTIFY", [][2]string{
				{"uuid", leg}, {"event-string", event}, {"content-type", "message/sipfrag;version=2.0"},
			}, "SIP/2.0 "+status+"\r\n")
			if err != nil {
				f.log.WarnContext(ctx, "sending the NOTIFY of a REFER failed", "error", err)
			}
		}
		if then != nil && rt.Pause(ctx, f.c.clock, notifyTime) == nil {
			f.post(afterwards{then: then})
		}
	})
}

// bridge has the caller's channel dial, and be bridged with, what a dial string says. A Replaces that a REFER has left there goes to nobody.
func (f *referrals) bridge(ctx context.Context, arg string) {
	apps := []esl.ExecuteRequest{{App: "bridge", Arg: arg}}
	if f.replaces {
		apps = append([]esl.ExecuteRequest{{App: "unset", Arg: varReplaces}}, apps...)
	}
	f.replaces = false
	f.execute(ctx, apps...)
}

// endLeg ends the leg of a voice agent that may send a REFER: where it has sent one the switch has parked it, and the caller's end doesn't take
// it along.
func (f *referrals) endLeg(ctx context.Context) {
	s, held := f.voice.ai, f.drop() || f.lostHeld
	if s == nil || !s.overSIP() || !s.sip.Refers() || !s.legUp && (!held || s.answered) {
		return
	}
	if r := s.referring; r != nil {
		s.referring = nil
		f.beside(func() { closeQuietly(r.up.sock) })
	}
	f.command(ctx, jobKillLeg, fs.Kill(s.leg, ledger.CauseNormalClearing))
}
