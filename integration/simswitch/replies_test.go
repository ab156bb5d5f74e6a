package simswitch

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/esl"
)

// Replies to commands that were sent without waiting come in the order of the commands.
func TestRepliesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	sw, err := New(Config{ESLAddr: "127.0.0.1:0", ESLPassword: "pw", ExternalSIPAddr: "127.0.0.1:0", InternalSIPAddr: "127.0.0.1:0"})
	require.NoError(t, err)
	require.NoError(t, sw.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, sw.Close()) })
	c, err := esl.Dial(t.Context(), sw.Addrs().ESL, "pw", esl.Options{})
	require.NoError(t, err)
	defer func() { _ = c.Close(); <-c.Done() }()
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for n := range 100 {
				name := fmt.Sprintf("unknown_%d_%d", i, n)
				_, err := c.API(t.Context(), name)
				var refused *esl.ReplyError
				if !errors.As(err, &refused) || !strings.Contains(refused.Text, name+" Command not found") {
					t.Errorf("%q was answered %v", name, err)
				}
			}
		})
	}
	wg.Wait()
}
