package simcarrier

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"time"

	"github.com/emiago/sipgo/sip"
	"github.com/google/uuid"
)

var dialable = regexp.MustCompile(`^[0-9A-Za-z+*#._-]{1,40}$`)

// Place calls the switch and returns once it has answered or refused; an answered call lives on. When ctx ends
// first, the call is cancelled. Errors: ErrInvalidRequest, ErrUnreachable, ErrClosed.
func (s *Server) Place(ctx context.Context, req PlaceRequest) (PlaceResult, error) {
	for name, v := range map[string]string{"from": req.From, "to": req.To} {
		if !dialable.MatchString(v) {
			return PlaceResult{}, fmt.Errorf("%w: %s %q: not a number", ErrInvalidRequest, name, v)
		}
	}
	voiceName := req.Voice
	setDefault(&voiceName, s.cfg.Voice)
	spec, err := parseVoice(voiceName)
	if err != nil {
		return PlaceResult{}, err
	}
	s.mu.Lock()
	target := s.target
	s.mu.Unlock()
	if target == "" {
		return PlaceResult{}, fmt.Errorf("place call: %w: no switch is set", ErrUnreachable)
	}
	c := s.newCall(Caller, uuid.NewString(), req.From, req.To)
	if err := s.register(c); err != nil {
		return PlaceResult{}, fmt.Errorf("place call: %w", err)
	}
	if err := c.openStream(spec); err != nil {
		c.refuse(500)
		c.end(Us, "")
		c.leave()
		return PlaceResult{}, err
	}
	placed := make(chan error, 1)
	go func() {
		defer c.leave()
		c.place(context.WithoutCancel(ctx), target, placed)
	}()
	select {
	case err = <-placed:
	case <-ctx.Done():
		c.askHangup()
		err = errors.Join(<-placed, ctx.Err())
	}
	r := c.snapshot()
	return PlaceResult{Answered: r.AnsweredAt != nil, SIPStatus: r.SIPStatus, CallID: c.callID}, err
}

// invite builds the INVITE and takes the dialog's addresses from it.
func (c *call) invite(target string) (*sip.Request, error) {
	host, _, err := net.SplitHostPort(target)
	if err != nil {
		return nil, fmt.Errorf("%w: target %q: %w", ErrInvalidRequest, target, err)
	}
	uri := sip.Uri{Scheme: "sip", User: c.report.To, Host: host, Port: portOf(target)}
	from := &sip.FromHeader{Address: sip.Uri{Scheme: "sip", User: c.number, Host: c.s.host}}
	from.Params.Add("tag", c.localTag)
	c.mu.Lock()
	c.local, c.remote, c.target = from, &sip.ToHeader{Address: uri}, uri
	c.mu.Unlock()
	req := c.request(sip.INVITE)
	req.AppendHeader(sip.NewHeader("Content-Type", "application/sdp"))
	req.AppendHeader(sip.NewHeader("Allow", "INVITE, ACK, CANCEL, BYE, OPTIONS, INFO, UPDATE"))
	req.SetBody(c.describe(nil))
	return req, nil
}

// place runs a placed call to its end; placed takes the outcome of the INVITE.
func (c *call) place(ctx context.Context, target string, placed chan<- error) {
	req, err := c.invite(target)
	if err != nil {
		c.fail(400)
		placed <- err
		return
	}
	tx, err := c.s.client.TransactionRequest(ctx, req)
	if err != nil {
		c.fail(503)
		placed <- errors.Join(ErrUnreachable, err)
		return
	}
	res, err := c.awaitAnswer(ctx, req, tx)
	if err != nil || !res.IsSuccess() {
		placed <- err
		return
	}
	if err := c.confirm(ctx, res, tx); err != nil {
		placed <- err
		return
	}
	placed <- nil
	c.stay(ctx)
}

func (c *call) fail(status int) {
	c.refuse(status)
	c.end(Us, "")
}

// awaitAnswer follows the INVITE to its final response. It cancels a call that we give up, and closes the report of
// one that is refused.
func (c *call) awaitAnswer(ctx context.Context, req *sip.Request, tx sip.ClientTransaction) (*sip.Response, error) {
	silent, ringing := time.NewTimer(c.s.cfg.NoResponse), time.NewTimer(c.s.cfg.RingTimeout)
	defer silent.Stop()
	defer ringing.Stop()
	hangup, stop := c.hangup, c.s.stop
	heard, giveUp, cancelled := false, false, false
	for {
		if giveUp && heard && !cancelled { // RFC 3261 section 9.1: no CANCEL before a provisional response
			cancelled = true
			c.cancel(ctx, req)
			silent.Reset(c.s.cfg.NoResponse)
		}
		select {
		case res := <-tx.Responses():
			if !heard {
				heard = true
				silent.Stop()
			}
			if res.IsProvisional() {
				c.noteRinging(res)
				continue
			}
			if !res.IsSuccess() {
				c.refuse(res.StatusCode)
				by := Them
				if cancelled {
					by = Us
				}
				c.end(by, "")
			}
			return res, nil
		case <-silent.C:
			tx.Terminate()
			c.fail(408)
			return nil, fmt.Errorf("place call %s: %w", c.callID, ErrUnreachable)
		case <-tx.Done():
			c.fail(408)
			return nil, fmt.Errorf("place call %s: %w", c.callID, errors.Join(ErrUnreachable, tx.Err()))
		case <-ringing.C:
			c.askHangup()
		case <-hangup:
			hangup, giveUp = nil, true
		case <-stop:
			stop, giveUp = nil, true
		}
	}
}

func (c *call) noteRinging(res *sip.Response) {
	if res.StatusCode < 180 {
		return
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.report.RingingAt == nil {
		c.report.RingingAt = &now
	}
}

// cancel takes the INVITE back; its 487 comes by the INVITE's own transaction.
func (c *call) cancel(ctx context.Context, invite *sip.Request) {
	req := sip.NewRequest(sip.CANCEL, *invite.Recipient.Clone())
	hops := sip.MaxForwardsHeader(70)
	req.AppendHeader(sip.HeaderClone(invite.Via()))
	req.AppendHeader(sip.HeaderClone(invite.From()))
	req.AppendHeader(sip.HeaderClone(invite.To()))
	req.AppendHeader(sip.HeaderClone(invite.CallID()))
	req.AppendHeader(&sip.CSeqHeader{SeqNo: invite.CSeq().SeqNo, MethodName: sip.CANCEL})
	req.AppendHeader(&hops)
	req.SetTransport("UDP")
	ctx, cancel := context.WithTimeout(ctx, byeTimeout)
	defer cancel()
	if _, err := c.s.client.Do(ctx, req); err != nil {
		c.s.log.Warn("cancelling failed", "sip_call_id", c.callID, "error", err)
	}
}

// confirm takes the dialog from the answer, acknowledges it, and starts the audio.
func (c *call) confirm(ctx context.Context, res *sip.Response, tx sip.ClientTransaction) error {
	c.mu.Lock()
	if to := res.To(); to != nil {
		c.remote = sip.HeaderClone(to)
	}
	if contact := res.Contact(); contact != nil {
		c.target = *contact.Address.Clone()
	}
	recorded := res.GetHeaders("Record-Route")
	for i := range recorded {
		c.routes = append(c.routes, recorded[len(recorded)-1-i].Value())
	}
	c.mu.Unlock()
	ack := func() {
		if err := c.s.client.WriteRequest(c.request(sip.ACK)); err != nil {
			c.s.log.Warn("acknowledging failed", "sip_call_id", c.callID, "error", err)
		}
	}
	tx.OnRetransmission(func(*sip.Response) { ack() })
	n, err := c.parse(res.Body())
	if err != nil {
		ack()
		c.refuse(res.StatusCode)
		if c.end(Us, "") {
			c.bye(ctx)
		}
		return fmt.Errorf("take the switch's answer: %w", err)
	}
	c.answer(&n)
	ack()
	return nil
}
