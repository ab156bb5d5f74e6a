package simswitch

import (
	"slices"
	"strconv"
	"time"

	"github.com/emiago/sipgo/sip"
)

// Bypass as FreeSWITCH does it (switch_ivr.c, switch_ivr_nomedia and switch_ivr_media): both legs are parked, each is offered
// the other's address, and they hibernate, bound by their signalling alone. A re-INVITE that is refused there is not mended:
// the command waits for an answer that does not come, and then binds the legs all the same.

const (
	// ackWait is how long uuid_media waits for a leg whose re-INVITE was refused.
	ackWait     = 10 * time.Second
	operationOK = "+OK Success\n"
	operationNo = "-ERR Operation failed\n"
	// causeBlindTransfer ends a leg whose partner was transferred away.
	causeBlindTransfer cause = "BLIND_TRANSFER"
)

// adoptLimit takes the leg's media_timeout (milliseconds). A switch reads the variable when it opens the leg's audio, and at each
// re-INVITE that is answered while it has the audio or gets it back; in between a new value means nothing.
func (ch *bypassing) adoptLimit() {
	ms, err := strconv.Atoi(ch.get("media_timeout"))
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.adopted = true
	if err == nil && ms > 0 { // 0 changes nothing either
		ch.limit = time.Duration(ms) * time.Millisecond
	}
}

// mediaLimit is the media_timeout in force, 0 for none.
func (ch *bypassing) mediaLimit() time.Duration {
	ch.mu.Lock()
	adopted := ch.adopted
	ch.mu.Unlock()
	if !adopted {
		ch.adoptLimit()
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.limit
}

// readTooEarly ends a leg that has been past the switch for longer than its media_timeout. FreeSWITCH reads a leg on the way back
// when its re-INVITE has any reply, and only the handling of the 200 sets the clock anew: the read comes first now and then on a busy
// machine, and always here.
func (ch *bypassing) readTooEarly() {
	limit := ch.mediaLimit()
	ch.mu.Lock()
	since := ch.since
	ch.mu.Unlock()
	if limit > 0 && ch.media.silentFor(since, time.Now()) > limit {
		ch.hangup(causeMediaTimeout)
	}
}

// mediaCommand is `uuid_media [off] <uuid>`.
func (sw *commands) mediaCommand(arg string) string {
	args := splitArgs(arg)
	off := argAt(args, 0) == "off"
	id := argAt(args, 0)
	if off {
		id = argAt(args, 1)
	}
	if len(args) == 0 {
		return "-USAGE: [off] <uuid>\n"
	}
	ch := sw.channel(id)
	if ch == nil || !ch.bypass.beginTrans() {
		return operationNo
	}
	defer ch.bypass.endTrans()
	if off {
		return ch.bypass.mediaOff()
	}
	return ch.bypass.mediaOn()
}

// renegCommand is `uuid_media_reneg <uuid>`: the last offer once more. Its reply does not wait for the answer.
func (sw *commands) renegCommand(arg string) string {
	ch := sw.channel(argAt(splitArgs(arg), 0))
	if ch == nil {
		return "-ERR Operation Failed\n"
	}
	sw.goFunc(func() { ch.leg.offerAgain() })
	return operationOK
}

func (ch *bypassing) beginTrans() bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.trans {
		return false
	}
	ch.trans = true
	return true
}

func (ch *bypassing) endTrans() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.trans = false
}

func (ch *bypassing) bypassed() (partner *channel, past bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.partner, ch.past
}

// mediaOff leads the audio of two bridged legs past the switch.
func (ch *bypassing) mediaOff() string {
	b := ch.bridge.bridged()
	if _, past := ch.bypassed(); past || b == nil {
		return operationOK
	}
	a := ch.channel
	if !ch.bridgedFirst() {
		a, b = b, ch.channel
	}
	for _, leg := range []*channel{a, b} {
		leg.bypass.redirect(true)
		defer leg.bypass.redirect(false)
	}
	a.bridge.parkNow()
	b.bridge.parkNow()
	if !a.bridge.settled(csPark) || !b.bridge.settled(csPark) {
		if !a.up() || !b.up() {
			ch.sw.signalBridge(a, b) // which ends the one that is left
		}
		return operationOK
	}
	done := make(chan struct{})
	started := ch.sw.goFunc(func() { defer close(done); b.leg.offerMedia(a) })
	a.bypass.offerAndWait(b)
	if started {
		<-done
	}
	ch.sw.signalBridge(a, b)
	return operationOK
}

func (ch *bypassing) redirect(on bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.redirected = on
}

// bridgedFirst says that the channel is the one whose goroutine ran the bridge.
func (ch *bypassing) bridgedFirst() bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.bridge.otherType == "originatee"
}

// offerAndWait sends a re-INVITE (the other leg's address, or our own) and waits for its acceptance, by it or a later one.
func (ch *bypassing) offerAndWait(other *channel) {
	ch.mu.Lock()
	before := ch.acks
	ch.mu.Unlock()
	ch.leg.offerMedia(other)
	ch.waitFor(ackWait, func() bool { return ch.acks != before || ch.hangupCause != causeNone })
}

// signalBridge binds two parked legs by their signalling.
func (sw *Switch) signalBridge(a, b *channel) {
	switch {
	case !b.up():
		a.hangup(b.causeNow())
		return
	case !a.up():
		b.hangup(causeCancel)
		return
	}
	for _, leg := range []struct {
		ch, other *channel
		origin    bool
	}{{a, b, true}, {b, a, false}} {
		leg.ch.setAll([]header{
			{"signal_bridge_to", leg.other.uuid},
			{"signal_bridge", "true"},
			{"signal_bond", leg.other.uuid},
			{"bridge_to", leg.other.uuid},
		})
		leg.ch.events.emit("CHANNEL_EXECUTE", header{"Application", "signal_bridge"}, header{"Application-Data", leg.other.uuid})
		leg.ch.mu.Lock()
		leg.ch.bypass.partner, leg.ch.bypass.origin, leg.ch.bypass.past = leg.other, leg.origin, true
		leg.ch.bypass.since = time.Now()
		leg.ch.way.transferring = true
		leg.ch.state = csHibernate
		leg.ch.notify()
		leg.ch.mu.Unlock()
	}
	if b.bridge.settled(csHibernate) && a.bridge.settled(csHibernate) {
		a.events.emitWith("CHANNEL_BRIDGE", bridgeIDs(a, b), nil)
	}
}

// release takes a leg out of its bypass; it reports the partner, nil when somebody was faster.
func (ch *bypassing) release() *channel {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	other := ch.partner
	ch.partner, ch.past = nil, false
	for _, name := range []string{"signal_bridge_to", "signal_bond", "bridge_to"} {
		ch.vars.set(name, "")
	}
	return other
}

// mediaOn takes the audio back: each leg is offered our own address, and both are bridged.
func (ch *bypassing) mediaOn() string {
	other, past := ch.bypassed()
	if other == nil || !past {
		return operationNo
	}
	for _, leg := range []*channel{ch.channel, other} {
		leg.bypass.readTooEarly()
		leg.bypass.offerAndWait(nil)
	}
	if !ch.up() || !other.up() {
		return operationOK // the leg that stays, still bound, learns of it by itself (see runHibernate)
	}
	ch.mu.Lock()
	origin := ch.origin
	ch.mu.Unlock()
	if ch.release() == nil || other.bypass.release() == nil {
		return operationOK // one of them left meanwhile
	}
	a, b := ch.channel, other
	if !origin {
		a, b = other, ch.channel
	}
	a.events.emitWith("CHANNEL_UNBRIDGE", bridgeIDs(a, b), nil)
	if ch.sw.uuidBridge(a, b) {
		a.waitFor(time.Second, func() bool { return a.bridge.partner == b || a.hangupCause != causeNone || a.state >= csHangup })
		return operationOK
	}
	a.hangup(causeOutOfOrder) // one is down since, and nothing binds the other any more
	b.hangup(causeOutOfOrder)
	return operationOK
}

// runHibernate waits while the audio goes past the switch. A controller's messages wait as well.
func (ch *bypassing) runHibernate() {
	ch.mu.Lock()
	other, origin := ch.partner, ch.origin
	ch.mu.Unlock()
	if other == nil {
		ch.idle(csHibernate) // it was released, and its next state is on its way
		return
	}
	for {
		changed, theirs := ch.watch(), other.watch()
		ch.mu.Lock()
		cause, state, bound := ch.hangupCause, ch.state, ch.partner != nil
		ch.mu.Unlock()
		switch {
		case cause != causeNone:
			if origin && ch.release() != nil {
				ch.events.emitWith("CHANNEL_UNBRIDGE", bridgeIDs(ch.channel, other), nil)
				other.hangup(cause)
			}
			return
		case !bound:
			return
		case state != csHibernate: // transferred away
			if ch.release() != nil {
				other.hangup(causeBlindTransfer)
				ch.sw.goFunc(func() { ch.leg.offerMedia(nil) })
			}
			return
		case !other.up():
			ch.partnerGone(other, origin)
			return
		}
		select {
		case <-changed:
		case <-theirs:
		}
	}
}

// partnerGone is what becomes of a leg whose partner has ended: its media comes back first.
func (ch *bypassing) partnerGone(other *channel, origin bool) {
	if ch.release() == nil {
		return
	}
	c := other.causeNow()
	if !origin {
		ch.hangup(c)
		return
	}
	ch.events.emitWith("CHANNEL_UNBRIDGE", bridgeIDs(ch.channel, other), nil)
	ch.leg.offerMedia(nil)
	switch {
	case isTrue(ch.get("park_after_bridge")):
		ch.bridge.parkNow()
	case ch.get("transfer_after_bridge") != "":
		ch.bridge.transferAfterBridge()
	default:
		ch.hangup(c)
	}
}

// offerMedia sends one re-INVITE with the address of another leg's far end, or with our own when other is nil.
func (l *sipLeg) offerMedia(other *channel) {
	ip, port := l.prof.sw.cfg.RTPIP, l.ch.media.port()
	if other != nil {
		ip = other.get("remote_media_ip")
		if n, err := strconv.Atoi(other.get("remote_media_port")); err == nil {
			port = n
		}
	}
	l.mu.Lock()
	l.offeredIP, l.offeredPort = ip, port
	l.mu.Unlock()
	l.offerAgain()
}

// offerAgain sends the last offer once more.
func (l *sipLeg) offerAgain() {
	l.mu.Lock()
	if l.phase != phaseConfirmed || l.inviting {
		l.mu.Unlock()
		return
	}
	l.inviting = true
	ip, port, event := l.offeredIP, l.offeredPort, l.telEvent
	if ip == "" {
		ip, port = l.prof.sw.cfg.RTPIP, l.ch.media.port()
	}
	if l.offer != nil {
		event = l.offer.telEvent
	}
	l.version++
	version := l.version
	req := l.request(sip.INVITE)
	l.mu.Unlock()
	cseq := req.CSeq().SeqNo
	req.AppendHeader(sip.NewHeader("Content-Type", "application/sdp"))
	req.SetBody(localSDP(ip, port, version, []codec{l.ch.media.codec()}, event, sendRecv))
	res, err := l.do(req)
	l.mu.Lock()
	l.inviting = false
	l.mu.Unlock()
	switch {
	case err != nil:
		l.ch.hangup(causeTimerExpire)
	case res.IsSuccess():
		l.ack(cseq)
		if err := l.takeAnswer(res.Body()); err != nil {
			l.prof.sw.log.Warn("re-INVITE answered without audio of ours", "channel", l.ch.uuid, "error", err)
		}
		l.ch.set("sip_cseq", strconv.Itoa(int(cseq)))
		if ip == l.prof.sw.cfg.RTPIP && port == l.ch.media.port() {
			l.ch.bypass.adoptLimit()
		}
		l.ch.mu.Lock()
		l.ch.bypass.acks++
		l.ch.notify()
		l.ch.mu.Unlock()
	default:
		l.offerRefused(res)
	}
}

// offerRefused notes a refused re-INVITE. Some statuses end the call (RFC 5057, as sofia-sip has it).
func (l *sipLeg) offerRefused(res *sip.Response) {
	code := strconv.Itoa(res.StatusCode)
	l.ch.setAll([]header{
		{"sip_invite_failure_status", code},
		{"sip_invite_failure_phrase", res.Reason},
		{"sip_hangup_disposition", "recv_refuse"},
	})
	if !slices.Contains([]int{404, 405, 408, 480, 481, 500, 501, 502, 503, 504, 600}, res.StatusCode) {
		return
	}
	l.ch.setAll([]header{
		{"sip_term_status", code},
		{"proto_specific_hangup_cause", "sip:" + code},
	})
	l.mu.Lock()
	l.refusedAway = true
	l.mu.Unlock()
	l.ch.hangup(causeOfStatus(res.StatusCode))
}
