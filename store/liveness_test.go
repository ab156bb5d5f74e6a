package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/storetest"
)

// TestVanishedControllersAreGivenUp: the kernel of the server's side has the limits after which a peer that vanished is given up.
func TestVanishedControllersAreGivenUp(t *testing.T) {
	t.Parallel()
	st := storetest.Open(t, storetest.OverTCP(t, storetest.NewURL(t)))
	for name, want := range map[string]string{
		"tcp_keepalives_idle": "2", "tcp_keepalives_interval": "1", "tcp_keepalives_count": "3", "tcp_user_timeout": "5000",
	} {
		var got string
		require.NoError(t, st.Pool().QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&got)) // what the socket has
		require.Equal(t, want, got, name)
	}
}
