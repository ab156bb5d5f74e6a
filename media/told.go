package media

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/media/netio"
	"github.com/ringmaster/ringmaster/media/openai"
	"github.com/ringmaster/ringmaster/media/ws"
)

// Told is why a voice agent's socket failed, in words for whoever runs the voice agent: no address that a name resolves to is in it, and nothing of this machine.
// What the voice agent's own server said is, as far as it is bounded.
type Told struct {
	Error string `json:"error"`
	// Status is the HTTP status that answered the handshake, CloseCode that of the close frame, and Code the error's of a provider.
	Status    int    `json:"status,omitempty"`
	CloseCode int    `json:"close_code,omitempty"`
	Code      string `json:"code,omitempty"`
}

// Tell puts an error of Open, or of an event, into such words. A server that repeats the secret, which may be empty, isn't quoted in that.
func Tell(err error, secret string) Told {
	if closed, ok := errors.AsType[*closedError](err); ok {
		return Told{Error: fmt.Sprintf("the voice agent closed the socket with code %d", closed.code) + quote(closed.reason, secret), CloseCode: closed.code}
	}
	if limit, ok := errLimit(err); ok {
		return Told{Error: fmt.Sprintf("the service closed the socket with code %d: %s", limit.code, limit.what), CloseCode: limit.code}
	}
	if frame, ok := errors.AsType[*ws.FrameError](err); ok {
		return Told{Error: fmt.Sprintf("the service closed the socket with code %d: %s", frame.Code, frame.What), CloseCode: frame.Code}
	}
	if fault, ok := errors.AsType[*openai.Error](err); ok {
		code := quoted(cmp.Or(fault.Code, fault.Type), secret, 64)
		return Told{Error: "the voice agent reports " + cmp.Or(code, "an error") + quote(fault.Message, secret), Code: code}
	}
	if refused, ok := errors.AsType[*ws.HandshakeError](err); ok && refused.Status != 0 {
		return Told{Error: tellAnswer(refused, secret), Status: refused.Status}
	}
	return Told{Error: tellNetwork(err)}
}

// quote appends what a server has said, if it has.
func quote(text, secret string) string {
	if text == "" {
		return ""
	}
	return ": " + quoted(text, secret, 300)
}

// quoted is a server's text, without the secret and without what can't be stored or would act on a terminal, so many bytes at the most.
func quoted(text, secret string, most int) string {
	if secret != "" {
		text = strings.ReplaceAll(text, secret, "••••")
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(clip(text, most), ""))
}

// tellAnswer says what is wrong with an answer to the handshake.
func tellAnswer(e *ws.HandshakeError, secret string) string {
	switch {
	case errors.Is(e.Err, ws.ErrSubprotocol):
		return "the answer to the handshake doesn't agree to the subprotocol" + quote(strings.TrimSuffix(e.Err.Error(), ": "+ws.ErrSubprotocol.Error()), secret)
	case e.Status == http.StatusSwitchingProtocols:
		return "the answer to the handshake is invalid" + quote(e.Err.Error(), secret)
	case e.Status >= 300 && e.Status < 400:
		return fmt.Sprintf("the handshake was answered with HTTP %d: redirects are not followed", e.Status)
	}
	return fmt.Sprintf("the handshake was refused with HTTP %d", e.Status)
}

// tellNetwork says why no server was reached, or why one was lost.
func tellNetwork(err error) string {
	switch {
	case errors.Is(err, ws.ErrDialTimeout):
		return "the socket didn't open in time"
	case errors.Is(err, netio.ErrEOF):
		return "the connection was closed without a close frame"
	case errors.Is(err, errSocketDead):
		return "nothing has come from the voice agent for 40 s"
	case errors.Is(err, errSocketBlocked):
		return "the voice agent has read nothing for 10 s"
	case errors.Is(err, errTextsBlocked):
		return "the voice agent doesn't read its text frames"
	case errors.Is(err, ErrNoSession):
		return fmt.Sprintf("session.created has not come within %s", SessionDeadline)
	}
	if reason, ok := netguard.Reason(err); ok {
		return quoted(reason, "", 300)
	}
	if _, ok := errors.AsType[*ws.HandshakeError](err); ok {
		return "the connection failed"
	}
	return "a failure on the service's side"
}
