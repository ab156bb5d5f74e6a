package controller

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/media/wav"
	"github.com/ringmaster/ringmaster/media/ws"
	"github.com/ringmaster/ringmaster/switchctl/recordings"
)

// FaultsError lists everything that is wrong with a configuration.
type FaultsError struct {
	Faults []Fault
}

// Fault is one wrong key.
type Fault struct {
	Key     string
	Message string
}

// Error gives one line per fault.
func (e *FaultsError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the configuration has %d fault(s):", len(e.Faults))
	for _, f := range e.Faults {
		fmt.Fprintf(&b, "\n  %s: %s", f.Key, f.Message)
	}
	return b.String()
}

// faults collects, so that all are reported at once.
type faults []Fault

func (f *faults) add(key, format string, args ...any) {
	*f = append(*f, Fault{Key: key, Message: fmt.Sprintf(format, args...)})
}

func (f *faults) err() error {
	if len(*f) == 0 {
		return nil
	}
	slices.SortStableFunc(*f, func(a, b Fault) int { return strings.Compare(a.Key, b.Key) })
	return &FaultsError{Faults: *f}
}

// Validate reports every fault at once, as a *FaultsError.
func (c Config) Validate() error {
	var f faults
	c.validate(&f)
	return f.err()
}

// minNodeGrace leaves room for some signs of life of each node.
const minNodeGrace = 5 * time.Second

func (c Config) validate(f *faults) {
	if c.Node == "" {
		f.add("node", "is required")
	}
	if c.NodeGrace < minNodeGrace {
		f.add("node_grace", "must be %s or more: longer than a controller takes to start again", minNodeGrace)
	}
	oneOf(f, "log.level", c.Log.Level, "debug", "info", "warn", "error")
	oneOf(f, "log.format", c.Log.Format, "text", "json")
	if u, err := url.Parse(c.Database.URL); c.Database.URL == "" {
		f.add("database.url", "is required, as postgres://user:password@host:5432/name")
	} else if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		f.add("database.url", "is not a postgres:// URL")
	}
	between(f, "database.max_conns", c.Database.MaxConns, 4, 1000)
	positive(f, "database.connect_timeout", c.Database.ConnectTimeout)
	c.validateHTTP(f)
	c.validateHosts(f)
	hostPort(f, "switch.esl_addr", c.Switch.ESLAddr)
	c.validatePeers(f)
	if c.Switch.ESLPassword == "" {
		f.add("switch.esl_password", "is required")
	}
	absolute(f, "switch.cdr_dir", c.Switch.CDRDir)
	if _, err := os.Stat(c.Switch.CDRDir); err != nil {
		f.add("switch.cdr_dir", "%s: calls are recovered from the switch's call records", err)
	}
	c.validateMedia(f)
	c.validateAgents(f)
	absolute(f, "recordings.spool_dir", c.Recordings.SpoolDir)
	if err := recordings.CheckBucketURL(c.Recordings.BlobURL); err != nil {
		f.add("recordings.blob_url", "%s: file:///DIR or s3://BUCKET?region=REGION is needed", err)
	}
	absolute(f, "prompts.cache_dir", c.Prompts.CacheDir)
	between(f, "prompts.cache_mb", c.Prompts.CacheMB, 16, 1<<20)
	if c.Prompts.Dir != "" {
		absolute(f, "prompts.dir", c.Prompts.Dir)
	}
	oneOf(f, "security.tenant_telephony", c.Security.TenantTelephony, telephonyOperator, telephonyTenant)
	encodings := make([]string, 0, len(wav.Encodings()))
	for _, e := range wav.Encodings() {
		encodings = append(encodings, string(e))
	}
	oneOf(f, "recordings.encoding", c.Recordings.Encoding, encodings...)
	if _, err := c.MasterKey(); err != nil {
		f.add("security.master_key", "%s", err)
	}
	cidrs(f, "security.allow_targets", c.Security.AllowTargets)
	cidrs(f, "security.deny_targets", c.Security.DenyTargets)
	c.validateDialing(f)
	c.Retention.validate(f)
	positive(f, "drain.timeout", c.Drain.Timeout)
}

// validatePeers refuses a listener that other machines reach, but that is meant for none of them: it asks for no credentials.
func (c Config) validatePeers(f *faults) {
	for _, l := range []struct {
		key, addr, allowKey string
		allow               []string
	}{
		{"switch.outbound_listen", c.Switch.OutboundListen, "switch.socket_allow", c.Switch.SocketAllow},
		{"media.sip_addr", c.Media.SIPAddr, "media.sip_allow", c.Media.SIPAllow},
	} {
		cidrs(f, l.allowKey, l.allow)
		if len(l.allow) == 0 {
			f.add(l.allowKey, "needs at least one CIDR block: the switch's")
		}
		if hostPort(f, l.key, l.addr) && !onLoopback(l.addr) && !prefixes(l.allow).BeyondLoopback() {
			f.add(l.allowKey, "must name the switch's networks, because %s is not on loopback and asks for no credentials", l.key)
		}
	}
}

func (c Config) validateHTTP(f *faults) {
	hostPort(f, "http.addr", c.HTTP.Addr)
	if hostPort(f, "http.metrics_addr", c.HTTP.MetricsAddr) {
		if !onLoopback(c.HTTP.MetricsAddr) {
			f.add("http.metrics_addr", "must be on loopback: it serves pprof")
		}
	}
	if c.HTTP.PublicURL != "" {
		if u, err := url.Parse(c.HTTP.PublicURL); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			f.add("http.public_url", "must be http(s)://host")
		}
	}
	if c.OAuth.Issuer != "" {
		u, err := url.Parse(c.OAuth.Issuer)
		if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
			f.add("oauth.issuer", "must be https://host, without a path; http:// on loopback alone")
		}
	}
	if c.HTTP.TLSKey != "" {
		if _, err := readSecret(c.HTTP.TLSKey); err != nil && !errors.Is(err, os.ErrNotExist) { // that it isn't there is found when it is used
			f.add("http.tls_key", "%s", err)
		}
	}
	if (c.HTTP.TLSCert == "") != (c.HTTP.TLSKey == "") {
		f.add("http.tls_cert", "and http.tls_key are set together or not at all")
	}
	for key, limit := range map[string]int{
		"http.max_connections": c.HTTP.MaxConns, "http.max_connections_per_client": c.HTTP.MaxConnsPerClient,
	} {
		if limit < 1 {
			f.add(key, "must be at least 1")
		}
	}
	cidrs(f, "http.trusted_proxies", c.HTTP.TrustedProxies)
}

func (c Config) validateHosts(f *faults) {
	if c.Hosts.Address != "" {
		hostPort(f, "hosts.address", c.Hosts.Address)
	}
	if c.Hosts.Listen == "" {
		if c.Hosts.Address != "" {
			f.add("hosts.listen", "is required with hosts.address")
		}
		return
	}
	if !hostPort(f, "hosts.listen", c.Hosts.Listen) || c.Hosts.Address != "" {
		return
	}
	if host, _, err := net.SplitHostPort(c.Hosts.Listen); err == nil {
		if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
			f.add("hosts.address", "is required, because hosts.listen is not an address at which other hosts can reach this one")
		}
	}
}

func (c Config) validateMedia(f *faults) {
	if _, err := netip.ParseAddr(c.Media.RTPIP); err != nil {
		f.add("media.rtp_ip", "%q is not an IP address", c.Media.RTPIP)
	}
	between(f, "media.rtp_port_min", c.Media.RTPPortMin, 1024, 65534)
	between(f, "media.rtp_port_max", c.Media.RTPPortMax, 1025, 65535)
	if c.Media.RTPPortMax <= c.Media.RTPPortMin {
		f.add("media.rtp_port_max", "must be above media.rtp_port_min")
	}
	if len(c.Media.Subprotocols) == 0 {
		f.add("media.subprotocols", "needs at least one value")
	}
	for _, s := range c.Media.Subprotocols {
		oneOf(f, "media.subprotocols", s, "audio.alpha.org", "audio.beta.org")
	}
	if c.Media.AICAFile != "" {
		if _, err := ws.TrustCA(c.Media.AICAFile); err != nil {
			f.add("media.ai_ca_file", "%s", err)
		}
	}
}

// sipDomain is a host name or an IPv4 address.
var sipDomain = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`)

func (c Config) validateAgents(f *faults) {
	cidrs(f, "switch.directory_allow", c.Switch.DirectoryAllow)
	cidrs(f, "switch.carrier_networks", c.Switch.CarrierNetworks)
	if _, err := netip.ParseAddr(c.Switch.SIPIP); err != nil {
		f.add("switch.sip_ip", "%q is not an IP address", c.Switch.SIPIP)
	}
	between(f, "switch.external_port", c.Switch.ExternalPort, 1, 65535)
	between(f, "switch.internal_port", c.Switch.InternalPort, 1, 65535)
	between(f, "switch.voice_agents_port", c.Switch.VoiceAgentsPort, 1, 65535)
	if p := c.Switch.VoiceAgentsPort; p == c.Switch.ExternalPort || p == c.Switch.InternalPort {
		f.add("switch.voice_agents_port", "%d is another SIP profile's port", p)
	}
	between(f, "switch.rtp_port_min", c.Switch.RTPPortMin, 1024, 65534)
	between(f, "switch.rtp_port_max", c.Switch.RTPPortMax, c.Switch.RTPPortMin+1, 65535)
	if c.Switch.DirectoryListen != "" {
		hostPort(f, "switch.directory_listen", c.Switch.DirectoryListen)
	}
	if len(c.Switch.DirectoryAllow) == 0 {
		f.add("switch.directory_allow", "needs at least one CIDR block: the switch asks for its users")
	}
	if !sipDomain.MatchString(c.Agents.SIPDomain) {
		f.add("agents.sip_domain", "%q is not a host name or IPv4 address", c.Agents.SIPDomain)
	}
	if len(c.Agents.Transports) == 0 {
		f.add("agents.transports", "needs at least one value")
	}
	if c.Agents.WrapUp < 0 {
		f.add("agents.wrap_up", "%s is negative", c.Agents.WrapUp)
	}
	positive(f, "agents.ring_timeout", c.Agents.RingTimeout)
	positive(f, "agents.max_wait", c.Agents.MaxWait)
	positive(f, "agents.announce_every", c.Agents.AnnounceEvery)
	for _, t := range c.Agents.Transports {
		oneOf(f, "agents.transports", t, "udp", "tcp", "tls", "ws", "wss")
	}
}

// clockTime is HH:MM, 24:00 included.
var clockTime = regexp.MustCompile(`^(([01]\d|2[0-3]):[0-5]\d|24:00)$`)

// lawFrom and lawTo are the hours within which the law lets people be called in India, in the callee's zone.
const lawFrom, lawTo = "09:00", "21:00"

// dncPattern is ten digits, ? standing for any.
var dncPattern = regexp.MustCompile(`^[0-9?]{10}$`)

func (c Config) validateDialing(f *faults) {
	for key, v := range map[string]string{"dialing.window_from": c.Dialing.WindowFrom, "dialing.window_to": c.Dialing.WindowTo} {
		if !clockTime.MatchString(v) {
			f.add(key, "%q is not HH:MM", v)
		}
	}
	if c.Dialing.WindowFrom >= c.Dialing.WindowTo {
		f.add("dialing.window_to", "must be after dialing.window_from")
	}
	if !c.Dialing.UnlawfulHours {
		if c.Dialing.WindowFrom < lawFrom {
			f.add("dialing.window_from", "%s is before %s, the earliest time at which calls are legal", c.Dialing.WindowFrom, lawFrom)
		}
		if c.Dialing.WindowTo > lawTo {
			f.add("dialing.window_to", "%s is after %s, the latest time at which calls are legal", c.Dialing.WindowTo, lawTo)
		}
	}
	positive(f, "dialing.poll", c.Dialing.Poll)
	if c.Dialing.DailyCap < 0 {
		f.add("dialing.daily_cap", "must not be negative")
	}
	c.validateDNC(f)
	t := c.Dialing.DefaultTrunk
	oneOf(f, "dialing.default_trunk.transport", t.Transport, "", "udp", "tcp", "tls")
	oneOf(f, "dialing.default_trunk.number_format", t.NumberFormat, "", "e164", "national", "0national")
	between(f, "dialing.default_trunk.port", t.Port, 0, 65535)
}

func oneOf(f *faults, key, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		f.add(key, "%q must be one of %s", value, strings.Join(slices.DeleteFunc(allowed, func(s string) bool { return s == "" }), ", "))
	}
}

func between(f *faults, key string, value, low, high int) {
	if value < low || value > high {
		f.add(key, "%d is not between %d and %d", value, low, high)
	}
}

func positive(f *faults, key string, d time.Duration) {
	if d <= 0 {
		f.add(key, "must be a positive duration, for example 30s")
	}
}

func cidrs(f *faults, key string, blocks []string) {
	for _, b := range blocks {
		if _, err := netip.ParsePrefix(b); err != nil {
			f.add(key, "%q is not a CIDR block", b)
		}
	}
}

// prefixes reads CIDR blocks that cidrs has found in order.
func prefixes(blocks []string) netguard.Peers {
	var out netguard.Peers
	for _, b := range blocks {
		if p, err := netip.ParsePrefix(b); err == nil {
			out = append(out, p.Masked())
		}
	}
	return out
}

func absolute(f *faults, key, path string) {
	if !filepath.IsAbs(path) {
		f.add(key, "%q is not an absolute path", path)
	}
}

func hostPort(f *faults, key, value string) bool {
	host, port, err := net.SplitHostPort(value)
	if err != nil || host == "" || port == "" {
		f.add(key, "%q is not host:port", value)
		return false
	}
	return true
}

// keys lists the dotted keys of a configuration struct.
func keys(t reflect.Type, prefix string) []string {
	var out []string
	for field := range t.Fields() {
		key := prefix + field.Tag.Get("koanf")
		if field.Type.Kind() == reflect.Struct {
			out = append(out, keys(field.Type, key+".")...)
			continue
		}
		out = append(out, key)
	}
	return out
}

// allKeys lists every key of the configuration.
func allKeys() []string { return keys(reflect.TypeFor[Config](), "") }
