package simswitch

import (
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/emiago/sipgo/sip"
)

// onInvite takes a new call or a re-INVITE. The SIP stack ends the transaction when the handler returns, so it stays until the
// final response is out.
func (p *sipProfile) onInvite(req *sip.Request, tx sip.ServerTransaction) {
	if to := req.To(); to != nil && to.Params.Has("tag") {
		l := p.legOf(req)
		if l == nil {
			p.reply(req, tx, 481)
			return
		}
		l.answerOffer(req, tx)
		return
	}
	if req.From() == nil || req.CallID() == nil || req.Contact() == nil || req.CSeq() == nil || req.To() == nil {
		p.reply(req, tx, 400)
		return
	}
	ch, err := p.sw.newInbound(p, req, tx)
	if err != nil {
		p.sw.log.Warn("inbound call refused", "profile", p.name, "error", err)
		p.reply(req, tx, 503)
		return
	}
	p.reply(ch.leg.in.inReq, tx, 100)
	if !tx.OnCancel(func(*sip.Request) { p.sw.goFunc(ch.leg.in.onCancel) }) {
		p.sw.goFunc(ch.leg.in.onCancel)
	}
	if !p.sw.goFunc(ch.run) {
		p.sw.unregister(ch)
		ch.media.close()
		p.reply(ch.leg.in.inReq, tx, 503)
		return
	}
	select {
	case <-ch.leg.in.ended:
	case <-p.sw.stop:
	}
}

// newInbound makes the channel of a call that came in.
func (sw *Switch) newInbound(p *sipProfile, req *sip.Request, tx sip.ServerTransaction) (*channel, error) {
	media, err := sw.newMediaPort()
	if err != nil {
		return nil, err
	}
	ch := sw.newChannel("", false)
	ch.media = media
	media.owner = ch
	l := p.newLeg(ch, false)
	ch.leg = l
	l.in.inReq, l.in.inTx = req.Clone(), tx
	l.transport = strings.ToLower(req.Transport())
	l.localTag = sip.GenerateTagN(13)
	l.in.inReq.To().Params.Add("tag", l.localTag)
	from, to := req.From(), req.To()
	l.callID = req.CallID().Value()
	l.local = sip.FromHeader{Address: *to.Address.Clone()}
	l.remote = sip.ToHeader{DisplayName: from.DisplayName, Address: *from.Address.Clone()}
	l.learn(req.Contact(), from.Params.GetOr("tag", ""), req.GetHeaders("Record-Route"), false)
	l.cseq = uint32(time.Now().Unix() & 0x7fffffff)
	if len(req.Body()) > 0 {
		if r, err := parseSDP(req.Body()); err == nil {
			l.offer = &r
		} else {
			l.codecs = nil
		}
	}
	ch.name = "sofia/" + p.name + "/" + from.Address.User + "@" + from.Address.Host
	now := time.Now()
	name := from.DisplayName
	if name == "" {
		name = from.Address.User
	}
	host, port, _ := net.SplitHostPort(req.Source())
	ch.profile = &callerProfile{
		index: 1, dialplan: "XML", context: p.context, destination: req.Recipient.User,
		cidName: name, cidNumber: from.Address.User, origName: name, origNumber: from.Address.User,
		networkAddr: host, ani: from.Address.User, uuid: ch.uuid, source: "mod_sofia", chanName: ch.name,
		direction: "inbound", logicalDirection: "inbound", times: times{created: now, profileCreated: now},
	}
	ch.way.hitDialplan = true
	ch.state = csInit
	ch.describeInvite(p, req, host, port)
	if !sw.register(ch) {
		media.close()
		return nil, ErrClosed
	}
	ch.set("session_id", strconv.FormatInt(ch.sessionID, 10))
	media.announce()
	p.addLeg(l)
	return ch, nil
}

// describeInvite sets the variables that mod_sofia sets from an INVITE.
func (ch *channel) describeInvite(p *sipProfile, req *sip.Request, host, port string) {
	from, to := req.From(), req.To()
	uri := func(u sip.Uri) string { return u.User + "@" + hostPort(u) }
	ch.setAll([]header{
		{"sip_profile_name", p.name},
		{"sofia_profile_name", p.name},
		{"channel_name", ch.name},
		{"sip_call_id", req.CallID().Value()},
		{"sip_network_ip", host},
		{"sip_network_port", port},
		{"sip_received_ip", host},
		{"sip_received_port", port},
		{"sip_from_user", from.Address.User},
		{"sip_from_host", from.Address.Host},
		{"sip_from_uri", uri(from.Address)},
		{"sip_from_display", from.DisplayName},
		{"sip_from_tag", from.Params.GetOr("tag", "")},
		{"sip_full_from", from.Value()},
		{"sip_full_to", to.Value()},
		{"sip_to_user", to.Address.User},
		{"sip_to_host", to.Address.Host},
		{"sip_to_uri", uri(to.Address)},
		{"sip_req_user", req.Recipient.User},
		{"sip_req_host", req.Recipient.Host},
		{"sip_req_uri", uri(req.Recipient)},
		{"sip_contact_uri", uri(req.Contact().Address)},
		{"sip_cseq", strconv.Itoa(int(req.CSeq().SeqNo))},
		{"sip_via_protocol", strings.ToLower(req.Transport())},
		{"switch_r_sdp", string(req.Body())},
		{"endpoint_disposition", "DELAYED NEGOTIATION"},
		{"max_forwards", "69"},
	})
	if h := req.GetHeader("User-Agent"); h != nil {
		ch.set("sip_user_agent", h.Value())
	}
	for _, h := range req.Headers() {
		if len(h.Name()) > 2 && strings.EqualFold(h.Name()[:2], "X-") {
			ch.set("sip_h_"+h.Name(), h.Value())
		}
	}
}

func hostPort(u sip.Uri) string {
	if u.Port > 0 {
		return u.Host + ":" + strconv.Itoa(u.Port)
	}
	return u.Host
}

// respond answers the INVITE that came in.
func (l *sipIncoming) respond(status int, body []byte, headers ...sip.Header) {
	l.mu.Lock()
	if l.finalSent {
		l.mu.Unlock()
		return
	}
	l.finalSent = status >= 200
	l.mu.Unlock()
	res := sip.NewResponseFromRequest(l.inReq, status, reasonPhrase(status), body)
	res.AppendHeader(l.prof.contact(l.transport))
	res.AppendHeader(sip.NewHeader("User-Agent", userAgent))
	if len(body) > 0 {
		res.AppendHeader(sip.NewHeader("Content-Type", "application/sdp"))
	}
	for _, h := range headers {
		res.AppendHeader(h)
	}
	if err := l.inTx.Respond(res); err != nil {
		l.prof.sw.log.Debug("SIP response not sent", "channel", l.ch.uuid, "status", status, "error", err)
	}
	if status >= 200 && status < 300 && l.transport == "udp" {
		l.prof.sw.goFunc(func() { l.repeat(res) })
	}
}

// repeat sends the 2xx again until its ACK comes (RFC 3261 section 13.3.1.4).
func (l *sipIncoming) repeat(res *sip.Response) {
	wait := sip.T1
	deadline := time.After(64 * sip.T1)
	for {
		select {
		case <-l.acked:
			return
		case <-l.prof.sw.stop:
			return
		case <-deadline:
			l.ch.hangup(causeTimerExpire)
			return
		case <-time.After(wait):
			wait = min(2*wait, sip.T2)
			if err := l.inTx.Respond(res); err != nil {
				return
			}
		}
	}
}

// negotiate agrees on the media of a call that came in, and returns the session description to send.
func (l *sipIncoming) negotiate() ([]byte, bool) {
	l.mu.Lock()
	offer, allowed := l.offer, l.codecs
	l.mu.Unlock()
	codecs, te := allowed, l.telEvent
	if offer != nil {
		c, ok := offer.choose(allowed)
		if !ok {
			return nil, false
		}
		codecs, te = []codec{c}, offer.telEvent
		l.startMedia(*offer, c)
	}
	if len(codecs) == 0 {
		return nil, false
	}
	dir := sendRecv
	if offer != nil {
		dir = offer.direction.answer()
	}
	body := localSDP(l.prof.sw.cfg.RTPIP, l.ch.media.port(), l.version, codecs, te, dir)
	l.ch.setAll([]header{
		{"rtp_local_sdp_str", string(body)},
		{"local_media_ip", l.prof.sw.cfg.RTPIP},
		{"local_media_port", strconv.Itoa(l.ch.media.port())},
	})
	return body, true
}

// ring sends 180.
func (l *sipIncoming) ring() {
	if l.outbound || !l.ch.up() || l.ch.isAnswered() {
		return
	}
	l.respond(180, nil)
	l.ch.events.markProgress()
}

// preAnswer sends 183 with the media.
func (l *sipIncoming) preAnswer() {
	if l.outbound || !l.ch.up() || l.ch.isAnswered() {
		return
	}
	body, ok := l.negotiate()
	if !ok {
		l.ch.hangup(causeIncompatible)
		return
	}
	l.respond(183, body)
	l.ch.events.markEarly()
}

// answer accepts the call.
func (l *sipIncoming) answer() {
	if l.outbound {
		return
	}
	body, ok := l.negotiate()
	if !ok {
		l.ch.hangup(causeIncompatible)
		return
	}
	l.mu.Lock()
	if l.phase != phaseEarly {
		l.mu.Unlock()
		return
	}
	l.phase = phaseConfirmed
	l.mu.Unlock()
	l.ch.events.markEarly()
	l.respond(200, body)
	l.finishInvite()
	l.ch.events.markAnswered()
}

// refuseWith remembers the status that `respond` chose for the refusal that the hang-up sends.
func (l *sipIncoming) refuseWith(status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status = status
}

// onCancel ends a call that its caller took back. The SIP stack has answered CANCEL and INVITE.
func (l *sipIncoming) onCancel() {
	l.mu.Lock()
	if l.phase != phaseEarly {
		l.mu.Unlock()
		return
	}
	l.phase, l.finalSent = phaseOver, true
	l.mu.Unlock()
	l.ch.setAll([]header{
		{"sip_hangup_disposition", "recv_cancel"},
		{"sip_term_status", "487"},
		{"sip_invite_failure_status", "487"},
		{"proto_specific_hangup_cause", "sip:487"},
		{"sip_term_cause", "487"},
	})
	l.ch.hangup(causeCancel)
	l.finishInvite()
}

// finishInvite lets the INVITE's handler return.
func (l *sipIncoming) finishInvite() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.ended:
	default:
		close(l.ended)
	}
}

// onAck takes the ACK of our 2xx; the answer to an offer of ours may be in it.
func (l *sipIncoming) onAck(req *sip.Request) {
	l.mu.Lock()
	select {
	case <-l.acked:
	default:
		close(l.acked)
	}
	late := l.offer == nil
	if cs := req.CSeq(); cs != nil {
		l.ackedCSeq = max(l.ackedCSeq, cs.SeqNo)
	}
	l.mu.Unlock()
	if late && len(req.Body()) > 0 {
		if err := l.takeAnswer(req.Body()); err != nil {
			l.ch.hangup(causeIncompatible)
		}
	}
}
