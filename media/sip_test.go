package media

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	siplib "github.com/emiago/sipgo/sip"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/rtp"
	"github.com/ringmaster/ringmaster/media/sip"
)

// sipSocket is a bare UDP socket that speaks SIP by hand.
type sipSocket struct {
	t    *testing.T
	conn *net.UDPConn
	rtp  *net.UDPConn
	cseq int
	tag  string // the endpoint's
	id   string
	name string // what the caller is called
}

func newSIPSocket(t *testing.T, r *rig) *sipSocket {
	t.Helper()
	c, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(r.srv.SIPAddr())))
	require.NoError(t, err)
	m, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(); _ = m.Close() })
	return &sipSocket{t: t, conn: c, rtp: m, id: strconv.FormatInt(time.Now().UnixNano(), 36)}
}

// request sends a request; a new CSeq and branch unless it is an ACK.
func (s *sipSocket) request(method, user, body, extra string) {
	s.t.Helper()
	if method != "ACK" && method != "CANCEL" {
		s.cseq++
	}
	to := "<sip:" + user + "@127.0.0.1>"
	if s.tag != "" {
		to += ";tag=" + s.tag
	}
	branch := fmt.Sprintf("z9hG4bK%s%d", s.id, s.cseq)
	if method == "ACK" {
		branch += "ack"
	}
	if body != "" {
		extra += "Content-Type: application/sdp\r\n"
	}
	msg := fmt.Sprintf("%s sip:%s@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP %s;branch=%s;rport\r\nMax-Forwards: 70\r\nFrom: %s<sip:switch@127.0.0.1>;tag=sw\r\nTo: %s\r\nCall-ID: %s\r\nCSeq: %d %s\r\nContact: <sip:switch@%s>\r\n%sContent-Length: %d\r\n\r\n%s",
		method, user, s.conn.LocalAddr(), branch, s.name, to, s.id, s.cseq, method, s.conn.LocalAddr(), extra, len(body), body)
	_, err := s.conn.Write([]byte(msg))
	require.NoError(s.t, err)
}

// final reads messages until a final response to a method comes.
func (s *sipSocket) final(method string) *siplib.Response {
	s.t.Helper()
	for {
		msg := s.Read()
		if res, ok := msg.(*siplib.Response); ok && !res.IsProvisional() && res.CSeq() != nil && string(res.CSeq().MethodName) == method {
			if tag, ok := res.To().Params.Get("tag"); ok && res.StatusCode == 200 && s.tag == "" && method == "INVITE" {
				s.tag = tag
			}
			return res
		}
	}
}

func (s *sipSocket) Read() siplib.Message {
	s.t.Helper()
	buf := make([]byte, 4096)
	require.NoError(s.t, s.conn.SetReadDeadline(time.Now().Add(soon)))
	n, err := s.conn.Read(buf)
	require.NoError(s.t, err)
	msg, err := siplib.NewParser().ParseSIP(bytes.Clone(buf[:n]))
	require.NoError(s.t, err)
	return msg
}

func (s *sipSocket) offer(formats, attrs string) string {
	return fmt.Sprintf("v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio %d RTP/AVP %s\r\n%s",
		localPort(s.rtp), formats, attrs)
}

// TestALongNameIsAnswered: a caller may be called anything, and the answer repeats it.
func TestALongNameIsAnswered(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, _ := r.open(r.spec("long"))
	s := newSIPSocket(t, r)
	s.name = strconv.Quote(strings.Repeat("long ", 500)) + " "
	s.request("INVITE", "long", s.offer("0", ""), "")
	require.Equal(t, 200, s.final("INVITE").StatusCode)
	s.request("ACK", "long", "", "")
	require.Equal(t, "PCMU", event[LegAnswered](t, sess).Codec)
	sess.Close(CloseHangup)
	req, ok := s.Read().(*siplib.Request)
	require.True(t, ok)
	require.Equal(t, siplib.BYE, req.Method)
}

func TestInviteRefusals(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, _ := r.open(r.spec("known"))
	s := newSIPSocket(t, r)
	s.request("INVITE", "nobody", s.offer("0", ""), "")
	require.Equal(t, 404, s.final("INVITE").StatusCode)

	for _, formats := range []string{"9 18", "111", "13"} {
		s = newSIPSocket(t, r)
		s.request("INVITE", "known", s.offer(formats, "a=rtpmap:111 opus/48000/2\r\n"), "")
		require.Equal(t, 488, s.final("INVITE").StatusCode)
	}
	s = newSIPSocket(t, r)
	s.request("INVITE", "known", "v=1\r\nthis is no SDP", "")
	require.Equal(t, 488, s.final("INVITE").StatusCode)

	s = newSIPSocket(t, r)
	s.request("INVITE", "known", s.offer("0", ""), "Require: 100rel\r\n")
	res := s.final("INVITE")
	require.Equal(t, 420, res.StatusCode)
	require.Equal(t, "100rel", res.GetHeader("Unsupported").Value())

	p := newPhone(t)
	p.call(sess)
	s = newSIPSocket(t, r)
	s.request("INVITE", "known", s.offer("0", ""), "")
	require.Equal(t, 486, s.final("INVITE").StatusCode)

	s = newSIPSocket(t, r)
	s.tag = "unknown"
	for _, m := range []string{"INVITE", "BYE", "INFO", "UPDATE", "CANCEL"} {
		s.request(m, "known", "", "")
		require.Equal(t, 481, s.final(m).StatusCode, m)
	}
	s.request("OPTIONS", "known", "", "")
	res = s.final("OPTIONS")
	require.Equal(t, 200, res.StatusCode)
	require.Contains(t, res.GetHeader("Allow").Value(), "INVITE")
	s.request("SUBSCRIBE", "known", "", "")
	require.Equal(t, 405, s.final("SUBSCRIBE").StatusCode)
}

// TestRepeated200 leaves the ACK out: the 200 comes again, and again, until it is there.
func TestRepeated200(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, _ := r.open(r.spec("rep"))
	s := newSIPSocket(t, r)
	s.request("INVITE", "rep", s.offer("8 0 97", "a=rtpmap:97 telephone-event/8000\r\n"), "")
	first := s.final("INVITE")
	require.Equal(t, 200, first.StatusCode)
	m, err := sip.ReadSDP(first.Body())
	require.NoError(t, err)
	require.Equal(t, rtp.PCMA, m.Media.Codec, "the offer's order")
	require.EqualValues(t, 97, m.Media.EventPT)
	again := s.final("INVITE")
	require.Equal(t, first.Body(), again.Body())
	s.request("ACK", "rep", "", "")
	require.Equal(t, "PCMA", event[LegAnswered](t, sess).Codec)
	s.request("BYE", "rep", "", "")
	require.Equal(t, 200, s.final("BYE").StatusCode)
	require.Equal(t, LegEnded{Cause: "bye", ByPeer: true}, event[LegEnded](t, sess))
}

// TestNewLegAfterBye lets a second leg take the place of the first, as after a transfer that failed.
func TestNewLegAfterBye(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, ai := r.open(r.spec("two"))
	for range 2 {
		p := newPhone(t)
		p.call(sess)
		before := len(ai.heard())
		p.speak(dsptest.Tone(425, 8000, 3200))
		require.Eventually(t, func() bool { return len(ai.heard()) >= before+16000/5 }, soon, tick, "half of what this leg said")
		require.NoError(t, p.dialog.Bye(t.Context()))
		event[LegEnded](t, sess)
		ai.text(`{"type":"mark","data":{"name":"late"}}`)
		ai.waitText(t, "late", "cleared")
	}
}

// TestNextLegComesBehind: a session takes no other leg before its shard is told that the one before is over, which would end the other's audio.
func TestNextLegComesBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newPortRig(t, AudioFormat{})
		sess, inbox := r.p.s, r.p.sh.inbox
		sess.closed = false
		for len(inbox) < cap(inbox) {
			inbox <- func() {}
		}
		owner, first, second := legOwner{sess}, new(sip.Leg), new(sip.Leg)
		require.True(t, owner.Claim(first))
		go owner.Ended(first, "bye", true)
		synctest.Wait()
		require.False(t, owner.Claim(second))
		r.p.sh.drain()
		synctest.Wait()
		require.Equal(t, LegEnded{Cause: "bye", ByPeer: true}, <-sess.events)
		require.True(t, owner.Claim(second))
	})
}

// TestNextLegIsToldOfBehind: the end of a leg is told before anything of the next one, or the next one would be taken for ended.
func TestNextLegIsToldOfBehind(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, AudioFormat{})
	sess := r.p.s
	sess.closed, sess.events = false, make(chan Event, eventQueue)
	owner := legOwner{sess}
	for range 20000 {
		first, second, done := new(sip.Leg), new(sip.Leg), make(chan struct{})
		require.True(t, owner.Claim(first))
		go func() {
			for !owner.Claim(second) {
			}
			owner.Answered(rtp.PCMA)
			close(done)
		}()
		owner.Ended(first, "bye", true)
		<-done
		require.Equal(t, LegEnded{Cause: "bye", ByPeer: true}, <-sess.events)
		require.IsType(t, LegAnswered{}, <-sess.events)
		owner.Release(second)
		r.p.sh.drain()
	}
}

func TestWeSayBye(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, _ := r.open(r.spec("bye"))
	p := newPhone(t)
	p.call(sess)
	st := sess.Close(CloseTransferred)
	select {
	case <-p.bye:
	case <-time.After(soon):
		require.Fail(t, "no BYE came")
	}
	var last Event
	for ev := range sess.Events() {
		last = ev
	}
	require.Equal(t, LegEnded{Cause: "transferred"}, last)
	require.Equal(t, st, sess.Close(CloseHangup))
	require.Nil(t, r.srv.find("bye"))
}

// A new INVITE may come before the ACK of the one before it, since a request has a goroutine of its own: it is answered all the same. A switch that is
// refused with 500 ends the call.
func TestReinviteBeforeItsACK(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, _ := r.open(r.spec("swift"))
	s := newSIPSocket(t, r)
	late := func(body string) { // the ACK of the INVITE before the newest request
		s.cseq--
		s.request("ACK", "swift", body, "")
		s.cseq++
	}
	s.request("INVITE", "swift", s.offer("0 101", dtmfAttr), "")
	require.Equal(t, 200, s.final("INVITE").StatusCode)
	s.request("INVITE", "swift", s.offer("8 101", dtmfAttr), "")
	res := s.final("INVITE")
	require.Equal(t, 200, res.StatusCode)
	require.Contains(t, string(res.Body()), "PCMA")
	late("")
	require.Equal(t, "PCMU", event[LegAnswered](t, sess).Codec)
	s.request("ACK", "swift", "", "")

	s.request("INVITE", "swift", "", "") // its ACK brings an answer, which is waited for
	require.Equal(t, 200, s.final("INVITE").StatusCode)
	s.request("INVITE", "swift", s.offer("0 101", dtmfAttr), "")
	late(s.offer("8 101", dtmfAttr))
	res = s.final("INVITE")
	require.Equal(t, 200, res.StatusCode)
	require.Contains(t, string(res.Body()), "PCMU")
	s.request("ACK", "swift", "", "")

	s.request("INVITE", "swift", "", "")
	require.Equal(t, 200, s.final("INVITE").StatusCode)
	s.request("UPDATE", "swift", "", "")
	require.Equal(t, 200, s.final("UPDATE").StatusCode)
	late(s.offer("8 101", dtmfAttr)) // behind the UPDATE
	require.Eventually(t, func() bool {
		var c rtp.Codec
		sess.sh.do(func() { c = sess.port.leg.media.Codec })
		return c == rtp.PCMA
	}, soon, tick)

	s.request("INVITE", "swift", "", "")
	require.Equal(t, 200, s.final("INVITE").StatusCode)
	s.request("INVITE", "swift", s.offer("0 101", dtmfAttr), "")
	for res = s.final("INVITE"); res.StatusCode == 200; res = s.final("INVITE") { // the first one's, again
	}
	require.Equal(t, 500, res.StatusCode, "an answer that never came")
	require.Equal(t, "1", res.GetHeader("Retry-After").Value())
}

// TestHold puts the leg on hold by re-INVITE and takes it back, then lets us make the offer.
func TestHold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, _ := r.open(r.spec("hold"))
	s := newSIPSocket(t, r)
	s.request("INVITE", "hold", s.offer("0 101", dtmfAttr), "")
	require.Contains(t, string(s.final("INVITE").Body()), "a=sendrecv")
	s.request("ACK", "hold", "", "")
	event[LegAnswered](t, sess)
	for _, tc := range []struct{ theirs, ours string }{
		{"sendonly", "recvonly"}, {"inactive", "inactive"}, {"recvonly", "sendonly"}, {"sendrecv", "sendrecv"},
	} {
		s.request("INVITE", "hold", s.offer("0 101", dtmfAttr+"a="+tc.theirs+"\r\n"), "")
		res := s.final("INVITE")
		require.Equal(t, 200, res.StatusCode)
		require.Contains(t, string(res.Body()), "a="+tc.ours+"\r\n")
		s.request("ACK", "hold", "", "")
		want := tc.ours == "sendrecv" || tc.ours == "sendonly"
		var dir sip.Direction
		require.Eventually(t, func() bool {
			sess.sh.do(func() { dir = sess.port.leg.media.Dir })
			return dir.Send == want
		}, soon, tick)
	}
	s.request("INVITE", "hold", s.offer("18", ""), "")
	require.Equal(t, 488, s.final("INVITE").StatusCode, "a refused re-INVITE leaves the leg as it was")

	s.request("INVITE", "hold", "", "")
	res := s.final("INVITE")
	require.Equal(t, 200, res.StatusCode)
	for _, want := range []string{"PCMU/8000", "PCMA/8000", "L16/8000", "L16/16000", "L16/24000", "L16/48000", "telephone-event/8000"} {
		require.Contains(t, string(res.Body()), want)
	}
	s.request("ACK", "hold", s.offer("8", ""), "")
	require.Eventually(t, func() bool {
		var c rtp.Codec
		sess.sh.do(func() { c = sess.port.leg.media.Codec })
		return c == rtp.PCMA
	}, soon, tick)
	s.request("UPDATE", "hold", s.offer("0", ""), "")
	require.Contains(t, string(s.final("UPDATE").Body()), "PCMU")
	s.request("INFO", "hold", "", "")
	require.Equal(t, 200, s.final("INFO").StatusCode)
}

// TestLateOffer answers an INVITE without SDP by our own offer.
func TestLateOffer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, _ := r.open(r.spec("late"))
	s := newSIPSocket(t, r)
	s.request("INVITE", "late", "", "")
	require.Equal(t, 200, s.final("INVITE").StatusCode)
	s.request("ACK", "late", s.offer("96", "a=rtpmap:96 L16/8000\r\n"), "")
	require.Equal(t, "L16", event[LegAnswered](t, sess).Codec)
	buf := make([]byte, 2048)
	require.NoError(t, s.rtp.SetReadDeadline(time.Now().Add(soon)))
	n, err := s.rtp.Read(buf)
	require.NoError(t, err)
	require.Equal(t, 12+320, n)

	sess2, _ := r.open(r.spec("late2"))
	s = newSIPSocket(t, r)
	s.request("INVITE", "late2", "", "")
	require.Equal(t, 200, s.final("INVITE").StatusCode)
	s.request("ACK", "late2", s.offer("18", ""), "")
	require.Equal(t, LegEnded{Cause: "bad_answer"}, event[LegEnded](t, sess2))
	bye, ok := s.Read().(*siplib.Request)
	require.True(t, ok)
	require.Equal(t, siplib.BYE, bye.Method)
}

// TestMalformedSIP sends rubbish; the endpoint still serves.
func TestMalformedSIP(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.open(r.spec("alive"))
	s := newSIPSocket(t, r)
	for _, msg := range []string{
		"\r\n\r\n", "\x00\x00", "INVITE", "INVITE sip:x SIP/2.0\r\n\r\n", "SIP/2.0 200 OK\r\n\r\n",
		"INVITE sip:alive@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:1;branch=z9hG4bKx\r\nContent-Length: 99999\r\n\r\n",
		"INVITE sip:alive@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP " + s.conn.LocalAddr().String() + ";branch=z9hG4bKy\r\nCSeq: 1 INVITE\r\nCall-ID: y\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:alive@127.0.0.1>\r\nContent-Length: 0\r\n\r\n",
		strings.Repeat("A", 9000),
	} {
		_, err := s.conn.Write([]byte(msg))
		require.NoError(t, err)
	}
	s.request("OPTIONS", "alive", "", "")
	require.Equal(t, 200, s.final("OPTIONS").StatusCode)
	require.Zero(t, int(metric(t, r.srv.metrics.panics)))
}

// TestSIPOverTCP answers on TCP as well, since the switch changes to it for long messages.
func TestSIPOverTCP(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp4", r.srv.SIPAddr())
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	_, err = fmt.Fprintf(c, "OPTIONS sip:x@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/TCP %s;branch=z9hG4bKt\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:x@127.0.0.1>\r\nCall-ID: t\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n", c.LocalAddr())
	require.NoError(t, err)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(soon)))
	buf := make([]byte, 2048)
	n, err := c.Read(buf)
	require.NoError(t, err)
	require.Contains(t, string(buf[:n]), "200 OK")
}
