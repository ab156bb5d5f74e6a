package simswitch

import (
	"strconv"
	"strings"
	"time"

	"github.com/emiago/sipgo/sip"
)

// voiceAgents is the SIP profile that takes a REFER.
const voiceAgents = "voice_agents"

// onRefer takes a REFER as mod_sofia does with confirm-blind-transfer, full-id-in-dialplan and force_transfer_context (sofia.c,
// sofia_handle_sip_i_refer): its sender is parked, and the channel that it is bridged with goes to the context, with the address that the REFER
// names as the number. The sender is told when that channel is bridged, or refuses (blind_transfer_ack).
func (l *sipLeg) onRefer(req *sip.Request, tx sip.ServerTransaction) {
	h := req.GetHeader("Refer-To")
	refused := h != nil && l.refers(req, h.Value())
	l.prof.reply(req, tx, 202, sip.NewHeader("Expires", "60")) // last, since a BYE may follow
	if refused {
		l.notifyRefer(referEvent(req), "403 Forbidden")
	}
}

func referEvent(req *sip.Request) string {
	return "refer;id=" + strconv.FormatUint(uint64(req.CSeq().SeqNo), 10)
}

// refers does what a REFER asks for. It is true when that is refused.
func (l *sipLeg) refers(req *sip.Request, referTo string) bool {
	var to sip.Uri
	headers := sip.NewParams()
	if _, err := sip.ParseAddressValue(referTo, &to, &headers); err != nil {
		_, number, isTel := strings.Cut(strings.Trim(referTo, "<>"), "tel:")
		if !isTel {
			return false
		}
		to = sip.Uri{User: number, Host: "(null)"} // as it is printed
	}
	caller := l.ch.bridge.partnerSoon()
	if caller == nil || to.Headers.Has("Replaces") { // the section `channels` has nobody to dial for one with Replaces
		return true
	}
	number := to.User + "@" + to.Host
	l.ch.setAll([]header{
		{"transfer_disposition", "recv_replace"},
		{"transfer_to", "blind:" + caller.uuid},
		{"transfer_destination", "blind:" + number},
		{"endpoint_disposition", "BLIND_TRANSFER"},
		{"sip_blind_transfer_event", referEvent(req)},
		{"blind_transfer_uuid", caller.uuid},
	})
	if by := req.GetHeader("Referred-By"); by != nil {
		caller.set("sip_h_Referred-By", by.Value())
	}
	caller.setAll([]header{{"sip_refer_to", referTo}, {"blind_transfer_uuid", l.ch.uuid}})
	l.ch.bridge.handOff(caller, number)
	return false
}

// bondedFor is how long a leg that has answered may take to be bridged.
const bondedFor = time.Second

// partnerSoon is whom the leg is bridged with, or is about to be for the first time: a switch knows that from the originate on (originate_signal_bond).
func (ch *bridging) partnerSoon() *channel {
	ch.waitFor(bondedFor, func() bool {
		return ch.partner != nil || !ch.outbound || !ch.profile.times.bridged.IsZero() || ch.hangupCause != causeNone
	})
	return ch.bridged()
}

// handOff parks the channel and sends its partner on. Whichever leg runs their bridge, neither takes the other's leaving for its end.
func (ch *bridging) handOff(caller *channel, number string) {
	redirect := func(on bool) {
		for _, c := range []*channel{ch.channel, caller} {
			c.mu.Lock()
			c.bypass.redirected = on
			c.mu.Unlock()
		}
	}
	redirect(true)
	defer redirect(false)
	ch.mu.Lock()
	runs := ch.otherType == "originatee"
	ch.mu.Unlock()
	caller.mu.Lock()
	caller.bridge.confirms = true
	caller.mu.Unlock()
	goOn := func() {
		caller.way.transfer(number, ch.sw.globals["force_transfer_dialplan"], ch.sw.globals["force_transfer_context"])
	}
	if runs {
		ch.parkNow()
		goOn()
	} else {
		goOn()
		ch.parkNow()
	}
}

// confirm answers the REFER that has brought the channel here, if one has, and gives its sender. A bridge does so as well.
func (ch *bridging) confirm(done bool) *channel {
	ch.mu.Lock()
	waits := ch.confirms
	id, _ := ch.vars.get("blind_transfer_uuid")
	ch.confirms = false
	ch.mu.Unlock()
	sender := ch.sw.channel(id)
	if !waits || sender == nil {
		return nil
	}
	status := "403 Forbidden"
	if done {
		status = "200 OK"
	}
	sender.leg.notifyRefer(sender.get("sip_blind_transfer_event"), status)
	return sender
}

// blindTransferAckApp answers the REFER; the sender of one that is refused takes the channel back.
func (ch *application) blindTransferAckApp(arg string) {
	done := isTrue(arg)
	if sender := ch.bridge.confirm(done); sender != nil && !done {
		sender.way.transfer("intercept:"+ch.uuid, "inline", "")
	}
}

// interceptApp takes another channel.
func (ch *application) interceptApp(arg string) {
	if other := ch.sw.channel(strings.TrimSpace(arg)); other != nil {
		ch.sw.uuidBridge(ch.channel, other)
	}
}

// notifyRefer tells a REFER's sender how it went.
func (l *sipLeg) notifyRefer(event, status string) {
	l.notify(event, "message/sipfrag;version=2.0", "SIP/2.0 "+status+"\r\n")
}

// notify sends a NOTIFY that ends its subscription.
func (l *sipLeg) notify(event, contentType, body string) {
	l.mu.Lock()
	if l.phase != phaseConfirmed {
		l.mu.Unlock()
		return
	}
	req := l.request(sip.NOTIFY)
	l.mu.Unlock()
	req.AppendHeader(sip.NewHeader("Event", event))
	req.AppendHeader(sip.NewHeader("Subscription-State", "terminated;reason=noresource"))
	req.AppendHeader(sip.NewHeader("Content-Type", contentType))
	req.SetBody([]byte(body))
	l.prof.sw.goFunc(func() {
		if _, err := l.do(req); err != nil {
			l.prof.sw.log.Debug("NOTIFY not answered", "channel", l.ch.uuid, "error", err)
		}
	})
}
