package simswitch

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/emiago/sipgo/sip"
)

// legPhase is where a leg's dialog is.
type legPhase int

const (
	phaseEarly     legPhase = iota // no final response yet
	phaseConfirmed                 // 2xx was sent or received
	phaseOver                      // refused, cancelled, or BYE
)

// sipLeg is the signalling of one channel: one INVITE dialog, from either side.
type sipLeg struct {
	prof        *sipProfile
	ch          *channel
	outbound    bool
	transport   string // "udp" or "tcp"
	destination string // host:port that the INVITE goes to
	gateway     *Gateway

	mu        sync.Mutex // guards all below
	phase     legPhase
	callID    string
	localTag  string
	remoteTag string
	local     sip.FromHeader // without tag
	remote    sip.ToHeader   // without tag
	target    sip.Uri
	routes    []string
	cseq      uint32
	codecs    []codec // what this side may use, in order
	offer     *remoteSDP
	version   int64
	telEvent  uint8
	inviting  bool // a re-INVITE of ours is on its way
	// offeredIP and offeredPort are what a re-INVITE for bypass offered last; empty is our own address.
	offeredIP   string
	offeredPort int
	refusedAway bool // the far end has ended the call by refusing a re-INVITE
	ackedCSeq   uint32

	out sipOutgoing
	in  sipIncoming
}

func (p *sipProfile) newLeg(ch *channel, outbound bool) *sipLeg {
	l := &sipLeg{
		prof: p, ch: ch, outbound: outbound, transport: "udp", codecs: []codec{codecPCMU, codecPCMA},
		version: time.Now().Unix(), telEvent: 101,
	}
	l.out = sipOutgoing{sipLeg: l, cancelled: make(chan struct{})}
	l.in = sipIncoming{sipLeg: l, acked: make(chan struct{}), ended: make(chan struct{})}
	return l
}

// requestTimeout bounds every request within a dialog (RFC 3261, timer F).
const requestTimeout = 32 * time.Second

// request builds a request within the dialog. The caller holds mu.
func (l *sipLeg) request(method sip.RequestMethod) *sip.Request {
	req := sip.NewRequest(method, *l.target.Clone())
	from := l.local
	from.Params = sip.NewParams()
	from.Params.Add("tag", l.localTag)
	to := l.remote
	to.Params = sip.NewParams()
	if l.remoteTag != "" {
		to.Params.Add("tag", l.remoteTag)
	}
	callID := sip.CallIDHeader(l.callID)
	if method != sip.ACK && method != sip.CANCEL {
		l.cseq++
	}
	maxFwd := sip.MaxForwardsHeader(70)
	req.AppendHeader(&from)
	req.AppendHeader(&to)
	req.AppendHeader(&callID)
	req.AppendHeader(&sip.CSeqHeader{SeqNo: l.cseq, MethodName: method})
	req.AppendHeader(&maxFwd)
	req.AppendHeader(l.prof.contact(l.transport))
	req.AppendHeader(sip.NewHeader("User-Agent", userAgent))
	for _, r := range l.routes {
		req.AppendHeader(sip.NewHeader("Route", r))
	}
	req.SetTransport(strings.ToUpper(l.transport))
	if l.destination != "" && len(l.routes) > 0 {
		req.SetDestination(l.destination)
	}
	return req
}

// do sends a request within the dialog and waits for its final response.
func (l *sipLeg) do(req *sip.Request) (*sip.Response, error) {
	select {
	case <-l.prof.sw.stop:
		return nil, ErrClosed
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-l.prof.sw.stop:
			cancel()
		case <-stop:
		}
	}()
	res, err := l.prof.client.Do(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("%s within a dialog: %w", req.Method, err)
	}
	return res, nil
}

// ack acknowledges a 2xx of an INVITE of ours with that CSeq.
func (l *sipLeg) ack(cseq uint32) {
	l.mu.Lock()
	req := l.request(sip.ACK)
	req.CSeq().SeqNo = cseq
	l.mu.Unlock()
	if err := l.prof.client.WriteRequest(req); err != nil {
		l.prof.sw.log.Debug("ACK not sent", "channel", l.ch.uuid, "error", err)
	}
}

// learn takes the far end's tag, contact and route from its response or request. The caller holds mu.
func (l *sipLeg) learn(contact *sip.ContactHeader, tag string, routes []sip.Header, reverse bool) {
	if tag != "" {
		l.remoteTag = tag
	}
	if contact != nil {
		l.target = *contact.Address.Clone()
	}
	if len(routes) > 0 && len(l.routes) == 0 {
		for i := range routes {
			if reverse {
				i = len(routes) - 1 - i
			}
			l.routes = append(l.routes, routes[i].Value())
		}
	}
}

// terminate ends the dialog as the cause demands and notes sip_hangup_disposition, as mod_sofia does on hang-up.
func (l *sipLeg) terminate(c cause) {
	l.mu.Lock()
	phase, refused := l.phase, l.refusedAway
	l.phase = phaseOver
	l.mu.Unlock()
	switch {
	case phase == phaseOver:
		l.in.finishInvite()
	case phase == phaseConfirmed:
		if !refused {
			l.ch.set("sip_hangup_disposition", "send_bye")
		}
		l.prof.sw.goRequest(func() { l.bye(c) })
	case l.outbound:
		l.ch.set("sip_hangup_disposition", "send_cancel")
		l.ch.set("sip_invite_failure_status", "487")
		l.ch.set("sip_invite_failure_phrase", "CANCEL")
		l.takeBack()
	default:
		l.ch.set("sip_hangup_disposition", "send_refuse")
		l.mu.Lock()
		status := l.in.status
		l.mu.Unlock()
		if status == 0 {
			status = statusOfCause(c)
		}
		l.in.respond(status, nil, reasonHeader(c))
		l.in.finishInvite()
	}
}

// takeBack lets the INVITE's goroutine send CANCEL; Close waits for it as for any last request.
func (l *sipLeg) takeBack() {
	l.mu.Lock()
	following := l.out.following
	if following {
		l.prof.sw.requests.Add(1)
		l.out.cancelling = true
	}
	l.mu.Unlock()
	close(l.out.cancelled)
}

// forget drops the dialog; late requests get 481.
func (l *sipLeg) forget() { l.prof.dropLeg(l) }

// reasonHeader tells the cause in a BYE or a refusal (RFC 3326).
func reasonHeader(c cause) sip.Header {
	return sip.NewHeader("Reason", fmt.Sprintf("Q.850;cause=%d;text=%q", q850Of(c), string(c)))
}

// causeOfReason reads a Q.850 cause from a Reason header.
func causeOfReason(h sip.Header) cause {
	if h == nil {
		return causeNone
	}
	proto, params, _ := strings.Cut(h.Value(), ";")
	if !strings.EqualFold(strings.TrimSpace(proto), "Q.850") {
		return causeNone
	}
	for part := range strings.SplitSeq(params, ";") {
		if v, ok := strings.CutPrefix(strings.TrimSpace(part), "cause="); ok {
			code, err := strconv.Atoi(v)
			if err != nil || code <= 0 || code > 127 {
				return causeNone
			}
			for c, n := range q850 {
				if n == code {
					return c
				}
			}
		}
	}
	return causeNone
}

// bye ends a confirmed dialog.
func (l *sipLeg) bye(c cause) {
	if !l.outbound {
		// RFC 3261 section 15: no BYE before the ACK or the end of the transaction.
		select {
		case <-l.in.acked:
		case <-time.After(2 * time.Second):
		case <-l.prof.sw.stop:
			return
		}
	}
	l.mu.Lock()
	req := l.request(sip.BYE)
	l.mu.Unlock()
	req.AppendHeader(reasonHeader(c))
	if _, err := l.do(req); err != nil {
		l.prof.sw.log.Debug("BYE not answered", "channel", l.ch.uuid, "error", err)
	}
}

// onBye ends the leg from the far end, as soon as the leg is read.
func (l *sipLeg) onBye(req *sip.Request, tx sip.ServerTransaction) {
	l.prof.reply(req, tx, 200)
	l.mu.Lock()
	over := l.phase == phaseOver
	l.phase = phaseOver
	l.mu.Unlock()
	if over {
		return
	}
	c := causeOfReason(req.GetHeader("Reason"))
	if c == causeNone {
		c = causeNormalClearing
	}
	l.ch.setAll([]header{
		{"sip_term_status", "200"},
		{"proto_specific_hangup_cause", "sip:200"},
		{"sip_term_cause", strconv.Itoa(q850Of(c))},
		{"sip_hangup_disposition", "recv_bye"},
	})
	if v := req.GetHeader("Reason"); v != nil {
		l.ch.set("sip_reason", v.Value())
	}
	l.ch.onceRead(func() { l.ch.hangup(c) })
}

// onInfo takes a SIP INFO: it is told on the host link. It is a digit as well when the leg has no telephone-events, and none
// when it has (both seen on FreeSWITCH).
func (l *sipLeg) onInfo(req *sip.Request, tx sip.ServerTransaction) {
	l.prof.reply(req, tx, 200)
	contentType := ""
	if h := req.ContentType(); h != nil {
		contentType = h.Value()
	}
	l.tellInfo(req, contentType)
	if l.ch.get("dtmf_type") != "info" {
		return
	}
	if digit, samples, ok := infoDigit(contentType, string(req.Body())); ok {
		l.ch.events.gotDigit(digit, samples, sourceEndpoint)
	}
}

func (l *sipLeg) tellInfo(req *sip.Request, contentType string) {
	l.ch.events.emitMu.Lock()
	defer l.ch.events.emitMu.Unlock()
	e := l.ch.events.build("RECV_INFO", nil, []header{{"SIP-Content-Type", contentType}})
	if from := req.From(); from != nil {
		e.add("SIP-From-User", from.Address.User)
		e.add("SIP-From-Host", from.Address.Host)
	}
	if to := req.To(); to != nil {
		e.add("SIP-To-User", to.Address.User)
		e.add("SIP-To-Host", to.Address.Host)
	}
	e.body = string(req.Body())
	l.ch.events.fire(e)
}

// onUpdate answers a session refresh; an offer in it is treated as a re-INVITE's.
func (l *sipLeg) onUpdate(req *sip.Request, tx sip.ServerTransaction) {
	if len(req.Body()) > 0 {
		l.answerOffer(req, tx)
		return
	}
	l.prof.reply(req, tx, 200, l.prof.contact(l.transport))
}

// sendDigits plays digits to the far end: by RFC 4733, or by SIP INFO when it doesn't take telephone-event.
func (l *sipLeg) sendDigits(digits string) int {
	digits, ms := splitDigits(digits)
	l.mu.Lock()
	byInfo := l.offer != nil && l.offer.telEvent == 0
	l.mu.Unlock()
	if _, past := l.ch.bypass.bypassed(); past {
		byInfo = true
	}
	for _, d := range digits {
		if byInfo {
			l.infoDigit(d, ms)
		} else if l.ch.media != nil {
			l.ch.media.queueDigit(byte(d), ms)
		}
	}
	return len(digits)
}

// infoDigit sends one digit by SIP INFO.
func (l *sipLeg) infoDigit(digit rune, ms int) {
	l.mu.Lock()
	if l.phase != phaseConfirmed {
		l.mu.Unlock()
		return
	}
	req := l.request(sip.INFO)
	l.mu.Unlock()
	req.AppendHeader(sip.NewHeader("Content-Type", "application/dtmf-relay"))
	req.SetBody([]byte(fmt.Sprintf("Signal=%c\r\nDuration=%d\r\n", digit, ms)))
	l.prof.sw.goFunc(func() {
		if _, err := l.do(req); err != nil {
			l.prof.sw.log.Debug("INFO not answered", "channel", l.ch.uuid, "error", err)
		}
	})
}
