package simcarrier

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emiago/sipgo/sip"

	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
)

const (
	byeTimeout   = 5 * time.Second
	defaultEvent = 101 // payload type of telephone events that we offer
	otherEvent   = 109 // and of a subscriber whose carrier has another
)

// call is one dialog. The goroutine that placed or received it runs its life; requests of the switch within the
// dialog come on others.
type call struct {
	s         *Server
	role      Role
	behaviour Behaviour
	plan      plan
	callID    string
	number    string
	session   uint64 // the SDP session's id

	localTag string
	ended    chan struct{}
	hangup   chan struct{}
	hangOnce sync.Once
	acked    chan struct{} // a callee's: the ACK has come
	ackOnce  sync.Once
	// cancelled is set once the transaction has answered a CANCEL, and the INVITE with 487.
	cancelled atomic.Bool

	mu       sync.Mutex // guards what follows
	report   Report
	stream   *stream
	port     int        // of its stream, also once that has ended
	taping   bool       // the stream is to be taped from its beginning
	local    sip.Header // From of our requests
	remote   sip.Header // To of our requests
	target   sip.Uri
	routes   []string
	cseq     uint32
	version  int
	answered bool
	over     bool
}

func (s *Server) newCall(role Role, callID, from, to string) *call {
	c := &call{
		s: s, role: role, callID: callID, localTag: sip.GenerateTagN(16), session: uint64(time.Now().UnixNano()),
		ended: make(chan struct{}), hangup: make(chan struct{}), acked: make(chan struct{}),
	}
	now := time.Now()
	c.number = to
	if role == Caller {
		c.number = from
	}
	c.behaviour = BehaviourOf(c.number)
	c.plan = s.planFor(c.behaviour)
	c.report = Report{
		CallID: callID, Number: c.number, From: from, To: to, Direction: role, Live: true, InvitedAt: &now,
		Heard: []tone.Heard{}, Bursts: []tone.Burst{}, DTMF: []tone.Digit{},
		Sent: []SentAudio{}, SentOnsets: []time.Time{}, SentDTMF: []tone.Digit{}, Gaps: []Gap{},
	}
	return c
}

func (c *call) key() dialogKey { return dialogKey{c.callID, c.localTag} }

// openStream binds the call's RTP port and hands the stream to a pacing thread, which listens from now on.
func (c *call) openStream(spec voiceSpec) error {
	ip, err := netip.ParseAddr(c.s.cfg.RTPIP)
	if err != nil {
		return fmt.Errorf("read RTP address: %w", err)
	}
	socket, port, err := c.s.ports.open(ip)
	if err != nil {
		return fmt.Errorf("open RTP for call %s: %w", c.callID, err)
	}
	st := newStream(socket, port, c.s.voices.get(spec), c.s.voices, c.s.cfg.Listen, c.s.cfg.Seed)
	st.behave(c.behaviour, c.number)
	st.every = c.s.cfg.RTPEvery
	if c.plan.steady {
		st.player = player{script: steadyScript()}
	}
	if err := c.s.pump.add(st); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	st.mu.Lock()
	defer st.mu.Unlock()
	st.taping = c.taping
	c.stream, c.port = st, st.port
	return nil
}

// describe is our SDP: an answer to n, or an offer when n is nil. A carrier whose telephone events have another number
// says and uses its own, whatever it was offered.
func (c *call) describe(n *negotiated) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	if n == nil {
		return localSDP(c.s.cfg.RTPIP, c.port, c.session, c.version, c.s.cfg.Codecs, c.behaviour.eventType(), "sendrecv")
	}
	return localSDP(c.s.cfg.RTPIP, c.port, c.session, c.version, []string{n.codec.name}, n.event, n.answerDirection())
}

// answer marks the call as answered and starts its audio.
func (c *call) answer(n *negotiated) {
	now := time.Now()
	c.mu.Lock()
	c.answered = true
	c.report.AnsweredAt, c.report.SIPStatus = &now, 200
	st := c.stream
	c.mu.Unlock()
	if n != nil {
		st.activate(*n)
	}
	c.s.noteAnswered()
}

// stay keeps an answered call until one side hangs up, then closes it.
func (c *call) stay(ctx context.Context) {
	var timer <-chan time.Time
	if c.plan.hangUp > 0 {
		t := time.NewTimer(c.plan.hangUp)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-c.ended:
		return
	case <-timer:
	case <-c.hangup:
	case <-c.s.stop:
	}
	if c.end(Us, "") {
		c.bye(ctx)
	}
}

// bye ends the dialog on our side.
func (c *call) bye(ctx context.Context) {
	if c.unreachable() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, byeTimeout)
	defer cancel()
	res, err := c.s.client.Do(ctx, c.request(sip.BYE))
	if err != nil {
		c.s.log.Warn("hanging up failed", "sip_call_id", c.callID, "error", err)
		return
	}
	if !res.IsSuccess() {
		c.s.log.Warn("hang-up was refused", "sip_call_id", c.callID, "sip_status", res.StatusCode)
	}
}

// request builds the next request within the dialog.
func (c *call) request(method sip.RequestMethod) *sip.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	if method != sip.ACK {
		c.cseq++
	}
	req := sip.NewRequest(method, *c.target.Clone())
	id, hops := sip.CallIDHeader(c.callID), sip.MaxForwardsHeader(70)
	for _, h := range []sip.Header{c.local, c.remote} {
		req.AppendHeader(sip.HeaderClone(h))
	}
	req.AppendHeader(&id)
	req.AppendHeader(&sip.CSeqHeader{SeqNo: c.cseq, MethodName: method})
	req.AppendHeader(&hops)
	req.AppendHeader(c.s.contact(c.number))
	for _, r := range c.routes {
		req.AppendHeader(sip.NewHeader("Route", r))
	}
	req.SetTransport("UDP")
	return req
}

func (s *Server) contact(user string) *sip.ContactHeader {
	return &sip.ContactHeader{Address: sip.Uri{Scheme: "sip", User: user, Host: s.host, Port: s.port}}
}

// askHangup makes the call's goroutine hang up.
func (c *call) askHangup() { c.hangOnce.Do(func() { close(c.hangup) }) }

// gotACK lets the callee's goroutine stop repeating its answer.
func (c *call) gotACK() { c.ackOnce.Do(func() { close(c.acked) }) }

// refuse sets the INVITE's final status of a call that was not answered.
func (c *call) refuse(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.SIPStatus = status
}

// end closes the call's report once: the audio stops and what it heard is kept. It says whether it was the first.
func (c *call) end(by Party, reason string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	c.over = true
	now := time.Now()
	c.report.EndedAt, c.report.EndedBy, c.report.Reason, c.report.Live = &now, by, reason, false
	if c.stream != nil {
		c.stream.report(&c.report, false)
		c.stream.closed.Store(true)
		c.stream = nil
	}
	close(c.ended)
	return true
}

func (c *call) hasEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

func (c *call) endedByThem() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over && c.report.EndedBy == Them
}

// leave takes the call out of the registry, at the very end of its goroutine.
func (c *call) leave() {
	c.mu.Lock()
	answered, status := c.answered, c.report.SIPStatus
	c.mu.Unlock()
	c.s.unregister(c, answered, status)
}

// live is the call's stream, nil once it has ended.
func (c *call) live() *stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stream
}

func (c *call) snapshot() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.report
	if c.stream != nil {
		r.Sent, r.SentOnsets, r.DTMF, r.SentDTMF = slices.Clone(r.Sent), slices.Clone(r.SentOnsets), slices.Clone(r.DTMF), slices.Clone(r.SentDTMF)
		r.Gaps = slices.Clone(r.Gaps)
		c.stream.report(&r, r.Live)
	}
	return r
}

// unreachable tells whether the softphone of this call has no network: requests of the switch vanish.
func (c *call) unreachable() bool { return c != nil && c.plan.agent != nil && c.plan.agent.isLost() }

func (c *call) roundTrips() []float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream == nil {
		return c.report.RoundTripMS
	}
	c.stream.mu.Lock()
	defer c.stream.mu.Unlock()
	return slices.Clone(c.stream.trips)
}

// noteHeaders keeps the X- headers that the INVITE carried.
func (c *call) noteHeaders(req *sip.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range req.Headers() {
		if name := h.Name(); len(name) > 2 && strings.EqualFold(name[:2], "X-") {
			if c.report.XHeaders == nil {
				c.report.XHeaders = map[string]string{}
			}
			c.report.XHeaders[name] = h.Value()
		}
	}
}
