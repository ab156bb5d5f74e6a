package sip

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/emiago/sipgo"
	"github.com/emiago/sipgo/sip"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/media/rtp"
)

// allowedMethods is what the endpoint understands.
const allowedMethods = "INVITE, ACK, BYE, CANCEL, OPTIONS, INFO, UPDATE"

// Config is what an Endpoint needs.
type Config struct {
	// Addr is the address to bind, for UDP and TCP; port 0 takes a free one.
	Addr string
	// Peers are the networks from which alone SIP is taken.
	Peers netguard.Peers
	Log   *slog.Logger
	// Find gives the session that an INVITE's user part names.
	Find func(id string) (Callee, bool)
	// Spawn runs what ends by itself: a BYE, or digits by INFO. Whoever closes the Endpoint has waited for it.
	Spawn func(func())
	// Done is closed when no answer has to be waited for any more.
	Done <-chan struct{}
	// Invites counts by status, Digits by way, Panics those caught.
	Invites, Digits *prometheus.CounterVec
	Panics          prometheus.Counter
}

// Callee is a session that waits for a leg.
type Callee struct {
	ID      string
	RTPAddr netip.AddrPort // where it takes its audio
	Log     *slog.Logger
	Owner   Owner
}

// Owner is whose a leg is. It is called from the goroutines of requests.
type Owner interface {
	// Claim makes a leg the owner's; it reports false when it has one already, or takes none any more.
	Claim(l *Leg) bool
	// Release takes a leg back that could not be answered.
	Release(l *Leg)
	// Negotiated tells what was agreed on, at the beginning and whenever it changes.
	Negotiated(m Media)
	// Answered tells that the first ACK has come.
	Answered(codec rtp.Codec)
	// Ended tells that a leg is over, for a cause: bye, cancel, no_ack, bad_answer, error, or what Hangup was given.
	Ended(l *Leg, cause string, byPeer bool)
	// Digit is one that came by INFO.
	Digit(digit byte, dur time.Duration)
}

// Endpoint is the SIP user agent: it matches INVITEs to sessions and keeps their dialogs.
type Endpoint struct {
	cfg     Config
	log     *slog.Logger
	addr    netip.AddrPort
	ua      *sipgo.UserAgent
	client  *sipgo.Client
	udp     net.PacketConn
	tcp     net.Listener
	wg      sync.WaitGroup
	closing chan struct{}

	mu   sync.Mutex
	legs map[dialogKey]*Leg

	strangers netguard.Refusals
}

// dialogKey names a dialog on our side (RFC 3261 section 12).
type dialogKey struct{ callID, localTag, remoteTag string }

// The SIP library may send over UDP what is longer than 1,300 bytes: a response goes the way that its request came, however long it is (RFC 3261 section
// 18.2.2), and it repeats what the caller is called. It is set before anything in the process has a SIP socket and reads it.
func init() { sip.UDPMTUSize = 1 << 16 } //nolint:gochecknoinits // a global variable of the library

// Start binds the address for UDP and TCP, since the switch changes to TCP when an INVITE grows beyond a datagram, and serves.
func Start(ctx context.Context, cfg Config) (*Endpoint, error) {
	e := &Endpoint{cfg: cfg, log: cfg.Log, legs: map[dialogKey]*Leg{}, closing: make(chan struct{})}
	if err := e.bind(ctx, cfg.Addr); err != nil {
		return nil, err
	}
	if err := e.build(); err != nil {
		return nil, errors.Join(err, e.udp.Close(), e.tcp.Close())
	}
	return e, nil
}

// Addr is the bound address.
func (e *Endpoint) Addr() netip.AddrPort { return e.addr }

// bind opens both sockets on one port; a port that the system picks for UDP may be taken for TCP.
func (e *Endpoint) bind(ctx context.Context, addr string) error {
	var lc net.ListenConfig
	for tries := 0; ; tries++ {
		udp, err := lc.ListenPacket(ctx, "udp4", addr)
		if err != nil {
			return fmt.Errorf("binding SIP: %w", err)
		}
		ap, err := netip.ParseAddrPort(udp.LocalAddr().String())
		if err != nil {
			return errors.Join(fmt.Errorf("binding SIP: %w", err), udp.Close())
		}
		tcp, err := lc.Listen(ctx, "tcp4", ap.String())
		if err == nil {
			e.udp, e.tcp, e.addr = udp, tcp, ap
			return nil
		}
		if err = errors.Join(err, udp.Close()); !strings.HasSuffix(addr, ":0") || tries >= 20 {
			return fmt.Errorf("binding SIP: %w", err)
		}
	}
}

func (e *Endpoint) build() error {
	quiet := slog.New(sipLog{e.log.Handler()})
	ua, err := sipgo.NewUA(
		sipgo.WithUserAgent("ringmaster"),
		sipgo.WithUserAgentTransportLayerOptions(sip.WithTransportLayerLogger(quiet)),
		sipgo.WithUserAgentTransactionLayerOptions(sip.WithTransactionLayerLogger(quiet)),
	)
	if err != nil {
		return fmt.Errorf("creating a SIP user agent: %w", err)
	}
	server, err := sipgo.NewServer(ua, sipgo.WithServerLogger(quiet))
	if err != nil {
		return errors.Join(fmt.Errorf("creating a SIP server: %w", err), ua.Close())
	}
	client, err := sipgo.NewClient(ua, sipgo.WithClientAddr(e.addr.String()), sipgo.WithClientLogger(quiet))
	if err != nil {
		return errors.Join(fmt.Errorf("creating a SIP client: %w", err), ua.Close())
	}
	e.ua, e.client = ua, client
	server.OnInvite(e.guard(e.onInvite))
	server.OnAck(e.guard(e.onAck))
	server.OnBye(e.guard(e.onBye))
	server.OnCancel(e.guard(e.onCancel))
	server.OnOptions(e.guard(e.onOptions))
	server.OnInfo(e.guard(e.onInfo))
	server.OnUpdate(e.guard(e.onUpdate))
	e.wg.Go(func() {
		e.served(server.ServeUDP(steadyConn{
			PacketConn: e.udp, peers: e.cfg.Peers, refused: e.refused, log: e.log, closing: e.closing,
		}))
	})
	e.wg.Go(func() { e.served(server.ServeTCP(e.cfg.Peers.Listener(e.tcp, e.refused))) })
	return nil
}

func (e *Endpoint) served(err error) {
	select {
	case <-e.closing:
		return
	default:
	}
	if errors.Is(err, net.ErrClosed) {
		return
	}
	e.log.Error("the SIP endpoint stopped serving", "error", err) // nil, too: only close may end it
}

// Close ends the user agent. It is called once, when what was spawned is over or need not be waited for.
func (e *Endpoint) Close() error {
	close(e.closing)
	err := errors.Join(e.udp.Close(), e.tcp.Close(), e.ua.Close())
	e.wg.Wait()
	return err
}

// guard keeps a fault in one request from ending the process.
func (e *Endpoint) guard(h sipgo.RequestHandler) sipgo.RequestHandler {
	return func(req *sip.Request, tx sip.ServerTransaction) {
		defer func() {
			if r := recover(); r != nil {
				e.cfg.Panics.Inc()
				e.log.Error("panic in a SIP request", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			}
		}()
		if !complete(req) {
			if !req.IsAck() {
				e.respond(tx, sip.NewResponseFromRequest(req, sip.StatusBadRequest, "Bad Request", nil))
			}
			return
		}
		h(req, tx)
	}
}

// refused notes a stranger's attempt.
func (e *Endpoint) refused(peer string) {
	if n := e.strangers.Count(time.Now()); n > 0 {
		e.log.Warn("SIP refused: peer is outside the switch's networks (media.sip_allow)", "peer", peer, "refused", n)
	}
}

// complete tells whether a request has the headers that no request may lack (RFC 3261 section 8.1.1).
func complete(req *sip.Request) bool {
	if req.From() == nil || req.To() == nil || req.CallID() == nil || req.CSeq() == nil || req.Via() == nil {
		return false
	}
	return !req.IsInvite() || req.Contact() != nil
}

func (e *Endpoint) respond(tx sip.ServerTransaction, res *sip.Response) {
	if res.StatusCode != sip.StatusOK {
		res.AppendHeader(sip.NewHeader("Allow", allowedMethods))
	}
	if err := tx.Respond(res); err != nil {
		e.log.Debug("sending a SIP response failed", "error", err)
	}
}

// reject answers a request with an error.
func (e *Endpoint) reject(req *sip.Request, tx sip.ServerTransaction, status int, reason string) {
	if req.IsInvite() {
		e.cfg.Invites.WithLabelValues(strconv.Itoa(status)).Inc()
	}
	e.respond(tx, sip.NewResponseFromRequest(req, status, reason, nil))
}

// keyOf names the dialog that a request belongs to.
func keyOf(req *sip.Request) dialogKey {
	local, _ := req.To().Params.Get("tag")
	remote, _ := req.From().Params.Get("tag")
	return dialogKey{callID: req.CallID().Value(), localTag: local, remoteTag: remote}
}

func (e *Endpoint) find(req *sip.Request) *Leg {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.legs[keyOf(req)]
}

func (e *Endpoint) store(l *Leg) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.legs[l.key] = l
}

func (e *Endpoint) drop(l *Leg) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.legs, l.key)
}

// onInvite takes a leg for a session, or a change of one that is up.
func (e *Endpoint) onInvite(req *sip.Request, tx sip.ServerTransaction) {
	if req.To().Params.Has("tag") {
		l := e.find(req)
		if l == nil {
			e.reject(req, tx, sip.StatusCallTransactionDoesNotExists, "Call/Transaction Does Not Exist")
			return
		}
		l.reinvite(req, tx)
		return
	}
	if unknown := unsupported(req); unknown != "" {
		res := sip.NewResponseFromRequest(req, sip.StatusBadExtension, "Bad Extension", nil)
		res.AppendHeader(sip.NewHeader("Unsupported", unknown))
		e.cfg.Invites.WithLabelValues("420").Inc()
		e.respond(tx, res)
		return
	}
	to, ok := e.cfg.Find(req.Recipient.User)
	if !ok {
		e.log.Warn("INVITE for an unknown session", "session_id", req.Recipient.User[:min(len(req.Recipient.User), 64)])
		e.reject(req, tx, sip.StatusNotFound, "Not Found")
		return
	}
	l := newLeg(e, to, req)
	if !to.Owner.Claim(l) {
		e.reject(req, tx, sip.StatusBusyHere, "Busy Here")
		return
	}
	l.answer(req, tx)
}

// unsupported returns the required extensions that we don't have.
func unsupported(req *sip.Request) string {
	var unknown []string
	for _, h := range req.GetHeaders("Require") {
		for tag := range strings.SplitSeq(h.Value(), ",") {
			if tag = strings.TrimSpace(tag); tag != "" {
				unknown = append(unknown, tag)
			}
		}
	}
	return strings.Join(unknown, ", ")
}

func (e *Endpoint) onAck(req *sip.Request, _ sip.ServerTransaction) {
	if l := e.find(req); l != nil {
		l.ack(req)
	}
}

func (e *Endpoint) onBye(req *sip.Request, tx sip.ServerTransaction) {
	l := e.find(req)
	if l == nil {
		e.reject(req, tx, sip.StatusCallTransactionDoesNotExists, "Call/Transaction Does Not Exist")
		return
	}
	e.respond(tx, sip.NewResponseFromRequest(req, sip.StatusOK, "OK", nil))
	l.ended("bye", true)
}

// onCancel answers a CANCEL whose INVITE is not pending any more; the SIP library answers all others.
func (e *Endpoint) onCancel(req *sip.Request, tx sip.ServerTransaction) {
	e.reject(req, tx, sip.StatusCallTransactionDoesNotExists, "Call/Transaction Does Not Exist")
}

func (e *Endpoint) onOptions(req *sip.Request, tx sip.ServerTransaction) {
	res := sip.NewResponseFromRequest(req, sip.StatusOK, "OK", nil)
	res.AppendHeader(sip.NewHeader("Allow", allowedMethods))
	res.AppendHeader(sip.NewHeader("Accept", "application/sdp"))
	e.respond(tx, res)
}

func (e *Endpoint) onUpdate(req *sip.Request, tx sip.ServerTransaction) {
	l := e.find(req)
	if l == nil {
		e.reject(req, tx, sip.StatusCallTransactionDoesNotExists, "Call/Transaction Does Not Exist")
		return
	}
	l.update(req, tx)
}

// sipLog passes the SIP library's warnings on without their attributes, which hold whole messages and so the numbers
// of callers.
type sipLog struct{ next slog.Handler }

// Enabled implements slog.Handler.
func (h sipLog) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && h.next.Enabled(ctx, l)
}

// Handle implements slog.Handler.
func (h sipLog) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, slog.LevelWarn, "SIP library: "+r.Message, r.PC)
	return h.next.Handle(ctx, out)
}

// WithAttrs implements slog.Handler.
func (h sipLog) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup implements slog.Handler.
func (h sipLog) WithGroup(string) slog.Handler { return h }
