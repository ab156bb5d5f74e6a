package simcarrier_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emiago/sipgo"
	"github.com/emiago/sipgo/sip"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
)

// echoSwitch is a switch that answers every INVITE at once and returns the RTP it gets; it can send requests within
// the dialog, as a switch does that holds, moves or hangs up a call.
type echoSwitch struct {
	addr    string
	client  *sipgo.Client
	rtp     *net.UDPConn
	invites chan *sip.Request
	answers chan *sip.Response
}

func startSwitch(t *testing.T) *echoSwitch {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	rtp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	quiet := slog.New(slog.DiscardHandler)
	ua, err := sipgo.NewUA(
		sipgo.WithUserAgentTransactionLayerOptions(sip.WithTransactionLayerLogger(quiet)),
		sipgo.WithUserAgentTransportLayerOptions(sip.WithTransportLayerLogger(quiet)))
	require.NoError(t, err)
	sw := &echoSwitch{addr: conn.LocalAddr().String(), rtp: rtp, invites: make(chan *sip.Request, 10), answers: make(chan *sip.Response, 10)}
	sw.client, err = sipgo.NewClient(ua, sipgo.WithClientAddr(sw.addr), sipgo.WithClientConnectionAddr(sw.addr), sipgo.WithClientLogger(quiet))
	require.NoError(t, err)
	srv, err := sipgo.NewServer(ua, sipgo.WithServerLogger(quiet))
	require.NoError(t, err)
	srv.OnInvite(func(req *sip.Request, tx sip.ServerTransaction) {
		res := sip.NewResponseFromRequest(req, 200, "OK", sw.sdp("sendrecv", 0))
		res.AppendHeader(sip.NewHeader("Content-Type", "application/sdp"))
		res.AppendHeader(sip.NewHeader("Contact", "<sip:switch@"+sw.addr+">"))
		if tx.Respond(res) == nil {
			sw.invites <- req
			sw.answers <- res
		}
	})
	srv.OnAck(func(*sip.Request, sip.ServerTransaction) {})
	srv.OnBye(func(req *sip.Request, tx sip.ServerTransaction) {
		_ = tx.Respond(sip.NewResponseFromRequest(req, 200, "OK", nil))
	})
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.ServeUDP(conn) })
	wg.Go(func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := rtp.ReadFromUDP(buf)
			if err != nil {
				return
			}
			_, _ = rtp.WriteToUDP(buf[:n], from)
		}
	})
	t.Cleanup(func() {
		require.NoError(t, errors.Join(ua.Close(), conn.Close(), rtp.Close()))
		wg.Wait()
	})
	return sw
}

func (sw *echoSwitch) sdp(direction string, port int) []byte {
	if port == 0 {
		_, p, _ := net.SplitHostPort(sw.rtp.LocalAddr().String())
		port, _ = strconv.Atoi(p)
	}
	return fmt.Appendf(nil, "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio %d RTP/AVP 8 0 96\r\na=rtpmap:96 telephone-event/8000\r\na=%s\r\n", port, direction)
}

// request sends a request within the dialog that an INVITE of the carrier set up.
func (sw *echoSwitch) request(t *testing.T, method sip.RequestMethod, invite *sip.Request, answer *sip.Response, seq uint32, body []byte, kind string) *sip.Response {
	t.Helper()
	req := sip.NewRequest(method, *invite.Contact().Address.Clone())
	from, to := answer.To().AsFrom(), invite.From().AsTo()
	req.AppendHeader(&from)
	req.AppendHeader(&to)
	req.AppendHeader(sip.HeaderClone(invite.CallID()))
	req.AppendHeader(&sip.CSeqHeader{SeqNo: seq, MethodName: method})
	req.AppendHeader(sip.NewHeader("Contact", "<sip:switch@"+sw.addr+">"))
	req.SetTransport("UDP")
	if body != nil {
		req.AppendHeader(sip.NewHeader("Content-Type", kind))
		req.SetBody(body)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	res, err := sw.client.Do(ctx, req)
	require.NoError(t, err)
	return res
}

// dialed is a call of the carrier that the switch answered.
func dialed(t *testing.T, cfg simcarrier.Config) (*simcarrier.Server, *echoSwitch, string, *sip.Request, *sip.Response) {
	t.Helper()
	sw := startSwitch(t)
	cfg.Target = sw.addr
	s := start(t, cfg)
	res, err := s.Place(t.Context(), simcarrier.PlaceRequest{From: caller, To: "9800000001"})
	require.NoError(t, err)
	require.True(t, res.Answered)
	return s, sw, res.CallID, <-sw.invites, <-sw.answers
}

func eventually(t *testing.T, s *simcarrier.Server, id string, until func(simcarrier.Report) bool) simcarrier.Report {
	t.Helper()
	var r simcarrier.Report
	require.Eventually(t, func() bool {
		var err error
		r, err = s.Call(id)
		return err == nil && until(r)
	}, 30*time.Second, 10*time.Millisecond)
	return r
}

func TestMarkerMeasuresTheRoundTrip(t *testing.T) {
	t.Parallel()
	s, _, id, _, _ := dialed(t, simcarrier.Config{Voice: "marker"})
	r := eventually(t, s, id, func(r simcarrier.Report) bool { return len(r.RoundTripMS) >= 3 && apart(r.SentOnsets, 1) })
	require.Equal(t, "PCMA", r.Codec, "the answer's first codec")
	require.InDelta(t, 0, slices.Min(r.RoundTripMS), 40, "the best: the others may have waited for this machine")
	require.Equal(t, "marker", r.Sent[0].Kind)
	require.GreaterOrEqual(t, s.Stats().RoundTrip.Count, 3)
	require.LessOrEqual(t, s.Stats().RoundTrip.P50, s.Stats().RoundTrip.P99)
}

func TestHoldAndMove(t *testing.T) {
	t.Parallel()
	s, sw, id, invite, answer := dialed(t, simcarrier.Config{})
	eventually(t, s, id, func(r simcarrier.Report) bool { return r.HearsNow })
	// Hold: the subscriber falls silent, the call stays.
	res := sw.request(t, sip.INVITE, invite, answer, 2, sw.sdp("sendonly", 0), "application/sdp")
	require.Equal(t, 200, res.StatusCode)
	require.Contains(t, string(res.Body()), "a=recvonly")
	require.Contains(t, string(res.Body()), "RTP/AVP 8 96")
	held := eventually(t, s, id, func(r simcarrier.Report) bool { return r.OnHold })
	later := eventually(t, s, id, func(r simcarrier.Report) bool { return !r.HearsNow })
	require.LessOrEqual(t, later.RTPOut.Packets, held.RTPOut.Packets+5, "it would have sent 15 in the 300 ms that it takes to fall silent")
	// Resume at another address: the audio follows.
	moved, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer func() { require.NoError(t, moved.Close()) }()
	_, port, err := net.SplitHostPort(moved.LocalAddr().String())
	require.NoError(t, err)
	n, err := strconv.Atoi(port)
	require.NoError(t, err)
	require.Equal(t, 200, sw.request(t, sip.INVITE, invite, answer, 3, sw.sdp("sendrecv", n), "application/sdp").StatusCode)
	require.NoError(t, moved.SetReadDeadline(time.Now().Add(20*time.Second)))
	buf := make([]byte, 2048)
	size, err := moved.Read(buf)
	require.NoError(t, err)
	require.Equal(t, 172, size, "20 ms of G.711")
	// A re-INVITE without an offer gets one; one without our codecs is refused and changes nothing.
	res = sw.request(t, sip.INVITE, invite, answer, 4, nil, "")
	require.Equal(t, 200, res.StatusCode)
	require.Contains(t, string(res.Body()), "RTP/AVP 0 8 101")
	bad := []byte(strings.ReplaceAll(string(sw.sdp("sendrecv", 0)), "RTP/AVP 8 0 96", "RTP/AVP 18"))
	require.Equal(t, 488, sw.request(t, sip.INVITE, invite, answer, 5, bad, "application/sdp").StatusCode)
	r, err := s.Call(id)
	require.NoError(t, err)
	require.True(t, r.Live)
	require.Equal(t, 4, r.Reinvites)
}

func TestRequestsWithinADialog(t *testing.T) {
	t.Parallel()
	s, sw, id, invite, answer := dialed(t, simcarrier.Config{})
	require.Equal(t, 200, sw.request(t, sip.INFO, invite, answer, 2, []byte("Signal=7\r\nDuration=160\r\n"), "application/dtmf-relay").StatusCode)
	require.Equal(t, 200, sw.request(t, sip.INFO, invite, answer, 3, []byte("#"), "application/dtmf").StatusCode)
	require.Equal(t, 200, sw.request(t, sip.UPDATE, invite, answer, 4, nil, "").StatusCode)
	r := eventually(t, s, id, func(r simcarrier.Report) bool { return len(r.DTMF) == 2 })
	require.Equal(t, "7", r.DTMF[0].Digit)
	require.Equal(t, 160, r.DTMF[0].DurationMS)
	require.Equal(t, "info", r.DTMF[0].Via)
	require.Equal(t, "#", r.DTMF[1].Digit)
	stranger := sip.NewResponseFromRequest(invite, 200, "OK", nil)
	stranger.To().Params.Add("tag", "other")
	unknown := invite.Clone()
	unknown.From().Params.Add("tag", "nobody")
	require.Equal(t, 481, sw.request(t, sip.BYE, unknown, stranger, 5, nil, "").StatusCode)
	require.Equal(t, 481, sw.request(t, sip.INVITE, unknown, stranger, 5, sw.sdp("sendrecv", 0), "application/sdp").StatusCode)
	require.Equal(t, 200, sw.request(t, sip.BYE, invite, answer, 6, nil, "").StatusCode)
	r = eventually(t, s, id, func(r simcarrier.Report) bool { return !r.Live })
	require.Equal(t, simcarrier.Them, r.EndedBy)
	require.Equal(t, 481, sw.request(t, sip.BYE, invite, answer, 7, nil, "").StatusCode)
	require.Equal(t, 200, sw.request(t, sip.OPTIONS, invite, answer, 8, nil, "").StatusCode)
	reg := sw.request(t, sip.REGISTER, invite, answer, 9, nil, "")
	require.Equal(t, 200, reg.StatusCode)
	require.Equal(t, "3600", reg.GetHeader("Expires").Value())
}

func TestCalleeTakesTheAnswerFromTheACK(t *testing.T) {
	t.Parallel()
	sw := startSwitch(t)
	s := start(t, simcarrier.Config{AnswerAfter: 20 * time.Millisecond})
	host, port, err := net.SplitHostPort(s.SIPAddr())
	require.NoError(t, err)
	n, err := strconv.Atoi(port)
	require.NoError(t, err)
	invite := sip.NewRequest(sip.INVITE, sip.Uri{Scheme: "sip", User: "+919800000000", Host: host, Port: n})
	invite.AppendHeader(sip.NewHeader("Contact", "<sip:switch@"+sw.addr+">"))
	invite.AppendHeader(sip.NewHeader("X-Rm-Call", "leak"))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	res, err := sw.client.Do(ctx, invite)
	require.NoError(t, err)
	require.Equal(t, 200, res.StatusCode)
	require.Contains(t, string(res.Body()), "RTP/AVP 0 8 101", "an INVITE without an offer gets one")
	ack := sip.NewRequest(sip.ACK, *res.Contact().Address.Clone())
	for _, h := range []sip.Header{invite.From(), res.To(), invite.CallID(), &sip.CSeqHeader{SeqNo: invite.CSeq().SeqNo, MethodName: sip.ACK}} {
		ack.AppendHeader(sip.HeaderClone(h))
	}
	ack.SetTransport("UDP")
	ack.AppendHeader(sip.NewHeader("Content-Type", "application/sdp"))
	ack.SetBody(sw.sdp("sendrecv", 0))
	require.NoError(t, sw.client.WriteRequest(ack))
	r := eventually(t, s, "9800000000", func(r simcarrier.Report) bool { return r.HearsNow })
	require.Equal(t, "PCMA", r.Codec)
	require.Equal(t, map[string]string{"X-Rm-Call": "leak"}, r.XHeaders)
	// An offer without a codec of ours is refused.
	again := sip.NewRequest(sip.INVITE, sip.Uri{Scheme: "sip", User: "+919800000002", Host: host, Port: n})
	again.AppendHeader(sip.NewHeader("Contact", "<sip:switch@"+sw.addr+">"))
	again.AppendHeader(sip.NewHeader("Content-Type", "application/sdp"))
	again.SetBody([]byte(strings.ReplaceAll(string(sw.sdp("sendrecv", 0)), "RTP/AVP 8 0 96", "RTP/AVP 18")))
	res, err = sw.client.Do(ctx, again)
	require.NoError(t, err)
	require.Equal(t, 488, res.StatusCode)
}

func TestKeysNeedThePeersConsent(t *testing.T) {
	t.Parallel()
	sw := startSwitch(t)
	s := start(t, simcarrier.Config{Target: sw.addr})
	res, err := s.Place(t.Context(), simcarrier.PlaceRequest{From: "+919800000173", To: "9800000001"})
	require.NoError(t, err)
	r := eventually(t, s, res.CallID, func(r simcarrier.Report) bool { return len(r.DTMF) == 3 })
	require.Len(t, r.SentDTMF, 3, "the caller presses keys as its own number says, and hears their echo")
	require.Equal(t, []string{"1", "2", "3"}, []string{r.DTMF[0].Digit, r.DTMF[1].Digit, r.DTMF[2].Digit})
}
