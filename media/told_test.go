package media

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/media/netio"
	"github.com/ringmaster/ringmaster/media/openai"
	"github.com/ringmaster/ringmaster/media/ws"
)

// TestTell: whoever runs a voice agent is told the status, the code and their own server's words, and nothing of this machine or of the network.
func TestTell(t *testing.T) {
	t.Parallel()
	dialed := func(err error) error {
		return &ws.HandshakeError{Err: &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 8443}, Err: err}}
	}
	for _, c := range []struct {
		err  error
		want Told
	}{
		{&ws.HandshakeError{Status: 401}, Told{Error: "the handshake was refused with HTTP 401", Status: 401}},
		{fmt.Errorf("again: %w", &ws.HandshakeError{Status: 404}), Told{Error: "the handshake was refused with HTTP 404", Status: 404}},
		{&ws.HandshakeError{Status: 302}, Told{Error: "the handshake was answered with HTTP 302: redirects are not followed", Status: 302}},
		{
			&ws.HandshakeError{Status: 101, Err: fmt.Errorf("asked for %q, got %q: %w", "a", "", ws.ErrSubprotocol)},
			Told{Error: `the answer to the handshake doesn't agree to the subprotocol: asked for "a", got ""`, Status: 101},
		},
		{&closedError{code: 1008, reason: "no such\tuser of sk-secret\x00"}, Told{Error: "the voice agent closed the socket with code 1008: no such user of •••• ", CloseCode: 1008}},
		{&closedError{code: 1011}, Told{Error: "the voice agent closed the socket with code 1011", CloseCode: 1011}},
		{errTextTooLong("a text frame is longer than 16 MiB"), Told{Error: "the service closed the socket with code 1009: a text frame is longer than 16 MiB", CloseCode: 1009}},
		{&ws.FrameError{Code: 1002, What: "reserved bits are set"}, Told{Error: "the service closed the socket with code 1002: reserved bits are set", CloseCode: 1002}},
		{
			&openai.Error{Type: "insufficient_quota", Code: "insufficient_quota", Message: "You exceeded your current quota of sk-secret"},
			Told{Error: "the voice agent reports insufficient_quota: You exceeded your current quota of ••••", Code: "insufficient_quota"},
		},
		{&openai.Error{}, Told{Error: "the voice agent reports an error"}},
		{fmt.Errorf("%w: %w", ws.ErrDialTimeout, dialed(os.ErrDeadlineExceeded)), Told{Error: "the socket didn't open in time"}},
		{dialed(&net.DNSError{Err: "no such host", Name: "agent.corp", Server: "10.0.0.53:53", IsNotFound: true}), Told{Error: "the name of the host can't be resolved"}},
		{dialed(&net.DNSError{Err: "server misbehaving", Name: "agent.corp", Server: "10.0.0.53:53"}), Told{Error: "the name of the host can't be resolved"}},
		{dialed(fmt.Errorf("10.1.2.3: %w", netguard.ErrForbidden)), Told{Error: "the service may not connect to the address of the host"}},
		{dialed(os.NewSyscallError("connect", syscall.ECONNREFUSED)), Told{Error: "the connection was refused"}},
		{dialed(os.NewSyscallError("connect", syscall.ENETUNREACH)), Told{Error: "the host can't be reached"}},
		{dialed(os.NewSyscallError("connect", syscall.EACCES)), Told{Error: "the connection failed"}},
		{dialed(io.ErrUnexpectedEOF), Told{Error: "the connection was closed without an answer"}},
		{
			dialed(&tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"a.example"}}, Host: "b.example"}}),
			Told{Error: "the server's certificate is not accepted: x509: certificate is valid for a.example, not b.example"},
		},
		{dialed(tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}), Told{Error: "the server doesn't speak TLS"}},
		{dialed(tls.AlertError(40)), Told{Error: "the server refused the TLS handshake: tls: handshake failure"}},
		{fmt.Errorf("reading the voice agent's socket: %w", syscall.ECONNRESET), Told{Error: "the connection was reset"}},
		{netio.ErrEOF, Told{Error: "the connection was closed without a close frame"}},
		{errSocketDead, Told{Error: "nothing has come from the voice agent for 40 s"}},
		{errSocketBlocked, Told{Error: "the voice agent has read nothing for 10 s"}},
		{errTextsBlocked, Told{Error: "the voice agent doesn't read its text frames"}},
		{ErrNoSession, Told{Error: "session.created has not come within 5s"}},
		{ErrNoPorts, Told{Error: "a failure on the service's side"}},
	} {
		got := Tell(c.err, "sk-secret")
		require.Equal(t, c.want, got, "%v", c.err)
		require.NotContains(t, got.Error, "10.", "%v", c.err)
	}
	long := Tell(&openai.Error{Code: strings.Repeat("ü", 5000), Message: strings.Repeat("ü", 5000)}, "")
	require.Less(t, len(long.Error)+len(long.Code), 600)
}

// TestTellOfAClose: the code and the reason of a close frame are those of the voice agent.
func TestTellOfAClose(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, ai := r.open(r.spec("closed"))
	require.NoError(t, ai.c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(1008, "no such user"), time.Now().Add(soon)))
	require.Equal(t, Told{Error: "the voice agent closed the socket with code 1008: no such user", CloseCode: 1008}, Tell(event[SocketBroken](t, sess).Err, ""))
}
