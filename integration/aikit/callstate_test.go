package aikit

import (
	"sync"
	"testing"

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
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []string{"metadata", "call_state", "call_state"}, kinds, "answered, and ended")
}
