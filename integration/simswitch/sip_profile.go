package simswitch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/emiago/sipgo"
	"github.com/emiago/sipgo/sip"
)

// userAgent is how the switch names itself in SIP.
const userAgent = "FreeSWITCH-mod_sofia/1.11.3-simulated"

// sipProfile is one SIP address of the switch with its dialogs.
type sipProfile struct {
	sw      *Switch
	name    string
	context string // the dialplan context of calls that come in
	addr    string
	host    string
	port    int
	ua      *sipgo.UserAgent
	server  *sipgo.Server
	client  *sipgo.Client
	conn    *sipConn
	tcp     net.Listener
	serve   sync.WaitGroup // the listeners

	mu   sync.Mutex
	legs map[string]*sipLeg // by dialogKey; guarded by mu
}

// longMessages has SIP messages sent by UDP whatever their length, as FreeSWITCH does where a URI names that transport.
var longMessages = sync.OnceFunc(func() { sip.UDPMTUSize = 1 << 16 }) //nolint:gochecknoglobals // of the library

// newSIPProfile binds addr, by UDP and, where the port is free there too, by TCP, and serves it.
func newSIPProfile(ctx context.Context, sw *Switch, name, addr string) (*sipProfile, error) {
	longMessages()
	var lc net.ListenConfig
	pc, err := lc.ListenPacket(ctx, "udp4", addr)
	if err != nil {
		return nil, fmt.Errorf("bind %s: %w", addr, err)
	}
	udp, ok := pc.(*net.UDPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("bind %s: no UDP socket", addr), pc.Close())
	}
	local := udp.LocalAddr().String()
	host, portText, err := net.SplitHostPort(local)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("bind %s: %w", addr, err), pc.Close())
	}
	port, _ := strconv.Atoi(portText)
	p := &sipProfile{sw: sw, name: name, addr: local, host: host, port: port, legs: make(map[string]*sipLeg)}
	p.context = sw.cfg.Context
	if name == "internal" || name == voiceAgents {
		p.context = internalContext
	}
	p.conn = newSIPConn(udp, p.unreachable)
	if err := p.build(); err != nil {
		return nil, errors.Join(err, pc.Close())
	}
	p.serve.Go(func() {
		if err := p.server.ServeUDP(p.conn); err != nil && !errors.Is(err, net.ErrClosed) {
			sw.log.Error("SIP profile stopped", "profile", name, "error", err)
		}
	})
	if p.tcp, err = lc.Listen(ctx, "tcp4", local); err == nil {
		p.serve.Go(func() { _ = p.server.ServeTCP(p.tcp) })
	}
	if !p.waitServing() {
		return nil, errors.Join(fmt.Errorf("serve SIP on %s: not ready in time", local), p.close())
	}
	return p, nil
}

// build makes the SIP stack and registers the handlers.
func (p *sipProfile) build() error {
	quiet := slog.New(slog.DiscardHandler)
	ua, err := sipgo.NewUA(sipgo.WithUserAgent(userAgent), sipgo.WithUserAgentHostname(p.host),
		sipgo.WithUserAgentTransportLayerOptions(sip.WithTransportLayerLogger(quiet)),
		sipgo.WithUserAgentTransactionLayerOptions(sip.WithTransactionLayerLogger(quiet),
			sip.WithTransactionLayerUnhandledResponseHandler(func(*sip.Response) {})))
	if err != nil {
		return fmt.Errorf("create the SIP user agent: %w", err)
	}
	p.ua = ua
	if p.server, err = sipgo.NewServer(ua, sipgo.WithServerLogger(quiet)); err != nil {
		return fmt.Errorf("create the SIP server: %w", err)
	}
	p.client, err = sipgo.NewClient(ua, sipgo.WithClientLogger(quiet), sipgo.WithClientAddr(p.addr),
		sipgo.WithClientConnectionAddr(p.addr), sipgo.WithClientNAT())
	if err != nil {
		return fmt.Errorf("create the SIP client: %w", err)
	}
	p.server.OnInvite(p.onInvite)
	p.server.OnAck(p.onAck)
	p.server.OnBye(p.inDialog((*sipLeg).onBye))
	p.server.OnInfo(p.inDialog((*sipLeg).onInfo))
	p.server.OnUpdate(p.inDialog((*sipLeg).onUpdate))
	p.server.OnCancel(p.onStrayCancel)
	p.server.OnRegister(p.onRegister)
	p.server.OnRefer(func(req *sip.Request, tx sip.ServerTransaction) { p.reply(req, tx, 405) }) // disable-transfer
	if p.name == voiceAgents {
		p.server.OnRefer(p.inDialog((*sipLeg).onRefer))
	}
	p.server.OnOptions(func(req *sip.Request, tx sip.ServerTransaction) { p.reply(req, tx, 200) })
	return nil
}

// waitServing waits until requests can leave by the listening socket.
func (p *sipProfile) waitServing() bool {
	for range 400 {
		if c, err := p.ua.TransportLayer().GetConnection("udp", p.addr); err == nil && c != nil {
			return true
		}
		<-time.After(5 * time.Millisecond)
	}
	return false
}

// close ends the listeners. Nothing may send a request any more: the SIP stack would open a socket of its own for it.
func (p *sipProfile) close() error {
	var errs []error
	if p.tcp != nil {
		_ = p.tcp.Close()
	}
	if p.ua != nil {
		errs = append(errs, p.ua.Close())
	}
	if err := p.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		errs = append(errs, err)
	}
	p.serve.Wait()
	return errors.Join(errs...)
}

// contact is the switch's own address in a dialog.
func (p *sipProfile) contact(transport string) *sip.ContactHeader {
	uri := sip.Uri{Scheme: "sip", User: "mod_sofia", Host: p.host, Port: p.port}
	if transport == "tcp" {
		uri.UriParams = sip.NewParams()
		uri.UriParams.Add("transport", "tcp")
	}
	return &sip.ContactHeader{Address: uri}
}

// dialogKey finds a leg: its Call-ID and our tag.
func dialogKey(callID, localTag string) string { return callID + "\x00" + localTag }

func (p *sipProfile) addLeg(l *sipLeg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.legs[dialogKey(l.callID, l.localTag)] = l
}

func (p *sipProfile) dropLeg(l *sipLeg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.legs, dialogKey(l.callID, l.localTag))
}

// legOf finds the dialog of a request that came in.
func (p *sipProfile) legOf(req *sip.Request) *sipLeg {
	id, to := req.CallID(), req.To()
	if id == nil || to == nil {
		return nil
	}
	tag, _ := to.Params.Get("tag")
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.legs[dialogKey(id.Value(), tag)]
}

// unreachable tells the legs that dial addr that nobody listens there (ICMP port unreachable).
func (p *sipProfile) unreachable(addr string) {
	p.mu.Lock()
	var hit []*sipLeg
	for _, l := range p.legs {
		if l.outbound && l.destination == addr {
			hit = append(hit, l)
		}
	}
	p.mu.Unlock()
	for _, l := range hit {
		l.out.refused(503, nil)
	}
}

func (p *sipProfile) reply(req *sip.Request, tx sip.ServerTransaction, status int, headers ...sip.Header) {
	res := sip.NewResponseFromRequest(req, status, reasonPhrase(status), nil)
	for _, h := range headers {
		res.AppendHeader(h)
	}
	if err := tx.Respond(res); err != nil {
		p.sw.log.Debug("SIP response not sent", "profile", p.name, "status", status, "error", err)
	}
}

// inDialog wraps a handler of requests that need a dialog.
func (p *sipProfile) inDialog(f func(*sipLeg, *sip.Request, sip.ServerTransaction)) sipgo.RequestHandler {
	return func(req *sip.Request, tx sip.ServerTransaction) {
		l := p.legOf(req)
		if l == nil {
			p.reply(req, tx, 481)
			return
		}
		f(l, req, tx)
	}
}

// onStrayCancel answers a CANCEL whose transaction is over.
func (p *sipProfile) onStrayCancel(req *sip.Request, tx sip.ServerTransaction) { p.reply(req, tx, 481) }

func (p *sipProfile) onAck(req *sip.Request, _ sip.ServerTransaction) {
	if l := p.legOf(req); l != nil {
		l.in.onAck(req)
	}
}
