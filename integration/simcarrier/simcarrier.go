// Package simcarrier plays the telephone network: a SIP user agent that is called by a switch's carrier profile and
// that calls it. The last two digits of a number decide what its subscriber does (see Behaviour); everything that a
// call sent and heard is kept in its Report. It plays people's softphones too, which register at the switch's internal profile.
//
// Read behaviour.go for the number table, call.go, callee.go and caller.go for the two sides of a dialog, agent.go and
// agents.go for softphones, script.go for what is said, stream.go and pump.go for RTP, and http.go for the control surface. Package tone makes and
// recognises the audio.
package simcarrier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/emiago/sipgo"
	"github.com/emiago/sipgo/sip"
)

// Errors of the control surface.
var (
	// ErrUnknownCall says that no report carries the id or number asked for.
	ErrUnknownCall = errors.New("no such call")
	// ErrUnreachable says that the switch answered an INVITE with nothing at all.
	ErrUnreachable = errors.New("switch did not answer the INVITE")
	// ErrInvalidRequest says that a call can't be placed from what was asked.
	ErrInvalidRequest = errors.New("invalid request")
	// ErrClosed says that the carrier is shutting down.
	ErrClosed = errors.New("carrier is closed")
)

// Config holds the addresses and habits of a carrier. Its zero values take the defaults named on each field.
type Config struct {
	// SIPAddr is the UDP address of the user agent; 127.0.0.1:0 by default.
	SIPAddr string
	// HTTPAddr is the address of the control surface; 127.0.0.1:0 by default.
	HTTPAddr string
	// Target is the host:port of the switch's carrier profile, to which inbound calls are placed. It can be set
	// later, by SetTarget.
	Target string
	// Registrar is the host:port of the switch's internal profile, where softphones register that name no other.
	Registrar string
	// RTPIP is the address RTP is sent from and received on; 127.0.0.1 by default.
	RTPIP string
	// RTPPortMin and RTPPortMax bound the RTP ports, both included; 41000 to 44998 by default.
	RTPPortMin, RTPPortMax int
	// RTPEvery sends one of so many frames, for load that is not about audio; all by default.
	RTPEvery int
	// Voice is what subscribers speak with: "tone:HZ", "steady:HZ" (without pauses), "babble", "marker" or "silence"; "tone:425" by default.
	Voice string
	// Codecs lists the codecs offered and taken, best first; PCMU and PCMA by default.
	Codecs []string
	// Listen lists the frequencies, in Hz, whose onsets are tracked exactly; 425, 1000 and 1400 by default. The
	// marker's 700 is always among them.
	Listen []float64
	// AnswerAfter is how long an ordinary number rings; 1 s by default.
	AnswerAfter time.Duration
	// NoResponse is how long an INVITE may stay without any response before the switch counts as unreachable;
	// 4 s by default.
	NoResponse time.Duration
	// RingTimeout is how long a placed call may ring before it is cancelled; 60 s by default.
	RingTimeout time.Duration
	// Seed seeds packet loss, jitter and babble.
	Seed uint64
	// Logger takes the log; slog.Default() by default.
	Logger *slog.Logger
	// Ready, if set, is called by Run once everything serves.
	Ready func(Addrs)
}

// Addrs are the addresses that a started carrier serves on.
type Addrs struct {
	SIP  string `json:"sip"`
	HTTP string `json:"http"`
}

func (c Config) withDefaults() Config {
	setDefault(&c.SIPAddr, "127.0.0.1:0")
	setDefault(&c.HTTPAddr, "127.0.0.1:0")
	setDefault(&c.RTPIP, "127.0.0.1")
	setDefault(&c.RTPPortMin, 41000)
	setDefault(&c.RTPPortMax, 44998)
	setDefault(&c.Voice, "tone:425")
	setDefault(&c.AnswerAfter, time.Second)
	setDefault(&c.NoResponse, 4*time.Second)
	setDefault(&c.RingTimeout, time.Minute)
	setDefault(&c.Logger, slog.Default())
	if len(c.Codecs) == 0 {
		c.Codecs = []string{codecPCMU, codecPCMA}
	}
	if len(c.Listen) == 0 {
		c.Listen = []float64{425, 1000, beepHz}
	}
	if !slices.Contains(c.Listen, markerHz) {
		c.Listen = append(slices.Clone(c.Listen), markerHz)
	}
	return c
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

func (c Config) validate() error {
	var errs []error
	if net.ParseIP(c.RTPIP).To4() == nil {
		errs = append(errs, fmt.Errorf("RTPIP %q: not an IPv4 address", c.RTPIP))
	}
	if c.RTPPortMin < 1 || c.RTPPortMax > 65535 || c.RTPPortMin > c.RTPPortMax {
		errs = append(errs, fmt.Errorf("RTP ports %d to %d: not a range", c.RTPPortMin, c.RTPPortMax))
	}
	for _, name := range c.Codecs {
		if _, ok := codecByName(name); !ok {
			errs = append(errs, fmt.Errorf("codec %q: neither PCMU nor PCMA", name))
		}
	}
	if _, err := parseVoice(c.Voice); err != nil {
		errs = append(errs, err)
	}
	if c.Target != "" {
		if _, _, err := net.SplitHostPort(c.Target); err != nil {
			errs = append(errs, fmt.Errorf("target %q: %w", c.Target, err))
		}
	}
	return errors.Join(errs...)
}

// Server is one carrier.
type Server struct {
	cfg    Config
	log    *slog.Logger
	ports  *portPool
	pump   *pump
	voices *voiceBank
	spec   voiceSpec

	ua     *sipgo.UserAgent
	client *sipgo.Client
	conn   *net.UDPConn
	host   string
	port   int

	surface surface
	sip     endpoint

	stop    chan struct{} // closed by Close, ends every call
	serving sync.WaitGroup

	mu     sync.Mutex // guards what follows
	target string
	closed bool
	began  bool
	calls  registry
	agents map[string]*agent // by extension
	rings  rings
	wg     sync.WaitGroup // calls and handlers; Add only under mu while !closed
}

// surface is the control surface, over HTTP (http.go).
type surface struct {
	*Server
	web     *http.Server
	webAddr string
}

// endpoint is what other SIP parties reach (requests.go, callee.go).
type endpoint struct{ *Server }

// New checks the configuration and builds a carrier that Start will serve.
func New(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("configure carrier: %w", err)
	}
	spec, err := parseVoice(cfg.Voice)
	if err != nil {
		return nil, fmt.Errorf("configure carrier: %w", err)
	}
	s := &Server{
		spec: spec, cfg: cfg, log: cfg.Logger, target: cfg.Target, stop: make(chan struct{}),
		ports:  newPortPool(cfg.RTPPortMin, cfg.RTPPortMax),
		voices: newVoiceBank(cfg.Seed),
		calls:  newRegistry(),
		agents: map[string]*agent{},
	}
	s.surface.Server, s.sip.Server = s, s
	s.pump = newPump(s.ports, s.log)
	return s, nil
}

// Start binds both addresses and serves; it returns when everything does. Live calls end when Close is called, not
// when ctx ends.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	if s.closed || s.began {
		s.mu.Unlock()
		return fmt.Errorf("start carrier: %w", ErrClosed)
	}
	s.began = true
	s.mu.Unlock()
	if err := s.sip.startSIP(ctx); err != nil {
		return err
	}
	if err := s.surface.startHTTP(ctx); err != nil {
		return errors.Join(err, s.ua.Close(), s.conn.Close())
	}
	s.pump.start()
	return nil
}

func (s *endpoint) startSIP(ctx context.Context) error {
	var lc net.ListenConfig
	pc, err := lc.ListenPacket(ctx, "udp4", s.cfg.SIPAddr)
	if err != nil {
		return fmt.Errorf("bind carrier's SIP address %s: %w", s.cfg.SIPAddr, err)
	}
	conn, ok := pc.(*net.UDPConn)
	if !ok {
		return errors.Join(fmt.Errorf("bind carrier's SIP address %s: not UDP", s.cfg.SIPAddr), pc.Close())
	}
	s.conn = conn
	host, port, err := net.SplitHostPort(conn.LocalAddr().String())
	if err != nil {
		return fmt.Errorf("read carrier's SIP address: %w", err)
	}
	s.host = host
	if s.port, err = strconv.Atoi(port); err != nil {
		return fmt.Errorf("read carrier's SIP port: %w", err)
	}
	quiet := slog.New(slog.DiscardHandler) // the library logs each unmatched retransmission
	s.ua, err = sipgo.NewUA(sipgo.WithUserAgent("simcarrier"), sipgo.WithUserAgentHostname(host),
		sipgo.WithUserAgentTransactionLayerOptions(
			sip.WithTransactionLayerLogger(quiet),
			sip.WithTransactionLayerUnhandledResponseHandler(func(*sip.Response) {})),
		sipgo.WithUserAgentTransportLayerOptions(sip.WithTransportLayerLogger(quiet)))
	if err != nil {
		return errors.Join(fmt.Errorf("build carrier's SIP user agent: %w", err), conn.Close())
	}
	srv, err := sipgo.NewServer(s.ua, sipgo.WithServerLogger(quiet))
	if err != nil {
		return errors.Join(fmt.Errorf("build carrier's SIP server: %w", err), s.ua.Close(), conn.Close())
	}
	addr := net.JoinHostPort(host, port)
	s.client, err = sipgo.NewClient(s.ua, sipgo.WithClientAddr(addr), sipgo.WithClientConnectionAddr(addr), sipgo.WithClientLogger(quiet))
	if err != nil {
		return errors.Join(fmt.Errorf("build carrier's SIP client: %w", err), s.ua.Close(), conn.Close())
	}
	s.routeSIP(srv)
	s.serving.Go(func() {
		if err := srv.ServeUDP(conn); err != nil && !errors.Is(err, net.ErrClosed) {
			s.log.Error("carrier's SIP server ended", "error", err)
		}
	})
	return s.awaitSocket(ctx, addr)
}

// awaitSocket waits until the SIP library knows the socket: a request sent earlier would bind another.
func (s *endpoint) awaitSocket(ctx context.Context, addr string) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if conn, err := s.ua.TransportLayer().GetConnection("udp", addr); err == nil && conn != nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("start carrier's SIP server: %w", ctx.Err()), s.ua.Close(), s.conn.Close())
		}
	}
}

// Close hangs up every live call, waits for them as long as ctx allows, and frees all sockets. It may be called more
// than once, and before Start.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	first, began := !s.closed, s.began
	s.closed = true
	s.mu.Unlock()
	if !first || !began {
		return nil
	}
	close(s.stop)
	var errs []error
	if s.surface.web != nil {
		if err := s.surface.web.Shutdown(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop carrier's control surface: %w", err), s.surface.web.Close())
		}
	}
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		errs = append(errs, fmt.Errorf("hang up the carrier's calls: %w", ctx.Err()))
	}
	s.pump.close()
	if s.ua != nil {
		errs = append(errs, s.ua.Close())
	}
	if s.conn != nil {
		if err := s.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, fmt.Errorf("close carrier's SIP socket: %w", err))
		}
	}
	<-done // the user agent is closed: every transaction has ended
	s.serving.Wait()
	return errors.Join(errs...)
}

// SIPAddr is the address that the switch calls.
func (s *Server) SIPAddr() string { return net.JoinHostPort(s.host, strconv.Itoa(s.port)) }

// HTTPAddr is the address of the control surface.
func (s *Server) HTTPAddr() string { return s.surface.webAddr }

// SetTarget says where inbound calls are placed from now on, as host:port.
func (s *Server) SetTarget(addr string) error {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return fmt.Errorf("%w: target %q: %w", ErrInvalidRequest, addr, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.target = addr
	return nil
}

// Run serves a carrier until ctx ends, then hangs up its calls.
func Run(ctx context.Context, cfg Config) error {
	s, err := New(cfg)
	if err != nil {
		return err
	}
	if err := s.Start(ctx); err != nil {
		return err
	}
	if cfg.Ready != nil {
		cfg.Ready(Addrs{SIP: s.SIPAddr(), HTTP: s.HTTPAddr()})
	}
	<-ctx.Done()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return s.Close(stopping)
}
