package sip

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/emiago/sipgo"
	"github.com/emiago/sipgo/sip"
	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media/dtmf"
)

const (
	// byeTimeout bounds a BYE: the switch is on this machine, and the session has ended for us anyway.
	byeTimeout = 2 * time.Second
	// ackTimeout is how long a new INVITE waits for the ACK of the one before it, if that brings an SDP answer.
	ackTimeout = time.Second
)

// Leg is one SIP dialog with the switch, in which we are the called side.
type Leg struct {
	ep  *Endpoint
	to  Callee
	key dialogKey

	ours    sip.FromHeader // in requests that we send
	theirs  sip.ToHeader
	target  sip.Uri // their contact
	routes  []string
	network string
	contact *sip.ContactHeader

	mu       sync.Mutex
	local    localSDP
	media    Media
	remote   uint32 // the CSeq of their newest request
	invited  uint32 // that of their newest INVITE, which its ACK has too
	cseq     uint32 // of our own
	pending  chan struct{}
	offered  bool // our 200 carried an offer; the ACK has the answer
	answered bool
	over     bool
	keys     []dtmf.Key // digits that wait to be sent by INFO
	keying   bool
}

func newLeg(e *Endpoint, callee Callee, req *sip.Request) *Leg {
	tag := uuid.NewString()
	remoteTag, _ := req.From().Params.Get("tag")
	ours := req.To().AsFrom()
	ours.Params.Add("tag", tag)
	l := &Leg{
		ep: e, to: callee,
		key:     dialogKey{callID: req.CallID().Value(), localTag: tag, remoteTag: remoteTag},
		ours:    ours,
		theirs:  req.From().AsTo(),
		target:  *req.Contact().Address.Clone(),
		network: req.Transport(),
		remote:  req.CSeq().SeqNo,
		invited: req.CSeq().SeqNo,
		cseq:    1,
		local:   localSDP{addr: callee.RTPAddr, id: uint64(rand.Uint32())},
	}
	for _, h := range req.GetHeaders("Record-Route") {
		l.routes = append(l.routes, h.Value())
	}
	uri := sip.Uri{Scheme: "sip", User: callee.ID, Host: e.addr.Addr().String(), Port: int(e.addr.Port())}
	if strings.EqualFold(req.Transport(), "tcp") {
		uri.UriParams = sip.NewParams()
		uri.UriParams.Add("transport", "tcp")
	}
	l.contact = &sip.ContactHeader{Address: uri}
	return l
}

// answer accepts the first INVITE of the dialog.
func (l *Leg) answer(req *sip.Request, tx sip.ServerTransaction) {
	l.ep.store(l)
	body, status := l.negotiate(req.Body())
	if status != sip.StatusOK {
		l.to.Log.Warn("answering an INVITE failed", "status", status)
		l.ep.drop(l)
		l.to.Owner.Release(l)
		l.refuse(req, tx, status)
		return
	}
	l.ep.cfg.Invites.WithLabelValues("200").Inc()
	l.accept(req, tx, body)
}

// negotiate reads an offer and returns our answer, or our offer when there was none. The audio follows at once, but not that of a leg which has ended
// while its request was on the way here: it would go on without an end, or over the next leg's.
func (l *Leg) negotiate(body []byte) ([]byte, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return nil, sip.StatusCallTransactionDoesNotExists
	}
	if len(body) == 0 {
		out, err := l.local.offer(l.media)
		if err != nil {
			return nil, sip.StatusInternalServerError
		}
		l.offered = true
		return out, sip.StatusOK
	}
	r, err := ReadSDP(body)
	if err != nil {
		l.to.Log.Warn("reading an SDP offer failed", "error", err)
		return nil, sip.StatusNotAcceptableHere
	}
	out, err := l.local.answer(r)
	if err != nil {
		l.to.Log.Error("writing an SDP answer failed", "error", err)
		return nil, sip.StatusInternalServerError
	}
	l.media, l.offered = r.Media, false
	l.to.Owner.Negotiated(r.Media)
	return out, sip.StatusOK
}

// refuse answers a request that has come to no negotiation.
func (l *Leg) refuse(req *sip.Request, tx sip.ServerTransaction, status int) {
	reason := "Not Acceptable Here"
	if status == sip.StatusCallTransactionDoesNotExists {
		reason = "Call/Transaction Does Not Exist"
	}
	l.ep.reject(req, tx, status, reason)
}

// accept sends the 200 and repeats it until the ACK comes (RFC 3261 section 13.3.1.4). It runs in the request's own
// goroutine.
func (l *Leg) accept(req *sip.Request, tx sip.ServerTransaction, body []byte) {
	res := l.response(req, body)
	acked := make(chan struct{})
	l.mu.Lock()
	l.pending = acked
	over := l.over
	l.mu.Unlock()
	if over {
		l.refuse(req, tx, sip.StatusCallTransactionDoesNotExists)
		return
	}
	if err := tx.Respond(res); err != nil {
		if errors.Is(err, sip.ErrTransactionCanceled) {
			l.ended("cancel", true)
			return
		}
		l.to.Log.Warn("sending a 200 failed", "error", err)
		l.ended("error", false)
		return
	}
	interval := sip.T1
	timer := time.NewTimer(interval)
	defer timer.Stop()
	deadline := time.NewTimer(64 * sip.T1)
	defer deadline.Stop()
	for {
		select {
		case <-acked:
			return
		case <-l.ep.cfg.Done:
			return
		case <-timer.C:
			interval = min(2*interval, sip.T2)
			timer.Reset(interval)
			if err := tx.Respond(res); err != nil {
				l.to.Log.Debug("repeating a 200 failed", "error", err)
			}
		case <-deadline.C:
			l.to.Log.Warn("no ACK received for a 200")
			l.Hangup("no_ack")
			return
		}
	}
}

func (l *Leg) response(req *sip.Request, body []byte) *sip.Response {
	res := sip.NewResponseFromRequest(req, sip.StatusOK, "OK", body)
	if h := res.To(); h != nil {
		h.Params.Add("tag", l.key.localTag)
	}
	res.AppendHeader(l.contact)
	res.AppendHeader(sip.NewHeader("Allow", allowedMethods))
	if len(body) > 0 {
		ct := sip.ContentTypeHeader("application/sdp")
		res.AppendHeader(&ct)
	}
	return res
}

// ack ends the repeating of the 200. After an offer of ours it carries the answer.
func (l *Leg) ack(req *sip.Request) {
	if err := l.acknowledged(req.CSeq().SeqNo, req.Body()); err != nil {
		l.to.Log.Warn("reading an ACK's SDP answer failed", "error", err)
		l.Hangup("bad_answer")
	}
}

// acknowledged notes that the other side has our 200 to the INVITE with a CSeq.
func (l *Leg) acknowledged(invite uint32, answer []byte) error {
	l.mu.Lock()
	if l.pending == nil || l.over || invite != l.invited {
		l.mu.Unlock()
		return nil
	}
	close(l.pending)
	l.pending = nil
	first := !l.answered
	l.answered = true
	var err error
	if l.offered {
		l.offered = false
		var r *Description
		if r, err = ReadSDP(answer); err == nil {
			l.media = r.Media
			l.to.Owner.Negotiated(r.Media)
		}
	}
	codec := l.media.Codec
	l.mu.Unlock()
	if first && err == nil {
		l.to.Owner.Answered(codec)
	}
	return err
}

// overtaken ends the INVITE before a new one. Who sends another has our 200 (RFC 3261 section 14.1), though the ACK may come after it, since each request
// has a goroutine of its own, or never: it is waited for only where it brings an SDP answer. False: that has not come.
func (l *Leg) overtaken(req *sip.Request) bool {
	l.mu.Lock()
	pending, offered, before, old := l.pending, l.offered, l.invited, req.CSeq().SeqNo <= l.remote
	l.mu.Unlock()
	switch {
	case pending == nil || old:
		return true
	case !offered:
		return l.acknowledged(before, nil) == nil
	}
	timer := time.NewTimer(ackTimeout)
	defer timer.Stop()
	select {
	case <-pending:
		return true
	case <-timer.C:
		return false
	}
}

// fresh tells whether a request is newer than all before it; if not, it has been answered.
func (l *Leg) fresh(req *sip.Request, tx sip.ServerTransaction) bool {
	if req.IsInvite() && !l.overtaken(req) {
		res := sip.NewResponseFromRequest(req, sip.StatusInternalServerError, "Server Internal Error", nil)
		res.AppendHeader(sip.NewHeader("Retry-After", "1"))
		l.ep.respond(tx, res)
		return false
	}
	l.mu.Lock()
	n := req.CSeq().SeqNo
	ok := n > l.remote && !l.over
	if ok {
		l.remote = n
		if req.IsInvite() {
			l.invited = n
		}
		if c := req.Contact(); c != nil {
			l.target = *c.Address.Clone()
		}
	}
	l.mu.Unlock()
	if !ok {
		l.ep.reject(req, tx, sip.StatusInternalServerError, "Server Internal Error")
	}
	return ok
}

// reinvite changes the leg: hold, another codec, another address. Refused, all stays as it was.
func (l *Leg) reinvite(req *sip.Request, tx sip.ServerTransaction) {
	if !l.fresh(req, tx) {
		return
	}
	body, status := l.negotiate(req.Body())
	if status != sip.StatusOK {
		l.refuse(req, tx, status)
		return
	}
	l.accept(req, tx, body)
}

// update answers an UPDATE (RFC 3311), with or without an offer.
func (l *Leg) update(req *sip.Request, tx sip.ServerTransaction) {
	if !l.fresh(req, tx) {
		return
	}
	var body []byte
	if len(req.Body()) > 0 {
		var status int
		if body, status = l.negotiate(req.Body()); status != sip.StatusOK {
			l.refuse(req, tx, status)
			return
		}
	}
	l.ep.respond(tx, l.response(req, body))
}

// ended takes the leg off its owner; it reports whether it was still there.
func (l *Leg) ended(cause string, byPeer bool) bool {
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return false
	}
	l.over = true
	if l.pending != nil {
		close(l.pending)
		l.pending = nil
	}
	l.mu.Unlock()
	l.ep.drop(l)
	l.to.Owner.Ended(l, cause, byPeer)
	return true
}

// Hangup ends the leg and says so to the switch.
func (l *Leg) Hangup(cause string) {
	if !l.ended(cause, false) {
		return
	}
	l.ep.cfg.Spawn(func() {
		ctx, cancel := context.WithTimeout(context.Background(), byeTimeout)
		defer cancel()
		if err := l.bye(ctx); err != nil {
			l.to.Log.Debug("sending a BYE failed", "error", err)
		}
	})
}

func (l *Leg) bye(ctx context.Context) error {
	_, err := l.ep.client.Do(ctx, l.request(sip.BYE), sipgo.ClientRequestAddVia)
	return err
}

// request builds a request of ours within the dialog.
func (l *Leg) request(method sip.RequestMethod) *sip.Request {
	l.mu.Lock()
	l.cseq++
	seq, target := l.cseq, l.target
	l.mu.Unlock()
	req := sip.NewRequest(method, target)
	callID := sip.CallIDHeader(l.key.callID)
	hops := sip.MaxForwardsHeader(70)
	req.AppendHeader(&hops)
	req.AppendHeader(&l.ours)
	req.AppendHeader(&l.theirs)
	req.AppendHeader(&callID)
	req.AppendHeader(&sip.CSeqHeader{SeqNo: seq, MethodName: method})
	req.AppendHeader(l.contact)
	for _, r := range l.routes {
		req.AppendHeader(sip.NewHeader("Route", r))
	}
	if r := req.Route(); r != nil {
		req.SetDestination(r.Address.HostPort())
	}
	req.SetTransport(l.network)
	req.SetBody(nil)
	if !strings.EqualFold(l.network, "tcp") {
		// Out of the socket that the switch knows, wherever its contact points.
		if a := l.ep.addr; a.Addr().Is4() {
			req.Laddr = sip.Addr{IP: net.IP(a.Addr().AsSlice()), Port: int(a.Port())}
		}
	}
	return req
}
