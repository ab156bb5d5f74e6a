package simcarrier

import (
	"bufio"
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/emiago/sipgo"
	"github.com/emiago/sipgo/sip"

	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
)

// routeSIP says who handles each method.
func (s *endpoint) routeSIP(srv *sipgo.Server) {
	srv.OnInvite(s.handleInvite)
	srv.OnAck(func(req *sip.Request, _ sip.ServerTransaction) {
		if c := s.dialogOf(req); c != nil && !c.unreachable() {
			c.takeACK(req)
		}
	})
	srv.OnBye(s.inDialog(func(c *call, req *sip.Request) { c.end(Them, headerValue(req, "Reason")) }))
	srv.OnInfo(s.inDialog(func(c *call, req *sip.Request) {
		d, ok := infoDigit(req.Body())
		if st := c.live(); ok && st != nil {
			st.hearInfo(d)
		}
	}))
	srv.OnUpdate(s.inDialog(func(*call, *sip.Request) {}))
	srv.OnOptions(func(req *sip.Request, tx sip.ServerTransaction) {
		if a := s.agentOf(req.Recipient.User); a != nil && a.isLost() {
			return
		}
		s.answer(tx, req, 200)
	})
	srv.OnRegister(s.handleRegister)
	srv.OnCancel(func(req *sip.Request, tx sip.ServerTransaction) { // of an INVITE that is over
		if a := s.agentOf(req.Recipient.User); a != nil && a.isLost() {
			return
		}
		s.answer(tx, req, 481)
	})
}

// dialogOf is the call whose dialog a request belongs to. One that the switch has ended is over at once, whether its goroutine has
// taken it out of the registry yet or not; one that we are ending still answers, as the switch's BYE may cross ours.
func (s *endpoint) dialogOf(req *sip.Request) *call {
	if req.CallID() == nil || req.To() == nil {
		return nil
	}
	tag, _ := req.To().Params.Get("tag")
	c := s.dialogCall(req.CallID().Value(), tag)
	if c != nil && c.endedByThem() {
		return nil
	}
	return c
}

// inDialog answers 200 to a request of a live call after handle, and 481 to any other. The next request may come with the answer.
func (s *endpoint) inDialog(handle func(*call, *sip.Request)) sipgo.RequestHandler {
	return func(req *sip.Request, tx sip.ServerTransaction) {
		c := s.dialogOf(req)
		if c.unreachable() {
			return
		}
		if c == nil {
			if a := s.agentOf(req.Recipient.User); a != nil && a.isLost() {
				return
			}
			s.answer(tx, req, 481)
			return
		}
		handle(c, req)
		s.respond(tx, c.response(req, 200, nil))
	}
}

// handleRegister lets a trunk's gateway register, for as long as it asks.
func (s *endpoint) handleRegister(req *sip.Request, tx sip.ServerTransaction) {
	res := sip.NewResponseFromRequest(req, 200, phrase(200), nil)
	if contact := req.Contact(); contact != nil {
		res.AppendHeader(sip.HeaderClone(contact))
	}
	expires := "3600"
	if v := headerValue(req, "Expires"); v != "" {
		expires = v
	}
	res.AppendHeader(sip.NewHeader("Expires", expires))
	s.respond(tx, res)
}

// infoDigit reads the body of a SIP INFO: application/dtmf-relay, or application/dtmf with the bare digit.
func infoDigit(body []byte) (tone.Digit, bool) {
	d := tone.Digit{At: time.Now(), Via: "info"}
	lines := bufio.NewScanner(bytes.NewReader(body))
	for lines.Scan() {
		key, value, relay := strings.Cut(lines.Text(), "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch {
		case !relay && len(key) == 1 && d.Digit == "":
			d.Digit = key
		case strings.EqualFold(key, "Signal") && value != "":
			d.Digit = value[:1]
		case strings.EqualFold(key, "Duration"):
			if ms, err := strconv.Atoi(value); err == nil && ms >= 0 {
				d.DurationMS = ms
			}
		}
	}
	return d, len(d.Digit) == 1 && strings.Contains(keyNames, d.Digit)
}
