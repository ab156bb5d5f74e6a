package simswitch

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emiago/sipgo"
	"github.com/emiago/sipgo/sip"
	"github.com/stretchr/testify/require"
)

// peer is a SIP user agent of the tests: the user part of a call's URI says how it behaves.
//
//	answer-<hz>[-alaw][-nodtmf][-mute]  180, then 200; plays a tone of that frequency
//	early-<hz>                 183 with a tone, 200 when accept is closed
//	ring                       180, never more
//	nothing                    100, never more
//	bye-<hz>                   as answer, hangs up as soon as it hears from the test
//	<status>                   refuses with that status after 180
//	video                      200 with a session description that has no codec of ours
type peer struct {
	t      *testing.T
	addr   string
	host   string
	port   int
	ua     *sipgo.UserAgent
	client *sipgo.Client
	dialog sipgo.DialogUA
	calls  chan *peerCall
	accept chan struct{} // early calls are answered when this closes

	mu     sync.Mutex
	byCall map[string]*peerCall
	taken  func(callID string) // waits until the switch has taken a 180: the SIP stack may overtake a response by the next
}

// rang waits until the switch has taken the 180.
func (p *peer) rang(callID string) {
	p.mu.Lock()
	taken := p.taken
	p.mu.Unlock()
	taken(callID)
}

// peerCall is one call of a peer.
type peerCall struct {
	peer   *peer
	user   string
	invite *sip.Request
	server *sipgo.DialogServerSession
	client *sipgo.DialogClientSession
	rtp    *net.UDPConn
	codec  codec
	telEv  uint8

	mu        sync.Mutex
	remote    netip.AddrPort
	heard     []int16
	packets   int
	loud      []time.Time // when packets came that were no silence
	digits    []byte
	lastEvent uint32
	infos     []string
	reinvites []string
	silent    bool
	freq      float64

	notifies chan *sip.Request
	answered chan struct{} // closed when a call of answer-… has its 200

	bye    chan struct{}
	cancel chan struct{}
	once   sync.Once
	stop   chan struct{}
}

func newPeer(t *testing.T) *peer {
	t.Helper()
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp4", "127.0.0.1:0")
	require.NoError(t, err)
	quiet := slog.New(slog.DiscardHandler)
	p := &peer{t: t, addr: conn.LocalAddr().String(), calls: make(chan *peerCall, 256), accept: make(chan struct{}), byCall: make(map[string]*peerCall)}
	host, port, err := net.SplitHostPort(p.addr)
	require.NoError(t, err)
	p.host = host
	p.port, err = strconv.Atoi(port)
	require.NoError(t, err)
	p.ua, err = sipgo.NewUA(sipgo.WithUserAgent("peer"),
		sipgo.WithUserAgentTransportLayerOptions(sip.WithTransportLayerLogger(quiet)),
		sipgo.WithUserAgentTransactionLayerOptions(sip.WithTransactionLayerLogger(quiet),
			sip.WithTransactionLayerUnhandledResponseHandler(func(*sip.Response) {})))
	require.NoError(t, err)
	srv, err := sipgo.NewServer(p.ua, sipgo.WithServerLogger(quiet))
	require.NoError(t, err)
	p.client, err = sipgo.NewClient(p.ua, sipgo.WithClientLogger(quiet), sipgo.WithClientAddr(p.addr), sipgo.WithClientConnectionAddr(p.addr))
	require.NoError(t, err)
	p.dialog = sipgo.DialogUA{Client: p.client, ContactHDR: sip.ContactHeader{Address: sip.Uri{Scheme: "sip", User: "peer", Host: p.host, Port: p.port}}}
	srv.OnInvite(p.onInvite)
	srv.OnAck(func(req *sip.Request, tx sip.ServerTransaction) {
		if c := p.call(req); c != nil && c.server != nil {
			_ = c.server.ReadAck(req, tx)
		}
	})
	srv.OnBye(p.onBye)
	srv.OnInfo(func(req *sip.Request, tx sip.ServerTransaction) {
		_ = tx.Respond(sip.NewResponseFromRequest(req, 200, "OK", nil))
		if c := p.call(req); c != nil {
			c.mu.Lock()
			c.infos = append(c.infos, string(req.Body()))
			c.mu.Unlock()
		}
	})
	srv.OnNotify(func(req *sip.Request, tx sip.ServerTransaction) {
		_ = tx.Respond(sip.NewResponseFromRequest(req, 200, "OK", nil))
		if c := p.call(req); c != nil {
			c.notifies <- req
		}
	})
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.ServeUDP(conn) }()
	require.Eventually(t, func() bool {
		c, err := p.ua.TransportLayer().GetConnection("udp", p.addr)
		return err == nil && c != nil
	}, 20*time.Second, time.Millisecond)
	t.Cleanup(func() {
		p.mu.Lock()
		for _, c := range p.byCall {
			c.end()
		}
		p.mu.Unlock()
		_ = p.ua.Close()
		_ = conn.Close()
		<-done
	})
	return p
}

func localPort(c *net.UDPConn) *net.UDPAddr {
	addr, ok := c.LocalAddr().(*net.UDPAddr)
	if !ok {
		return &net.UDPAddr{}
	}
	return addr
}

func (p *peer) call(req *sip.Request) *peerCall {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byCall[req.CallID().Value()]
}

// next waits for the next call that comes in.
func (p *peer) next() *peerCall {
	p.t.Helper()
	select {
	case c := <-p.calls:
		return c
	case <-time.After(30 * time.Second):
		require.Fail(p.t, "no call came in")
		return nil
	}
}

func (p *peer) newCall(user string) *peerCall {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP("127.0.0.1")})
	if err != nil {
		panic(err)
	}
	c := &peerCall{peer: p, user: user, rtp: conn, telEv: 101, bye: make(chan struct{}), cancel: make(chan struct{}), stop: make(chan struct{}), notifies: make(chan *sip.Request, 16), answered: make(chan struct{})}
	if strings.Contains(user, "-alaw") {
		c.codec = codecPCMA
	}
	if strings.Contains(user, "-nodtmf") {
		c.telEv = 0
	}
	c.silent = strings.Contains(user, "-mute")
	for part := range strings.SplitSeq(user, "-") {
		if f, err := strconv.ParseFloat(part, 64); err == nil {
			c.freq = f
		}
	}
	return c
}

// keep has the requests of a call reach it.
func (p *peer) keep(callID string, c *peerCall) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byCall[callID] = c
}

func (c *peerCall) sdp(dir direction) []byte {
	port := localPort(c.rtp).Port
	return localSDP("127.0.0.1", port, 1, []codec{c.codec}, c.telEv, dir)
}

func (p *peer) onInvite(req *sip.Request, tx sip.ServerTransaction) {
	if req.To().Params.Has("tag") {
		c := p.call(req)
		if c == nil {
			_ = tx.Respond(sip.NewResponseFromRequest(req, 481, "Gone", nil))
			return
		}
		c.mu.Lock()
		c.reinvites = append(c.reinvites, string(req.Body()))
		c.mu.Unlock()
		dir := sendRecv
		if r, err := parseSDP(req.Body()); err == nil {
			dir = r.direction.answer()
		}
		res := sip.NewResponseFromRequest(req, 200, "OK", c.sdp(dir))
		res.AppendHeader(&p.dialog.ContactHDR)
		res.AppendHeader(sip.NewHeader("Content-Type", "application/sdp"))
		_ = tx.Respond(res)
		return
	}
	d, err := p.dialog.ReadInvite(req, tx)
	if err != nil {
		return
	}
	c := p.newCall(req.Recipient.User)
	c.invite, c.server = req, d
	if r, err := parseSDP(req.Body()); err == nil {
		c.remote = r.addr
	}
	p.keep(req.CallID().Value(), c)
	tx.OnCancel(func(*sip.Request) { close(c.cancel) })
	go c.listen()
	p.calls <- c
	c.behave()
}

func (c *peerCall) behave() {
	respond := func(status int, body []byte) {
		var h []sip.Header
		if body != nil {
			h = append(h, sip.NewHeader("Content-Type", "application/sdp"))
		}
		_ = c.server.Respond(status, reasonPhrase(status), body, h...)
	}
	kind, _, _ := strings.Cut(c.user, "-")
	switch kind {
	case "answer":
		respond(180, nil)
		c.peer.rang(c.invite.CallID().Value())
		go c.talk()
		respond(200, c.sdp(sendRecv))
		close(c.answered)
	case "bye":
		respond(180, nil)
		c.peer.rang(c.invite.CallID().Value())
		go c.talk()
		respond(200, c.sdp(sendRecv))
		<-c.peer.accept
		_ = c.server.Bye(context.Background())
		c.end()
	case "early":
		respond(183, c.sdp(sendRecv))
		go c.talk()
		select {
		case <-c.peer.accept:
			respond(200, c.sdp(sendRecv))
		case <-c.cancel:
		}
	case "ring":
		respond(180, nil)
		<-c.cancel
	case "nothing":
		respond(100, nil)
		<-c.cancel
	case "video":
		respond(200, []byte("v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=video 9 RTP/AVP 96\r\n"))
	default:
		if status, err := strconv.Atoi(kind); err == nil {
			respond(180, nil)
			c.peer.rang(c.invite.CallID().Value())
			respond(status, nil)
		}
	}
}

func (p *peer) onBye(req *sip.Request, tx sip.ServerTransaction) {
	c := p.call(req)
	if c == nil {
		_ = tx.Respond(sip.NewResponseFromRequest(req, 481, "Gone", nil))
		return
	}
	_ = tx.Respond(sip.NewResponseFromRequest(req, 200, "OK", nil))
	c.end()
}

// end stops the call's media and marks it over.
func (c *peerCall) end() {
	c.once.Do(func() {
		close(c.bye)
		close(c.stop)
		_ = c.rtp.Close()
	})
}

// hangup sends BYE, and nothing after it.
func (c *peerCall) hangup() {
	c.goodbye()
	c.end()
}

// hush has the peer send no audio, or audio again.
func (c *peerCall) hush(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent = on
}

// goodbye sends BYE; the audio goes on.
func (c *peerCall) goodbye() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if c.server != nil {
		_ = c.server.Bye(ctx)
	} else {
		_ = c.client.Bye(ctx)
	}
}

// info sends a SIP INFO.
func (c *peerCall) info(contentType, body string) {
	ctx, cancel := context.WithTimeout(c.peer.t.Context(), 20*time.Second)
	defer cancel()
	req := sip.NewRequest(sip.INFO, c.server.InviteRequest.Contact().Address)
	req.AppendHeader(sip.NewHeader("Content-Type", contentType))
	req.SetBody([]byte(body))
	res, err := c.server.Do(ctx, req)
	require.NoError(c.peer.t, err)
	require.Equal(c.peer.t, 200, res.StatusCode)
}

// talk sends a tone until the call ends.
func (c *peerCall) talk() {
	tick := time.NewTicker(frameDuration)
	defer tick.Stop()
	b := make([]byte, rtpHeader+frameSamples)
	b[0] = 0x80
	binary.BigEndian.PutUint32(b[8:], uint32(localPort(c.rtp).Port))
	pcm := make([]int16, frameSamples)
	for n := 0; ; n++ {
		select {
		case <-c.stop:
			return
		case <-tick.C:
		}
		c.mu.Lock()
		remote, silent, freq := c.remote, c.silent, c.freq
		c.mu.Unlock()
		if silent || !remote.IsValid() {
			continue
		}
		for i := range pcm {
			pcm[i] = int16(8000 * math.Sin(2*math.Pi*freq*float64(n*frameSamples+i)/sampleRate))
		}
		b[1] = uint8(c.codec)
		binary.BigEndian.PutUint16(b[2:], uint16(n))
		binary.BigEndian.PutUint32(b[4:], uint32(n*frameSamples))
		encode(c.codec, b[:rtpHeader], pcm)
		_, _ = c.rtp.WriteToUDPAddrPort(b, remote)
	}
}

// press sends a digit by RFC 4733.
func (c *peerCall) press(digit byte, ts uint32) {
	code := strings.IndexByte(dtmfKeys, digit)
	b := make([]byte, rtpHeader+4)
	b[0], b[1] = 0x80, 101
	binary.BigEndian.PutUint32(b[4:], ts)
	binary.BigEndian.PutUint32(b[8:], 77)
	b[12], b[13] = byte(code), 10
	for i := range 8 {
		binary.BigEndian.PutUint16(b[2:], uint16(i))
		binary.BigEndian.PutUint16(b[14:], uint16(min((i+1)*160, 800)))
		if i >= 5 {
			b[13] |= 0x80
		}
		c.mu.Lock()
		remote := c.remote
		c.mu.Unlock()
		_, _ = c.rtp.WriteToUDPAddrPort(b, remote)
	}
}

func (c *peerCall) listen() {
	b := make([]byte, maxPacket)
	for {
		n, _, err := c.rtp.ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		payload, ok := rtpPayload(b[:n])
		if !ok {
			continue
		}
		c.mu.Lock()
		c.packets++
		if pt := b[1] & 0x7f; pt == 101 {
			if ts := binary.BigEndian.Uint32(b[4:]); payload[1]&0x80 != 0 && ts != c.lastEvent {
				c.lastEvent = ts
				c.digits = append(c.digits, dtmfKeys[payload[0]])
			}
		} else {
			n := len(c.heard)
			c.heard = decode(codec(pt), c.heard, payload)
			c.note(c.heard[n:])
		}
		c.mu.Unlock()
	}
}

// hears waits until the call's newest 200 ms are a tone of freq, and little else.
func (c *peerCall) hears(freq float64) {
	c.peer.t.Helper()
	require.Eventually(c.peer.t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.heard) < 1600 {
			return false
		}
		return tonal(c.heard[len(c.heard)-1600:], freq)
	}, 20*time.Second, 20*time.Millisecond, "no tone of %v Hz", freq)
}

// forget drops what was heard.
func (c *peerCall) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard, c.packets = nil, 0
}

func (c *peerCall) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.packets
}

// dial places a call to the switch and returns its final status.
func (p *peer) dial(to string, user string, headers ...sip.Header) (*peerCall, int) {
	p.t.Helper()
	var uri sip.Uri
	require.NoError(p.t, sip.ParseUri("sip:"+to, &uri))
	callID := fmt.Sprintf("%s-%d", strings.ReplaceAll(p.addr, ":", "-"), time.Now().UnixNano())
	c := p.newCall(user)
	p.keep(callID, c)
	go c.listen()
	id := sip.CallIDHeader(callID)
	from := sip.FromHeader{DisplayName: "Caller", Address: sip.Uri{Scheme: "sip", User: "+911234567890", Host: p.host}, Params: sip.NewParams()}
	from.Params.Add("tag", sip.GenerateTagN(10))
	hs := append([]sip.Header{&id, &from, sip.NewHeader("Content-Type", "application/sdp")}, headers...)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	d, err := p.dialog.Invite(ctx, uri, c.sdp(sendRecv), hs...)
	require.NoError(p.t, err)
	c.client, c.invite = d, d.InviteRequest
	status := 0
	err = d.WaitAnswer(ctx, sipgo.AnswerOptions{OnResponse: func(res *sip.Response) error {
		status = res.StatusCode
		if r, err := parseSDP(res.Body()); err == nil {
			c.mu.Lock()
			c.remote = r.addr
			c.mu.Unlock()
		}
		return nil
	}})
	if err != nil {
		return c, status
	}
	require.NoError(p.t, d.Ack(ctx))
	go c.talk()
	return c, status
}

func mustAddr(s string) netip.AddrPort {
	a, err := netip.ParseAddrPort(s)
	if err != nil {
		panic(err)
	}
	return a
}
