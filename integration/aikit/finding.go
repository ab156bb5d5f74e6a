package aikit

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/ws"
)

// The levels of findings: calls go wrong with an error, and less well than they could with a warning.
const (
	LevelError   = "error"
	LevelWarning = "warning"
)

// Finding is something that a server did wrong.
type Finding struct {
	// Rule names it, for programs.
	Rule  string `json:"rule"`
	Level string `json:"level"`
	// AtS is when it was first seen, in seconds since the socket was dialed; Times is how often.
	AtS   float64 `json:"at_s"`
	Times int     `json:"times"`
	// Number is that of the server's frame in which it was, counted from 1 with control frames, as listen --json has it; 0 for none.
	Number int `json:"frame_number,omitempty"`
	// Expected and Seen say what is wrong, See where that is written, and Frame what broke it.
	Expected string `json:"expected"`
	Seen     string `json:"seen"`
	See      string `json:"see"`
	Frame    string `json:"frame,omitempty"`
}

// Where things are written.
const (
	seeConnect  = "/docs/websocket"
	seeTwilio   = "/docs/websocket#twilio"
	seeOpenAI   = "/docs/websocket#openai"
	seeFromAI   = "/docs/websocket#from-the-voice-agent"
	seeHandbook = "integration/aikit/README.md"
	seeRFC      = "RFC 6455"
)

// seeTransport is the part of the documentation that a transport has.
func seeTransport(t media.Transport) string {
	switch t {
	case media.TransportTwilio:
		return seeTwilio
	case media.TransportOpenAI:
		return seeOpenAI
	case media.TransportWebSocket:
	}
	return seeFromAI
}

// What a server sends is told in part: so many bytes of a kind's name, and of all else; and so many findings by one rule.
const mostKind, mostSeen, mostOfARule = 64, 300, 10

// clip cuts text, between runes.
func clip(text string, most int) string {
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.ToValidUTF8(text, "�")
}

func clipped(text []byte) string { return clip(string(text[:min(len(text), mostSeen+1)]), mostSeen) }

// findings are those of one scenario; the same one twice is counted, wherever in a frame it was, and those of one rule beyond mostOfARule are in more.
type findings struct {
	began time.Time
	list  []Finding
	keys  []string
	more  int
	// number is that of the server's frame that is judged, 0 while none is.
	number int
}

// key is what makes findings the same: numbers don't matter.
func (f *Finding) key() string {
	return strings.Join([]string{f.Rule, f.Expected, numbers.ReplaceAllString(f.Seen, "0")}, "\x00")
}

var numbers = regexp.MustCompile(`[0-9]+`)

func (fs *findings) add(f Finding) {
	f.Expected, f.Seen, f.Frame = clip(f.Expected, 2*mostSeen), clip(f.Seen, mostSeen), clip(f.Frame, mostSeen+len("…"))
	key, ofRule := f.key(), 0
	for i := range fs.list {
		have := &fs.list[i]
		if fs.keys[i] == key {
			have.Times++
			return
		}
		if have.Rule == f.Rule {
			ofRule++
		}
	}
	if ofRule == mostOfARule {
		fs.more++
		return
	}
	fs.keys = append(fs.keys, key)
	if f.Level == "" {
		f.Level = LevelError
	}
	f.Times, f.Number, f.AtS = 1, fs.number, float64(time.Since(fs.began).Milliseconds())/1000
	fs.list = append(fs.list, f)
}

// has tells whether something was found by a rule.
func (fs *findings) has(rules ...string) bool {
	for _, f := range fs.list {
		if slices.Contains(rules, f.Rule) {
			return true
		}
	}
	return false
}

// dialFinding says why a socket doesn't open.
func dialFinding(err error, o Options) Finding {
	f := Finding{Rule: "unreachable", Expected: "a WebSocket opens at " + o.URL, Seen: err.Error(), See: seeConnect}
	refused, _ := errors.AsType[*ws.HandshakeError](err)
	_, dns := errors.AsType[*net.DNSError](err)
	cert, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	_, host := errors.AsType[x509.HostnameError](err)
	switch {
	case errors.Is(err, ws.ErrSubprotocol):
		f.Rule, f.See = "subprotocol", seeConnect+" and RFC 6455 section 4.2.2"
		f.Expected = fmt.Sprintf("the answer chooses the subprotocol that was offered, %q", o.Subprotocol)
		if o.Subprotocol == "" {
			f.Expected = "the answer chooses no subprotocol, for none was offered"
			if o.Transport == media.TransportWebSocket {
				f.Expected = fmt.Sprintf("the answer chooses the subprotocol that was offered, %q", media.SubprotocolAlpha)
			}
		}
		f.Seen = unwrapped(err)
	case refused != nil && refused.Status == http.StatusSwitchingProtocols:
		f.Rule, f.See = "handshake", seeRFC+" section 4.2.2"
		f.Expected = "the handshake's answer has Upgrade: websocket, Connection: Upgrade, the Sec-WebSocket-Accept of its key, and no extension, for none is offered"
		f.Seen = unwrapped(err)
	case refused != nil && refused.Status != 0:
		f.Rule = "http_status"
		f.Expected = "the handshake is answered with HTTP 101"
		f.Seen = fmt.Sprintf("HTTP %d%s", refused.Status, statusAdvice(refused.Status, o))
	case errors.Is(err, ws.ErrDialTimeout):
		f.Rule, f.Expected, f.Seen = "timeout", "the socket opens within 5 s", "nothing answered in that time"
	case untrusted || host:
		f.Rule, f.Expected = "tls", "the server's certificate is valid for its name, and signed by an authority that is known"
		f.Seen = err.Error()
		if untrusted {
			f.Seen = cert.Err.Error()
		}
	case plain:
		f.Rule, f.Expected, f.Seen = "tls", "the server speaks TLS, as wss:// says", "it doesn't; ws:// is for servers without TLS"
	case dns:
		f.Seen = "the name of the host doesn't resolve: " + unwrapped(err)
	case errors.Is(err, syscall.ECONNREFUSED):
		f.Seen = "the connection was refused: nothing listens on that port, or on another address (127.0.0.1 and ::1 are two)"
	case refused != nil && (strings.Contains(err.Error(), "EOF") || strings.Contains(err.Error(), "malformed HTTP")):
		f.Rule, f.Expected = "http_status", "the handshake is answered with HTTP 101"
		f.Seen = "the connection was closed, or answered, by something that speaks no HTTP; a server with TLS is wss://"
	case errors.Is(err, context.Canceled):
		f.Seen = "it was interrupted"
	}
	return f
}

// unwrapped is the innermost error's text.
func unwrapped(err error) string {
	for {
		switch e := err.(type) { //nolint:errorlint // it goes down the tree itself
		case interface{ Unwrap() error }:
			if e.Unwrap() == nil {
				return err.Error()
			}
			if refused, ok := err.(*ws.HandshakeError); ok && errors.Is(refused.Err, ws.ErrSubprotocol) { //nolint:errorlint // as above
				return strings.TrimSuffix(refused.Err.Error(), ": "+ws.ErrSubprotocol.Error())
			}
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			err = e.Unwrap()[0]
		default:
			return err.Error()
		}
	}
}

// statusAdvice says what a status mostly means.
func statusAdvice(status int, o Options) string {
	switch {
	case (status == 401 || status == 403) && o.AuthToken == "":
		return ": the server asks for credentials; give its token (--token)"
	case status == 401 || status == 403:
		return ": the server doesn't take the token (--token), which comes as " + authHeader(o)
	case status == 404:
		return ": nothing is served at this path"
	case status == 200, status == 400, status == 426:
		return ": the path is served, and not as a WebSocket, or the server refuses the handshake's headers"
	case status >= 300 && status < 400:
		return ": redirects are not followed; give the address that it leads to"
	case status >= 500:
		return ": the server failed, or what stands before it doesn't reach it"
	}
	return ""
}

func authHeader(o Options) string {
	if o.Transport == media.TransportTwilio {
		return "X-Twilio-Signature: base64 of HMAC-SHA1 of the URL, keyed with the token"
	}
	return "Authorization: Bearer"
}
