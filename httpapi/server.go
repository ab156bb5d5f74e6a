package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/valyala/fasthttp"

	"github.com/ringmaster/ringmaster/httpapi/auth"
	oauthaccess "github.com/ringmaster/ringmaster/httpapi/oauth/access"
	"github.com/ringmaster/ringmaster/httpapi/relay"
	"github.com/ringmaster/ringmaster/store"
)

// Server is the HTTP server of one controller.
type Server struct {
	cfg Config

	metrics     *serverMetrics
	store       *store.Store
	api         *api
	auth        *auth.Authenticator
	tokens      *oauthaccess.Tokens // OAuth's
	gate        switchGate
	signIn      *auth.SignIn
	idempotency *idempotency
	relay       *relay.Relay // to other controllers; nil when this one has no name
	// closing ends the answers that would go on until their clients leave.
	closing context.CancelFunc
	silent  silentConns

	mu          sync.Mutex // guards all below
	state       serverState
	publicURL   string // written by Start before anything is served; requests read it without mu
	addr        net.Addr
	metricsAt   net.Addr
	main        *fasthttp.Server
	certificate *certificateFiles // nil without TLS
	listener    net.Listener
	directory   *ownListener // nil when it has no listener of its own
	door        *ownListener // for other controllers; nil when it has none
	side        *http.Server
	stop        context.CancelFunc
	running     sync.WaitGroup
}

type serverState uint8

const (
	stateNew serverState = iota
	stateServing
	stateClosed
)

// ErrClosed refuses to start a server that was closed, or started before.
var ErrClosed = errors.New("http server was started or closed before")

// New makes a server; nothing listens before Start.
func New(cfg Config, deps Deps) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := errors.Join(cfg.validate(), deps.validate()); err != nil {
		return nil, err
	}
	metrics, err := newServerMetrics(cfg.Registerer)
	if err != nil {
		return nil, err
	}
	var others *relay.Relay
	if cfg.Node != "" {
		if others, err = relay.New(relay.Config{
			Store: deps.Store, Node: cfg.Node, Now: cfg.Now, Log: cfg.Logger, Registerer: cfg.Registerer,
		}); err != nil {
			return nil, err
		}
	}
	signer := auth.NewSigner(cfg.SessionKeys, cfg.Now)
	s := &Server{
		cfg: cfg, metrics: metrics, relay: others, store: deps.Store,
		auth:        auth.New(deps.Store, signer, cfg.CallbackKeys, cfg.Now, cfg.Logger, metrics.credentials),
		gate:        switchGate{proxies: cfg.TrustedProxies, allow: cfg.DirectoryAllow, secrets: cfg.DirectorySecrets, log: cfg.Logger},
		signIn:      auth.NewSignIn(deps.Store, cfg.Now, cfg.Logger, metrics.signIns),
		idempotency: &idempotency{store: deps.Store, now: cfg.Now, log: cfg.Logger, keepTimeout: cfg.RequestTimeout, uploadTimeout: cfg.UploadTimeout},
	}
	if s.tokens, err = oauthaccess.New(oauthaccess.Config{Store: deps.Store, Issuer: s.issuer, Now: cfg.Now, Log: cfg.Logger, Registerer: cfg.Registerer}); err != nil {
		return nil, err
	}
	s.auth.OAuth = s.tokens
	open, closing := context.WithCancel(context.Background())
	s.closing = closing
	lasting := streams{
		closing: open.Done(), authenticate: s.auth.Authenticate, changes: s.auth.Changes, timeout: cfg.WriteTimeout, beat: streamBeat, check: cfg.StreamCheck,
	}
	s.api = newAPI(cfg, deps, signer, s.signIn, s.idempotency, lasting)
	if s.api.oauth, err = s.newOAuth(); err != nil {
		return nil, err
	}
	if err := checkOperations(s.api.operations()); err != nil {
		return nil, fmt.Errorf("make the HTTP server: %w", err)
	}
	return s, nil
}

// Start binds both listeners and returns when they serve. The server runs until Close; ctx bounds the start alone.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != stateNew {
		return ErrClosed
	}
	if err := s.tokens.Start(ctx); err != nil {
		return err
	}
	ln, certificate, err := listen(ctx, &s.cfg, s.metrics.refusedConns)
	if err != nil {
		return err
	}
	directory, err := listenOwn(ctx, &s.cfg, "the switch's directory", s.cfg.DirectoryAddr, s.metrics.refusedConns)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	door, err := listenOwn(ctx, &s.cfg, "other controllers", s.cfg.DoorAddr, s.metrics.refusedConns)
	if err != nil {
		return errors.Join(err, ln.Close(), directory.release())
	}
	var sideLn net.Listener
	if s.cfg.MetricsAddr != "" {
		var lc net.ListenConfig
		if sideLn, err = lc.Listen(ctx, "tcp", s.cfg.MetricsAddr); err != nil {
			return errors.Join(fmt.Errorf("listen for metrics on %s: %w", s.cfg.MetricsAddr, err), ln.Close(), directory.release(), door.release())
		}
		s.metricsAt = sideLn.Addr()
	}
	s.addr, s.certificate = ln.Addr(), certificate
	s.publicURL = strings.TrimSuffix(s.cfg.PublicURL, "/")
	if s.publicURL == "" {
		s.publicURL = s.cfg.scheme() + "://" + s.addr.String()
	}
	s.state = stateServing

	base, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	operations := s.api.operations()
	if directory != nil {
		operations = s.routes(false)
		s.directory = directory
		s.serveOwn(directory, s.newMain(base, s.routes(true)))
	}
	if door != nil {
		s.door = door
		s.openDoor(base, door)
	}
	s.main, s.listener = s.newMain(base, operations), ln
	s.running.Go(func() { s.report("serve HTTP", s.main.Serve(ln)) })
	s.running.Go(func() { s.auth.Touched.Run(base) })
	s.running.Go(func() { s.store.WatchCredentials(base, s.auth) })
	s.running.Go(func() { s.tokens.Run(base) })
	s.running.Go(func() { s.signIn.Refused.Run(base, s.cfg.Now) })
	if s.certificate != nil {
		s.running.Go(func() { s.certificate.run(base, s.cfg.CertificateCheck) })
	}
	if sideLn != nil {
		s.side = newSide(s.cfg.Gatherer, &s.silent)
		s.running.Go(func() { s.report("serve metrics", s.side.Serve(sideLn)) })
	}
	s.cfg.Logger.InfoContext(ctx, "http server listens", "addr", s.addr.String(), "public_url", s.publicURL)
	return nil
}

// listen binds the API's listener; without TLS there is no certificate.
func listen(ctx context.Context, cfg *Config, refused prometheus.Counter) (net.Listener, *certificateFiles, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", cfg.Addr)
	if err != nil {
		return nil, nil, fmt.Errorf("listen for HTTP on %s: %w", cfg.Addr, err)
	}
	ln = newConnLimit(ln, cfg.MaxConns, cfg.MaxConnsPerClient, cfg.TrustedProxies, refused)
	if cfg.TLSCertFile == "" {
		return heard{ln}, nil, nil
	}
	own, err := loadCertificate(cfg.TLSCertFile, cfg.TLSKeyFile, cfg.Logger)
	if err != nil {
		return nil, nil, errors.Join(err, ln.Close())
	}
	return heard{tls.NewListener(ln, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: own.get})}, own, nil
}

func (cfg *Config) scheme() string {
	if cfg.TLSCertFile != "" {
		return "https"
	}
	return "http"
}

// issuer is the iss of OAuth's tokens.
func (s *Server) issuer() string {
	if s.cfg.Issuer != "" {
		return strings.TrimSuffix(s.cfg.Issuer, "/")
	}
	return s.publicURL
}

func (s *Server) newMain(base context.Context, operations []operation) *fasthttp.Server {
	server := &fasthttp.Server{
		Handler:                      s.handler(base, operations),
		ErrorHandler:                 s.refuse,
		Name:                         "",
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		DisablePreParseMultipartForm: true,
		StreamRequestBody:            true,
		ReadBufferSize:               16 << 10,
		MaxRequestBodySize:           s.cfg.MaxBodyBytes,
		Concurrency:                  s.cfg.MaxConns,
		ReadTimeout:                  s.cfg.ReadTimeout,
		WriteTimeout:                 s.cfg.WriteTimeout,
		IdleTimeout:                  s.cfg.IdleTimeout,
		CloseOnShutdown:              true,
		Logger:                       quietLogger{s.cfg.Logger},
	}
	s.silent.watch(server)
	return server
}

func newSide(metrics prometheus.Gatherer, silent *silentConns) *http.Server {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ConnState: silent.follow}
}

func (s *Server) report(what string, err error) {
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		s.cfg.Logger.Error("http listener ended", "task", what, "error", err)
	}
}

// Close lets the requests in progress finish, until ctx ends, and returns when nothing of the server runs any more. It may
// be called more than once, and before Start.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	was := s.state
	s.state = stateClosed
	s.mu.Unlock()
	if was != stateServing {
		return nil
	}
	s.closing()
	stopEnding := s.silent.endSoon()
	defer stopEnding()
	var errs []error
	if err := s.main.ShutdownWithContext(ctx); err != nil {
		errs = append(errs, fmt.Errorf("finish HTTP requests: %w", err))
	}
	// A server that is closed before its goroutine has begun to serve doesn't know its listener yet.
	if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		errs = append(errs, fmt.Errorf("close the HTTP listener: %w", err))
	}
	errs = append(errs, s.directory.close(ctx), s.door.close(ctx))
	s.stop()
	if s.side != nil {
		if err := s.side.Shutdown(ctx); err != nil {
			errs = append(errs, fmt.Errorf("finish metrics requests: %w", err), s.side.Close())
		}
	}
	s.running.Wait()
	if s.relay != nil {
		s.relay.Close()
	}
	s.auth.Touched.Flush(context.WithoutCancel(ctx))
	return errors.Join(errs...)
}
