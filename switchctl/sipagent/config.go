// Package sipagent reads the transport_config of voice agents that are SIP endpoints (transport sip), and writes the headers that tell one of its call.
package sipagent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// Transport is the transport of voice agents that are SIP endpoints: the switch bridges the caller to one.
const Transport = "sip"

const (
	defaultRing = 10 * time.Second
	minRing     = 1
	maxRing     = 60
	maxURI      = 256
	// maxHeaders and the two below bound a voice agent's own headers: an INVITE should stay within a few packets.
	maxHeaders, maxHeaderName, maxHeaderValue = 20, 64, 256
)

// ownPrefix begins the names of the headers that this service sets.
const ownPrefix = "X-Ringmaster-"

// Config is what a voice agent's transport_config says.
type Config struct {
	// SIPURI is where it is dialed: sip:user@host, with a port and ;transport=tcp or udp where they are not the usual ones.
	SIPURI string `json:"sip_uri"`
	// RingTimeoutS is how long it may ring, in seconds; 0 is 10.
	RingTimeoutS int `json:"ring_timeout_s,omitempty"`
	// Headers are headers of its INVITE, beside those of this service.
	Headers map[string]string `json:"headers,omitempty"`
	// CallbackToken has the INVITE carry the call's callback token.
	CallbackToken bool `json:"callback_token,omitempty"`
	// Refer is what becomes of its REFER: ReferDeny, which is the default, or ReferTransfer.
	Refer string `json:"refer,omitempty"`
	// TransferDestinations are the only destinations that its REFER may name: nil leaves it to the voice agent, an empty list allows none.
	TransferDestinations []string `json:"transfer_destinations,omitzero"`
}

// Refers tells whether its REFER is a transfer.
func (c Config) Refers() bool { return c.Refer == ReferTransfer }

// ConfigError means that a transport_config can't be served.
type ConfigError struct{ Field, Message string }

// Error implements error.
func (e *ConfigError) Error() string { return strings.TrimSpace(e.Field + " " + e.Message) }

// RingTimeout is how long the voice agent may ring.
func (c Config) RingTimeout() time.Duration {
	if c.RingTimeoutS == 0 {
		return defaultRing
	}
	return time.Duration(c.RingTimeoutS) * time.Second
}

// ParseConfig reads a transport_config. Its errors are a [*ConfigError].
func ParseConfig(raw json.RawMessage) (Config, error) {
	var c Config
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' {
		return c, &ConfigError{"", "must be an object with sip_uri"}
	}
	if err := checkMembers(raw); err != nil {
		return c, err
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, &ConfigError{"", "can't be read: " + strings.TrimPrefix(err.Error(), "json: ")}
	}
	if c.SIPURI == "" {
		return c, &ConfigError{"sip_uri", "is required"}
	}
	if _, _, err := SplitTransport(c.SIPURI); err != nil {
		return c, err
	}
	if c.RingTimeoutS != 0 && (c.RingTimeoutS < minRing || c.RingTimeoutS > maxRing) {
		return c, &ConfigError{"ring_timeout_s", fmt.Sprintf("must be between %d and %d", minRing, maxRing)}
	}
	if err := c.checkRefer(); err != nil {
		return c, err
	}
	return c, c.checkHeaders()
}

func (c Config) checkRefer() error {
	if c.Refer != "" && c.Refer != ReferDeny && c.Refer != ReferTransfer {
		return &ConfigError{"refer", "must be deny or transfer"}
	}
	bad := func(d string) bool { return d == "" || utf8.RuneCountInString(d) > maxDestination }
	switch {
	case len(c.TransferDestinations) > 0 && !c.Refers():
		return &ConfigError{"transfer_destinations", "are those of a REFER, and need refer: transfer"}
	case len(c.TransferDestinations) > maxDestinations, slices.ContainsFunc(c.TransferDestinations, bad):
		return &ConfigError{"transfer_destinations", fmt.Sprintf("must be at most %d destinations of 1 to %d characters", maxDestinations, maxDestination)}
	}
	return nil
}

// checkMembers refuses members that a transport_config doesn't have, names in another case included, and null where it says nothing.
func checkMembers(raw json.RawMessage) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return &ConfigError{"", "can't be read: " + strings.TrimPrefix(err.Error(), "json: ")}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		switch name {
		case "headers", "transfer_destinations":
		case "sip_uri", "ring_timeout_s", "callback_token", "refer":
			if string(members[name]) == "null" {
				return &ConfigError{name, "may not be null; leave it out"}
			}
		default:
			return &ConfigError{"", fmt.Sprintf("has no member %.64q", name)}
		}
	}
	return nil
}

// SplitTransport takes the one parameter that a URI may have off it: the transport, "" for the usual one.
func SplitTransport(uri string) (bare, transport string, err error) {
	bad := func(message string) (string, string, error) { return "", "", &ConfigError{"sip_uri", message} }
	bare, parameters, has := strings.Cut(uri, ";")
	switch {
	case len(uri) > maxURI:
		return bad(fmt.Sprintf("may have at most %d characters", maxURI))
	case !strings.HasPrefix(bare, "sip:") || strings.ContainsAny(bare, "?\r\n\t '\"{}[]<>\\^|$,`&"):
		return bad("must be a SIP URI such as sip:agent@ai.example.com")
	case !has:
		return bare, "", nil
	}
	name, value, _ := strings.Cut(parameters, "=")
	value = strings.ToLower(value)
	if !strings.EqualFold(name, "transport") || value != "udp" && value != "tcp" {
		return bad("may have no parameter but transport=udp or transport=tcp")
	}
	return bare, value, nil
}

// headerName is the form of the names of a voice agent's own headers.
var headerName = regexp.MustCompile(`^[Xx]-[A-Za-z0-9]+(-[A-Za-z0-9]+)*$`)

// checkHeaders holds the voice agent's own headers to what the switch's dial string and a SIP message carry as they are.
func (c Config) checkHeaders() error {
	if len(c.Headers) > maxHeaders {
		return &ConfigError{"headers", fmt.Sprintf("may be at most %d", maxHeaders)}
	}
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		value, lower := c.Headers[name], strings.ToLower(name)
		switch {
		case len(name) > maxHeaderName || !headerName.MatchString(name):
			return &ConfigError{"headers", fmt.Sprintf("%.80q must be X- and letters, digits and single hyphens, at most %d characters", name, maxHeaderName)}
		case strings.HasPrefix(lower, strings.ToLower(ownPrefix)), strings.HasPrefix(lower, "x-fs-"):
			return &ConfigError{"headers", fmt.Sprintf("%.80q is set by this service or by the switch", name)}
		case seen[lower]:
			return &ConfigError{"headers", fmt.Sprintf("%.80q stands there twice", name)}
		case value == "" || len(value) > maxHeaderValue || value != Safe(value) || strings.TrimSpace(value) != value:
			return &ConfigError{"headers." + name, fmt.Sprintf("must have 1 to %d printable ASCII characters, none of them a quote, a bracket, <, >, \\, ^, |, $, `, %% or a comma, nor :_:", maxHeaderValue)}
		}
		seen[lower] = true
	}
	return nil
}

// Safe is a text as a header can carry it: what could end a value, a header or a command of the switch, or would be expanded by it, is written as a URL
// has it (%2C), and so is what is not ASCII. A percent sign is one of them, so that it can be read back.
func Safe(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		splits := c == '_' && strings.HasSuffix(s[:i], ":") && strings.HasPrefix(s[i+1:], ":") // a dial string, into several
		if c < ' ' || c > '~' || splits || strings.IndexByte("'\"{}[]<>\\^|$,`%", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// Headers are what a voice agent's INVITE says of its call, by the names after X-Ringmaster-; what is empty is left out.
type Headers map[string]string

// The headers whose value is in the form of a URL's query, which [url.Values.Encode] has written.
const (
	HeaderVariables  = "Variables"
	HeaderParameters = "Parameters"
)

// AddTo puts the headers of the service, and those of the voice agent, into the variables of its leg.
func (c Config) AddTo(v fs.Variables, ours Headers) {
	for name, value := range c.Headers {
		v[variable(name)] = value
	}
	for name, value := range ours {
		switch {
		case value == "":
		case name == HeaderVariables || name == HeaderParameters: // a query, in which nothing is left to escape but its own percent signs
			v[variable(ownPrefix+name)] = value
		default:
			v[variable(ownPrefix+name)] = Safe(value)
		}
	}
}

// variable is the channel variable that the switch sends as a header of the INVITE.
func variable(header string) string { return "sip_h_" + header }
