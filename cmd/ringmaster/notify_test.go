package main

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/cmd/controller"
)

// The service manager is told when the controller serves, and how long its stop may take.
func TestNotify(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = manager.Close() })
	c := controller.Defaults()
	c.Drain.Timeout = 2 * time.Minute
	n := newNotifier(env{environ: []string{"PATH=/bin", "NOTIFY_SOCKET=" + socket}}, c)
	for state, want := range map[controller.State]string{
		controller.Serving: "READY=1", controller.Draining: "STOPPING=1\nEXTEND_TIMEOUT_USEC=145000000",
	} {
		require.NoError(t, n.tell(t.Context(), state))
		got := make([]byte, 100)
		require.NoError(t, manager.SetReadDeadline(time.Now().Add(10*time.Second)))
		size, err := manager.Read(got)
		require.NoError(t, err)
		require.Equal(t, want, string(got[:size]))
	}
	require.NoError(t, newNotifier(env{}, c).tell(t.Context(), controller.Serving))
	require.ErrorContains(t, notifier{socket: socket + "x"}.tell(t.Context(), controller.Serving), "notify the service manager")
}
