package media

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/media/amd/encoder"
	"github.com/ringmaster/ringmaster/media/amd/words"
	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/fairshare"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/media/record"
	"github.com/ringmaster/ringmaster/media/sip"
	"github.com/ringmaster/ringmaster/media/tasks"
	"github.com/ringmaster/ringmaster/media/wav"
	"github.com/ringmaster/ringmaster/media/ws"
)

// Config is what a Server needs. Zero members have the defaults that stand beside them.
type Config struct {
	// SIPAddr is the address that the switch bridges to, over UDP and TCP; port 0 takes a free one. 127.0.0.1:5090.
	SIPAddr string
	// SIPPeers are the networks of the switch, from which alone SIP is taken. Loopback.
	SIPPeers netguard.Peers
	// RTPIP is the IPv4 address of the RTP sockets. SIPAddr's.
	RTPIP string
	// RTPPortMin and RTPPortMax bound the ports: the even ones for RTP, each with the odd one above it for RTCP. 20000 to
	// 29999.
	RTPPortMin, RTPPortMax int
	// Subprotocols are those that may be dialed. Alpha's and beta's.
	Subprotocols []string
	// DialGuard says which addresses an AI's socket may have. Public ones.
	DialGuard netguard.Policy
	// TLS is for wss sockets; nil verifies against the system's roots.
	TLS *tls.Config
	// Shards is the number of tick threads. One for every two processors.
	Shards int
	// CPU is shared with whatever else computes in the process. Slots for two jobs.
	CPU *fairshare.Slots
	// NoWords leaves machine detection to tones and to the pattern of speech: words, which take up to some 50 ms of a processor, are not listened to.
	NoWords bool
	// Logger is slog.Default() when nil.
	Logger *slog.Logger
	// Registerer takes the metrics; nil keeps them unregistered.
	Registerer prometheus.Registerer
	// Clock is the wall clock. time.Now.
	Clock func() time.Time
}

// Server is the media endpoint: a SIP user agent, the RTP sockets and the voice agents' sockets of all sessions.
type Server struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	rtpIP   netip.Addr
	next    atomic.Uint32 // where the search for a free RTP port and shard goes on

	mu       sync.Mutex
	state    serverState
	sessions map[string]*Session // a nil value holds the id of a session that is being opened
	tasks    tasks.Group

	listens   bool             // words are listened to in machine detection
	ears      *fairshare.Slots // those who listen to words: on half of the processors, so that nobody waits for them
	listeners sync.Pool        // *words.Listener: as many are in use as there are slots of ears
	ports     portRests
	cpu       *fairshare.Slots // the jobs that compute off the tick threads
	longTexts *fairshare.Bytes // text frames above ws.MaxPlainText, by owner
	buffers   ws.Buffers       // for them

	// Set by Start, read after it.
	sip      *sip.Endpoint
	shards   []*shard
	recorder *record.Writer
	done     chan struct{} // closed when Close begins
}

type serverState int

const (
	stateNew serverState = iota
	stateServing
	stateClosed
)

// New returns a server that is not bound yet. All faults of the configuration are reported at once.
func New(cfg Config) (*Server, error) {
	var errs []error
	if cfg.SIPAddr == "" {
		cfg.SIPAddr = "127.0.0.1:5090"
	}
	if cfg.SIPPeers == nil {
		cfg.SIPPeers = netguard.Loopback()
	}
	sipAddr, err := netip.ParseAddrPort(cfg.SIPAddr)
	if err != nil {
		errs = append(errs, fmt.Errorf("SIP address %q: %w", cfg.SIPAddr, err))
	}
	if cfg.RTPIP == "" {
		cfg.RTPIP = sipAddr.Addr().String()
	}
	ip, err := netip.ParseAddr(cfg.RTPIP)
	if err != nil || !ip.Is4() {
		errs = append(errs, fmt.Errorf("RTP address %q is not an IPv4 address", cfg.RTPIP))
	}
	if cfg.RTPPortMin == 0 && cfg.RTPPortMax == 0 {
		cfg.RTPPortMin, cfg.RTPPortMax = 20000, 29999
	}
	if cfg.RTPPortMin < 1024 || cfg.RTPPortMax > 65535 || cfg.RTPPortMax-(cfg.RTPPortMin+1)&^1 < 1 {
		errs = append(errs, fmt.Errorf("RTP ports %d to %d are not a range above 1023 with an even and an odd port", cfg.RTPPortMin, cfg.RTPPortMax))
	}
	if len(cfg.Subprotocols) == 0 {
		cfg.Subprotocols = []string{SubprotocolAlpha, SubprotocolBeta}
	}
	for _, p := range cfg.Subprotocols {
		if p != SubprotocolAlpha && p != SubprotocolBeta {
			errs = append(errs, fmt.Errorf("subprotocol %q is unknown", p))
		}
	}
	if cfg.Shards <= 0 {
		cfg.Shards = defaultShards(runtime.GOMAXPROCS(0))
	}
	if cfg.CPU == nil {
		cfg.CPU = fairshare.NewSlots(2)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("configuring the media endpoint: %w", err)
	}
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, err
	}
	return &Server{
		cfg: cfg, log: cfg.Logger, metrics: m, rtpIP: ip, sessions: map[string]*Session{},
		listens: !cfg.NoWords && encoder.Fast(), ears: fairshare.NewSlots(1 + runtime.NumCPU()/2),
		listeners: sync.Pool{New: func() any { return words.New() }}, cpu: cfg.CPU, longTexts: fairshare.NewBytes(ownerTexts), done: make(chan struct{}),
	}, nil
}

// Start binds the SIP address and returns when the endpoint serves.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != stateNew {
		return fmt.Errorf("starting the media endpoint: %w", ErrServerClosed)
	}
	var shards []*shard
	for range s.cfg.Shards {
		sh, err := newShard(s)
		if err != nil {
			closeShards(shards)
			return fmt.Errorf("starting the media endpoint: %w", err)
		}
		shards = append(shards, sh)
	}
	ep, err := sip.Start(ctx, sip.Config{
		Addr: s.cfg.SIPAddr, Peers: s.cfg.SIPPeers, Log: s.log, Find: s.callee, Spawn: s.spawn, Done: s.done,
		Invites: s.metrics.invites, Digits: s.metrics.digits, Panics: s.metrics.panics,
	})
	if err != nil {
		closeShards(shards)
		return fmt.Errorf("starting the media endpoint: %w", err)
	}
	s.sip, s.shards, s.recorder, s.state = ep, shards, record.NewWriter(s.metrics.recordings), stateServing
	for _, sh := range shards {
		sh.wg.Add(1)
		go sh.run() //nolint:contextcheck // a tick thread ends by Close, not with the context of Start
	}
	return nil
}

// Ready returns ErrServerClosed unless the endpoint serves.
func (s *Server) Ready(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != stateServing {
		return ErrServerClosed
	}
	return nil
}

// Close closes all sessions, says goodbye to their legs and sockets as long as ctx allows, and returns when all has
// ended. It is safe before Start and more than once.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.state != stateServing {
		s.state = stateClosed
		s.mu.Unlock()
		return nil
	}
	s.state = stateClosed
	open := make([]*Session, 0, len(s.sessions))
	for _, sess := range s.sessions {
		if sess != nil {
			open = append(open, sess)
		}
	}
	s.mu.Unlock()
	for _, sess := range open {
		sess.Close(CloseShutdown) //nolint:contextcheck // a BYE has its own time limit
	}
	close(s.done)
	s.tasks.Wait(ctx) // BYEs and closing handshakes
	err := s.sip.Close()
	closeShards(s.shards)
	// What is left now ends by itself within seconds: redials are cancelled, decoders have no one to wait for.
	s.tasks.Wait(context.WithoutCancel(ctx))
	if err := errors.Join(err, s.closeRecorder(ctx)); err != nil {
		return fmt.Errorf("closing the media endpoint: %w", err)
	}
	return nil
}

// closeRecorder waits for what is left of the recordings, but not for a disk that hangs.
func (s *Server) closeRecorder(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordingFlush)
	defer cancel()
	return s.recorder.Close(ctx)
}

// closeShards ends tick threads, whether they were started or not.
func closeShards(shards []*shard) {
	for _, sh := range shards {
		close(sh.quit)
	}
	for _, sh := range shards {
		sh.wg.Wait()
		sh.end()
	}
}

// SIPAddr is the bound address, "" before Start.
func (s *Server) SIPAddr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sip == nil {
		return ""
	}
	return s.sip.Addr().String()
}

// spawn runs fn in a goroutine that Close waits for. A panic in it is counted and logged, and ends nothing else.
func (s *Server) spawn(fn func()) { s.tasks.Run(func() { s.guard("goroutine", fn) }) }

// guard keeps a fault in fn from ending the process: it is logged and counted. It reports whether there was one.
func (s *Server) guard(where string, fn func()) (faulty bool) {
	defer func() {
		if r := recover(); r != nil {
			faulty = true
			s.metrics.panics.Inc()
			s.log.Error("panic in the media endpoint", "where", where, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
		}
	}()
	fn()
	return false
}

// find returns the open session with an id, or nil.
func (s *Server) find(id string) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[id]
}

// Open dials the AI's socket, sends the metadata and returns a session that waits for its leg. Errors of the AI's side
// are *ws.HandshakeError, ws.ErrDialTimeout and netguard.ErrForbidden; those of the description *SpecError.
func (s *Server) Open(ctx context.Context, spec SessionSpec) (*Session, error) {
	if err := s.checkSpec(&spec); err != nil {
		return nil, err
	}
	if err := s.reserve(spec.ID); err != nil {
		return nil, err
	}
	sess, err := s.open(ctx, spec)
	s.mu.Lock()
	closed := s.state == stateClosed
	if err != nil || closed {
		delete(s.sessions, spec.ID)
	} else {
		s.sessions[spec.ID] = sess
	}
	s.mu.Unlock()
	if err != nil {
		s.metrics.opens.WithLabelValues(openResult(err)).Inc()
		return nil, err
	}
	if closed {
		sess.Close(CloseShutdown) //nolint:contextcheck // a BYE has its own time limit
		return nil, ErrServerClosed
	}
	if spec.URL != "" {
		s.metrics.opens.WithLabelValues("ok").Inc()
	}
	return sess, nil
}

func openResult(err error) string {
	he, refused := errors.AsType[*ws.HandshakeError](err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case untrusted:
		return "untrusted"
	case errors.Is(err, ws.ErrDialTimeout):
		return "timeout"
	case refused && he.Status != 0:
		return "refused"
	}
	return "failed"
}

func (s *Server) reserve(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != stateServing {
		return ErrServerClosed
	}
	if _, ok := s.sessions[id]; ok {
		return fmt.Errorf("session %q: %w", id, ErrSessionExists)
	}
	s.sessions[id] = nil
	return nil
}

// forget frees a session's id.
func (s *Server) forget(sess *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[sess.spec.ID] == sess {
		delete(s.sessions, sess.spec.ID)
	}
}

// checkSpec fills in the defaults and refuses what can't be served.
func (s *Server) checkSpec(spec *SessionSpec) error {
	if spec.ID == "" {
		return &SpecError{Field: "id", Message: "is empty"}
	}
	if err := s.checkTransport(spec); err != nil {
		return err
	}
	if spec.DialTimeout <= 0 {
		spec.DialTimeout = 5 * time.Second
	}
	if rec := spec.Recording; rec != nil {
		if _, err := wav.LayoutOf(rec.Encoding); err != nil {
			return &SpecError{Field: "recording.encoding", Message: err.Error()}
		}
	}
	a := &spec.Audio
	if a.Encoding == "" {
		a.Encoding = EncodingPCM
	}
	if spec.Subprotocol == SubprotocolBeta {
		a.Encoding = EncodingPCM
	}
	if a.SampleRateHz == 0 {
		a.SampleRateHz = 16000
		if a.Encoding != EncodingPCM {
			a.SampleRateHz = dsp.SampleRate
		}
	}
	if a.Channels == 0 {
		a.Channels = 1
	}
	if a.FrameMS == 0 {
		a.FrameMS = 20
	}
	switch a.Encoding {
	case EncodingPCM, EncodingPCMU, EncodingPCMA:
	default:
		return &SpecError{Field: "audio.encoding", Message: fmt.Sprintf("%q is unknown", a.Encoding)}
	}
	if !slices.Contains(SampleRates(), a.SampleRateHz) {
		return &SpecError{Field: "audio.sample_rate_hz", Message: fmt.Sprintf("%d is not supported", a.SampleRateHz)}
	}
	if a.Channels < 1 || a.Channels > 2 {
		return &SpecError{Field: "audio.channels", Message: fmt.Sprintf("%d is not 1 or 2", a.Channels)}
	}
	if a.FrameMS < 10 || a.FrameMS > 200 || a.FrameMS%10 != 0 {
		return &SpecError{Field: "audio.frame_ms", Message: fmt.Sprintf("%d is not a multiple of 10 from 10 to 200", a.FrameMS)}
	}
	return nil
}

// checkTransport fills in what a transport determines.
func (s *Server) checkTransport(spec *SessionSpec) error {
	switch spec.Transport {
	case "", TransportWebSocket:
	case TransportTwilio:
		if t := spec.Twilio; t.AccountSID == "" || t.CallSID == "" || t.StreamSID == "" {
			return &SpecError{Field: "twilio", Message: "an identifier is empty"}
		}
		spec.Subprotocol, spec.Audio = "", AudioFormat{Encoding: EncodingPCMU, SampleRateHz: dsp.SampleRate, Channels: 1, FrameMS: 20}
		return nil
	case TransportOpenAI:
		switch spec.Audio.Encoding {
		case "", EncodingPCMU, EncodingPCMA:
		case EncodingPCM:
			fallthrough
		default:
			return &SpecError{Field: "audio.encoding", Message: fmt.Sprintf("%q is not G.711", spec.Audio.Encoding)}
		}
		spec.Subprotocol, spec.Audio = "", AudioFormat{
			Encoding: cmp.Or(spec.Audio.Encoding, EncodingPCMU), SampleRateHz: dsp.SampleRate, Channels: 1, FrameMS: 20,
		}
		return nil
	default:
		return &SpecError{Field: "transport", Message: fmt.Sprintf("%q is unknown", spec.Transport)}
	}
	if spec.Subprotocol == "" {
		spec.Subprotocol = SubprotocolAlpha
	}
	if !slices.Contains(s.cfg.Subprotocols, spec.Subprotocol) {
		return fmt.Errorf("subprotocol %q is not served: %w", spec.Subprotocol, ws.ErrSubprotocol)
	}
	return nil
}
