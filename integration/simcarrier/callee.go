package simcarrier

import (
	"context"
	"strings"
	"time"

	"github.com/emiago/sipgo/sip"
)

// handleInvite plays the callee, or takes a re-INVITE of a call that is up.
func (s *endpoint) handleInvite(req *sip.Request, tx sip.ServerTransaction) {
	if req.CallID() == nil || req.From() == nil || req.To() == nil || req.Contact() == nil || req.CSeq() == nil {
		s.answer(tx, req, 400)
		return
	}
	if tag, ok := req.To().Params.Get("tag"); ok {
		s.handleReinvite(req, tx, tag)
		return
	}
	from, _ := req.From().Params.Get("tag")
	if from == "" {
		s.answer(tx, req, 400)
		return
	}
	number, isContact := strings.CutPrefix(req.Recipient.User, contactPrefix)
	a := s.agentOf(number)
	if isContact && a == nil { // a registration that is older than the softphone's end
		s.answer(tx, req, 404)
		return
	}
	c := s.newCall(Callee, req.CallID().Value(), req.From().Address.User, number)
	switch {
	case a == nil && c.behaviour == Talks:
		s.nextRing(&c.plan)
	case a == nil:
	case a.isLost():
		return
	default:
		c.behaviour, c.plan = Talks, a.plan(req)
		c.report.Direction = Agent
		a.noteCall(c)
	}
	c.noteHeaders(req)
	c.adoptInvite(req)
	if err := s.register(c); err != nil {
		s.answer(tx, req, 503)
		return
	}
	defer c.leave()
	c.receive(context.Background(), req, tx)
}

// adoptInvite takes the dialog's addresses from the INVITE (RFC 3261 section 12.1.1).
func (c *call) adoptInvite(req *sip.Request) {
	local := req.To().AsFrom()
	local.Params.Add("tag", c.localTag)
	remote := req.From().AsTo()
	c.local, c.remote = &local, &remote
	c.target = *req.Contact().Address.Clone()
	for _, h := range req.GetHeaders("Record-Route") {
		c.routes = append(c.routes, h.Value())
	}
}

// response answers a request of this dialog with our tag and address.
func (c *call) response(req *sip.Request, status int, body []byte) *sip.Response {
	res := sip.NewResponseFromRequest(req, status, phrase(status), body)
	if to := res.To(); to != nil {
		to.Params.Add("tag", c.localTag)
	}
	res.AppendHeader(c.s.contact(c.number))
	if body != nil {
		res.AppendHeader(sip.NewHeader("Content-Type", "application/sdp"))
	}
	return res
}

// answer answers a request of no dialog.
func (s *endpoint) answer(tx sip.ServerTransaction, req *sip.Request, status int) {
	s.respond(tx, sip.NewResponseFromRequest(req, status, phrase(status), nil))
}

// respond sends a response. A transaction that is over can't take it; the caller sees that by other means.
func (s *endpoint) respond(tx sip.ServerTransaction, res *sip.Response) {
	if err := tx.Respond(res); err != nil {
		s.log.Debug("responding failed", "sip_status", res.StatusCode, "error", err)
	}
}

// receive rings as the number says, and answers or refuses.
func (c *call) receive(ctx context.Context, req *sip.Request, tx sip.ServerTransaction) {
	if c.plan.refusal != 0 {
		if c.behaviour == Forbidden {
			c.mu.Lock()
			c.report.Forbidden = true
			c.mu.Unlock()
			c.s.noteForbidden()
			c.s.log.Error("a number of the do-not-call registry was called", "sip_call_id", c.callID)
		}
		c.decline(req, tx, c.plan.refusal)
		return
	}
	var offer *negotiated
	if len(req.Body()) > 0 {
		n, err := c.parse(req.Body())
		if err != nil {
			c.s.log.Warn("the switch's offer can't be taken", "sip_call_id", c.callID, "error", err)
			c.decline(req, tx, 488)
			return
		}
		offer = &n
	}
	if !c.ring(req, tx) {
		return
	}
	if c.unreachable() {
		c.end(Us, networkLost)
		return
	}
	if err := c.openStream(c.plan.voice); err != nil {
		c.s.log.Error("answering failed", "sip_call_id", c.callID, "error", err)
		c.decline(req, tx, 500)
		return
	}
	res := c.response(req, 200, c.describe(offer))
	c.answer(offer)
	c.s.sip.respond(tx, res)
	if !c.awaitACK(tx, res) {
		return
	}
	c.stay(ctx)
}

func (c *call) decline(req *sip.Request, tx sip.ServerTransaction, status int) {
	c.refuse(status)
	c.s.sip.respond(tx, c.response(req, status, nil))
	c.end(Us, "")
}

// ring sends 180 and waits until the callee picks up. It is false when the call ended before.
func (c *call) ring(req *sip.Request, tx sip.ServerTransaction) bool {
	cancelled := make(chan string, 1)
	watching := tx.OnCancel(func(r *sip.Request) {
		c.cancelled.Store(true)
		select {
		case cancelled <- headerValue(r, "Reason"):
		default:
		}
	})
	if !watching {
		c.refuse(487)
		c.end(Them, "")
		return false
	}
	c.s.sip.respond(tx, c.response(req, 180, nil))
	now := time.Now()
	c.mu.Lock()
	c.report.RingingAt = &now
	c.mu.Unlock()
	var pickUp <-chan time.Time
	if c.plan.rings {
		t := time.NewTimer(c.plan.ring)
		defer t.Stop()
		pickUp = t.C
	}
	reason, unanswered := "", false
	select {
	case <-pickUp:
		if !c.cancelled.Load() {
			if unanswered = c.plan.givesUp; !unanswered {
				return true
			}
		}
	case reason = <-cancelled:
	case <-tx.Done():
	case <-c.hangup:
		unanswered = true
	case <-c.s.stop:
		unanswered = true
	}
	if unanswered {
		c.decline(req, tx, 480)
		return false
	}
	c.refuse(487) // the transaction has sent it
	c.end(Them, reason)
	return false
}

// awaitACK repeats the answer until it is acknowledged (RFC 3261 section 13.3.1.4). It is false when the call is over.
func (c *call) awaitACK(tx sip.ServerTransaction, res *sip.Response) bool {
	wait := sip.T1
	timer, giveUp := time.NewTimer(wait), time.NewTimer(64*sip.T1)
	defer timer.Stop()
	defer giveUp.Stop()
	for {
		if c.unreachable() {
			return true
		}
		select {
		case <-c.acked:
			return true
		case ack := <-tx.Acks():
			if c.cancelled.Load() { // the CANCEL was faster than our answer: this acknowledges the 487
				c.withdraw()
				return false
			}
			c.takeACK(ack)
		case <-c.ended:
			return false
		case <-timer.C:
			if c.cancelled.Load() {
				c.withdraw()
				return false
			}
			c.s.sip.respond(tx, res)
			wait = min(2*wait, sip.T2)
			timer.Reset(wait)
		case <-giveUp.C:
			c.s.log.Warn("the answer was never acknowledged", "sip_call_id", c.callID)
			return true
		case <-c.s.stop:
			return true
		}
	}
}

// withdraw takes an answer back that never left.
func (c *call) withdraw() {
	c.mu.Lock()
	c.report.AnsweredAt, c.report.SIPStatus = nil, 487
	c.mu.Unlock()
	c.s.mu.Lock()
	c.s.calls.stats.Answered--
	c.s.mu.Unlock()
	c.end(Them, "")
}

// takeACK takes the answer to our own offer, which comes in the ACK when the INVITE had none.
func (c *call) takeACK(req *sip.Request) {
	if st := c.live(); st != nil && len(req.Body()) > 0 {
		if n, err := c.parse(req.Body()); err != nil {
			c.s.log.Warn("the switch's answer can't be taken", "sip_call_id", c.callID, "error", err)
		} else {
			st.activate(n)
		}
	}
	c.gotACK()
}

// handleReinvite moves, holds or refreshes a call's media.
func (s *endpoint) handleReinvite(req *sip.Request, tx sip.ServerTransaction, tag string) {
	c := s.dialogCall(req.CallID().Value(), tag)
	if c.unreachable() {
		return
	}
	if c == nil {
		s.answer(tx, req, 481)
		return
	}
	st := c.live()
	if st == nil {
		s.respond(tx, c.response(req, 481, nil))
		return
	}
	c.mu.Lock()
	c.report.Reinvites++
	c.target = *req.Contact().Address.Clone() // RFC 3261 section 12.2.2: a target refresh
	c.mu.Unlock()
	if status := c.behaviour.reinviteRefusal(); status != 0 {
		s.respond(tx, c.response(req, status, nil))
		return
	}
	if c.behaviour == ReinvitedLate && !c.think() {
		s.respond(tx, c.response(req, 487, nil))
		return
	}
	if len(req.Body()) == 0 {
		s.respond(tx, c.response(req, 200, c.describe(nil)))
		return
	}
	n, err := c.parse(req.Body())
	if err != nil {
		s.respond(tx, c.response(req, 488, nil))
		return
	}
	st.activate(n) // before the answer, behind which the next re-INVITE may come
	s.respond(tx, c.response(req, 200, c.describe(&n)))
}

// think waits as long as a ReinvitedLate does. It is false when the call has ended meanwhile.
func (c *call) think() bool {
	t := time.NewTimer(reinvitedLate)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.ended:
		return false
	}
}

// parse reads the switch's offer or answer as this subscriber takes it.
func (c *call) parse(body []byte) (negotiated, error) {
	n, err := parseSDP(body, c.s.cfg.Codecs)
	if n.event != 0 && c.behaviour == OtherEvents {
		n.event = otherEvent
	}
	return n, err
}

func headerValue(req *sip.Request, name string) string {
	if h := req.GetHeader(name); h != nil {
		return h.Value()
	}
	return ""
}
