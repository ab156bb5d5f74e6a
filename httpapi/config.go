package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store/keyring"
)

// Config says where the server listens and what it lets through.
type Config struct {
	// Addr is where both surfaces listen; port 0 takes a free one.
	Addr string
	// MetricsAddr is where /metrics and /debug/pprof listen, a loopback address; empty leaves them out.
	MetricsAddr string
	// PublicURL is the address that customers reach us at, for the URLs that we hand out; by default the listener's own.
	PublicURL string
	// Issuer is the iss of OAuth's tokens, a URL that serves /.well-known/openid-configuration; PublicURL by default.
	Issuer string
	// TLSCertFile and TLSKeyFile, both or none, make the listener speak TLS.
	TLSCertFile string
	TLSKeyFile  string
	// TrustedProxies may name the client in X-Forwarded-For.
	TrustedProxies []netip.Prefix

	// DirectoryAllow are the networks of the switch: only from there /fs/directory answers. Loopback by default.
	DirectoryAllow []netip.Prefix
	// DirectorySecrets gives, at each use, the passwords that DirectoryUser may have; without one /fs/directory answers nobody.
	DirectorySecrets func() []string
	// DirectoryAddr is a listener of the directory's own, in plain HTTP; empty has it at Addr.
	DirectoryAddr string

	// Node names this controller; without it no request is sent to another one.
	Node string
	// DoorAddr is where other controllers of the database send requests about what this one has; empty: nowhere. PeerAddr is the address that
	// they are told, the listener's own by default.
	DoorAddr, PeerAddr string

	// CertificateCheck is how often the TLS files are looked at for a renewal; a minute by default.
	CertificateCheck time.Duration
	// MaxConns bounds the open connections, 10,000 by default; MaxConnsPerClient those of one IPv4 address or IPv6 /64 that is no trusted
	// proxy, 1,000 by default. What comes beyond is closed.
	MaxConns, MaxConnsPerClient int

	// MaxBodyBytes bounds a request's body; 4 MiB by default. Operations without a credential take 8 KiB at most.
	MaxBodyBytes int
	// MaxUploadBytes bounds an uploaded file with its form; 1 GiB by default. UploadTimeout bounds the work on it; 30 minutes by
	// default.
	MaxUploadBytes int
	UploadTimeout  time.Duration
	// ReadTimeout bounds the reading of a request, WriteTimeout that of a response (of each chunk where one is streamed),
	// IdleTimeout the wait for the next request, RequestTimeout the work in between.
	ReadTimeout    time.Duration
	WriteTimeout   time.Duration
	IdleTimeout    time.Duration
	RequestTimeout time.Duration
	// StreamCheck is how often the session that opened a stream of events is looked at besides each change
	// that is told; 5 s by default.
	StreamCheck time.Duration

	// SessionKeys gives the keys of sign-in tokens, the newest first, which signs; all verify. It is asked at each use.
	SessionKeys func() []keyring.Key
	// CallbackKeys gives the keys of callback tokens, all of which verify. It is asked at each use.
	CallbackKeys func() []keyring.Key
	// Version is shown by /health.
	Version string
	// WebhookTargets says which addresses webhooks may be sent to.
	// TenantTelephony lets tenants' administrators declare trunks, at hosts that TrunkTargets allows, and numbers; otherwise the operator
	// alone does, on the command line.
	TenantTelephony bool
	TrunkTargets    netguard.Policy
	WebhookTargets  netguard.Policy

	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Gatherer   prometheus.Gatherer
	// Now is the clock of limits, expiries and records.
	Now func() time.Time
}

// Defaults of Config.
const (
	defaultMaxBody        = 4 << 20
	defaultMaxConns       = 10_000
	defaultMaxPerClient   = 1_000
	defaultReadTimeout    = 30 * time.Second
	defaultWriteTimeout   = 30 * time.Second
	defaultIdleTimeout    = 2 * time.Minute
	defaultRequestTimeout = 25 * time.Second
	defaultMaxUpload      = 1 << 30
	defaultUploadTimeout  = 30 * time.Minute
)

// withDefaults fills in what is unset.
func (c Config) withDefaults() Config {
	if c.MaxBodyBytes == 0 {
		c.MaxBodyBytes = defaultMaxBody
	}
	if c.MaxConns == 0 {
		c.MaxConns = defaultMaxConns
	}
	if c.MaxConnsPerClient == 0 {
		c.MaxConnsPerClient = defaultMaxPerClient
	}
	if c.MaxUploadBytes == 0 {
		c.MaxUploadBytes = defaultMaxUpload
	}
	for _, d := range []struct {
		value *time.Duration
		def   time.Duration
	}{
		{&c.ReadTimeout, defaultReadTimeout},
		{&c.WriteTimeout, defaultWriteTimeout},
		{&c.IdleTimeout, defaultIdleTimeout},
		{&c.RequestTimeout, defaultRequestTimeout},
		{&c.UploadTimeout, defaultUploadTimeout},
		{&c.CertificateCheck, certificateCheck},
		{&c.StreamCheck, streamCheck},
	} {
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	if c.DirectoryAllow == nil {
		c.DirectoryAllow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		registry := prometheus.NewRegistry()
		c.Registerer = registry
		if c.Gatherer == nil {
			c.Gatherer = registry
		}
	}
	if c.Gatherer == nil {
		c.Gatherer = prometheus.DefaultGatherer
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// validate reports every fault at once.
func (c Config) validate() error {
	var faults []error
	if _, _, err := net.SplitHostPort(c.Addr); err != nil {
		faults = append(faults, fmt.Errorf("address %q: %w", c.Addr, err))
	}
	if c.MetricsAddr != "" {
		faults = append(faults, checkLoopback(c.MetricsAddr))
	}
	if c.DoorAddr != "" && c.Node == "" {
		faults = append(faults, errors.New("a listener for other controllers needs the node's name"))
	}
	if (c.TLSCertFile == "") != (c.TLSKeyFile == "") {
		faults = append(faults, errors.New("TLS needs both a certificate file and a key file"))
	}
	if c.PublicURL != "" {
		if u, err := url.Parse(c.PublicURL); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			faults = append(faults, fmt.Errorf("public URL %q is not an http or https address", c.PublicURL))
		}
	}
	for name, limit := range map[string]int{
		"largest body": c.MaxBodyBytes, "largest upload": c.MaxUploadBytes, "connections": c.MaxConns,
		"connections of a client": c.MaxConnsPerClient,
	} {
		if limit < 0 {
			faults = append(faults, fmt.Errorf("limit of %s %d is negative", name, limit))
		}
	}
	if c.SessionKeys == nil {
		faults = append(faults, errors.New("session keys are not set"))
	}
	if c.CallbackKeys == nil {
		faults = append(faults, errors.New("keys of callback tokens are not set"))
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("configure the HTTP server: %w", err)
	}
	return nil
}

func checkLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("metrics address %q: %w", addr, err)
	}
	if host == "localhost" {
		return nil
	}
	if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
		return fmt.Errorf("metrics address %q is not a loopback address", addr)
	}
	return nil
}
