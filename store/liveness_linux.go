package store

import (
	"context"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// boundSilence bounds how long what was sent may stay unacknowledged (tcp(7), TCP_USER_TIMEOUT).
func boundSilence(_ context.Context, network, _ string, raw syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silentLimit.Milliseconds())) //nolint:gosec // a descriptor
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("bound the silence of a connection: %w", err)
	}
	return nil
}
