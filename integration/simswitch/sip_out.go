package simswitch

import (
	"cmp"
	"context"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/emiago/sipgo"
	"github.com/emiago/sipgo/sip"
	"github.com/google/uuid"
)

// prepareInvite sets the dialog up before anyone else sees the leg.
func (l *sipOutgoing) prepareInvite(target sip.Uri, destination, fromUser, fromName string) {
	l.callID, l.localTag = uuid.NewString(), sip.GenerateTagN(13)
	l.cseq = uint32(time.Now().Unix() & 0x7fffffff)
	l.target, l.destination = target, destination
	if t, ok := target.UriParams.Get("transport"); ok && strings.EqualFold(t, "tcp") {
		l.transport = "tcp"
	}
	l.local = sip.FromHeader{DisplayName: fromName, Address: sip.Uri{Scheme: "sip", User: fromUser, Host: l.prof.host}}
	to := target
	to.UriParams = nil
	l.remote = sip.ToHeader{Address: to}
}

// sendInvite offers the call and follows its responses in a goroutine of its own.
func (l *sipOutgoing) sendInvite() {
	ch := l.ch
	if s := ch.get("absolute_codec_string"); s != "" {
		l.codecs = parseCodecString(s)
		if len(l.codecs) == 0 {
			ch.hangup(causeIncompatible)
			return
		}
	}
	l.mu.Lock()
	req := l.request(sip.INVITE)
	req.SetDestination(l.destination)
	l.invite = req
	l.mu.Unlock()
	req.AppendHeader(sip.NewHeader("Allow", "INVITE, ACK, BYE, CANCEL, OPTIONS, INFO, UPDATE"))
	req.AppendHeader(sip.NewHeader("Content-Type", "application/sdp"))
	ch.mu.Lock()
	vars := ch.vars.clone()
	ch.mu.Unlock()
	for _, v := range vars {
		if name, ok := strings.CutPrefix(v.name, "sip_h_"); ok && name != "" {
			req.AppendHeader(sip.NewHeader(name, v.value))
		}
	}
	local := localSDP(l.prof.sw.cfg.RTPIP, ch.media.port(), l.version, l.codecs, l.telEvent, sendRecv)
	req.SetBody(local)
	ch.setAll([]header{
		{"rtp_local_sdp_str", string(local)},
		{"sip_call_id", l.callID},
		{"sip_from_tag", l.localTag},
		{"sip_cseq", strconv.Itoa(int(l.cseq))},
		{"sip_from_user", l.local.Address.User},
		{"sip_from_host", l.local.Address.Host},
		{"sip_from_uri", l.local.Address.User + "@" + l.local.Address.Host},
		{"sip_to_user", l.remote.Address.User},
		{"sip_to_host", l.remote.Address.Host},
		{"sip_req_uri", strings.TrimPrefix(l.target.String(), "sip:")},
		{"sip_outgoing_contact_uri", "<" + l.prof.contact(l.transport).Address.String() + ">"},
		{"local_media_ip", l.prof.sw.cfg.RTPIP},
		{"local_media_port", strconv.Itoa(ch.media.port())},
		{"sofia_profile_name", l.prof.name},
	})
	tx, err := l.prof.client.TransactionRequest(context.Background(), req)
	if err != nil {
		l.prof.sw.log.Debug("INVITE not sent", "channel", ch.uuid, "error", err)
		l.refused(503, nil)
		return
	}
	l.mu.Lock()
	l.following = true
	l.mu.Unlock()
	if !l.prof.sw.goFunc(func() { l.follow(tx); l.unfollow() }) {
		tx.Terminate()
		l.unfollow()
	}
}

// unfollow notes that the INVITE is over.
func (l *sipOutgoing) unfollow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.following = false
	if l.cancelling {
		l.cancelling = false
		l.prof.sw.requests.Add(-1)
	}
}

// follow takes the responses of the INVITE until its end.
func (l *sipOutgoing) follow(tx sip.ClientTransaction) {
	cancelled := l.cancelled
	tried := false
	for {
		select {
		case res := <-tx.Responses():
			switch {
			case res.IsProvisional():
				l.onProvisional(res)
			case res.IsSuccess():
				l.onAccepted(res, tx)
				return
			case (res.StatusCode == 401 || res.StatusCode == 407) && l.gateway != nil && l.gateway.Password != "" && !tried:
				tried = true
				next, err := l.authenticate(res)
				if err != nil {
					l.refused(res.StatusCode, res)
					return
				}
				tx = next
			case l.follows(res):
				next, err := l.redirect(res)
				if err != nil {
					l.refused(res.StatusCode, res)
					return
				}
				tx = next
			default:
				l.refused(res.StatusCode, res)
				return
			}
		case <-tx.Done():
			l.refused(408, nil)
			return
		case <-cancelled:
			cancelled = nil
			if !l.cancel(tx) {
				return
			}
		case <-l.prof.sw.stop:
			tx.Terminate()
			return
		}
	}
}

// authenticate answers a gateway's challenge with a second INVITE.
func (l *sipOutgoing) authenticate(res *sip.Response) (sip.ClientTransaction, error) {
	tx, err := l.prof.client.TransactionDigestAuth(context.Background(), l.invite, res,
		sipgo.DigestAuth{Username: l.gateway.Username, Password: l.gateway.Password})
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.cseq = l.invite.CSeq().SeqNo
	l.mu.Unlock()
	return tx, nil
}

// follows reports whether a redirect is followed: to any address, unless outbound_redirect_fatal says otherwise (sofia.c,
// sofia_handle_sip_r_invite).
func (l *sipOutgoing) follows(res *sip.Response) bool {
	switch res.StatusCode {
	case 300, 301, 302, 305:
		return res.Contact() != nil && l.ch.get("outbound_redirect_fatal") != "true"
	}
	return false
}

// redirect sends the INVITE to where a redirect leads.
func (l *sipOutgoing) redirect(res *sip.Response) (sip.ClientTransaction, error) {
	l.mu.Lock()
	next := l.invite.Clone()
	next.Recipient = *res.Contact().Address.Clone()
	next.SetDestination(net.JoinHostPort(next.Recipient.Host, strconv.Itoa(cmp.Or(next.Recipient.Port, 5060))))
	next.RemoveHeader("Via")
	next.CSeq().SeqNo++
	l.cseq, l.invite = next.CSeq().SeqNo, next
	l.mu.Unlock()
	return l.prof.client.TransactionRequest(context.Background(), next, sipgo.ClientRequestAddVia)
}

// cancel takes the INVITE back. False means that nothing more is to come.
func (l *sipOutgoing) cancel(tx sip.ClientTransaction) bool {
	l.mu.Lock()
	ringing := l.provisional
	inv := l.invite
	l.mu.Unlock()
	if !ringing {
		// No CANCEL before a provisional response (RFC 3261 section 9.1): give up when none comes in a second.
		select {
		case res := <-tx.Responses():
			if !res.IsProvisional() {
				if res.IsSuccess() {
					l.onAccepted(res, tx)
				}
				return false
			}
		case <-tx.Done():
			return false
		case <-time.After(time.Second):
			tx.Terminate()
			return false
		case <-l.prof.sw.stop:
			tx.Terminate()
			return false
		}
	}
	req := sip.NewRequest(sip.CANCEL, inv.Recipient)
	for _, h := range []sip.Header{sip.HeaderClone(inv.Via()), sip.HeaderClone(inv.From()), sip.HeaderClone(inv.To()), sip.HeaderClone(inv.CallID())} {
		req.AppendHeader(h)
	}
	req.AppendHeader(&sip.CSeqHeader{SeqNo: inv.CSeq().SeqNo, MethodName: sip.CANCEL})
	maxFwd := sip.MaxForwardsHeader(70)
	req.AppendHeader(&maxFwd)
	req.SetTransport(inv.Transport())
	req.SetDestination(inv.Destination())
	l.prof.sw.goRequest(func() { _, _ = l.do(req) })
	// The transaction ends by 487, by a late 2xx, or by this timer.
	timer := time.AfterFunc(8*time.Second, tx.Terminate)
	l.prof.sw.goFunc(func() {
		select {
		case <-tx.Done():
		case <-l.prof.sw.stop:
		}
		timer.Stop()
	})
	return true
}

// onProvisional takes 1xx.
func (l *sipOutgoing) onProvisional(res *sip.Response) {
	l.mu.Lock()
	l.provisional = true
	over := l.phase == phaseOver
	l.mu.Unlock()
	if res.StatusCode == 100 || over {
		return
	}
	l.ch.set("sip_to_tag", toTag(res))
	if len(res.Body()) > 0 && l.takeAnswer(res.Body()) == nil {
		l.ch.events.markEarly()
		return
	}
	l.ch.events.markProgress()
}

func toTag(res *sip.Response) string {
	if to := res.To(); to != nil {
		return to.Params.GetOr("tag", "")
	}
	return ""
}

// takeAnswer starts the media by the far end's session description.
func (l *sipLeg) takeAnswer(body []byte) error {
	r, err := parseSDP(body)
	if err != nil {
		return err
	}
	l.mu.Lock()
	c, ok := r.choose(l.codecs)
	if ok {
		l.offer = &r
	}
	l.mu.Unlock()
	if !ok {
		return errNoAudio
	}
	l.startMedia(r, c)
	return nil
}

// startMedia points the leg's RTP at the far end and notes what was agreed.
func (l *sipLeg) startMedia(r remoteSDP, c codec) {
	ch := l.ch
	ch.media.connect(r.addr, c, r.telEvent)
	ch.setAll([]header{
		{"switch_r_sdp", r.text},
		{"remote_media_ip", r.addr.Addr().String()},
		{"remote_media_port", strconv.Itoa(int(r.addr.Port()))},
		{"read_codec", c.String()},
		{"read_rate", "8000"},
		{"write_codec", c.String()},
		{"write_rate", "8000"},
		{"rtp_use_codec_name", c.String()},
		{"rtp_use_codec_rate", "8000"},
		{"rtp_use_codec_ptime", "20"},
		{"remote_audio_media_flow", string(r.direction)},
		{"rtp_use_ssrc", strconv.FormatUint(uint64(ch.media.ssrc), 10)},
	})
	if r.telEvent == 0 {
		ch.set("dtmf_type", "info")
		return
	}
	ch.setAll([]header{
		{"dtmf_type", "rfc2833"},
		{"rtp_2833_send_payload", strconv.Itoa(int(r.telEvent))},
		{"rtp_2833_recv_payload", strconv.Itoa(int(r.telEvent))},
	})
}

// onAccepted takes the 2xx.
func (l *sipOutgoing) onAccepted(res *sip.Response, tx sip.ClientTransaction) {
	l.mu.Lock()
	late := l.phase == phaseOver
	if !late {
		l.phase = phaseConfirmed
	}
	l.learn(res.Contact(), toTag(res), res.GetHeaders("Record-Route"), true)
	cseq := l.invite.CSeq().SeqNo
	l.mu.Unlock()
	tx.OnRetransmission(func(*sip.Response) { l.ack(cseq) })
	l.ack(cseq)
	if late {
		l.bye(causeCancel)
		return
	}
	l.noteFarEnd(res)
	if len(res.Body()) > 0 {
		if err := l.takeAnswer(res.Body()); err != nil {
			l.prof.sw.log.Warn("answer refused", "channel", l.ch.uuid, "error", err)
			l.ch.hangup(causeIncompatible)
			return
		}
	}
	l.ch.events.markAnswered()
}

// noteFarEnd sets the variables that tell about the far end.
func (l *sipOutgoing) noteFarEnd(res *sip.Response) {
	vars := []header{{"sip_to_tag", toTag(res)}}
	if h := res.GetHeader("User-Agent"); h != nil {
		vars = append(vars, header{"sip_user_agent", h.Value()})
	}
	if host, port, err := net.SplitHostPort(res.Source()); err == nil {
		vars = append(vars, header{"sip_network_ip", host}, header{"sip_network_port", port})
		l.ch.mu.Lock()
		l.ch.profile.networkAddr = host
		l.ch.mu.Unlock()
	}
	if c := res.Contact(); c != nil {
		vars = append(vars, header{"sip_contact_uri", strings.TrimPrefix(c.Address.String(), "sip:")})
	}
	l.ch.setAll(vars)
}

// refused ends a leg whose INVITE was turned down, or got no answer at all.
func (l *sipOutgoing) refused(status int, res *sip.Response) {
	l.mu.Lock()
	if l.phase != phaseEarly {
		l.mu.Unlock()
		return
	}
	l.phase = phaseOver
	l.mu.Unlock()
	c, phrase := causeOfStatus(status), reasonPhrase(status)
	if res != nil {
		phrase = res.Reason
		if q := causeOfReason(res.GetHeader("Reason")); q != causeNone {
			c = q
		}
	}
	code, disposition := strconv.Itoa(status), "recv_refuse"
	if c == causeRedirected {
		disposition = "send_cancel" // the switch gives up on its own accord
	}
	l.ch.setAll([]header{
		{"sip_invite_failure_status", code},
		{"sip_invite_failure_phrase", phrase},
		{"sip_term_status", code},
		{"proto_specific_hangup_cause", "sip:" + code},
		{"sip_term_cause", strconv.Itoa(q850Of(c))},
		{"sip_hangup_disposition", disposition},
	})
	l.ch.hangup(c)
}
