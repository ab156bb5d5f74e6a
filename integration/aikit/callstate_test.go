package aikit

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media"
)

// A server is told of its call as the service tells it: a text that it can't take, or waits for, shows in the kit and not first on a real call.
func TestCallStatesAreTold(t *testing.T) {
	var mu sync.Mutex
	var kinds []string
	s := &server{transport: media.TransportWebSocket, reply: func(_ *conn, kind string) bool {
		if kind != "audio" {
			mu.Lock()
			defer mu.Unlock()
			kinds = append(kinds, kind)
		}
		return true
	}}
	k, err := New(t.Context(), Options{URL: s.serve(t), Transport: media.TransportWebSocket, Subprotocol: media.SubprotocolAlpha})
	require.NoError(t, err)
	defer func() { require.NoError(t, k.Close(t.Context())) }()
	_, err = k.Run(t.Context(), []string{"silence"}, nil)
	require.NoError(t, err)
	want := []string{"metadata", "call_state", "call_state"} // answered, and ended
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.Equal(want, kinds)
	}, 10*time.Second, 10*time.Millisecond, "the server takes what was sent when it comes to it")
}
