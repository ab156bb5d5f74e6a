package dialer

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
)

// TestAPauseThatFailedIsNoPause: a database that doesn't answer leaves a campaign running that should be paused, and that must be known.
func TestAPauseThatFailedIsNoPause(t *testing.T) {
	t.Parallel()
	conflict := &fault.Error{Kind: fault.Conflict, Code: campaigns.CodeInvalidTransition, Detail: "can't pause a campaign that is stopped"}
	for _, err := range []error{conflict, store.ErrNotFound} {
		require.True(t, runsNoMore(fmt.Errorf("pause campaign: %w", err)), err)
	}
	for _, err := range []error{nil, store.ErrUnavailable, store.ErrBusy, store.ErrValue, errors.New("x")} {
		require.False(t, runsNoMore(err), err)
	}
}
