package media

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emiago/sipgo"
	siplib "github.com/emiago/sipgo/sip"
	"github.com/gorilla/websocket"
	pion "github.com/pion/rtp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/media/sip"
)

const (
	soon = 30 * time.Second
	tick = 5 * time.Millisecond
)

// rig is a media server with an AI and a switch beside it.
type rig struct {
	t   *testing.T
	srv *Server
	reg *prometheus.Registry
	ai  *fakeAI
	// faults is how many panics the test has injected; any other fails it.
	faults float64
}

func newRig(t *testing.T) *rig {
	t.Helper()
	reg := prometheus.NewRegistry()
	srv, err := New(Config{
		SIPAddr: "127.0.0.1:0", RTPPortMin: 30000, RTPPortMax: 59998,
		DialGuard: netguard.Policy{AllowLoopback: true}, Registerer: reg,
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	require.NoError(t, srv.Start(t.Context()))
	srv.next.Store(uint32(time.Now().UnixNano()))
	r := &rig{t: t, srv: srv, reg: reg}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		require.NoError(t, srv.Close(ctx))
		require.InDelta(t, r.faults, metric(t, srv.metrics.panics), 0, "panics")
	})
	r.ai = newFakeAI(t)
	return r
}

// spec describes a session with the rig's AI.
func (r *rig) spec(id string) SessionSpec {
	return SessionSpec{
		ID: id, CallID: id, URL: r.ai.url(), Subprotocol: SubprotocolAlpha, AuthToken: "secret",
		Metadata: json.RawMessage(`{"call_id":"` + id + `","sampleRate":16000}`), ReconnectFor: 5 * time.Second,
	}
}

func (r *rig) open(spec SessionSpec) (*Session, *aiConn) {
	r.t.Helper()
	sess, err := r.srv.Open(r.t.Context(), spec)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { sess.Close(CloseHangup) })
	return sess, r.ai.next(r.t)
}

// event waits for an event of type T and returns it; others are passed over.
func event[T Event](t *testing.T, sess *Session) T {
	t.Helper()
	deadline := time.After(soon)
	for {
		select {
		case ev, ok := <-sess.Events():
			if !ok {
				var zero T
				require.FailNowf(t, "events closed", "no %T came", zero)
			}
			if got, ok := ev.(T); ok {
				return got
			}
		case <-deadline:
			var zero T
			require.FailNowf(t, "no event", "no %T came", zero)
		}
	}
}

// fakeAI is a voice agent: a real WebSocket server whose connections a test drives.
type fakeAI struct {
	http  *httptest.Server
	conns chan *aiConn

	mu     sync.Mutex
	status int // refuses upgrades when set
	proto  []string
	heads  []http.Header
}

func newFakeAI(t *testing.T) *fakeAI {
	t.Helper()
	a := &fakeAI{conns: make(chan *aiConn, 1024), proto: []string{SubprotocolAlpha, SubprotocolBeta}}
	a.http = httptest.NewServer(a)
	t.Cleanup(a.http.Close)
	return a
}

func (a *fakeAI) url() string { return "ws" + strings.TrimPrefix(a.http.URL, "http") + "/agent" }

func (a *fakeAI) refuse(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status = status
}

func (a *fakeAI) protocols(p ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.proto = p
}

func (a *fakeAI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	status, proto := a.status, a.proto
	a.heads = append(a.heads, r.Header.Clone())
	a.mu.Unlock()
	if status != 0 {
		w.WriteHeader(status)
		return
	}
	up := websocket.Upgrader{Subprotocols: proto}
	c, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	ac := &aiConn{c: c, proto: c.Subprotocol(), done: make(chan struct{})}
	a.conns <- ac
	ac.Read()
}

func (a *fakeAI) next(t *testing.T) *aiConn {
	t.Helper()
	select {
	case c := <-a.conns:
		t.Cleanup(func() { _ = c.c.Close() })
		return c
	case <-time.After(soon):
		require.FailNow(t, "the AI was not dialed")
		return nil
	}
}

// aiConn is one connection of the AI.
type aiConn struct {
	c     *websocket.Conn
	proto string
	done  chan struct{}

	mu     sync.Mutex
	texts  []string
	audio  []byte
	frames []int
	at     []time.Time // arrival of each audio frame
	err    error
	wmu    sync.Mutex
}

func (a *aiConn) Read() {
	defer close(a.done)
	for {
		typ, b, err := a.c.ReadMessage()
		a.mu.Lock()
		switch {
		case err != nil:
			a.err = err
		case typ == websocket.TextMessage:
			a.texts = append(a.texts, string(b))
		default:
			a.audio = append(a.audio, b...)
			a.frames = append(a.frames, len(b))
			a.at = append(a.at, time.Now())
		}
		a.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (a *aiConn) Write(typ int, b []byte) {
	a.wmu.Lock()
	defer a.wmu.Unlock()
	_ = a.c.WriteMessage(typ, b)
}

func (a *aiConn) say(pcm []int16)  { a.Write(websocket.BinaryMessage, pcmBytes(pcm)) }
func (a *aiConn) text(json string) { a.Write(websocket.TextMessage, []byte(json)) }

func (a *aiConn) Close(code int) {
	a.wmu.Lock()
	defer a.wmu.Unlock()
	_ = a.c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, ""), time.Now().Add(time.Second))
}

func (a *aiConn) allTexts() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.texts...)
}

func (a *aiConn) heard() []int16 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return bytesPCM(a.audio)
}

func (a *aiConn) frameSizes() []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]int(nil), a.frames...)
}

func (a *aiConn) closeErr() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// waitText waits for a text frame that contains all parts and returns it.
func (a *aiConn) waitText(t *testing.T, parts ...string) string {
	t.Helper()
	var found string
	require.Eventually(t, func() bool {
		for _, s := range a.allTexts() {
			ok := true
			for _, p := range parts {
				ok = ok && strings.Contains(s, p)
			}
			if ok {
				found = s
				return true
			}
		}
		return false
	}, soon, tick, "no text frame with %q, got %q", parts, a.allTexts())
	return found
}

func pcmBytes(pcm []int16) []byte {
	b := make([]byte, 0, 2*len(pcm))
	for _, s := range pcm {
		b = binary.LittleEndian.AppendUint16(b, uint16(s))
	}
	return b
}

func bytesPCM(b []byte) []int16 {
	pcm := make([]int16, len(b)/2)
	for i := range pcm {
		pcm[i] = int16(binary.LittleEndian.Uint16(b[2*i:]))
	}
	return pcm
}

// clearest is the tenth of a second in which a tone is the loudest: a busy machine, which paces the others badly, may have broken the
// rest.
func clearest(pcm []int16, hz float64, rate int) []int16 {
	n := rate / 10
	var best []int16
	for at := 0; at+n <= len(pcm); at += n / 4 {
		if stretch := pcm[at : at+n]; best == nil || dsptest.Power(stretch, hz, rate) > dsptest.Power(best, hz, rate) {
			best = stretch
		}
	}
	return best
}

// phone is the switch's side of a leg: a SIP user agent and an RTP socket.
type phone struct {
	t      *testing.T
	ua     *sipgo.UserAgent
	dua    *sipgo.DialogUA
	dialog *sipgo.DialogClientSession
	rtp    *net.UDPConn
	sipC   net.PacketConn
	bye    chan struct{}
	peer   *net.UDPAddr
	codec  uint8

	seq  uint16
	ts   uint32
	ssrc uint32

	mu      sync.Mutex
	packets []heardPacket
	wg      sync.WaitGroup
}

type heardPacket struct {
	at   time.Time
	from netip.AddrPort
	h    pion.Header
	p    []byte
}

func newPhone(t *testing.T) *phone {
	t.Helper()
	p := &phone{t: t, bye: make(chan struct{}, 4), ssrc: 77, seq: 65500, ts: 4294960000}
	var err error
	p.rtp, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	p.sipC, err = new(net.ListenConfig).ListenPacket(t.Context(), "udp4", "127.0.0.1:0")
	require.NoError(t, err)
	p.ua, err = sipgo.NewUA(sipgo.WithUserAgent("switch"))
	require.NoError(t, err)
	quiet := slog.New(slog.DiscardHandler)
	srv, err := sipgo.NewServer(p.ua, sipgo.WithServerLogger(quiet))
	require.NoError(t, err)
	client, err := sipgo.NewClient(p.ua, sipgo.WithClientAddr(p.sipC.LocalAddr().String()), sipgo.WithClientLogger(quiet),
		sipgo.WithClientConnectionAddr(p.sipC.LocalAddr().String()))
	require.NoError(t, err)
	srv.OnBye(func(req *siplib.Request, tx siplib.ServerTransaction) {
		_ = tx.Respond(siplib.NewResponseFromRequest(req, 200, "OK", nil))
		p.bye <- struct{}{}
	})
	p.wg.Go(func() { _ = srv.ServeUDP(p.sipC) })
	p.wg.Go(p.listen)
	require.Eventually(t, func() bool {
		c, err := p.ua.TransportLayer().GetConnection("udp", p.sipC.LocalAddr().String())
		return err == nil && c != nil
	}, soon, time.Millisecond)
	ap := netip.MustParseAddrPort(p.sipC.LocalAddr().String())
	p.dua = &sipgo.DialogUA{Client: client, ContactHDR: siplib.ContactHeader{Address: siplib.Uri{Scheme: "sip", User: "switch", Host: "127.0.0.1", Port: int(ap.Port())}}}
	t.Cleanup(func() {
		_ = p.rtp.Close()
		_ = p.sipC.Close()
		_ = p.ua.Close()
		p.wg.Wait()
	})
	return p
}

func (p *phone) listen() {
	buf := make([]byte, 2048)
	for {
		n, from, err := p.rtp.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		var h pion.Header
		hn, err := h.Unmarshal(buf[:n])
		if err != nil {
			continue
		}
		p.mu.Lock()
		p.packets = append(p.packets, heardPacket{at: time.Now(), from: from, h: h, p: append([]byte(nil), buf[hn:n]...)})
		p.mu.Unlock()
	}
}

// sdpBody is an offer with the given formats.
func (p *phone) sdpBody(formats, attrs string) []byte {
	return fmt.Appendf(nil, "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio %d RTP/AVP %s\r\n%s", localPort(p.rtp), formats, attrs)
}

// localPort is the port that a socket is bound to.
func localPort(c *net.UDPConn) int {
	return int(netip.MustParseAddrPort(c.LocalAddr().String()).Port())
}

const dtmfAttr = "a=rtpmap:101 telephone-event/8000\r\na=fmtp:101 0-15\r\n"

// invite sends an INVITE and returns its final response; it is acknowledged when it is a 200.
func (p *phone) invite(uri string, body []byte) *siplib.Response {
	p.t.Helper()
	var to siplib.Uri
	require.NoError(p.t, siplib.ParseUri(uri, &to))
	ctx, cancel := context.WithTimeout(p.t.Context(), soon)
	defer cancel()
	ct := siplib.ContentTypeHeader("application/sdp")
	d, err := p.dua.Invite(ctx, to, body, &ct)
	require.NoError(p.t, err)
	err = d.WaitAnswer(ctx, sipgo.AnswerOptions{})
	if err != nil {
		var de *sipgo.ErrDialogResponse
		require.ErrorAs(p.t, err, &de)
		return de.Res
	}
	require.NoError(p.t, d.Ack(ctx))
	p.dialog = d
	p.readAnswer(d.InviteResponse.Body())
	return d.InviteResponse
}

func (p *phone) readAnswer(body []byte) {
	r, err := sip.ReadSDP(body)
	require.NoError(p.t, err)
	p.peer = net.UDPAddrFromAddrPort(r.Media.Remote)
	p.codec = r.Media.PT
}

// call invites a session with PCMU and telephone events.
func (p *phone) call(sess *Session) {
	p.t.Helper()
	res := p.invite(sess.URI(), p.sdpBody("0 8 101", dtmfAttr))
	require.Equal(p.t, 200, res.StatusCode)
	event[LegAnswered](p.t, sess)
}

// send sends one packet of μ-law.
func (p *phone) send(pcm []int16) {
	b := make([]byte, len(pcm))
	dsp.EncodeULaw(b, pcm)
	p.raw(0, false, b, len(pcm))
}

func (p *phone) raw(pt uint8, marker bool, payload []byte, samples int) {
	h := pion.Header{Version: 2, PayloadType: pt, Marker: marker, SequenceNumber: p.seq, Timestamp: p.ts, SSRC: p.ssrc}
	b, err := h.Marshal()
	require.NoError(p.t, err)
	_, err = p.rtp.WriteToUDP(append(b, payload...), p.peer)
	require.NoError(p.t, err)
	p.seq++
	p.ts += uint32(samples)
}

// speak sends audio in real time and returns when it has been sent.
func (p *phone) speak(pcm []int16) {
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for len(pcm) >= dsp.FrameSamples {
		p.send(pcm[:dsp.FrameSamples])
		pcm = pcm[dsp.FrameSamples:]
		<-t.C
	}
}

// got is what has come from the endpoint. Another test's may go on sending for a moment to a phone of its own that had this one's port before.
func (p *phone) got() (packets []heardPacket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pkt := range p.packets {
		if p.peer == nil || int(pkt.from.Port()) == p.peer.Port {
			packets = append(packets, pkt)
		}
	}
	return packets
}

// heard is all audio that has come, in the order of sequence numbers.
func (p *phone) heard() []int16 {
	var pcm []int16
	for _, pkt := range p.got() {
		s := make([]int16, len(pkt.p))
		if pkt.h.PayloadType == 8 {
			dsp.DecodeALaw(s, pkt.p)
		} else {
			dsp.DecodeULaw(s, pkt.p)
		}
		pcm = append(pcm, s...)
	}
	return pcm
}
