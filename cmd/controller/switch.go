package controller

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/ringmaster/ringmaster/conf"
	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/keyring"
)

// directoryPath is where the switch asks for its users.
const directoryPath = "/fs/directory"

// DirectorySecret is the password with which the switch asks for its users: the configured one, else one of the database's
// keys, so that nobody has to make one up. `ringmaster switch config` renders it.
func (c Config) DirectorySecret(st *store.Store) string {
	if c.Switch.DirectorySecret != "" {
		return c.Switch.DirectorySecret
	}
	return directorySecret(st.LatestKey(store.KeyDirectory))
}

func directorySecret(key keyring.Key) string { return hex.EncodeToString(key[:16]) }

// directorySecrets gives all passwords that the switch may ask with: the one that its configuration has stays good for a while after a new
// one was made.
func (c Config) directorySecrets(st *store.Store) func() []string {
	if own := c.Switch.DirectorySecret; own != "" {
		return func() []string { return []string{own} }
	}
	return func() (secrets []string) {
		for _, key := range st.SigningKeys(store.KeyDirectory) {
			secrets = append(secrets, directorySecret(key))
		}
		return secrets
	}
}

// DirectoryURL is where the switch reaches /fs/directory: the directory's own listener, or that of the API.
func (c Config) DirectoryURL() string {
	scheme, addr := "http", c.Switch.DirectoryListen
	if addr == "" {
		addr = c.HTTP.Addr
		if c.HTTP.TLSCert != "" {
			scheme = "https"
		}
	}
	host, port, err := net.SplitHostPort(addr)
	if ip, bad := netip.ParseAddr(host); err == nil && bad == nil && ip.IsUnspecified() {
		addr = net.JoinHostPort("127.0.0.1", port)
		if ip.Is6() {
			addr = net.JoinHostPort("::1", port)
		}
	}
	return (&url.URL{Scheme: scheme, Host: addr, Path: directoryPath}).String()
}

// DirectoryCredentials is user:password of the switch at /fs/directory.
func (c Config) DirectoryCredentials(st *store.Store) string {
	return httpapi.DirectoryUser + ":" + c.DirectorySecret(st)
}

// SwitchParams are the variables of the switch's configuration on this host. nets may send calls.
func (c Config) SwitchParams(st *store.Store, nets []string) (conf.Params, error) {
	host, port, err := net.SplitHostPort(c.Switch.ESLAddr)
	if err != nil {
		return conf.Params{}, fmt.Errorf("read switch.esl_addr: %w", err)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if !loopback(host) {
		return conf.Params{}, fmt.Errorf("switch.esl_addr is %s: it must be a loopback address: whoever reaches the event socket controls the switch", host)
	}
	eslPort, err := strconv.Atoi(port)
	if err != nil {
		return conf.Params{}, fmt.Errorf("read the port of switch.esl_addr: %w", err)
	}
	return conf.Params{
		ESLIP: host, ESLPort: eslPort, ESLPassword: c.Switch.ESLPassword, SocketAddr: c.Switch.OutboundListen, SIPIP: c.Switch.SIPIP,
		ExternalPort: c.Switch.ExternalPort, InternalPort: c.Switch.InternalPort, VoiceAgentsPort: c.Switch.VoiceAgentsPort,
		RTPStart: c.Switch.RTPPortMin, RTPEnd: c.Switch.RTPPortMax,
		CarrierNets: nets, CDRDir: c.Switch.CDRDir, DirectoryURL: c.DirectoryURL(), DirectoryCredentials: c.DirectoryCredentials(st),
		SIPDomain: c.Agents.SIPDomain, WSBinding: c.Switch.WSBinding, WSSBinding: c.Switch.WSSBinding,
	}, nil
}

// CarrierNetworks are the configured networks and the addresses that the hosts have now, each once. All hosts that have none are named.
func (c Config) CarrierNetworks(ctx context.Context, hosts []string) ([]string, error) {
	nets := slices.Clone(c.Switch.CarrierNetworks)
	if h := c.Dialing.DefaultTrunk.Host; h != "" {
		hosts = append(slices.Clone(hosts), h)
	}
	var errs []error
	for _, host := range hosts {
		addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			errs = append(errs, fmt.Errorf("resolve the trunk's host %s: %w", host, err))
		}
		for _, a := range addrs {
			a = a.Unmap().WithZone("")
			nets = append(nets, netip.PrefixFrom(a, a.BitLen()).String())
		}
	}
	slices.Sort(nets)
	return slices.Compact(nets), errors.Join(errs...)
}

// Warnings are what is no fault but seldom meant, or endangers whoever uses it over a network: each with its key.
func (c Config) Warnings() []Fault {
	var w faults
	if c.proxyInFront() && len(c.HTTP.TrustedProxies) == 0 {
		w.add("http.trusted_proxies", "is empty, and http.public_url is not the address of http.addr: if a proxy stands in front, all clients have "+
			"its address in limits, sign-in and audit; name its network")
	}
	if c.HTTP.TLSCert == "" && !onLoopback(c.HTTP.Addr) {
		w.add("http.addr", "is not on loopback and has no TLS: credentials and recordings are sent in clear; set http.tls_cert, or let a proxy stand in front")
	}
	if u, err := url.Parse(c.HTTP.PublicURL); err == nil && u.Scheme == "http" && !loopback(u.Hostname()) {
		w.add("http.public_url", "is http://: credentials, callback tokens and recordings are sent in clear; serve https://")
	}
	if c.Security.AllowLoopbackTargets {
		w.add("security.allow_loopback_targets", "is set: customers' voice agents, webhooks and other hosts may be on this machine, where they reach what "+
			"listens on loopback alone; for development only")
	}
	if c.Dialing.UnlawfulHours {
		w.add("dialing.unlawful_hours", "is set: people may be called when the law forbids it; for test systems only")
	}
	return w
}

// proxyInFront tells whether customers seem to reach the API through something else: another scheme or port than the listener's, or a
// listener on loopback. A forwarded port, or a balancer that keeps the client's address, looks the same, so that this is no fault.
func (c Config) proxyInFront() bool {
	public, err := url.Parse(c.HTTP.PublicURL)
	host, port, badAddr := net.SplitHostPort(c.HTTP.Addr)
	if c.HTTP.PublicURL == "" || err != nil || badAddr != nil {
		return false
	}
	scheme := "http"
	if c.HTTP.TLSCert != "" {
		scheme = "https"
	}
	publicPort := public.Port()
	if publicPort == "" {
		publicPort = map[string]string{"http": "80", "https": "443"}[public.Scheme]
	}
	return public.Scheme != scheme || publicPort != port || (loopback(host) && !loopback(public.Hostname()))
}

// onLoopback tells whether a listener's host:port is reached from this machine alone.
func onLoopback(addr string) bool {
	host, _, _ := net.SplitHostPort(addr)
	return loopback(host)
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// inspectSwitch warns of what the switch runs that isn't of Ringmaster's configuration.
func (c *Controller) inspectSwitch(ctx context.Context, api func(context.Context, string) (string, error)) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	found, err := conf.Inspect(ctx, api)
	if err != nil && ctx.Err() == nil {
		c.log.WarnContext(ctx, "reading the switch's configuration failed", "error", err)
	}
	for _, what := range found {
		c.log.WarnContext(ctx, "the switch runs configuration that is not Ringmaster's", "found", what)
	}
}

// inspectTimeout bounds the questions to the switch about its configuration.
const inspectTimeout = 30 * time.Second
