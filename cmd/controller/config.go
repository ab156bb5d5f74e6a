package controller

import (
	"os"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/store"
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
	OAuth      OAuthConfig      `koanf:"oauth"`
	Hosts      HostsConfig      `koanf:"hosts"`
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

// OAuthConfig is of the OAuth server for partners' applications.
type OAuthConfig struct {
	Issuer string `koanf:"issuer"` // http.public_url when empty
}

// HostsConfig says how other controllers of the database reach this one, with requests about its calls.
type HostsConfig struct {
	Listen  string `koanf:"listen"`  // nobody reaches it when empty
	Address string `koanf:"address"` // that they are told: Listen when empty
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
	SIPIP           string `koanf:"sip_ip"` // of the SIP profiles and of the switch's RTP
	ExternalPort    int    `koanf:"external_port"`
	InternalPort    int    `koanf:"internal_port"`
	VoiceAgentsPort int    `koanf:"voice_agents_port"` // of voice agents over SIP that may send a REFER
	RTPPortMin      int    `koanf:"rtp_port_min"`
	RTPPortMax      int    `koanf:"rtp_port_max"`
	WSBinding       string `koanf:"ws_binding"` // softphones in browsers, as :5066; none when empty
	WSSBinding      string `koanf:"wss_binding"`
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
	AMDWords     bool     `koanf:"amd_words"`    // machine detection listens to words, where the processor is fast enough
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
			SIPIP: "127.0.0.1", ExternalPort: 5060, InternalPort: 5062, VoiceAgentsPort: 5064, RTPPortMin: 20000, RTPPortMax: 29998,
		},
		Media: MediaConfig{
			SIPAddr: "127.0.0.1:5090", SIPAllow: []string{"127.0.0.0/8", "::1/128"}, RTPIP: "127.0.0.1", RTPPortMin: 40000, RTPPortMax: 48000,
			Subprotocols: []string{"audio.alpha.org", "audio.beta.org"},
			AMDWords:     true,
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
