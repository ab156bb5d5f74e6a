// Package simswitch is a small back-to-back user agent that speaks FreeSWITCH's event socket, both ways.
//
// It stands in for the real switch in `dev`, in `demo` and in the tests, as a process of its own. Where it and FreeSWITCH
// differ, FreeSWITCH is right: events, headers, replies and their order follow what FreeSWITCH 1.11 was seen to do.
//
// Read it in this order: config.go and switch.go (what is started), channel.go, hangup.go and channel_events.go (one leg and
// its life), sip_profile.go, sip_leg.go, sip_out.go and sip_in.go (signalling), registrar.go and directory.go (softphones),
// media.go, media_clock.go and record.go (audio), dialplan.go, apps.go and bridge.go (what a channel runs), originate.go,
// esl_server.go, esl_outbound.go and api.go (what a controller sees), cdr.go (call records).
package simswitch

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"
)

// DefaultHopDelay is how long a packet rests in the switch on its way through a bridge. FreeSWITCH reads each leg by a
// timer of 20 ms, so that a packet waits for about half of that.
const DefaultHopDelay = 10 * time.Millisecond

// Gateway is a SIP trunk that `sofia/gateway/<Name>/<number>` reaches.
type Gateway struct {
	// Name is how dial strings call it.
	Name string
	// Proxy is host:port, with an optional ";transport=tcp".
	Proxy string
	// Username and Password answer a digest challenge. FromUser, when set, replaces the caller's number in From.
	Username, Password, FromUser string
}

// Config says where the switch listens and what it does. Every address may carry port 0: Addrs tells the port.
type Config struct {
	// ESLAddr is the inbound event socket, "127.0.0.1:8021" by default; ESLPassword is "ClueCon" by default.
	ESLAddr, ESLPassword string
	// ExternalSIPAddr serves carriers and calls that come in, InternalSIPAddr the media legs, VoiceAgentsSIPAddr voice agents that may send a REFER: on
	// a free port of InternalSIPAddr's host by default.
	ExternalSIPAddr, InternalSIPAddr, VoiceAgentsSIPAddr string
	// RTPIP is the address that the switch's SDP names. Ports are even ones from [RTPPortMin, RTPPortMax]; both 0
	// leave the choice to the system.
	RTPIP                  string
	RTPPortMin, RTPPortMax int
	// SocketAddr is the controller that the dialplan's `socket` action calls: "host:port", more of them separated by |.
	SocketAddr string
	// Context is the dialplan context of the external profile, "public" by default.
	Context string
	// CDRDir is where <uuid>.cdr.json files go, none when empty. RecordDir is the base of relative recording paths.
	CDRDir, RecordDir string
	// DirectoryURL is where accounts of softphones are looked up, as mod_xml_curl does; nobody may register when it is empty.
	DirectoryURL string
	// SIPDomain is the one domain of the internal profile's registrations; RTPIP by default.
	SIPDomain string
	// LateMargin is how long after its expiry a phone is still taken for registered, 60 s by default.
	LateMargin time.Duration
	// Gateways are the trunks known by name.
	Gateways []Gateway
	// RTPEvery sends one of so many frames, for load that is not about audio; all by default.
	RTPEvery int
	// HopDelay is DefaultHopDelay when 0; a negative one forwards at once.
	HopDelay time.Duration
	// Heartbeat is the interval of HEARTBEAT events, 20 s by default.
	Heartbeat time.Duration
	// ConnectTimeout is how long `socket` waits for a host, 3 s by default.
	ConnectTimeout time.Duration
	// Ready, when set, is told the addresses as soon as Run serves.
	Ready func(Addrs)
	// Logger gets the switch's own log; nil discards it.
	Logger *slog.Logger
}

// Addrs are the addresses that a started switch listens on.
type Addrs struct {
	ESL, External, Internal string
}

// ErrClosed says that the switch was closed, or never started.
var ErrClosed = errors.New("the switch is closed")

// withDefaults returns cfg with every unset member filled in.
func (cfg Config) withDefaults() Config {
	set := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	set(&cfg.ESLAddr, "127.0.0.1:8021")
	set(&cfg.ESLPassword, "ClueCon")
	set(&cfg.ExternalSIPAddr, "127.0.0.1:5080")
	set(&cfg.InternalSIPAddr, "127.0.0.1:5060")
	if host, _, err := net.SplitHostPort(cfg.InternalSIPAddr); err == nil {
		set(&cfg.VoiceAgentsSIPAddr, net.JoinHostPort(host, "0"))
	}
	set(&cfg.RTPIP, "127.0.0.1")
	set(&cfg.SIPDomain, cfg.RTPIP)
	set(&cfg.SocketAddr, "127.0.0.1:8084")
	set(&cfg.Context, "public")
	set(&cfg.RecordDir, os.TempDir())
	if cfg.HopDelay == 0 {
		cfg.HopDelay = DefaultHopDelay
	}
	if cfg.LateMargin <= 0 {
		cfg.LateMargin = time.Minute
	}
	if cfg.Heartbeat <= 0 {
		cfg.Heartbeat = 20 * time.Second
	}
	if cfg.ConnectTimeout <= 0 {
		cfg.ConnectTimeout = 3 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return cfg
}

// validate reports every fault of cfg at once.
func (cfg Config) validate() error {
	var errs []error
	if cfg.RTPPortMin < 0 || cfg.RTPPortMax > 65535 || cfg.RTPPortMin > cfg.RTPPortMax {
		errs = append(errs, fmt.Errorf("the RTP port range %d-%d is no range", cfg.RTPPortMin, cfg.RTPPortMax))
	}
	seen := make(map[string]bool)
	for _, g := range cfg.Gateways {
		if g.Name == "" || g.Proxy == "" {
			errs = append(errs, fmt.Errorf("gateway %q needs a name and a proxy", g.Name))
		}
		if seen[g.Name] {
			errs = append(errs, fmt.Errorf("gateway %q is configured twice", g.Name))
		}
		seen[g.Name] = true
	}
	return errors.Join(errs...)
}
