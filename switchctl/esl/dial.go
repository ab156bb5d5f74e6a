package esl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/percipia/eslgo/command"
)

// Dial connects to a switch's event socket and authenticates.
func Dial(ctx context.Context, addr, password string, o Options) (*Conn, error) {
	o = o.withDefaults()
	if err := checkLine(password); err != nil {
		return nil, fmt.Errorf("dial the event socket at %s: password: %w", addr, err)
	}
	dialer := net.Dialer{Timeout: o.CommandTimeout}
	nc, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("dial the event socket at %s: %w", addr, err)
	}
	br := bufio.NewReaderSize(nc, readBuffer)
	if err := authenticate(ctx, nc, br, password, o); err != nil {
		return nil, errors.Join(fmt.Errorf("authenticate at the event socket at %s: %w", addr, err), nc.Close())
	}
	return newConn(nc, br, o), nil
}

// authenticate is the exchange before the connection has a reader of its own.
func authenticate(ctx context.Context, nc net.Conn, br *bufio.Reader, password string, o Options) error {
	started := time.Now()
	if err := nc.SetDeadline(started.Add(o.CommandTimeout)); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		// A deadline in the past ends the read that is under way.
		_ = nc.SetDeadline(time.Unix(1, 0))
	})
	err := exchangeAuth(nc, br, password)
	if !stop() && ctx.Err() != nil {
		return ctx.Err()
	}
	var netErr net.Error
	if errors.As(err, &netErr) && netErr.Timeout() {
		return &TimeoutError{Op: "auth", After: time.Since(started)}
	}
	if err != nil {
		return err
	}
	return nc.SetDeadline(time.Time{})
}

func exchangeAuth(nc net.Conn, br *bufio.Reader, password string) error {
	hello, err := ReadMessage(br)
	if err != nil {
		return err
	}
	switch kind := hello.ContentType(); kind {
	case TypeAuthRequest:
	case TypeRudeRejected:
		return ErrRejected
	default:
		return &ProtocolError{Reason: "the switch did not ask for a password"}
	}
	if _, err := nc.Write([]byte(command.Auth{Password: password}.BuildMessage() + endOfRecord)); err != nil {
		return err
	}
	answer, err := ReadMessage(br)
	if err != nil {
		return err
	}
	text := answer.Header.Get("Reply-Text")
	switch {
	case strings.HasPrefix(text, "+OK"):
		return nil
	case strings.HasPrefix(text, "-ERR"):
		return fmt.Errorf("%w: %s", ErrAuth, text)
	default:
		return &ProtocolError{Reason: "the switch did not answer the password"}
	}
}
