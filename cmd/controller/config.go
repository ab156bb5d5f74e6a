package controller

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
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

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/keyring"
	"github.com/ringmaster/ringmaster/switchctl/recordings"
)

// Config is the controller's whole configuration. The keys of the file are the koanf tags, joined by dots; an
// environment variable RINGMASTER_SECTION__KEY overrides section.key.
type Config struct {
	// Node names this controller; the calls of a node are recovered by the node of the same name.
	Node string `koanf:"node"`
	// NodeGrace is how long another controller gives no sign of life before its calls are closed in its place.
	NodeGrace  time.Duration    `koanf:"node_grace"`
	Log        LogConfig        `koanf:"log"`
	Database   DatabaseConfig   `koanf:"database"`
	HTTP       HTTPConfig       `koanf:"http"`
	Switch     SwitchConfig     `koanf:"switch"`
	Media      MediaConfig      `koanf:"media"`
	Recordings RecordingsConfig `koanf:"recordings"`
	Prompts    PromptsConfig    `koanf:"prompts"`
	Security   SecurityConfig   `koanf:"security"`
	Dialing    DialingConfig    `koanf:"dialing"`
	Agents     AgentsConfig     `koanf:"agents"`
	Retention  RetentionConfig  `koanf:"retention"`
	Drain      DrainConfig      `koanf:"drain"`
}

// LogConfig says what is logged, on standard error.
type LogConfig struct {
	Level  string `koanf:"level"`  // debug, info, warn, error
	Format string `koanf:"format"` // text or json
}

// DatabaseConfig is the PostgreSQL database.
type DatabaseConfig struct {
	URL            string        `koanf:"url"`
	MaxConns       int           `koanf:"max_conns"`
	ConnectTimeout time.Duration `koanf:"connect_timeout"` // how long a start waits for the server
	// AllowSuperuser accepts a role with SUPERUSER or BYPASSRLS, for which the database doesn't keep tenants apart.
	AllowSuperuser bool `koanf:"allow_superuser"`
}

// Store is the store's configuration but for the master key and the logger.
func (c DatabaseConfig) Store() store.Config {
	return store.Config{URL: c.URL, MaxConns: int32(c.MaxConns), AllowSuperuser: c.AllowSuperuser}
}

// HTTPConfig is the API's listener.
type HTTPConfig struct {
	Addr           string   `koanf:"addr"`
	MetricsAddr    string   `koanf:"metrics_addr"` // loopback only
	PublicURL      string   `koanf:"public_url"`   // what customers reach; http://<addr> when empty
	TLSCert        string   `koanf:"tls_cert"`
	TLSKey         string   `koanf:"tls_key"`
	TrustedProxies []string `koanf:"trusted_proxies"` // CIDR blocks
	// MaxConns bounds the open connections, MaxConnsPerClient those of one IPv4 address or IPv6 /64 that is no trusted proxy.
	MaxConns          int `koanf:"max_connections"`
	MaxConnsPerClient int `koanf:"max_connections_per_client"`
}

// SwitchConfig is the FreeSWITCH beside us.
type SwitchConfig struct {
	ESLAddr        string `koanf:"esl_addr"`
	ESLPassword    string `koanf:"esl_password"`
	OutboundListen string `koanf:"outbound_listen"` // the dialplan's socket application connects here
	// SocketAllow are the CIDR blocks of the switch, which alone may connect to OutboundListen.
	SocketAllow []string `koanf:"socket_allow"`
	CDRDir      string   `koanf:"cdr_dir"` // mod_json_cdr's log-dir
	// DirectoryAllow are the CIDR blocks of the switch, which alone may ask /fs/directory.
	DirectoryAllow []string `koanf:"directory_allow"`
	// DirectoryListen is a listener of /fs/directory's own, in plain HTTP; empty has it at http.addr.
	DirectoryListen string `koanf:"directory_listen"`
	// DirectorySecret is the password that the switch asks with; one of the database's when empty.
	DirectorySecret string `koanf:"directory_secret"`

	// What `ringmaster switch config` renders besides.
	SIPIP        string `koanf:"sip_ip"` // of both SIP profiles and of the switch's RTP
	ExternalPort int    `koanf:"external_port"`
	InternalPort int    `koanf:"internal_port"`
	RTPPortMin   int    `koanf:"rtp_port_min"`
	RTPPortMax   int    `koanf:"rtp_port_max"`
	WSBinding    string `koanf:"ws_binding"` // softphones in browsers, as :5066; none when empty
	WSSBinding   string `koanf:"wss_binding"`
	// CarrierNetworks are CIDR blocks that may send calls, besides the trunks' hosts.
	CarrierNetworks []string `koanf:"carrier_networks"`
}

// AgentsConfig is what agents' and supervisors' softphones are told.
type AgentsConfig struct {
	SIPDomain  string   `koanf:"sip_domain"` // of all extensions: rm_sip_domain on the switch
	Transports []string `koanf:"transports"` // what the switch's internal profile serves: udp, tcp, tls, ws, wss

	WrapUp          time.Duration `koanf:"wrap_up"`          // time limit after a call, where the campaign sets none; 0: none
	RingTimeout     time.Duration `koanf:"ring_timeout"`     // of phones that are on the hook
	MaxWait         time.Duration `koanf:"max_wait"`         // of callers for whom nothing else bounds it
	PositionPrompts []string      `koanf:"position_prompts"` // http(s) addresses: what is said at place 1, 2, 3 … of the queue
	AnnounceEvery   time.Duration `koanf:"announce_every"`   // between two announcements of the place
}

// MediaConfig is the media endpoint.
type MediaConfig struct {
	SIPAddr      string   `koanf:"sip_addr"`
	SIPAllow     []string `koanf:"sip_allow"` // CIDR blocks of the switch, which alone may send SIP to SIPAddr
	RTPIP        string   `koanf:"rtp_ip"`
	RTPPortMin   int      `koanf:"rtp_port_min"`
	RTPPortMax   int      `koanf:"rtp_port_max"`
	Subprotocols []string `koanf:"subprotocols"` // served on this host
	AICAFile     string   `koanf:"ai_ca_file"`   // PEM: trusted for voice agents' wss besides the system's roots
}

// RecordingsConfig says where recordings go.
type RecordingsConfig struct {
	SpoolDir string `koanf:"spool_dir"` // while a call lives
	BlobURL  string `koanf:"blob_url"`  // file:///dir or s3://bucket?region=…
	Encoding string `koanf:"encoding"`  // pcm, ulaw, alaw
}

// PromptsConfig says where the audio that callers hear is kept.
type PromptsConfig struct {
	CacheDir string `koanf:"cache_dir"` // what URLs have given, converted; the switch reads it
	CacheMB  int    `koanf:"cache_mb"`
	Dir      string `koanf:"dir"` // files of one's own, named prompt:FILE; none when empty
}

// SecurityConfig holds the master key and what may be reached.
type SecurityConfig struct {
	MasterKeyFile string `koanf:"master_key_file"` // 64 hex digits
	MasterKey     string `koanf:"master_key"`
	// AllowLoopbackTargets lets webhooks and voice agents be on this machine: for development.
	AllowLoopbackTargets bool `koanf:"allow_loopback_targets"`
	// AllowTargets and DenyTargets are CIDR blocks: networks of one's own that customers may name hosts of, and others that they
	// may not, whatever allows them.
	AllowTargets []string `koanf:"allow_targets"`
	DenyTargets  []string `koanf:"deny_targets"`
	// TenantTelephony says who declares trunks and numbers: the operator, or tenants' administrators too.
	TenantTelephony string `koanf:"tenant_telephony"`
}

// The values of security.tenant_telephony.
const (
	telephonyOperator = "operator"
	telephonyTenant   = "tenant"
)

// DialingConfig is what bounds every call out of this deployment.
type DialingConfig struct {
	DNCPath     string   `koanf:"dnc_path"`     // the regulator's CSV file, a folder of them, or a snapshot
	DNCSnapshot string   `koanf:"dnc_snapshot"` // their compressed form; beside them when empty
	DNCPatterns []string `koanf:"dnc_patterns"` // ten-digit patterns, ? any digit, of numbers barred wholesale
	// DNCCategories and DNCModes are the calls that are made here; all kinds when empty, so that every bar counts.
	DNCCategories []string        `koanf:"dnc_categories"` // the regulator's, 1 to 8
	DNCModes      []string        `koanf:"dnc_modes"`      // live_agent, prerecorded, robo
	DNCMaxAge     time.Duration   `koanf:"dnc_max_age"`    // an older registry is reported
	DNCHardAge    time.Duration   `koanf:"dnc_hard_age"`   // an older one doesn't answer
	DNCRemote     DNCRemoteConfig `koanf:"dnc_remote"`
	WindowFrom    string          `koanf:"window_from"`
	WindowTo      string          `koanf:"window_to"` // no campaign's window is wider
	// UnlawfulHours lets the two be wider than the law's hours: for test stands, which call nobody.
	UnlawfulHours bool `koanf:"unlawful_hours"`
	DailyCap      int  `koanf:"daily_cap"` // calls of one tenant to one number on one day; 0: any number
	// RequireCategory has every campaign, and every single call, declare what its calls are for.
	RequireCategory bool          `koanf:"require_category"`
	DefaultTrunk    TrunkConfig   `koanf:"default_trunk"` // for tenants that declared none
	Poll            time.Duration `koanf:"poll"`
}

// TrunkConfig is a carrier's address.
type TrunkConfig struct {
	Host         string `koanf:"host"`
	Port         int    `koanf:"port"`
	Transport    string `koanf:"transport"`     // udp, tcp, tls
	NumberFormat string `koanf:"number_format"` // e164, national, 0national
}

// DrainConfig is what SIGTERM does.
type DrainConfig struct {
	Timeout     time.Duration `koanf:"timeout"`
	HangupCalls bool          `koanf:"hangup_calls"` // end the calls that are left; otherwise they live on in the switch
}

// Defaults are the values of keys that are not set.
func Defaults() Config {
	node, err := os.Hostname()
	if err != nil {
		node = "ringmaster"
	}
	return Config{
		Node: node, NodeGrace: 5 * time.Minute,
		Log:      LogConfig{Level: "info", Format: "text"},
		Database: DatabaseConfig{MaxConns: 16, ConnectTimeout: time.Minute},
		HTTP:     HTTPConfig{Addr: "127.0.0.1:8080", MetricsAddr: "127.0.0.1:9090", MaxConns: 10_000, MaxConnsPerClient: 1_000},
		Switch: SwitchConfig{
			ESLAddr: "127.0.0.1:8021", OutboundListen: "127.0.0.1:8084", SocketAllow: []string{"127.0.0.0/8", "::1/128"},
			CDRDir: "/var/log/freeswitch/json_cdr", DirectoryAllow: []string{"127.0.0.0/8", "::1/128"},
			SIPIP: "127.0.0.1", ExternalPort: 5060, InternalPort: 5062, RTPPortMin: 20000, RTPPortMax: 29998,
		},
		Media: MediaConfig{
			SIPAddr: "127.0.0.1:5090", SIPAllow: []string{"127.0.0.0/8", "::1/128"}, RTPIP: "127.0.0.1", RTPPortMin: 40000, RTPPortMax: 48000,
			Subprotocols: []string{"audio.alpha.org", "audio.beta.org"},
		},
		Security:   SecurityConfig{TenantTelephony: telephonyOperator},
		Recordings: RecordingsConfig{SpoolDir: "/var/lib/ringmaster/spool", BlobURL: "file:///var/lib/ringmaster/recordings", Encoding: "pcm"},
		Prompts:    PromptsConfig{CacheDir: "/var/lib/ringmaster/prompts", CacheMB: 512},
		Dialing: DialingConfig{
			WindowFrom: "09:00", WindowTo: "21:00", DailyCap: 3, Poll: time.Second,
			DNCMaxAge: 7 * 24 * time.Hour, DNCHardAge: 31 * 24 * time.Hour,
			DNCRemote: DNCRemoteConfig{Timeout: 5 * time.Second, Batch: 500, Hold: 24 * time.Hour},
		},
		Agents: AgentsConfig{
			SIPDomain: "127.0.0.1", Transports: []string{"udp", "tcp"}, WrapUp: time.Minute, RingTimeout: 20 * time.Second,
			MaxWait: 10 * time.Minute, AnnounceEvery: 30 * time.Second,
		},
		Retention: RetentionConfig(store.DefaultRetention()),
		Drain:     DrainConfig{Timeout: 30 * time.Second},
	}
}

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
		f.add("database.url", "is no postgres:// URL")
	}
	between(f, "database.max_conns", c.Database.MaxConns, 4, 1000)
	positive(f, "database.connect_timeout", c.Database.ConnectTimeout)
	c.validateHTTP(f)
	hostPort(f, "switch.esl_addr", c.Switch.ESLAddr)
	c.validatePeers(f)
	if c.Switch.ESLPassword == "" {
		f.add("switch.esl_password", "is required")
	}
	absolute(f, "switch.cdr_dir", c.Switch.CDRDir)
	if _, err := os.Stat(c.Switch.CDRDir); err != nil {
		f.add("switch.cdr_dir", "%s: the switch's call records are needed to recover", err)
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
	oneOf(f, "recordings.encoding", c.Recordings.Encoding, "pcm", "ulaw", "alaw")
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
			f.add(l.allowKey, "must name the switch's networks, since %s is not on loopback: who reaches it needs no credentials", l.key)
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
	if c.HTTP.TLSKey != "" {
		if _, err := readSecret(c.HTTP.TLSKey); err != nil && !errors.Is(err, os.ErrNotExist) { // that it isn't there is found when it is used
			f.add("http.tls_key", "%s", err)
		}
	}
	if (c.HTTP.TLSCert == "") != (c.HTTP.TLSKey == "") {
		f.add("http.tls_cert", "needs http.tls_key, and the other way round")
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

func (c Config) validateMedia(f *faults) {
	if _, err := netip.ParseAddr(c.Media.RTPIP); err != nil {
		f.add("media.rtp_ip", "%q is no IP address", c.Media.RTPIP)
	}
	between(f, "media.rtp_port_min", c.Media.RTPPortMin, 1024, 65534)
	between(f, "media.rtp_port_max", c.Media.RTPPortMax, 1025, 65535)
	if c.Media.RTPPortMax <= c.Media.RTPPortMin {
		f.add("media.rtp_port_max", "must be above media.rtp_port_min")
	}
	if len(c.Media.Subprotocols) == 0 {
		f.add("media.subprotocols", "needs at least one")
	}
	for _, s := range c.Media.Subprotocols {
		oneOf(f, "media.subprotocols", s, "audio.alpha.org", "audio.beta.org")
	}
	if c.Media.AICAFile != "" {
		if _, err := media.TrustCA(c.Media.AICAFile); err != nil {
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
		f.add("switch.sip_ip", "%q is no IP address", c.Switch.SIPIP)
	}
	between(f, "switch.external_port", c.Switch.ExternalPort, 1, 65535)
	between(f, "switch.internal_port", c.Switch.InternalPort, 1, 65535)
	between(f, "switch.rtp_port_min", c.Switch.RTPPortMin, 1024, 65534)
	between(f, "switch.rtp_port_max", c.Switch.RTPPortMax, c.Switch.RTPPortMin+1, 65535)
	if c.Switch.DirectoryListen != "" {
		hostPort(f, "switch.directory_listen", c.Switch.DirectoryListen)
	}
	if len(c.Switch.DirectoryAllow) == 0 {
		f.add("switch.directory_allow", "needs at least one CIDR block: the switch asks for its users")
	}
	if !sipDomain.MatchString(c.Agents.SIPDomain) {
		f.add("agents.sip_domain", "%q is no host name or IPv4 address", c.Agents.SIPDomain)
	}
	if len(c.Agents.Transports) == 0 {
		f.add("agents.transports", "needs at least one")
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
			f.add(key, "%q is no HH:MM", v)
		}
	}
	if c.Dialing.WindowFrom >= c.Dialing.WindowTo {
		f.add("dialing.window_to", "must be after dialing.window_from")
	}
	if !c.Dialing.UnlawfulHours {
		if c.Dialing.WindowFrom < lawFrom {
			f.add("dialing.window_from", "%s is before %s, from when on the law lets people be called", c.Dialing.WindowFrom, lawFrom)
		}
		if c.Dialing.WindowTo > lawTo {
			f.add("dialing.window_to", "%s is after %s, until when the law lets people be called", c.Dialing.WindowTo, lawTo)
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

// ErrMasterKey says what is wrong with the master key.
var ErrMasterKey = errors.New("64 hex digits are needed, in security.master_key or in the file security.master_key_file")

// MasterKey reads the key that wraps all others.
func (c Config) MasterKey() (keyring.Key, error) {
	if c.Security.MasterKeyFile != "" {
		return ReadKey(c.Security.MasterKeyFile)
	}
	return parseKey(c.Security.MasterKey)
}

// ReadKey reads a master key from its file, which others than its owner and group must not be able to use.
func ReadKey(path string) (key keyring.Key, err error) {
	raw, err := readSecret(path)
	if err != nil {
		return key, fmt.Errorf("read the master key: %w", err)
	}
	return parseKey(string(raw))
}

func parseKey(text string) (key keyring.Key, err error) {
	raw, err := hex.DecodeString(strings.TrimSpace(text))
	if err != nil || len(raw) != len(key) {
		return key, ErrMasterKey
	}
	copy(key[:], raw)
	if key == (keyring.Key{}) {
		return key, ErrMasterKey
	}
	return key, nil
}

// readSecret reads a file that only its owner and its group may touch: whoever else reads a key has what it protects.
func readSecret(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // a path of the operator's
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat() // of the file that is read, whatever the name leads to meanwhile
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o007 != 0 {
		return nil, fmt.Errorf("others than its owner and group may use %s (mode %04o): run chmod o= %s, and consider the key known to all users of this machine",
			path, mode, path)
	}
	return io.ReadAll(io.LimitReader(f, maxSecretFile))
}

// maxSecretFile bounds a key's file: keys are short.
const maxSecretFile = 64 << 10

// FileWarnings are those about the configuration file itself, which holds passwords.
func FileWarnings(path string) []Fault {
	info, err := os.Stat(path)
	if path == "" || err != nil || info.Mode().Perm()&0o007 == 0 {
		return nil
	}
	return []Fault{{Key: "config", Message: fmt.Sprintf("others than its owner and group may use %s (mode %04o), which holds passwords: run chmod o= %s",
		path, info.Mode().Perm(), path)}}
}

// PublicURL is where customers reach the API, without a slash at the end.
func (c Config) PublicURL() string {
	if c.HTTP.PublicURL != "" {
		return strings.TrimRight(c.HTTP.PublicURL, "/")
	}
	if c.HTTP.TLSCert != "" {
		return "https://" + c.HTTP.Addr
	}
	return "http://" + c.HTTP.Addr
}

func oneOf(f *faults, key, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		f.add(key, "%q is none of %s", value, strings.Join(slices.DeleteFunc(allowed, func(s string) bool { return s == "" }), ", "))
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
			f.add(key, "%q is no CIDR block", b)
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
		f.add(key, "%q is no absolute path", path)
	}
}

func hostPort(f *faults, key, value string) bool {
	host, port, err := net.SplitHostPort(value)
	if err != nil || host == "" || port == "" {
		f.add(key, "%q is no host:port", value)
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
