package netguard

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
)

// closedIdle is how net/http ends the error of a request whose connection was closed before the request was written. The error itself has no name.
const closedIdle = "http: server closed idle connection"

// Reason says why a connection to a customer's server failed, for that customer: errors of the net package name the address that a name resolves to, and
// the operator's own resolver. It is false for what is no failure of a connection.
func Reason(err error) (string, bool) {
	_, unresolved := errors.AsType[*net.DNSError](err)
	cert, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	alert, refused := errors.AsType[tls.AlertError](err)
	_, network := errors.AsType[*net.OpError](err)
	_, system := errors.AsType[syscall.Errno](err)
	switch {
	case errors.Is(err, ErrForbidden):
		return "the service may not connect to the address of the host", true
	case unresolved:
		return "the name of the host can't be resolved", true
	case untrusted:
		return "the server's certificate is not accepted: " + cert.Err.Error(), true
	case plain:
		return "the server doesn't speak TLS", true
	case refused:
		return "the server refused the TLS handshake: " + alert.Error(), true
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection was refused", true
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the connection was reset", true
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.ETIMEDOUT):
		return "the host can't be reached", true
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), strings.HasSuffix(err.Error(), closedIdle):
		return "the connection was closed without an answer", true
	case network || system:
		return "the connection failed", true
	}
	return "", false
}
